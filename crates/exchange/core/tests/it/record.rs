//! The cost of a typical auction's record: its bytes, and no allocation.
//!
//! Counts, never times, in a process without other allocations.

use std::collections::HashMap;
use std::time::Duration;

use exchange_core::record::{
    AuctionContext, AuctionEnding, AuctionRecord, BudgetRefusals, CallOutcome, GenerationInForce,
    GenerationRecord, JudgedAuction, RecordedBodies, RecordedCall, RecordedExtent, ReplayOutcome,
    Timings, encode, encode_generation, replay,
};
use exchange_core::{
    Auction, ClearedAuction, DealTerms, Dsp, DspAnswer, Market, NotAsked, Publishers, Rates,
    SoldDeals, Targeting, TieKey, TrackingSignals, clear, eligible, judge, sales,
};
use faults::process::isolated;
use serde_json::{Value, json};
use stats_alloc::Region;
use units::{Currency, Ppm, Price, Ratio, Rounding};

use crate::ALLOCATOR;

const DSPS: usize = 50;
const BIDS: usize = 15;
/// Without bodies.
const BYTES_MAX: usize = 4096;

const ID: &str = "5f0e1d2c3b4a596877869504a3b2c1d0";

fn dsp(index: usize) -> Dsp {
    Dsp {
        id: format!("dsp-{index:02}").into(),
        seats: [format!("seat-{index:02}").into(), "second".into()].into_iter().collect(),
        formats: 0b1111,
        sizes: Vec::new(),
        countries: Vec::new(),
        publishers_allowed: Vec::new(),
        publishers_blocked: Vec::new(),
        currencies: vec![Currency::USD, euro()],
        timeout: Duration::from_millis(120),
        network_margin: None,
        targeting: Targeting::default(),
        privacy: TrackingSignals::default(),
        notice_hosts: Vec::new(),
    }
}

fn euro() -> Currency {
    Currency::parse("EUR").expect("it is a code")
}

pub(crate) fn market() -> Market {
    let worth = [(Currency::USD, "1"), (euro(), "1.08")];
    let worth = worth.map(|(code, ratio)| (code, Ratio::parse(ratio).expect("it is a rate")));
    let mut publishers = Publishers::default();
    publishers.others.fee = Ppm::new(100_000).expect("a tenth");
    let deal = DealTerms { priority: Some(2), ..DealTerms::default() };
    Market {
        dsps: (0..DSPS).map(dsp).collect(),
        publishers,
        deals: HashMap::from([("spring-campaign-2026".into(), deal)]),
        sold: SoldDeals::default(),
        floors: Vec::new(),
        rates: Rates::new(worth),
        currency: Currency::USD,
        increment: Price::parse("0.01 USD", Rounding::Up).expect("it is a price"),
        deals_first: false,
        creative_id_required: true,
        bid_macros_max: 1000,
        tie_key: TieKey::new([7; 16]),
        supply_chain: None,
        enrichments: Vec::new(),
    }
}

/// Two banners, one with a deal, as a supply-side platform sends them.
fn request() -> String {
    let deals = json!([{ "id": "spring-campaign-2026", "bidfloor": 3.5, "at": 1 }]);
    let imp = |id: &str, pmp: Value| json!({ "id": id, "bidfloor": 0.45, "pmp": pmp, "banner": { "w": 300, "h": 250 } });
    let request = json!({
        "id": "8f4f2a7e-3c1d-4b5a-9e6f-0a1b2c3d4e5f",
        "at": 2,
        "tmax": 150,
        "imp": [imp("above-the-fold", json!({ "deals": deals })), imp("sidebar", Value::Null)],
        "site": { "publisher": { "id": "publisher-0042" } },
    });
    request.to_string()
}

/// One bid, or two for every third.
fn body(dsp: usize) -> String {
    let bid = |n: usize, imp: &str, deal: Option<&str>| {
        let price = 1.2 + f64::from(u32::try_from(dsp * 7 + n).expect("few")) / 13.0;
        json!({
            "id": format!("c0ffee{n:02}-aaaa-bbbb-cccc-{dsp:012}"), "impid": imp, "dealid": deal,
            "price": (price * 10_000.0).round() / 10_000.0, "adm": "<p>", "crid": "c",
            "cid": format!("campaign-{dsp:04}"),
        })
    };
    let deal = dsp.is_multiple_of(4).then_some("spring-campaign-2026");
    let mut bids = vec![bid(0, "above-the-fold", deal)];
    if dsp.is_multiple_of(3) {
        bids.push(bid(1, "sidebar", None));
    }
    let cur = if dsp.is_multiple_of(5) { "EUR" } else { "USD" };
    json!({ "id": ID, "cur": cur, "seatbid": [{ "bid": bids }] }).to_string()
}

/// Outcomes of the calls: 11 bid, 25 do not, the rest is late or fails.
fn outcome(dsp: usize) -> CallOutcome {
    match dsp {
        0..11 => CallOutcome::Answered,
        11..36 => CallOutcome::NoBid,
        36..46 => CallOutcome::Late,
        _ => CallOutcome::Reset,
    }
}

fn timings() -> Timings {
    let at = |us| Some(Duration::from_micros(us));
    Timings {
        parsed: at(61),
        asked: at(412),
        closed: at(118_004),
        cleared: at(118_151),
        answered: at(118_203),
        left_us: 31_797,
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "one record, with every part")]
fn a_typical_record_is_short_and_allocates_nothing() {
    isolated(|| {
        let (market, text) = (market(), request());
        let request = openrtb::parse_request(&text).expect("it is valid");
        let auction = Auction::new(ID, &request, &market).expect("it can be held");
        let bodies: Vec<String> = (0..DSPS).map(body).collect();
        let call = |index: usize| {
            let (ask, outcome) = (eligible(&auction, index).expect("it is asked"), outcome(index));
            let micros = u64::try_from(index).expect("few") * 2_311;
            let answered = matches!(outcome, CallOutcome::Answered | CallOutcome::NoBid);
            let latency = answered.then(|| Duration::from_micros(9_000 + micros));
            RecordedCall {
                ask,
                tmax_ms: 110,
                outcome,
                sent: Some(Duration::from_micros(430)),
                latency,
            }
        };
        let calls: Vec<RecordedCall> = (0..DSPS).map(call).collect();
        let answered = calls.iter().filter(|call| call.outcome == CallOutcome::Answered);
        let answer = |call: &RecordedCall| DspAnswer {
            ask: call.ask,
            body: bodies[call.ask.dsp].as_bytes(),
        };
        let answers: Vec<DspAnswer<'_>> = answered.map(answer).collect();
        let judgement = judge(&auction, &answers);
        assert_eq!(judgement.bids.len(), BIDS);
        let mut refusals = BudgetRefusals::default();
        let (entries, groups) = (&judgement.entries, &judgement.groups);
        let clearing = clear(entries, groups, auction.imps_len(), auction.increment, |win| {
            refusals.note(win, Ok(()))
        });
        let sales = sales(&auction, &judgement, &clearing);
        assert_eq!(sales.len(), 2);
        let cleared = ClearedAuction {
            answers: &answers,
            judgement: &judgement,
            clearing: &clearing,
            sales: &sales,
        };
        let context = AuctionContext {
            id: ID,
            request: &request,
            generation: 1234,
            arrival_unix_us: 1_780_000_000_123_456,
            timings: timings(),
            ending: AuctionEnding::Filled,
            no_bid: None,
            auction: Some(&auction),
            judged: Some(JudgedAuction { cleared, refusals: refusals.refused() }),
            bodies: RecordedBodies::default(),
        };
        let none: [(usize, NotAsked); 0] = [];
        let mut record = Vec::new();
        let write = |record: &mut Vec<u8>| encode(&context, none, calls.iter().copied(), record);
        assert_eq!(write(&mut record), Some(RecordedExtent::Whole));
        assert!(record.len() <= BYTES_MAX, "{} bytes", record.len());
        assert!(record.len() > BYTES_MAX / 2, "{} bytes: this is no typical auction", record.len());
        // Into the same buffer again.
        record.clear();
        let region = Region::new(ALLOCATOR);
        let kept = write(&mut record);
        let change = region.change();
        assert_eq!((change.allocations, change.reallocations, change.deallocations), (0, 0, 0));
        assert_eq!(kept, Some(RecordedExtent::Whole));
        // The counted work was a record.
        let rates = [(euro(), "1.08")];
        let mut generation = Vec::new();
        let in_force = GenerationInForce {
            number: 1234,
            since_unix_ms: 1,
            market: &market,
            rates: &rates,
            toml: b"",
            campaigns: 0,
        };
        encode_generation(&in_force, &mut generation).expect("it can be recorded");
        let generation = GenerationRecord::decode(&generation).expect("it was just written");
        let decoded = AuctionRecord::decode(&record).expect("it was just written");
        assert_eq!((decoded.bids.len(), decoded.calls.len()), (BIDS, DSPS));
        assert_eq!(replay(&decoded, &generation), Ok(ReplayOutcome::Same));
    });
}
