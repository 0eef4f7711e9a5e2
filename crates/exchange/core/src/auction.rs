//! One auction, prepared: the request's terms resolved against the market's.

pub(crate) mod domains;
pub(crate) mod duration;
pub(crate) mod enriched;
pub(crate) mod fate;
pub(crate) mod floors;
pub(crate) mod id;
pub(crate) mod lists;
pub(crate) mod schedule;
pub(crate) mod steps;
pub(crate) mod terms;

use openrtb::codes::NoBidReason;
use openrtb::{BidRequest, DEALS_MAX, Deal, Imp, InvalidReason, InvalidRequest};
use units::{Cpm, Currency, Multiplier, Ppm, Ratio, Rounding};

use crate::auction::terms::{AuctionDeal, AuctionType, ImpTerms, gross};
use crate::market::rates::Currencies;
use crate::market::{FloorRule, Market, PublisherTerms};
use enriched::AuctionEnrichments;
use lists::{DomainList, RequestLists, SortedList};
use terms::or_max;

/// Why there is no auction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuctionRefusal {
    /// The request is wrong.
    Invalid(InvalidRequest),
    /// The request is valid, but there is nothing to sell.
    NoBid(NoBidReason),
}

/// A request with its terms resolved.
#[derive(Debug)]
pub struct Auction<'a> {
    /// Our auction id, which DSPs see.
    pub id: &'a str,
    /// The caller's request.
    pub request: &'a BidRequest<'a>,
    /// The configuration snapshot used throughout.
    pub market: &'a Market,
    /// The currency of comparison and of the response.
    pub currency: Currency,
    /// The default auction type, for open bids and for deals without `at`.
    pub auction_type: AuctionType,
    /// Added to the best other bid, in the auction's currency.
    pub increment: Cpm,
    pub(crate) imps: Vec<ImpTerms<'a>>,
    pub(crate) deals: Vec<AuctionDeal<'a>>,
    pub(crate) lists: RequestLists,
    pub(crate) enrichments: AuctionEnrichments,
}

impl<'a> Auction<'a> {
    /// Resolves `request`, which is validated.
    pub fn new(
        id: &'a str,
        request: &'a BidRequest<'a>,
        market: &'a Market,
    ) -> Result<Self, AuctionRefusal> {
        let publisher = market.publishers.terms(request.publisher_id());
        if publisher.blocked {
            return Err(AuctionRefusal::NoBid(NoBidReason::BlockedPublisher));
        }
        let currency = auction_currency(request, market)?;
        let increment = market.increment;
        let increment = market
            .rates
            .convert(increment.amount, increment.currency, currency, Rounding::Up)
            .ok_or(AuctionRefusal::NoBid(NoBidReason::NoCurrency))?;
        let auction_type = match request.at {
            Some(1) => AuctionType::FirstPrice,
            _ => AuctionType::SecondPrice,
        };
        let mut auction = Self {
            id,
            request,
            market,
            currency,
            auction_type,
            increment,
            imps: Vec::with_capacity(request.imps().len()),
            deals: Vec::new(),
            lists: RequestLists::default(),
            enrichments: AuctionEnrichments::default(),
        };
        for (index, imp) in request.imps().iter().enumerate() {
            auction.add_imp(index, imp, publisher).map_err(AuctionRefusal::Invalid)?;
        }
        if auction.imps_on_sale() == 0 {
            return Err(AuctionRefusal::NoBid(NoBidReason::NoCurrency));
        }
        Ok(auction)
    }

    /// The publisher's terms.
    pub fn publisher_terms(&self) -> &'a PublisherTerms {
        self.market.publishers.terms(self.request.publisher_id())
    }

    pub(crate) fn currencies(&self) -> Currencies<'a> {
        let Market { rates, currency, .. } = self.market;
        Currencies { rates, auction: self.currency, base: *currency }
    }

    /// Steps of work so far; a step is about 20 ns.
    pub fn steps(&self) -> u64 {
        self.lists.steps.get()
    }

    /// Sorts one of the long lists. False if all are sorted.
    pub(crate) fn sort_next_list(&self) -> bool {
        self.lists.sort_next(self.request)
            || self.deals.iter().any(|deal| deal.sort_next_list(&self.lists.steps))
    }

    /// As [`Self::sort_next_list`], for lists of seats only.
    pub(crate) fn sort_next_seat_list(&self) -> bool {
        let steps = &self.lists.steps;
        self.lists.sort_next_seats(self.request)
            || self.deals.iter().any(|deal| deal.wseat.sort_if_long(deal.seats(), steps))
    }

    /// Number of impressions.
    pub fn imps_len(&self) -> usize {
        self.imps.len()
    }

    /// Number of impressions on sale: those whose floors are in a currency with a rate.
    pub fn imps_on_sale(&self) -> usize {
        self.imps.iter().filter(|imp| imp.has_rate).count()
    }

    fn add_imp(
        &mut self,
        index: usize,
        imp: &'a Imp<'a>,
        publisher: &PublisherTerms,
    ) -> Result<(), InvalidRequest> {
        let floor_currency = currency_of(imp.bidfloorcur.as_deref());
        let rate = self.rate_from(floor_currency);
        let (has_rate, rate) = (rate.is_some(), rate.unwrap_or(Ratio::ONE));
        let floor = imp.bidfloor.filter(|_| has_rate).map_or(Cpm::ZERO, |floor| floor.amount);
        let floor = gross(floor, rate, publisher.fee)
            .ok_or_else(|| too_high(format!("imp[{index}].bidfloor")))?;
        let multiplier = imp.qty.as_ref().and_then(|qty| qty.multiplier.as_ref());
        let multiplier = multiplier.map_or(Multiplier::ONE, |multiplier| {
            Multiplier::parse(multiplier.raw()).expect("validation has parsed the multiplier")
        });
        self.imps.push(ImpTerms {
            imp,
            id: imp.id.as_ref().map_or("", |id| &**id),
            has_rate,
            rate,
            floor_currency,
            floor,
            rules: self.rules_for_all(publisher.fee),
            fee: publisher.fee,
            multiplier,
            deals_start: self.deals.len(),
            sold: 0..0,
        });
        imp.deals().iter().for_each(|deal| self.add_deal(deal, publisher));
        Ok(())
    }

    fn add_deal(&mut self, deal: &'a Deal<'a>, publisher: &PublisherTerms) {
        let id = deal.id.as_deref().unwrap_or_default();
        let terms = self.market.deals.get(id);
        // Not the impression's currency: the default is USD.
        let rate = self.rate_from(currency_of(deal.bidfloorcur.as_deref()));
        let class = terms.and_then(|terms| terms.priority);
        self.deals.push(AuctionDeal {
            deal,
            id,
            terms,
            sold: None,
            is_withheld: false,
            auction_type: match deal.at {
                Some(1) => AuctionType::FirstPrice,
                Some(2) => AuctionType::SecondPrice,
                Some(3) => AuctionType::Agreed,
                _ => self.auction_type,
            },
            has_rate: rate.is_some(),
            rate: rate.unwrap_or(Ratio::ONE),
            fee: terms.and_then(|terms| terms.fee).unwrap_or(publisher.fee),
            class: class.unwrap_or(u8::from(self.market.deals_first)),
            wseat: SortedList::default(),
            wadomain: DomainList::default(),
        });
    }

    /// Adds the sold deals that the publisher delivers at `now_ms`, in Unix time, to every impression
    /// on sale. Each is offered to its buyer only, at the agreed price. A deal of the request whose
    /// id is sold is offered to nobody. If there are more than [`DEALS_MAX`] deals in all, those of
    /// the lowest class are left out.
    pub fn offering_sold(mut self, now_ms: u64) -> Self {
        let (sold, publisher) = (&self.market.sold, self.request.publisher_id());
        if sold.is_empty() {
            return self;
        }
        for deal in &mut self.deals {
            deal.is_withheld = sold.has(deal.id, publisher, now_ms);
        }
        let mut due = sold.due(publisher, now_ms);
        due.retain(|at| self.rate_from(sold[*at].price.currency).is_some());
        due.truncate((DEALS_MAX - self.deals.len()) / self.imps_on_sale());
        for imp in 0..self.imps.len() {
            let start = self.deals.len();
            if self.imps[imp].has_rate {
                due.iter().for_each(|at| self.add_sold(*at));
            }
            self.imps[imp].sold = start..self.deals.len();
        }
        self
    }

    fn add_sold(&mut self, at: usize) {
        let sold = &self.market.sold[at];
        self.deals.push(AuctionDeal {
            deal: &self.market.sold.shown(at).deal,
            id: &sold.id,
            terms: None,
            sold: Some(at),
            is_withheld: false,
            auction_type: AuctionType::Agreed,
            has_rate: true,
            rate: self.rate_from(sold.price.currency).unwrap_or(Ratio::ONE),
            fee: self.publisher_terms().fee,
            class: sold.priority,
            wseat: SortedList::default(),
            wadomain: DomainList::default(),
        });
    }

    fn rate_from(&self, currency: Currency) -> Option<Ratio> {
        self.market.rates.ratio(currency, self.currency)
    }

    fn rules_for_all(&self, fee: Ppm) -> Vec<(&'a FloorRule, Cpm)> {
        let publisher = self.request.publisher_id();
        let country = self.request.country();
        let is_publisher = |want: &str| publisher == Some(want);
        let is_country = |want: &str| country.is_some_and(|got| got.eq_ignore_ascii_case(want));
        let market = self.market;
        let rules = market.floors.iter().filter(|rule| {
            rule.publisher.as_deref().is_none_or(is_publisher)
                && rule.country.as_deref().is_none_or(is_country)
        });
        let priced = rules.map(|rule| {
            let rate = self.rate_from(rule.floor.currency);
            let floor = rate.and_then(|rate| gross(rule.floor.amount, rate, fee));
            (rule, or_max(floor))
        });
        priced.collect()
    }
}

fn currency_of(code: Option<&str>) -> Currency {
    code.map_or(Currency::USD, |code| {
        Currency::parse(code).expect("validation has parsed every currency")
    })
}

/// The first currency in `cur` to which ours converts; ours if the request names none.
fn auction_currency(request: &BidRequest<'_>, market: &Market) -> Result<Currency, AuctionRefusal> {
    let Some(cur) = request.cur.as_ref().filter(|cur| !cur.is_empty()) else {
        return Ok(market.currency);
    };
    let known = cur.iter().filter_map(|code| Currency::parse(code));
    known
        .into_iter()
        .find(|currency| market.rates.ratio(market.currency, *currency).is_some())
        .ok_or(AuctionRefusal::NoBid(NoBidReason::NoCurrency))
}

fn too_high(path: String) -> InvalidRequest {
    InvalidRequest::at(
        InvalidReason::Unsupported,
        path,
        "above any price once converted and our fee added",
    )
}

#[cfg(test)]
mod tests;
