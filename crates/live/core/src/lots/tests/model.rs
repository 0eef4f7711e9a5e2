//! The naive model: it keeps every accepted bid, and computes all else from the whole list.

use super::*;

#[derive(Clone, Debug)]
pub struct ModelBid {
    pub number: u32,
    pub bid: LotBid,
}

#[derive(Debug)]
pub struct Model {
    pub terms: LotTerms,
    pub bids: Vec<ModelBid>,
    pub status: LotStatus,
    pub base_ms: u64,
    pub ends_ms: u64,
    pub last_ms: u64,
}

/// Leader and price.
pub type ModelLead = (ModelBid, u64);

impl Model {
    pub fn new(terms: LotTerms) -> Self {
        let (base_ms, ends_ms) = (terms.closes_ms, terms.closes_ms);
        let status = LotStatus::Scheduled;
        Self { terms, bids: Vec::new(), status, base_ms, ends_ms, last_ms: 0 }
    }

    fn english(&self) -> Option<&EnglishTerms> {
        match &self.terms.rules {
            LotRules::English(english) => Some(english),
            LotRules::SealedSecondPrice => None,
        }
    }

    pub fn soft_close(&self) -> Option<SoftClose> {
        self.english()?.soft_close
    }

    /// The price and one increment.
    fn above(&self, price: u64) -> u64 {
        let english = self.english().expect("only English lots have increments");
        let of_price = |band: &&IncrementBand| band.from.micros() <= price;
        price + english.increments.0.iter().take_while(of_price).last().unwrap().increment.micros()
    }

    /// Every bidder's highest among the first `count` bids: the best first.
    fn ranking(&self, count: usize) -> Vec<ModelBid> {
        let mut bids = self.bids[..count].to_vec();
        bids.sort_by_key(|it| (std::cmp::Reverse(it.bid.maximum), it.number));
        let mut ranking: Vec<ModelBid> = Vec::new();
        for bid in bids {
            if ranking.iter().all(|higher| higher.bid.bidder != bid.bid.bidder) {
                ranking.push(bid);
            }
        }
        ranking
    }

    /// Leader and price after the first `count` bids of an English lot.
    fn lead_after(&self, count: usize) -> Option<ModelLead> {
        let ranking = self.ranking(count);
        let top = ranking.first()?.clone();
        let maximum = top.bid.maximum.micros();
        let price = match (self.lead_after(count - 1), ranking.get(1)) {
            (None, _) => self.terms.start_price.micros(),
            (Some((leader, price)), _) if leader.bid.bidder == self.bids[count - 1].bid.bidder => {
                price
            }
            (Some(_), second) => {
                maximum.min(self.above(second.expect("another has bid").bid.maximum.micros()))
            }
        };
        let reserve = self.terms.reserve.map_or(0, Cpm::micros);
        Some((top, if reserve <= maximum { price.max(reserve) } else { price }))
    }

    pub fn alias(&self, of: &ModelBid) -> LotAlias {
        let first = self.bids.iter().position(|it| it.bid.bidder == of.bid.bidder);
        let names: std::collections::BTreeSet<_> =
            self.bids[..=first.expect("it has bid")].iter().map(|it| &it.bid.bidder).collect();
        LotAlias(u32::try_from(names.len()).expect("few bidders"))
    }

    pub fn lead(&self) -> Option<ModelLead> {
        self.english().and_then(|_| self.lead_after(self.bids.len()))
    }

    /// The bids with money on hold, by number, and their amounts.
    pub fn holds(&self) -> Vec<(u32, String, u64)> {
        let mut standing = match self.english() {
            _ if !matches!(self.status, LotStatus::Scheduled | LotStatus::Open) => Vec::new(),
            Some(_) => self.ranking(self.bids.len()).into_iter().take(1).collect(),
            None => self.ranking(self.bids.len()),
        };
        standing.sort_by_key(|it| it.number);
        let amount = |bid: &LotBid| bid.maximum.micros() * self.terms.impressions;
        standing.into_iter().map(|it| (it.number, it.bid.bidder.clone(), amount(&it.bid))).collect()
    }

    /// The winner and its price.
    pub fn sale(&self) -> Option<ModelLead> {
        let ranking = self.ranking(self.bids.len());
        let top = ranking.first()?;
        let reserve = self.terms.reserve.map_or(0, Cpm::micros);
        if top.bid.maximum.micros() < reserve {
            return None;
        }
        let second = ranking.get(1).map_or(self.terms.start_price, |second| second.bid.maximum);
        Some(self.lead().unwrap_or_else(|| (top.clone(), second.micros().max(reserve))))
    }

    /// The number of the repeated bid, if any, or the label of the refusal.
    pub fn decide(&self, now_ms: u64, command: &LotCommand) -> Result<Option<u32>, &'static str> {
        use LotStatus::{Open, Scheduled};
        let is_past = self.ends_ms <= now_ms.max(self.last_ms);
        let is = |allowed: &[LotStatus]| !is_past && allowed.contains(&self.status);
        let refused = match command {
            LotCommand::Bid(bid) => return self.decide_bid(is(&[Open]), bid),
            LotCommand::Open if is(&[Open]) => Some("already_open"),
            LotCommand::Open => (!is(&[Scheduled])).then_some("not_open"),
            LotCommand::Close => (!is(&[Open])).then_some("not_open"),
            LotCommand::Cancel { .. } => (!is(&[Open, Scheduled])).then_some("not_open"),
            LotCommand::Extend { .. } if !is(&[Open, Scheduled]) => Some("not_open"),
            LotCommand::Extend { closes_ms } => (*closes_ms <= self.ends_ms).then_some("not_later"),
        };
        refused.map_or(Ok(None), Err)
    }

    fn decide_bid(&self, is_open: bool, bid: &LotBid) -> Result<Option<u32>, &'static str> {
        let terms = &self.terms;
        let of_bidder = || self.bids.iter().filter(|it| it.bid.bidder == bid.bidder);
        let same_key = of_bidder().find(|it| it.bid.key == bid.key);
        if let Some(same) = same_key.filter(|it| it.bid == *bid) {
            return Ok(Some(same.number));
        }
        let maximum = bid.maximum.micros();
        let own = of_bidder().map(|it| it.bid.maximum.micros()).max();
        let lead = self.lead();
        let leads = lead.as_ref().is_some_and(|(leader, _)| leader.bid.bidder == bid.bidder);
        let minimum = lead.filter(|_| !leads).map_or(0, |(_, price)| self.above(price));
        let may_retract = self.english().is_some() && !leads;
        let cost = u128::from(maximum) * u128::from(terms.impressions);
        let invited = &terms.invited;
        let refusals = [
            ("not_open", !is_open),
            ("not_invited", !invited.is_empty() && !invited.contains(&bid.bidder)),
            ("wrong_currency", bid.currency != terms.currency),
            ("key_reused", same_key.is_some()),
            ("too_many_bids", self.bids.len() >= terms.bids_max as usize),
            ("too_high", cost > u128::from(u64::MAX)),
            ("below_start", bid.maximum < terms.start_price),
            ("below_increment", maximum < minimum),
            ("retraction", !may_retract && own.is_some_and(|own| maximum <= own)),
        ];
        refusals.into_iter().find(|(_, applies)| *applies).map_or(Ok(None), |(label, _)| Err(label))
    }

    pub fn apply(&mut self, event: &LotEvent) {
        self.last_ms = event.at_ms;
        match &event.kind {
            LotEventKind::Opened => self.status = LotStatus::Open,
            LotEventKind::Closed => self.status = LotStatus::Closed,
            LotEventKind::Cancelled { .. } => self.status = LotStatus::Cancelled,
            LotEventKind::Extended { closes_ms } => {
                (self.base_ms, self.ends_ms) = (*closes_ms, *closes_ms);
            }
            LotEventKind::Bid { number, bid } => {
                let lead = self.lead();
                let is_raise = lead.is_some_and(|(leader, _)| leader.bid.bidder == bid.bidder);
                let received_ms = event.at_ms;
                self.bids.push(ModelBid { number: *number, bid: bid.clone() });
                let Some(soft) = self.soft_close().filter(|_| !is_raise) else { return };
                if self.ends_ms <= received_ms + soft.window_ms {
                    let end_ms =
                        (received_ms + soft.extension_ms).min(self.base_ms + soft.total_max_ms);
                    self.ends_ms = self.ends_ms.max(end_ms);
                }
            }
        }
    }
}
