//! An auction held once more from its record: what bids were worth, which reached their floors, who
//! won, and at what price, each beside what was recorded.
//!
//! What came before clearing and is not a matter of price is taken as recorded: who was asked, what
//! was wrong with a bid, and how equal bids were ordered. Floors are recomputed where they do not
//! depend on a bid's format, size or duration, which are not recorded.

use std::fmt;

use units::{Cpm, Ppm, Price, Round};

use super::auction::{AuctionRecord, BidRecord, DealRecord, ImpRecord, SaleRecord, TermsRecord};
use super::difference::{Change, Difference, Subject};
use super::facts::{BidFacts, Facts, Recomputed, Refused};
use super::generation::GenerationFacts;
use super::limits::ID_BYTES_MAX;
use crate::answering::sale::Sale;
use crate::auction::fate::Fate;
use crate::auction::terms::{AuctionType, gross, or_beyond, reaches};
use crate::clearing::clear::{Entry, Group, Seat};
use crate::clearing::pricing::Terms;
use crate::market::{BidsReturned, NoticeMode, PublisherTerms};

/// What became of holding an auction again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replayed {
    /// The same, bit for bit.
    Same,
    /// No bid was judged, and there is nothing to recompute.
    NotHeld,
    /// Bids are left out of the record: it cannot be recomputed.
    Cut,
}

/// Holds the auction of `record` once more, by `generation`.
///
/// # Errors
///
/// Where the record says otherwise.
pub fn replay(
    record: &AuctionRecord<'_>,
    generation: &GenerationFacts,
) -> Result<Replayed, Difference> {
    check_generation(record, generation)?;
    let Some(terms) = &record.terms else { return Ok(Replayed::NotHeld) };
    let mut replay = Replay { record, generation, terms, changes: Vec::new() };
    replay.check_terms();
    let outcome = match () {
        () if !record.was_held() => Replayed::NotHeld,
        () if record.bids_left_out > 0 => Replayed::Cut,
        () => {
            let facts = replay.facts();
            match facts.recompute() {
                Ok(recomputed) => replay.compare(&recomputed),
                Err(unsound) if replay.changes.is_empty() => {
                    return Err(Difference::Unsound(unsound));
                }
                Err(_) => (), // What makes it so has been told.
            }
            Replayed::Same
        }
    };
    Difference::of(replay.changes).map_or(Ok(outcome), Err)
}

impl AuctionRecord<'_> {
    /// What the auction was cleared from.
    ///
    /// # Errors
    ///
    /// When bids were not worth what was recorded, or were held to other terms; also when none were
    /// judged, or some are left out.
    pub fn facts(&self, generation: &GenerationFacts) -> Result<Option<Facts>, Difference> {
        check_generation(self, generation)?;
        let terms = self.terms.as_ref().filter(|_| self.was_held() && self.bids_left_out == 0);
        let Some(terms) = terms else { return Ok(None) };
        let mut replay = Replay { record: self, generation, terms, changes: Vec::new() };
        replay.check_terms();
        let facts = replay.facts();
        Difference::of(replay.changes).map_or(Ok(Some(facts)), Err)
    }
}

fn check_generation(
    record: &AuctionRecord<'_>,
    generation: &GenerationFacts,
) -> Result<(), Difference> {
    let (recorded, given) = (record.generation, generation.number);
    if recorded == given { Ok(()) } else { Err(Difference::Generation { recorded, given }) }
}

/// A record beside what the rules make of it.
struct Replay<'r, 'b> {
    record: &'r AuctionRecord<'b>,
    generation: &'r GenerationFacts,
    terms: &'r TermsRecord,
    changes: Vec<Change>,
}

impl Replay<'_, '_> {
    /// What the generation decides alone.
    fn check_terms(&mut self) {
        let (record, generation) = (self.record, self.generation);
        let increment = generation.increment;
        let increment = generation.rates.convert(
            increment.amount,
            increment.currency,
            self.terms.currency,
            Round::Up,
        );
        let recorded = Maybe(Some(self.terms.increment));
        self.expect(Subject::Auction, "increment", recorded, Maybe(increment));
        self.check_bidfloors();
        // Whose id was cut cannot be looked up.
        if !record.publisher.is_some_and(may_be_cut) {
            self.check_publisher(generation.publishers.terms(record.publisher));
        }
        for at in 0..record.not_asked.len() {
            self.check_dsp(Subject::NotAsked(at), record.not_asked[at].0);
        }
        for at in 0..record.calls.len() {
            self.check_dsp(Subject::Call(at), record.calls[at].call.ask.dsp);
        }
    }

    fn check_publisher(&mut self, publisher: &PublisherTerms) {
        let (record, generation) = (self.record, self.generation);
        let TermsRecord { notices, bids_returned, .. } = *self.terms;
        let (was, is) = (notices.label(), publisher.notices.label());
        self.expect(Subject::Auction, "notices", was, is);
        let (was, is) = (bids_returned.label(), publisher.bids.label());
        self.expect(Subject::Auction, "bids_returned", was, is);
        for (at, imp) in record.imps.iter().enumerate() {
            self.expect(Subject::Imp(at), "fee", imp.fee, publisher.fee);
        }
        for (at, deal) in record.deals.iter().enumerate().filter(|(_, deal)| !may_be_cut(deal.id)) {
            let terms = generation.deals.get(deal.id);
            let class = terms.and_then(|terms| terms.priority);
            let class = class.unwrap_or(u8::from(generation.deals_first));
            let fee = terms.and_then(|terms| terms.fee).unwrap_or(publisher.fee);
            let discount = terms.filter(|_| deal.auction_type != AuctionType::Agreed);
            let discount = discount.map_or(Ppm::ZERO, |terms| terms.discount);
            self.expect(Subject::Deal(at), "class", deal.class, class);
            self.expect(Subject::Deal(at), "fee", deal.fee, fee);
            self.expect(Subject::Deal(at), "discount", deal.discount, discount);
        }
    }

    fn check_dsp(&mut self, subject: Subject, dsp: usize) {
        let dsps = self.generation.dsps.len();
        if dsps <= dsp {
            self.differ(subject, "dsp", dsp, format_args!("one of {dsps}"));
        }
    }

    fn facts(&mut self) -> Facts {
        let record = self.record;
        let bids: Vec<BidFacts> = (0..record.bids.len()).map(|at| self.bid(at)).collect();
        let mut groups: Vec<Group> = Vec::with_capacity(record.groups.len());
        for group in &record.groups {
            groups.push(Group { imps: group.imps.clone(), possible: group.is_possible, tie: 0 });
        }
        // By bid, which entry is its own, or the next.
        let mut entries = Vec::with_capacity(bids.len());
        let mut next = 0;
        for bid in &bids {
            entries.push(next);
            let Ok(entry) = bid.verdict else { continue };
            next += 1;
            if let Some(group) = entry.group {
                groups[group].tie ^= entry.tie;
            }
        }
        let refused = record.refusals.iter().map(|refusal| Refused {
            question: refusal.question,
            entry: entries[refusal.bid],
            price: refusal.price,
            fate: refusal.fate,
        });
        let TermsRecord { notices, bids_returned, .. } = *self.terms;
        Facts {
            currency: self.terms.currency,
            base: self.generation.base,
            rates: self.generation.rates.clone(),
            increment: self.terms.increment,
            imps: record.imps.len(),
            refusals: refused.collect(),
            groups,
            bids,
            returns_others: notices == NoticeMode::Upstream && bids_returned == BidsReturned::All,
        }
    }

    /// The bid as the rules see it, from its price as it was written.
    fn bid(&mut self, at: usize) -> BidFacts {
        let (record, generation) = (self.record, self.generation);
        let bid = &record.bids[at];
        let deal = bid.deal.map(|deal| &record.deals[deal]);
        let is_below = matches!(bid.fate, Fate::BelowFloor | Fate::BelowDealFloor);
        let came_to_price = bid.worth.is_some() || is_below;
        let (mut offer, mut verdict) = (Cpm::ZERO, Err(bid.fate));
        if came_to_price {
            let discount = deal.map_or(Ppm::ZERO, |deal| deal.discount);
            offer = bid.price.map_or(Cpm::ZERO, |price| discount.taken_from(price));
            let worth =
                generation.rates.convert(offer, bid.currency, self.terms.currency, Round::Down);
            let counts = counts_for(bid, deal, worth.filter(|worth| *worth > Cpm::ZERO));
            self.expect(Subject::Bid(at), "worth", Maybe(bid.worth), Maybe(counts.ok()));
            self.check_floor(at, deal);
            self.check_bidder(at);
            verdict = match (counts, bid.imp, bid.seat) {
                (Ok(price), Some(imp), Some(seat)) => Ok(self.entry(bid, (imp, seat), price)),
                (counts, ..) => Err(counts.err().unwrap_or(bid.fate)),
            };
        }
        let terms = bid.imp.map(|imp| self.terms_of(bid, &record.imps[imp], offer));
        BidFacts { verdict, terms, is_out_of_reach: bid.is_out_of_reach }
    }

    fn entry(&self, bid: &BidRecord<'_>, (imp, seat): (usize, usize), price: Cpm) -> Entry {
        let deal = bid.deal.map(|deal| &self.record.deals[deal]);
        Entry {
            imp,
            seat: Seat { dsp: bid.dsp, seat },
            class: deal.map_or(0, |deal| deal.class),
            auction_type: deal.map_or(self.terms.auction_type, |deal| deal.auction_type),
            price,
            floor: bid.floor.unwrap_or(Cpm::ZERO),
            tie: bid.tie,
            group: bid.group,
            is_deal: deal.is_some(),
            barred: bid.barred,
        }
    }

    fn terms_of(&self, bid: &BidRecord<'_>, imp: &ImpRecord<'_>, offer: Cpm) -> Terms {
        let deal = bid.deal.map(|deal| &self.record.deals[deal]);
        Terms {
            currency: bid.currency,
            offer,
            floor: bid.floor,
            fee: deal.map_or(imp.fee, |deal| deal.fee),
            discount: deal.map_or(Ppm::ZERO, |deal| deal.discount),
            class: deal.map_or(0, |deal| deal.class),
            is_agreed: deal.is_some_and(|deal| deal.auction_type == AuctionType::Agreed),
            multiplier: imp.multiplier,
        }
    }

    /// What can be told of a floor. An agreed price is the deal's. Where floors do not depend on what a
    /// bid brings, it is that of the impression or of the deal; elsewhere an open bid never had to
    /// reach less than the impression's own floor.
    fn check_floor(&mut self, at: usize, deal: Option<&DealRecord<'_>>) {
        let bid = &self.record.bids[at];
        let (Some(floor), Some(imp)) = (bid.floor, bid.imp) else { return };
        match deal {
            Some(deal) if deal.auction_type == AuctionType::Agreed => {
                let agreed = Maybe(deal.floor);
                self.expect(Subject::Bid(at), "floor", Maybe(Some(floor)), agreed);
            }
            Some(deal) if deal.is_floor_plain => {
                let plain = deal.floor.or_else(|| self.inherited(imp, deal));
                self.expect(Subject::Bid(at), "floor", Maybe(Some(floor)), Maybe(plain));
            }
            Some(_) => (),
            None if self.record.imps[imp].is_floor_plain => {
                let shown = self.record.imps[imp].shown_floor;
                self.expect(Subject::Bid(at), "floor", floor, shown);
            }
            None => {
                let least = self.record.imps[imp].bidfloor;
                if floor < least {
                    self.differ(Subject::Bid(at), "floor", floor, format_args!("at least {least}"));
                }
            }
        }
    }

    /// What a bid under a deal without a floor had to reach: the impression's own, with the deal's fee.
    fn inherited(&self, imp: usize, deal: &DealRecord<'_>) -> Option<Cpm> {
        let Some(net) = self.record.imps[imp].bidfloor_net else { return Some(Cpm::ZERO) };
        self.gross(net, deal.fee)
    }

    /// What DSPs must pay for `net` to be left, in the auction's currency. None if no rate is known.
    fn gross(&self, net: Price, fee: Ppm) -> Option<Cpm> {
        let (rates, to) = (&self.generation.rates, self.terms.currency);
        let rate = rates.ratio(net.currency, to)?;
        Some(or_beyond(gross(net.amount, rate, fee)))
    }

    /// Impressions' floors, from what publishers asked for.
    fn check_bidfloors(&mut self) {
        for at in 0..self.record.imps.len() {
            let imp = self.record.imps[at];
            let Some(net) = imp.bidfloor_net else { continue };
            // Without a rate it was not sold, and its floor says nothing.
            if let Some(floor) = self.gross(net, imp.fee) {
                self.expect(Subject::Imp(at), "bidfloor", imp.bidfloor, floor);
            }
            if imp.shown_floor < imp.bidfloor {
                let least = format_args!("at least {}", imp.bidfloor);
                self.differ(Subject::Imp(at), "shown_floor", imp.shown_floor, least);
            }
        }
    }

    /// Whether there is such a seat, and whether it may bid in that currency.
    fn check_bidder(&mut self, at: usize) {
        let bid = &self.record.bids[at];
        let Some(dsp) = self.generation.dsps.get(bid.dsp) else { return }; // Its call was told.
        let seats = dsp.seats.len();
        if let Some(seat) = bid.seat.filter(|seat| seats <= *seat) {
            self.differ(Subject::Bid(at), "seat", seat, format_args!("one of {seats}"));
        }
        if !dsp.currencies.contains(&bid.currency) {
            self.differ(Subject::Bid(at), "currency", bid.currency, "one that its DSP bids in");
        }
    }

    fn compare(&mut self, recomputed: &Recomputed) {
        for (at, (bid, fate)) in self.record.bids.iter().zip(&recomputed.fates).enumerate() {
            if bid.fate != *fate {
                self.differ(Subject::Bid(at), "fate", bid.fate.label(), fate.label());
            }
        }
        let (was, is) = (&self.record.sales, &recomputed.sales);
        for at in 0..was.len().max(is.len()) {
            let subject = Subject::Sale(at);
            match (was.get(at), is.get(at).zip(recomputed.prices.get(at))) {
                (Some(was), Some((sale, price))) => self.compare_sale(at, was, (sale, *price)),
                (Some(was), None) => self.differ(subject, "bid", was.bid, "none"),
                (None, Some((sale, _))) => self.differ(subject, "bid", "none", sale.bid),
                (None, None) => (),
            }
        }
    }

    fn compare_sale(&mut self, at: usize, was: &SaleRecord, (sale, price): (&Sale, Cpm)) {
        let subject = Subject::Sale(at);
        self.expect(subject, "bid", was.bid, sale.bid);
        self.expect(subject, "price", was.price, price);
        self.expect(subject, "net", was.net, sale.net);
        self.expect(subject, "paid", was.paid, sale.paid);
        self.expect(subject, "min_to_win", Maybe(was.min_to_win), Maybe(sale.min_to_win));
        self.expect(subject, "revenue", was.revenue, sale.revenue);
    }

    fn expect<T: PartialEq + fmt::Display>(
        &mut self,
        subject: Subject,
        field: &'static str,
        recorded: T,
        recomputed: T,
    ) {
        if recorded != recomputed {
            self.differ(subject, field, recorded, recomputed);
        }
    }

    fn differ(
        &mut self,
        subject: Subject,
        field: &'static str,
        recorded: impl fmt::Display,
        recomputed: impl fmt::Display,
    ) {
        let (recorded, recomputed) = (recorded.to_string(), recomputed.to_string());
        let name = self.name(subject);
        self.changes.push(Change { subject, name, field, recorded, recomputed });
    }

    /// What people call it.
    fn name(&self, subject: Subject) -> String {
        let record = self.record;
        let dsp = |dsp: usize| self.generation.dsps.get(dsp);
        let bid = |at: usize| {
            let bid = &record.bids[at];
            let dsp = dsp(bid.dsp);
            let seat = dsp.zip(bid.seat).and_then(|(dsp, seat)| dsp.seats.get(seat));
            let seat = seat.map_or("?", |seat| seat);
            format!("{}, seat {seat}, id {:?}", dsp.map_or("?", |dsp| &dsp.id), bid.id)
        };
        match subject {
            Subject::Auction => String::new(),
            Subject::Imp(at) => format!("id {:?}", record.imps[at].id),
            Subject::Deal(at) => format!("id {:?}", record.deals[at].id),
            Subject::NotAsked(at) => dsp(record.not_asked[at].0).map_or("?", |dsp| &dsp.id).into(),
            Subject::Call(at) => {
                dsp(record.calls[at].call.ask.dsp).map_or("?", |dsp| &dsp.id).into()
            }
            Subject::Bid(at) => bid(at),
            Subject::Sale(at) => {
                record.sales.get(at).map_or_else(String::new, |sale| bid(sale.bid))
            }
        }
    }
}

/// What the bid counts for, or that it is below its floor.
fn counts_for(
    bid: &BidRecord<'_>,
    deal: Option<&DealRecord<'_>>,
    worth: Option<Cpm>,
) -> Result<Cpm, Fate> {
    // What is nothing in the auction's currency has come to no floor.
    let Some(worth) = worth else { return Err(Fate::BelowDealFloor) };
    let below = if deal.is_some() { Fate::BelowDealFloor } else { Fate::BelowFloor };
    let floor = bid.floor.filter(|floor| reaches(worth, *floor)).ok_or(below)?;
    let is_agreed = deal.is_some_and(|deal| deal.auction_type == AuctionType::Agreed);
    Ok(if is_agreed { floor } else { worth })
}

/// Whether the id may be longer than a record has it.
fn may_be_cut(id: &str) -> bool {
    // A character has at most four bytes.
    id.len() + 4 > ID_BYTES_MAX
}

/// A price, or none.
#[derive(PartialEq)]
struct Maybe(Option<Cpm>);

impl fmt::Display for Maybe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(price) => price.fmt(f),
            None => f.write_str("none"),
        }
    }
}
