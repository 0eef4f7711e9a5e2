//! Auctions, searched one by one for what a buyer bid on.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::ControlFlow;

use eventlog::lane::LaneKind;
use events::{Gap, Kind};
use exchange_core::Fate;
use exchange_core::record::{AuctionRecord, BidRecord, Contest, GenerationRecord, NoContest};
use units::{Cpm, Currency, Multiplier, Nanos, Ppm, Round};

use crate::filter::{Filter, Window};
use crate::generations::{Generations, Lookup};
use crate::log::directory::Directory;
use crate::log::place::Place;
use crate::names::Names;
use crate::opportunities::{Buyer, LeftOut, Opportunities, Opportunity, OpportunityError, Sought};

/// What has been found so far.
pub(super) struct Gather<'g, 'd> {
    filter: &'g Filter,
    sought: &'g Sought,
    window: Window,
    lookup: Lookup<'g, 'd>,
    found: BTreeMap<Currency, Found>,
    bids: u64,
    left_out: LeftOut,
    failed: Option<OpportunityError>,
}

/// Of one currency.
#[derive(Default)]
struct Found {
    list: Vec<Opportunity>,
    first_price: u64,
    wins: u64,
    paid_nanos: u128,
}

/// An auction that is wanted.
#[derive(Clone, Copy)]
struct Held<'r, 'b> {
    record: &'r AuctionRecord<'b>,
    facts: Option<&'r GenerationRecord>,
    currency: Currency,
    /// Whether a bid is the buyer's, by position.
    own: &'r [bool],
    /// Whether it is one of these that is wanted.
    wanted: &'r [bool],
}

impl<'g, 'd> Gather<'g, 'd> {
    pub fn new(
        (filter, sought): (&'g Filter, &'g Sought),
        generations: &'g Generations<'d>,
    ) -> Self {
        Self {
            filter,
            sought,
            window: filter.window(),
            lookup: Lookup::new(generations),
            found: BTreeMap::new(),
            bids: 0,
            left_out: LeftOut::default(),
            failed: None,
        }
    }

    pub fn visit(&mut self, place: &Place, kind: u8, payload: &[u8]) {
        if self.failed.is_some() || !self.window.holds(place.time_ms) {
            return;
        }
        match Kind::from_code(kind) {
            Some(Kind::Auction) => self.failed = self.auction(payload).err(),
            Some(Kind::Gap) => {
                self.left_out.shed += Gap::decode(payload).map_or(0, |gap| gap.records);
            }
            _ => (),
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
        // Without it seats have no names.
        let is_nameless = facts.is_none() && matches!(self.sought.buyer, Buyer::Seat { .. });
        if is_nameless && !record.bids.is_empty() {
            left_out.no_generation += 1;
            return Ok(());
        }
        // Whose were left out is not known.
        if record.bids_left_out > 0 {
            left_out.cut += 1;
            return Ok(());
        }
        let names = Names::of(&record, facts);
        let is_own = |bid: &BidRecord<'_>| self.sought.buyer.made(bid, names);
        let is_wanted =
            |bid: &BidRecord<'_>| is_own(bid) && self.filter.matches_bid((&record, facts), bid);
        let own: Vec<bool> = record.bids.iter().map(is_own).collect();
        let wanted: Vec<bool> = record.bids.iter().map(is_wanted).collect();
        self.bids += wanted.iter().map(|is_wanted| u64::from(*is_wanted)).sum::<u64>();
        let Some(terms) = record.terms.filter(|_| wanted.contains(&true)) else { return Ok(()) };
        if record.is_test {
            left_out.tests += 1;
        } else if self.sought.currency.is_some_and(|currency| currency != terms.currency) {
            left_out.other_currency += 1;
        } else {
            let held = Held {
                record: &record,
                facts,
                currency: terms.currency,
                own: &own,
                wanted: &wanted,
            };
            let found = self.found.entry(terms.currency).or_default();
            // For impressions that nobody had offered.
            let is_nowhere = |(bid, wanted): (&BidRecord<'_>, &bool)| *wanted && bid.imp.is_none();
            let nowhere = record.bids.iter().zip(&wanted).filter(|both| is_nowhere(*both));
            left_out.not_admitted += nowhere.count() as u64;
            for imp in 0..record.imps.len() {
                found.impression(held, imp, (self.sought.value, left_out));
            }
        }
        Ok(())
    }

    /// Adds what another has found.
    pub fn add(&mut self, other: Self) -> Result<(), OpportunityError> {
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

    pub fn finish(mut self) -> Result<Opportunities, OpportunityError> {
        self.found.retain(|_, found| !found.list.is_empty());
        if self.found.len() > 1 {
            let many = |(currency, found): (_, Found)| (currency, found.list.len() as u64);
            return Err(OpportunityError::Currencies(self.found.into_iter().map(many).collect()));
        }
        let Self { bids, left_out, .. } = self;
        let Some((currency, mut found)) = self.found.pop_first() else {
            return Ok(Opportunities { bids, left_out, ..Opportunities::default() });
        };
        // Records stand in the order in which auctions ended. The sort is stable, so that the same
        // log is always told alike.
        found.list.sort_by_key(|opportunity| opportunity.time_us);
        let Found { list, first_price, wins, paid_nanos } = found;
        let currency = Some(currency);
        let found =
            Opportunities { list, currency, first_price, wins, paid_nanos, ..Default::default() };
        Ok(Opportunities { bids, left_out, ..found })
    }
}

impl Buyer {
    fn made(&self, bid: &BidRecord<'_>, names: Names<'_>) -> bool {
        match self {
            Self::Campaign(campaign) => bid.campaign == campaign,
            Self::Seat { dsp, seat } => {
                let is_seat = bid.seat.is_some_and(|own| names.seat(bid.dsp, own) == **seat);
                is_seat && dsp.as_ref().is_none_or(|dsp| names.dsp(bid.dsp) == **dsp)
            }
        }
    }
}

impl Found {
    /// The best of a buyer's bids on one impression, if there are any.
    fn impression(
        &mut self,
        held: Held<'_, '_>,
        imp: usize,
        (value, left_out): (Option<Cpm>, &mut LeftOut),
    ) {
        let Held { record, own, wanted, .. } = held;
        let mut best: Option<Best> = None;
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
                    let bid = Best { class, worth, contest };
                    if best.is_none_or(|best| best.rank() < bid.rank()) {
                        best = Some(bid);
                    }
                }
                // The last that is looked for, of several: it came furthest.
                Err(uncontested) => why = why.max(Some(uncontested)),
            }
        }
        let Some(Best { worth, contest, .. }) = best else {
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
struct Best {
    class: u8,
    worth: Cpm,
    contest: Contest,
}

impl Best {
    /// Of equal ones that which needs the least, for it comes first.
    const fn rank(&self) -> (u8, Cpm, Reverse<Cpm>) {
        (self.class, self.worth, Reverse(self.contest.least))
    }
}

impl Held<'_, '_> {
    /// What a bid counts for, or would if it were as much as the value. `None` when the rate of its
    /// currency is not known.
    fn worth(&self, bid: &BidRecord<'_>, value: Option<Cpm>) -> Option<Cpm> {
        let deal = bid.deal.map(|deal| &self.record.deals[deal]);
        let discount = deal.map_or(Ppm::ZERO, |deal| deal.discount);
        match (value, bid.worth) {
            (Some(value), _) => Some(discount.taken_from(value)),
            (None, Some(worth)) => Some(worth),
            // One below its floor was not told what it counts for.
            (None, None) => {
                let offer = discount.taken_from(bid.price?);
                if bid.currency == self.currency {
                    return Some(offer);
                }
                // What is nothing in the auction's currency is nothing.
                let rates = &self.facts?.rates;
                rates.convert(offer, bid.currency, self.currency, Round::Down)
            }
        }
    }
}

/// The price to beat and the value, for all impressions of one display. `None` when one is beyond any
/// price.
fn prices(contest: Contest, worth: Cpm, multiplier: Multiplier) -> Option<(Cpm, Cpm)> {
    let paid = contest.paid(worth).filter(|_| contest.is_second_price);
    let market_price = contest.least.max(paid.unwrap_or(Cpm::ZERO));
    let of_display = |price: Cpm| price.cost(multiplier).map(Nanos::get);
    let (market, value) = (of_display(market_price)?, of_display(worth)?);
    // What would have lost does not win by rounding.
    let market = if worth < market_price { market.max(value.checked_add(1)?) } else { market };
    Cpm::new(market).zip(Cpm::new(value))
}

impl LeftOut {
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

/// All impressions that a buyer bid on, in the auctions that are wanted; what `filter` asks of bids
/// must hold for the buyer's. Others' bids are taken to have been the same whatever the buyer did. `each`
/// is told how many segments of how many are done, and ends it by breaking.
///
/// # Errors
///
/// When the record cannot be read, or holds too much, or more than one currency.
pub fn opportunities(
    directory: &Directory,
    filter: &Filter,
    sought: &Sought,
    each: impl FnMut(usize, usize) -> ControlFlow<()>,
) -> Result<Opportunities, OpportunityError> {
    let generations = Generations::find(directory)?;
    let lane = directory.lane(LaneKind::Firehose)?;
    let segments = lane.within(filter.window());
    let begin = || Gather::new((filter, sought), &generations);
    let (all, damage) = lane.gather(&segments, begin, (Gather::visit, Gather::add), each)?;
    let mut found = all.finish()?;
    (found.damage, found.generations) = (damage, generations.problems());
    Ok(found)
}
