//! A small market for tests, and texts of requests and responses with changes. Knows no rules.

pub(crate) mod rehearsal;

use std::collections::HashMap;
use std::time::Duration;

use openrtb::parse_request;
use serde_json::{Value, json};
use units::{Cpm, Currency, Ppm, Price, Ratio, Rounding};

use crate::asking::eligibility::eligible;
use crate::auction::Auction;
use crate::auction::fate::Fate;
use crate::clearing::clear::{Clearing, Win, clear};
use crate::judging::judge::{DspAnswer, Judgement, judge};
use crate::market::rates::Rates;
use crate::market::signals::TrackingSignals;
use crate::market::sold::{SoldDeal, SoldDeals};
use crate::market::targeting::Targeting;
use crate::market::tie::TieKey;
use crate::market::{Dsp, Market, Publishers};

pub(crate) const AUCTION_ID: &str = "auction-1";

/// When auctions are held, in Unix time.
pub(crate) const NOW_MS: u64 = 1_780_000_000_123;

/// A deal that was sold to `seat` of the DSP at position `dsp`, delivered by every publisher now.
pub(crate) fn sold_deal(id: &str, dsp: usize, seat: &str, agreed: &str) -> SoldDeal {
    SoldDeal {
        name: format!("{id}-{dsp}").into(),
        id: id.into(),
        dsp,
        seat: seat.into(),
        price: price(agreed),
        publisher: None,
        starts_ms: NOW_MS,
        ends_ms: NOW_MS + 1,
        priority: 1,
    }
}

pub(crate) fn cpm(text: &str) -> Cpm {
    Cpm::parse(text, Rounding::Down).unwrap()
}

pub(crate) fn price(text: &str) -> Price {
    Price::parse(text, Rounding::Up).unwrap()
}

pub(crate) fn ppm(parts: u32) -> Ppm {
    Ppm::new(parts).unwrap()
}

pub(crate) fn currency(code: &str) -> Currency {
    Currency::parse(code).unwrap()
}

pub(crate) fn dsp(id: &str, seats: &[&str]) -> Dsp {
    Dsp {
        id: id.into(),
        seats: seats.iter().map(|seat| Box::from(*seat)).collect(),
        formats: 0b1111,
        sizes: Vec::new(),
        countries: Vec::new(),
        publishers_allowed: Vec::new(),
        publishers_blocked: Vec::new(),
        currencies: ["USD", "EUR", "GBP"].map(currency).to_vec(),
        timeout: Duration::from_millis(100),
        network_margin: None,
        targeting: Targeting::default(),
        privacy: TrackingSignals::default(),
        notice_hosts: vec![format!("{id}.example").into()],
    }
}

/// `alpha` with two seats, `beta` and `gamma` with one; an increment of one cent; no fee.
pub(crate) fn market() -> Market {
    let worth = [("USD", "1"), ("EUR", "1.08"), ("GBP", "1.27"), ("JPY", "0.0064")];
    Market {
        dsps: vec![dsp("alpha", &["a1", "a2"]), dsp("beta", &["b1"]), dsp("gamma", &["g1"])],
        publishers: Publishers::default(),
        deals: HashMap::new(),
        sold: SoldDeals::default(),
        floors: Vec::new(),
        rates: Rates::new(
            worth.map(|(code, ratio)| (currency(code), Ratio::parse(ratio).unwrap())),
        ),
        currency: Currency::USD,
        increment: price("0.01 USD"),
        deals_first: false,
        creative_id_required: true,
        bid_macros_max: 1000,
        tie_key: TieKey::new([7; 16]),
        supply_chain: None,
        enrichments: Vec::new(),
    }
}

/// `base` with the members of `change`; a null removes a member, or stays to remove it later.
pub(crate) fn merged(base: &Value, change: &Value) -> Value {
    let mut out = base.as_object().unwrap().clone();
    for (key, value) in change.as_object().unwrap() {
        let removed = value.is_null() && out.remove(key).is_some();
        if !removed {
            out.insert(key.clone(), value.clone());
        }
    }
    Value::Object(out)
}

#[expect(clippy::needless_pass_by_value, reason = "reads well with json!")]
pub(crate) fn imp(change: Value) -> Value {
    merged(&json!({ "id": "1", "banner": { "w": 300, "h": 250 } }), &change)
}

/// With one impression.
#[expect(clippy::needless_pass_by_value, reason = "reads well with json!")]
pub(crate) fn request(change: Value) -> String {
    merged(&json!({ "id": "caller-1", "imp": [imp(json!({}))] }), &change).to_string()
}

/// A valid bid at 2.00.
#[expect(clippy::needless_pass_by_value, reason = "reads well with json!")]
pub(crate) fn bid(change: Value) -> Value {
    let sound = json!({ "id": "b1", "impid": "1", "price": 2.0, "adm": "<p>", "crid": "c1" });
    merged(&sound, &change)
}

/// With one unnamed seat.
pub(crate) fn response(bids: &[Value]) -> String {
    json!({ "id": AUCTION_ID, "seatbid": [{ "bid": bids }] }).to_string()
}

pub(crate) fn with_auction<T>(
    market: &Market,
    request: &str,
    test: impl FnOnce(&Auction<'_>) -> T,
) -> T {
    let request = parse_request(request).unwrap();
    let auction = Auction::new(AUCTION_ID, &request, market).unwrap().offering_sold(NOW_MS);
    test(&auction)
}

/// Answers by position of the DSP, without those of DSPs that are not asked.
pub(crate) fn answers<'a>(
    auction: &Auction<'_>,
    bodies: &'a [(usize, String)],
) -> Vec<DspAnswer<'a>> {
    let answer = |(dsp, body): &'a (usize, String)| {
        eligible(auction, *dsp).ok().map(|ask| DspAnswer { ask, body: body.as_bytes() })
    };
    bodies.iter().filter_map(answer).collect()
}

pub(crate) fn cleared(
    auction: &Auction<'_>,
    judgement: &Judgement<'_>,
    authorise: impl FnMut(&Win) -> Result<(), Fate>,
) -> Clearing {
    let (entries, groups) = (&judgement.entries, &judgement.groups);
    clear(entries, groups, auction.imps_len(), auction.increment, authorise)
}

/// The fates of all bids; bids at 6.66 have no budget.
pub(crate) fn fates(market: &Market, request: &str, bodies: &[(usize, String)]) -> Vec<Fate> {
    with_auction(market, request, |auction| {
        let judgement = judge(auction, &answers(auction, bodies));
        let clearing = cleared(auction, &judgement, |win| match win.price != cpm("6.66") {
            true => Ok(()),
            false => Err(Fate::BudgetExhausted),
        });
        judgement.bids.iter().map(|bid| clearing.fate(bid.entry)).collect()
    })
}
