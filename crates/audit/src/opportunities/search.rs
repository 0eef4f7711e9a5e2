//! Searches auctions for the impressions that a buyer bid on.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::ControlFlow;

use eventlog::lane::LaneKind;
use events::{Gap, RecordKind};
use exchange_core::Fate;
use exchange_core::record::{AuctionRecord, BidRecord, Contest, GenerationRecord, NoContest};
use units::{Cpm, Currency, Multiplier, Nanos, Ppm, Rounding};

use crate::filter::{Filter, TimeWindow};
use crate::generations::{GenerationIndex, GenerationLookup};
use crate::log::directory::RecordDirectory;
use crate::log::lane::RecordFold;
use crate::log::position::RecordPosition;
use crate::names::DspNames;
use crate::opportunities::{
    Buyer, ExclusionCounts, Opportunities, Opportunity, OpportunityError, OpportunityQuery,
};

/// The state of a search.
pub(super) struct OpportunitySearch<'g, 'd> {
    filter: &'g Filter,
    sought: &'g OpportunityQuery,
    window: TimeWindow,
    lookup: GenerationLookup<'g, 'd>,
    found: BTreeMap<Currency, CurrencyFindings>,
    bids: u64,
    left_out: ExclusionCounts,
    failed: Option<OpportunityError>,
}

/// What was found in one currency.
#[derive(Default)]
struct CurrencyFindings {
    list: Vec<Opportunity>,
    first_price: u64,
    wins: u64,
    paid_nanos: u128,
}

/// A selected auction.
#[derive(Clone, Copy)]
struct SearchedAuction<'r, 'b> {
    record: &'r AuctionRecord<'b>,
    facts: Option<&'r GenerationRecord>,
    currency: Currency,
    /// By position of a bid, whether it is the buyer's.
    own: &'r [bool],
    /// By position of a bid, whether it is the buyer's and selected.
    wanted: &'r [bool],
}

impl<'g, 'd> OpportunitySearch<'g, 'd> {
    pub fn new(
        filter: &'g Filter,
        sought: &'g OpportunityQuery,
        generations: &'g GenerationIndex<'d>,
    ) -> Self {
        Self {
            filter,
            sought,
            window: filter.window(),
            lookup: GenerationLookup::new(generations),
            found: BTreeMap::new(),
            bids: 0,
            left_out: ExclusionCounts::default(),
            failed: None,
        }
    }

    fn auction(&mut self, payload: &[u8]) -> Result<(), OpportunityError> {
        let Ok(record) = AuctionRecord::decode(payload) else {
            self.left_out.unreadable += 1;
            return Ok(());
        };
        let facts = self.lookup.get(record.generation)?;
        if !self.filter.matches(&record, facts) {
            return Ok(());
        }
        let left_out = &mut self.left_out;
        // Without a generation, seats have no names.
        let is_nameless = facts.is_none() && matches!(self.sought.buyer, Buyer::Seat { .. });
        if is_nameless && !record.bids.is_empty() {
            left_out.no_generation += 1;
            return Ok(());
        }
        // The missing bids may be the buyer's.
        if record.bids_left_out > 0 {
            left_out.cut += 1;
            return Ok(());
        }
        let names = DspNames::of(&record, facts);
        let is_own = |bid: &BidRecord<'_>| self.sought.buyer.made(bid, names);
        let is_wanted =
            |bid: &BidRecord<'_>| is_own(bid) && self.filter.matches_bid(&record, facts, bid);
        let own: Vec<bool> = record.bids.iter().map(is_own).collect();
        let wanted: Vec<bool> = record.bids.iter().map(is_wanted).collect();
        self.bids += wanted.iter().map(|is_wanted| u64::from(*is_wanted)).sum::<u64>();
        let Some(terms) = record.terms.filter(|_| wanted.contains(&true)) else { return Ok(()) };
        if record.is_test {
            left_out.tests += 1;
        } else if self.sought.currency.is_some_and(|currency| currency != terms.currency) {
            left_out.other_currency += 1;
        } else {
            let held = SearchedAuction {
                record: &record,
                facts,
                currency: terms.currency,
                own: &own,
                wanted: &wanted,
            };
            let found = self.found.entry(terms.currency).or_default();
            // Bids for impressions that were not offered.
            let is_nowhere = |(bid, wanted): (&BidRecord<'_>, &bool)| *wanted && bid.imp.is_none();
            let nowhere = record.bids.iter().zip(&wanted).filter(|both| is_nowhere(*both));
            left_out.not_admitted += nowhere.count() as u64;
            for imp in 0..record.imps.len() {
                found.impression(held, imp, self.sought.value, left_out);
            }
        }
        Ok(())
    }

    pub fn finish(mut self) -> Result<Opportunities, OpportunityError> {
        self.found.retain(|_, found| !found.list.is_empty());
        if self.found.len() > 1 {
            let many =
                |(currency, found): (_, CurrencyFindings)| (currency, found.list.len() as u64);
            return Err(OpportunityError::Currencies(self.found.into_iter().map(many).collect()));
        }
        let Self { bids, left_out, .. } = self;
        let Some((currency, mut found)) = self.found.pop_first() else {
            return Ok(Opportunities { bids, left_out, ..Opportunities::default() });
        };
        // Records are in the order in which auctions ended. The sort is stable, so the same log
        // gives the same result.
        found.list.sort_by_key(|opportunity| opportunity.time_us);
        let CurrencyFindings { list, first_price, wins, paid_nanos } = found;
        let currency = Some(currency);
        let found =
            Opportunities { list, currency, first_price, wins, paid_nanos, ..Default::default() };
        Ok(Opportunities { bids, left_out, ..found })
    }
}

impl RecordFold for OpportunitySearch<'_, '_> {
    type Error = OpportunityError;

    fn visit(&mut self, place: &RecordPosition, kind: u8, payload: &[u8]) {
        if self.failed.is_some() || !self.window.holds(place.time_ms) {
            return;
        }
        match RecordKind::from_code(kind) {
            Some(RecordKind::Auction) => self.failed = self.auction(payload).err(),
            Some(RecordKind::Gap) => {
                self.left_out.shed += Gap::decode(payload).map_or(0, |gap| gap.records);
            }
            _ => (),
        }
    }

    fn merge(&mut self, other: Self) -> Result<(), OpportunityError> {
        if let Some(error) = other.failed {
            return Err(error);
        }
        self.bids += other.bids;
        self.left_out.add(other.left_out);
        for (currency, found) in other.found {
            let own = self.found.entry(currency).or_default();
            own.list.extend(found.list);
            own.first_price += found.first_price;
            own.wins += found.wins;
            own.paid_nanos += found.paid_nanos;
        }
        let held: usize = self.found.values().map(|found| found.list.len()).sum();
        let most = self.sought.most;
        if held > most { Err(OpportunityError::TooMany(most)) } else { Ok(()) }
    }
}

impl Buyer {
    fn made(&self, bid: &BidRecord<'_>, names: DspNames<'_>) -> bool {
        match self {
            Self::Campaign(campaign) => bid.campaign == campaign,
            Self::Seat { dsps, seat } => {
                let is_seat = bid.seat.is_some_and(|own| names.seat(bid.dsp, own) == **seat);
                is_seat && (dsps.is_empty() || dsps.iter().any(|dsp| names.dsp(bid.dsp) == **dsp))
            }
        }
    }
}

impl CurrencyFindings {
    /// Adds the buyer's best bid on one impression, if there is any.
    fn impression(
        &mut self,
        held: SearchedAuction<'_, '_>,
        imp: usize,
        value: Option<Cpm>,
        left_out: &mut ExclusionCounts,
    ) {
        let SearchedAuction { record, own, wanted, .. } = held;
        let mut best: Option<BestBid> = None;
        let mut why = None;
        for (at, bid) in record.bids.iter().enumerate() {
            if !wanted[at] || bid.imp != Some(imp) {
                continue;
            }
            match record.contest(at, |other| own[other]) {
                Ok(contest) => {
                    let Some(worth) = held.worth(bid, value) else {
                        left_out.no_generation += 1;
                        return;
                    };
                    let class = bid.deal.map_or(0, |deal| record.deals[deal].class);
                    let bid = BestBid { class, worth, contest };
                    if best.is_none_or(|best| best.rank() < bid.rank()) {
                        best = Some(bid);
                    }
                }
                // The last check of several, which is the one that came furthest.
                Err(uncontested) => why = why.max(Some(uncontested)),
            }
        }
        let Some(BestBid { worth, contest, .. }) = best else {
            return left_out.count(why);
        };
        let multiplier = record.imps[imp].multiplier;
        let Some((market_price, value)) = prices(contest, worth, multiplier) else {
            return left_out.count(Some(NoContest::Outranked));
        };
        let time_us = record.arrival_unix_us;
        self.list.push(Opportunity { time_us, market_price, value });
        self.first_price += u64::from(!contest.is_second_price);
        for sale in &record.sales {
            let bid = &record.bids[sale.bid];
            if wanted[sale.bid] && bid.imp == Some(imp) && bid.fate == Fate::Won {
                self.wins += 1;
                self.paid_nanos += sale.price.cost(multiplier).map_or(0, |cost| cost.get().into());
            }
        }
    }
}

/// The best of several bids on one impression.
#[derive(Clone, Copy)]
struct BestBid {
    class: u8,
    worth: Cpm,
    contest: Contest,
}

impl BestBid {
    /// Among equal bids, the one that needs the lowest price ranks first.
    const fn rank(&self) -> (u8, Cpm, Reverse<Cpm>) {
        (self.class, self.worth, Reverse(self.contest.least))
    }
}

impl SearchedAuction<'_, '_> {
    /// What a bid counts for, or would at the given value. None if the rate of its currency is
    /// unknown.
    fn worth(&self, bid: &BidRecord<'_>, value: Option<Cpm>) -> Option<Cpm> {
        let deal = bid.deal.map(|deal| &self.record.deals[deal]);
        let discount = deal.map_or(Ppm::ZERO, |deal| deal.discount);
        match (value, bid.worth) {
            (Some(value), _) => Some(discount.taken_from(value)),
            (None, Some(worth)) => Some(worth),
            // A bid below its floor was not converted.
            (None, None) => {
                let offer = discount.taken_from(bid.price?);
                if bid.currency == self.currency {
                    return Some(offer);
                }
                // Zero converts to zero without a rate.
                let rates = &self.facts?.rates;
                rates.convert(offer, bid.currency, self.currency, Rounding::Down)
            }
        }
    }
}

/// The price to beat and the value of all impressions of one display. None if one exceeds every
/// price.
fn prices(contest: Contest, worth: Cpm, multiplier: Multiplier) -> Option<(Cpm, Cpm)> {
    let paid = contest.paid(worth).filter(|_| contest.is_second_price);
    let market_price = contest.least.max(paid.unwrap_or(Cpm::ZERO));
    let of_display = |price: Cpm| price.cost(multiplier).map(Nanos::get);
    let (market, value) = (of_display(market_price)?, of_display(worth)?);
    // A losing bid must not win by rounding.
    let market = if worth < market_price { market.max(value.checked_add(1)?) } else { market };
    Cpm::new(market).zip(Cpm::new(value))
}

impl ExclusionCounts {
    fn count(&mut self, why: Option<NoContest>) {
        match why {
            Some(NoContest::NotAdmitted) => self.not_admitted += 1,
            Some(NoContest::Agreed) => self.agreed += 1,
            Some(NoContest::InGroup) => self.in_group += 1,
            Some(NoContest::Outranked) => self.outranked += 1,
            None => (), // It did not bid here.
        }
    }
}

/// Finds the impressions that a buyer bid on in the selected auctions; the filter's terms about
/// bids must hold for the buyer's bid. Other bids are assumed independent of the buyer's. `each`
/// gets the number of segments done and of all, and may stop the search.
pub fn opportunities(
    directory: &RecordDirectory,
    filter: &Filter,
    sought: &OpportunityQuery,
    each: impl FnMut(usize, usize) -> ControlFlow<()>,
) -> Result<Opportunities, OpportunityError> {
    let generations = GenerationIndex::find(directory)?;
    let lane = directory.lane(LaneKind::Firehose)?;
    let segments = lane.within(filter.window());
    let begin = || OpportunitySearch::new(filter, sought, &generations);
    let (all, damage) = lane.gather(&segments, begin, each)?;
    let mut found = all.finish()?;
    (found.damage, found.generations) = (damage, generations.problems());
    Ok(found)
}
