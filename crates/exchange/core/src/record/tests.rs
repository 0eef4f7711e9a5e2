//! Auctions of all kinds, by seed, and their records.

mod contest;
mod damage;
mod enrichments;
mod generation;
mod golden;
mod limits;
mod properties;
mod sold;
mod terms;

use std::time::Duration;

use events::v1;
use openrtb::codes::NoBidReason;
use prost::Message as _;
use serde_json::{Value, json};
use units::{Currency, SplitMix64};

use super::inputs::{
    BidInputs, ClearingInputs, InvalidInputs, RecomputedClearing, is_out_of_reach,
};
use super::replay::ReplayComparison;
use super::*;
use crate::answering::other_bids::{offer_others, returns_others};
use crate::answering::sale::sales;
use crate::asking::eligibility::eligible;
use crate::asking::not_asked::NotAsked;
use crate::auction::Auction;
use crate::auction::fate::Fate;
use crate::auction::terms::AuctionType;
use crate::clearing::clear::{Win, clear};
use crate::fixtures::{
    AUCTION_ID, NOW_MS, bid, currency, imp, market, ppm, price, request, sold_deal,
};
use crate::judging::judge::{DspAnswer, Judgement, judge};
use crate::market::rates::Currencies;
use crate::market::{BidsReturned, DealTerms, FloorRule, Market, NoticeMode, PublisherTerms};
use crate::notices::conclude::ClearedAuction;

const GENERATION: u64 = 12;

const RATES: [(&str, &str); 3] = [("EUR", "1.08"), ("GBP", "1.27"), ("JPY", "0.0064")];

struct Dice(SplitMix64);

impl Dice {
    fn below(&mut self, sides: u64) -> u64 {
        self.0.bits() % sides
    }

    fn one_of<T: Copy>(&mut self, of: &[T]) -> T {
        let index = self.below(of.len() as u64);
        of[usize::try_from(index).expect("an index")]
    }

    fn one_in(&mut self, sides: u64) -> bool {
        self.below(sides) == 0
    }
}

struct Case {
    market: Market,
    request: String,
    bodies: Vec<(usize, String)>,
    bars: bool,
    /// Accounts refuse prices that are a multiple of this, in micros.
    refuses: u64,
}

impl Case {
    fn drawn(seed: u64) -> Self {
        let dice = &mut Dice(SplitMix64::new(seed));
        Self {
            market: any_market(dice),
            request: any_request(dice),
            bodies: any_bodies(dice),
            bars: dice.one_in(4),
            refuses: dice.one_of(&[3, 7]),
        }
    }

    fn of_one_bid() -> Self {
        let bodies = vec![(0, crate::fixtures::response(&[bid(json!({}))]))];
        let request = request(json!({ "at": 1 }));
        Self { market: market(), request, bodies, bars: false, refuses: 7 }
    }
}

/// With a fee, a discounted deal, one with a class and a fee of its own, and, by chance, losers
/// returned with winners.
fn any_market(dice: &mut Dice) -> Market {
    let deal = |fee, discount, priority| DealTerms { dsps: vec![], fee, discount, priority };
    let mut market = market();
    market.deals.insert("agreed".into(), deal(None, ppm(100_000), None));
    market.deals.insert("better".into(), deal(Some(ppm(20_000)), ppm(50_000), Some(3)));
    market.deals_first = dice.one_in(3);
    if dice.one_in(8) {
        let of_beta = sold_deal("plain", 1, "b1", "1.1 GBP");
        market.sold = [sold_deal("foreign", 0, "a1", "2 USD"), of_beta].into_iter().collect();
    }
    market.currency = dice.one_of(&[Currency::USD, Currency::USD, currency("JPY")]);
    if market.currency != Currency::USD {
        market.rates = crate::market::rates::Rates::new(
            rates_in(&market)
                .map(|(currency, worth)| {
                    (currency, units::Ratio::parse(worth).expect("it is a rate"))
                })
                .into_iter()
                .chain([(market.currency, units::Ratio::ONE)]),
        );
    }
    market.increment = price(dice.one_of(&["0.01 USD", "0.07 EUR"]));
    market.floors = vec![FloorRule {
        publisher: None,
        format: None,
        country: None,
        size: None,
        floor: price(dice.one_of(&["0 USD", "0.9 EUR"])),
    }];
    market.publishers.others = PublisherTerms {
        fee: ppm(dice.one_of(&[0, 123_456])),
        notices: NoticeMode::Upstream,
        bids: dice.one_of(&[BidsReturned::Winner, BidsReturned::All]),
        ..PublisherTerms::default()
    };
    let named = PublisherTerms { fee: ppm(250_000), ..PublisherTerms::default() };
    market.publishers.named.insert("pub-1".into(), named);
    // Sometimes beta is not asked for banners, or gamma for anything else.
    market.dsps[1].formats = dice.one_of(&[0b1111, 0b1111, 0b1111, 0b1110]);
    market.dsps[2].formats = dice.one_of(&[0b1111, 0b0001]);
    market
}

fn rates_in(market: &Market) -> [(Currency, &'static str); 3] {
    match market.currency.code() {
        "JPY" => [("USD", "156.25"), ("EUR", "168.75"), ("GBP", "198.4375")],
        _ => RATES,
    }
    .map(|(code, worth)| (currency(code), worth))
}

fn any_request(dice: &mut Dice) -> String {
    let imp = |id: usize, dice: &mut Dice| {
        let deals = json!([
            { "id": "agreed", "at": 3, "bidfloor": 3.1 },
            { "id": "better", "at": 2, "bidfloor": 0.5, "bidfloorcur": "EUR" },
            { "id": "plain" },
            { "id": "foreign", "bidfloor": 1, "bidfloorcur": "ZZZ" },
        ]);
        let floor = dice.one_of(&[0.0, 0.7, 1.9]);
        let private = u8::from(dice.one_in(9));
        let mut change = json!({
            "id": id.to_string(),
            "bidfloor": floor,
            "pmp": { "private_auction": private, "deals": deals },
        });
        if id > 0 && dice.one_in(5) {
            change["bidfloorcur"] = json!("ZZZ"); // It has no rate, so it is not sold.
        }
        if dice.one_in(5) {
            change["qty"] = json!({ "multiplier": 2.5 });
        }
        if id > 0 && dice.one_in(6) {
            change["banner"] = Value::Null;
            change["video"] = json!({ "mimes": ["video/mp4"] });
        }
        imp(change)
    };
    let imps: Vec<Value> =
        (0..=dice.below(3)).map(|id| imp(usize::try_from(id).expect("few"), dice)).collect();
    let currency = dice.one_of(&["USD", "EUR"]);
    let mut change = json!({ "imp": imps, "at": dice.one_of(&[1, 2]), "cur": [currency] });
    if dice.one_in(8) {
        let publisher = dice.one_of(&["pub-1", "pub-2"]);
        change["site"] = json!({ "publisher": { "id": publisher } });
    }
    change["tmax"] = json!(dice.one_of(&[None, Some(120)]));
    change["test"] = json!(dice.one_of(&[None, Some(0), Some(1)]));
    request(change)
}

fn any_bodies(dice: &mut Dice) -> Vec<(usize, String)> {
    let body = |dsp: usize, dice: &mut Dice| {
        let seat = |seat: &str, dice: &mut Dice| {
            let bids: Vec<Value> = (0..=dice.below(3))
                .map(|id| {
                    let price = dice.one_of(&[0.6, 1.0, 1.5, 2.0, 2.0, 3.1, 4.0, 6.66]);
                    let imp = dice.one_of(&["0", "0", "1", "2"]);
                    let deal = dice.one_of(&[None, None, Some("agreed"), Some("better"), Some("plain"), Some("foreign")]);
                    let id = format!("{seat}-{id}");
                    let nurl = "https://elsewhere.example/";
                    // By chance its ad comes from an undeclared host.
                    let adm = dice.one_of(&[Some("<p>"), Some("<p>"), Some("<p>"), None]);
                    bid(json!({ "id": id, "impid": imp, "price": price, "dealid": deal, "adm": adm, "nurl": nurl }))
                })
                .collect();
            json!({ "seat": seat, "group": u8::from(dice.one_in(5)), "bid": bids })
        };
        let names: &[&str] = [&["a1", "a2"][..], &["b1"], &["g1"]][dsp];
        let seats: Vec<Value> = names.iter().map(|name| seat(name, dice)).collect();
        let currency = dice.one_of(&["USD", "EUR", "GBP"]);
        json!({ "id": AUCTION_ID, "cur": currency, "seatbid": seats }).to_string()
    };
    let mut bodies = Vec::new();
    for dsp in 0..3 {
        if !dice.one_in(9) {
            bodies.push((dsp, body(dsp, dice)));
        }
    }
    bodies
}

/// The inputs of a judged auction, with the refusals of its clearing and [`offer_others`].
fn judged_inputs(
    auction: &Auction<'_>,
    judgement: &Judgement<'_>,
    refusals: Vec<BudgetRefusal>,
) -> ClearingInputs {
    let bids = judgement.bids.iter().enumerate().map(|(index, judged)| BidInputs {
        entry: judged.entry.map(|entry| judgement.entries[entry]),
        terms: judged.terms(auction),
        is_out_of_reach: is_out_of_reach(auction, judgement, index),
    });
    let Currencies { rates, auction: currency, base } = auction.currencies();
    ClearingInputs {
        currency,
        base,
        rates: rates.clone(),
        increment: auction.increment,
        imps: auction.imps_len(),
        bids: bids.collect(),
        groups: judgement.groups.clone(),
        refusals,
        returns_others: returns_others(auction),
    }
}

/// The inputs of a recorded auction.
fn replayed_inputs(record: &AuctionRecord<'_>, generation: &GenerationRecord) -> ClearingInputs {
    let terms = record.terms.as_ref().expect("bids were judged");
    let mut replay = ReplayComparison { record, generation, terms, changes: Vec::new() };
    replay.check_terms();
    let inputs = replay.inputs();
    assert_eq!(replay.changes, []);
    inputs
}

struct RecordedCase {
    inputs: ClearingInputs,
    result: RecomputedClearing,
    calls: Vec<RecordedCall>,
    not_asked: Vec<(usize, NotAsked)>,
    kept: Option<RecordedExtent>,
    record: Vec<u8>,
    generation: GenerationRecord,
}

fn held(case: &Case) -> RecordedCase {
    held_with(case, &|_| ())
}

#[expect(clippy::too_many_lines, reason = "one auction, held as the exchange holds it")]
fn held_with(case: &Case, change: &dyn Fn(&mut AuctionContext<'_>)) -> RecordedCase {
    let request = openrtb::parse_request(&case.request).expect("it is valid");
    let auction = Auction::new(AUCTION_ID, &request, &case.market).expect("it can be held");
    let auction = auction.offering_sold(NOW_MS);
    let auction =
        auction.enriched(&case.request, &mut String::new(), |at, _| enrichments::known(at));
    let (mut answers, mut calls, mut not_asked) = (Vec::new(), Vec::new(), Vec::new());
    for dsp in 0..case.market.dsps.len() {
        let body = case.bodies.iter().find(|(of, _)| *of == dsp);
        match eligible(&auction, dsp) {
            Err(reason) => not_asked.push((dsp, reason)),
            Ok(ask) => {
                answers.extend(body.map(|(_, body)| DspAnswer { ask, body: body.as_bytes() }));
                let answered = body.is_some();
                calls.push(RecordedCall {
                    ask,
                    tmax_ms: 95,
                    outcome: if answered { CallOutcome::Answered } else { CallOutcome::Late },
                    sent: Some(Duration::from_micros(350)),
                    latency: answered.then_some(Duration::from_micros(41_234)),
                });
            }
        }
    }
    let mut judgement = judge(&auction, &answers);
    if case.bars && !judgement.entries.is_empty() {
        judgement.bar(0, Fate::NoMarkup);
    }
    let mut refusals = BudgetRefusals::default();
    let mut authorise = |win: &Win| {
        let can_pay = !win.price.micros().is_multiple_of(case.refuses);
        refusals.note(win, if can_pay { Ok(()) } else { Err(Fate::BudgetExhausted) })
    };
    let (entries, groups, imps) = (&judgement.entries, &judgement.groups, auction.imps_len());
    let mut clearing = clear(entries, groups, imps, auction.increment, &mut authorise);
    offer_others(&auction, &judgement, &mut clearing, authorise);
    let sales = sales(&auction, &judgement, &clearing);
    let cleared = ClearedAuction {
        answers: &answers,
        judgement: &judgement,
        clearing: &clearing,
        sales: &sales,
    };
    let mut context = AuctionContext {
        id: AUCTION_ID,
        request: &request,
        generation: GENERATION,
        arrival_unix_us: 1_780_000_000_123_456,
        timings: Timings {
            parsed: Some(Duration::from_micros(80)),
            asked: Some(Duration::from_micros(300)),
            closed: Some(Duration::from_micros(42_000)),
            cleared: Some(Duration::from_micros(42_120)),
            answered: Some(Duration::from_micros(42_200)),
            left_us: 57_800,
        },
        ending: if sales.is_empty() { AuctionEnding::NoBid } else { AuctionEnding::Filled },
        no_bid: sales.is_empty().then_some(NoBidReason::Unknown),
        auction: Some(&auction),
        judged: Some(JudgedAuction { cleared, refusals: refusals.refused() }),
        bodies: RecordedBodies::default(),
    };
    change(&mut context);
    let mut record = b"another".to_vec();
    let asked = calls.iter().copied();
    let kept = encode(&context, not_asked.iter().copied(), asked, &mut record);
    let record = record.split_off(b"another".len());
    let price_of = |sale: &crate::answering::sale::Sale| {
        let entry = judgement.bids[sale.bid].entry.expect("it took part");
        let mut wins = clearing.wins.iter().flatten().chain(&clearing.also_returned);
        wins.find(|win| win.entry == entry).expect("it was sold").price
    };
    let prices = sales.iter().map(price_of).collect();
    let fates = judgement.bids.iter().map(|bid| clearing.fate(bid.entry)).collect();
    RecordedCase {
        inputs: judged_inputs(&auction, &judgement, refusals.refused().to_vec()),
        result: RecomputedClearing { fates, sales: sales.clone(), prices },
        calls,
        not_asked,
        kept,
        record,
        generation: recorded_generation(&case.market),
    }
}

fn in_force<'g>(market: &'g Market, rates: &'g [(Currency, &'g str)]) -> GenerationInForce<'g> {
    GenerationInForce {
        number: GENERATION,
        since_unix_ms: 1_779_999_000_000,
        market,
        rates,
        toml: b"[exchange]\n",
        campaigns: 12,
    }
}

fn recorded_generation(market: &Market) -> GenerationRecord {
    let rates = rates_in(market);
    let mut record = Vec::new();
    encode_generation(&in_force(market, &rates), &mut record).expect("it can be recorded");
    GenerationRecord::decode(&record).expect("it was just written")
}

/// The result of decoding and replaying, in words.
fn replayed(record: &[u8], generation: &GenerationRecord) -> Result<ReplayOutcome, String> {
    let record = AuctionRecord::decode(record).map_err(|error| error.to_string())?;
    replay(&record, generation).map_err(|difference| difference.to_string())
}

/// A complete record by another writer.
fn written(message: &v1::Auction) -> Vec<u8> {
    let open = v1::Auction { length: 0, ..message.clone() };
    let length = u32::try_from(open.encoded_len()).expect("it is short");
    v1::Auction { length, ..open }.encode_to_vec()
}
