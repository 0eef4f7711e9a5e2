//! Lots by tables, and by chance against a model.

mod english;
mod life;
mod model;
mod properties;
mod refusals;
mod sealed;
mod soft_close;
mod views;

use units::{Cpm, Currency};

use super::*;

pub(super) fn cpm(micros: u64) -> Cpm {
    Cpm::new(micros).expect("a price of a test")
}

/// Open from 1000 to 2000, from a price of 100 on in steps of 10.
pub(super) fn terms() -> LotTerms {
    let increments = IncrementBands(vec![IncrementBand { from: Cpm::ZERO, increment: cpm(10) }]);
    LotTerms {
        id: LotId::parse("lot-1").expect("an id"),
        title: "Home page".to_owned(),
        currency: Currency::USD,
        impressions: 1000,
        rules: LotRules::English(EnglishTerms { increments, soft_close: None }),
        start_price: cpm(100),
        reserve: None,
        opens_ms: 1000,
        closes_ms: 2000,
        payment: LotPayment::AtClose,
        invited: Vec::new(),
        bids_max: LOT_BIDS_MAX,
        deal: LotDeal {
            id: "deal-1".to_owned(),
            publisher: None,
            starts_ms: 5000,
            ends_ms: 6000,
            priority: 1,
        },
    }
}

fn sealed_terms() -> LotTerms {
    LotTerms { rules: LotRules::SealedSecondPrice, ..terms() }
}

fn opened(terms: LotTerms) -> Lot {
    let mut lot = Lot::new(terms);
    let event = lot.due(1000).expect("it is due");
    lot.apply(event);
    lot
}

/// A bid whose key is its maximum.
fn bid(bidder: &str, maximum: u64) -> LotBid {
    LotBid {
        bidder: bidder.to_owned(),
        account: format!("account of {bidder}"),
        maximum: cpm(maximum),
        currency: Currency::USD,
        key: maximum.to_string(),
    }
}

fn cancel() -> LotCommand {
    LotCommand::Cancel { reason: "no stock".to_owned() }
}

/// Applies the event of a command that is not refused.
#[track_caller]
fn step(lot: &mut Lot, now_ms: u64, command: LotCommand) -> LotChange {
    match lot.decide(now_ms, command) {
        Ok(LotDecision::Event(event)) => lot.apply(event),
        other => panic!("no event: {other:?}"),
    }
}

/// An open lot with bids, each received a millisecond after the one before.
#[track_caller]
fn with_bids(terms: LotTerms, bids: &[(&str, u64)]) -> Lot {
    let mut lot = opened(terms);
    for (at_ms, (bidder, maximum)) in (1001..).zip(bids) {
        step(&mut lot, at_ms, LotCommand::Bid(bid(bidder, *maximum)));
    }
    lot
}

fn holds(lot: &Lot) -> Vec<(u32, &str, u64)> {
    lot.holds().map(|hold| (hold.number, hold.bidder, hold.amount.get())).collect()
}
