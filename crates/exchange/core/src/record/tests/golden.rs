//! Records of version 1, byte for byte. Files contain such bytes, so they never change; another
//! version gets files of its own.

use super::*;
use crate::fixtures::cpm;

const AUCTION: &[u8] = include_bytes!("../../../../../events/golden/v1/auction.bin");
/// With the inputs of floors, which were added later.
const AUCTION_FLOORS: &[u8] = include_bytes!("../../../../../events/golden/v1/auction-floors.bin");
/// With a sold deal, which were added later.
const AUCTION_SOLD: &[u8] = include_bytes!("../../../../../events/golden/v1/auction-sold.bin");
const GENERATION_SOLD: &[u8] =
    include_bytes!("../../../../../events/golden/v1/generation-sold.bin");
const GENERATION_RECORD: &[u8] = include_bytes!("../../../../../events/golden/v1/generation.bin");

/// Three DSPs, one of which is not asked; deals of every kind, a group, a refusal, losers returned
/// with winners, and bids that took no part.
fn case() -> Case {
    let mut market = market();
    let deal = |discount, priority| DealTerms {
        discount: ppm(discount),
        priority,
        ..DealTerms::default()
    };
    market.deals.insert("better".into(), deal(50_000, Some(3)));
    market
        .deals
        .insert("mine".into(), DealTerms { dsps: vec![0], fee: Some(ppm(1)), ..deal(0, None) });
    market.publishers.others.fee = ppm(100_000);
    let pub_1 = PublisherTerms {
        fee: ppm(200_000),
        notices: NoticeMode::Upstream,
        bids: BidsReturned::All,
        ..PublisherTerms::default()
    };
    market.publishers.named.insert("pub-1".into(), pub_1);
    market.dsps[1].countries = vec!["DEU".into()];
    let deals = json!([
        { "id": "agreed", "at": 3, "bidfloor": 3.1 },
        { "id": "better", "at": 1, "bidfloor": 0.5, "bidfloorcur": "EUR" },
    ]);
    let imps = [
        imp(json!({ "id": "top", "bidfloor": 0.8, "pmp": { "deals": deals } })),
        imp(json!({ "id": "side", "bidfloor": 0.5, "qty": { "multiplier": 2.5 } })),
    ];
    let request = request(json!({
        "imp": imps, "at": 1, "tmax": 120,
        "site": { "publisher": { "id": "pub-1" } },
    }));
    let of = |id: &str, impid: &str, price: f64, deal: Option<&str>| {
        let campaign = deal.map(|deal| format!("campaign-{deal}"));
        bid(json!({ "id": id, "impid": impid, "price": price, "dealid": deal, "cid": campaign }))
    };
    let alpha = json!({ "id": AUCTION_ID, "cur": "USD", "seatbid": [
        { "seat": "a1", "bid": [
            of("open", "top", 2.5, None),
            of("deal", "top", 2.0, Some("better")),
            of("agreed", "top", 3.5, Some("agreed")),
            of("low", "side", 0.1, None),
            of("elsewhere", "nowhere", 1.0, None),
        ] },
        { "seat": "a2", "group": 1, "bid": [
            of("both-1", "top", 1.2, None),
            of("both-2", "side", 1.2, None),
        ] },
        { "seat": "a9", "bid": [of("stranger", "side", 1.0, None)] },
    ] });
    let gamma = json!({ "id": AUCTION_ID, "cur": "EUR", "seatbid": [
        { "bid": [
            of("dear", "side", 7.0, None),
            of("next", "side", 0.9, None),
            json!({ "id": "no-price", "impid": "side", "adm": "<p>", "crid": "c" }),
            json!({ "id": 3 }),
        ] },
    ] });
    Case {
        market,
        request,
        bodies: vec![(0, alpha.to_string()), (2, gamma.to_string())],
        bars: false,
        refuses: 7,
    }
}

fn golden() -> RecordedCase {
    held_with(&case(), &|context| {
        context.bodies = RecordedBodies { request: Some(br#"{"id":"caller-1"}"#), answers: false };
    })
}

#[test]
fn an_auction_keeps_its_bytes() {
    let held = golden();
    assert_eq!(held.kept, Some(RecordedExtent::Whole));
    assert!(
        held.record == AUCTION_FLOORS,
        "version 1 is written as ever: {:?}",
        v1::Auction::decode(&*held.record)
    );
    let generation = GenerationRecord::decode(GENERATION_RECORD).unwrap();
    for bytes in [AUCTION, AUCTION_FLOORS] {
        let record = AuctionRecord::decode(bytes).unwrap();
        assert_eq!(replay(&record, &generation), Ok(ReplayOutcome::Same));
        assert_eq!(v1::Auction::decode(bytes).unwrap().encode_to_vec(), bytes);
    }
}

#[test]
fn a_generation_keeps_its_bytes() {
    let market = case().market;
    let rates = rates_in(&market);
    let mut record = Vec::new();
    // As before campaigns existed, and as without any.
    let without = GenerationInForce { campaigns: 0, ..in_force(&market, &rates) };
    encode_generation(&without, &mut record).unwrap();
    let message = v1::Generation::decode(&*record);
    assert!(record == GENERATION_RECORD, "version 1 is written as ever: {message:?}");
    assert_eq!(message.unwrap().encode_to_vec(), GENERATION_RECORD);
}

/// The file's contents in words, because bytes alone could be wrong from the start.
#[test]
fn the_golden_auction_says_what_happened() {
    let record = AuctionRecord::decode(AUCTION).unwrap();
    assert_eq!((record.id, record.caller_id), (AUCTION_ID, "caller-1"));
    assert_eq!(
        (record.publisher, record.tmax_ms, record.is_test),
        (Some("pub-1"), Some(120), false)
    );
    assert_eq!((record.ending, record.nbr), (AuctionEnding::Filled, None));
    assert_eq!(record.not_asked, [(1, NotAsked::Country)]);
    let called: Vec<_> = record.calls.iter().map(|call| call.call.ask.dsp).collect();
    assert_eq!(called, [0, 2]);
    let imps: Vec<_> =
        record.imps.iter().map(|imp| (imp.id, imp.bidfloor, imp.multiplier.to_string())).collect();
    assert_eq!(imps, [("top", cpm("1"), "1".to_owned()), ("side", cpm("0.625"), "2.5".to_owned())]);
    let deals: Vec<_> = record
        .deals
        .iter()
        .map(|deal| (deal.id, deal.auction_type, deal.class, deal.floor))
        .collect();
    let agreed = ("agreed", AuctionType::Agreed, 0, Some(cpm("3.1")));
    assert_eq!(deals, [agreed, ("better", AuctionType::FirstPrice, 3, Some(cpm("0.675")))]);
    use Fate::{
        BelowFloor, BudgetExhausted, GroupIncomplete, LostToDeal, Malformed, NoPrice, Offered,
        SeatUndeclared, UnknownImp, Won,
    };
    let bids: Vec<_> = record.bids.iter().map(|bid| (bid.id, bid.fate)).collect();
    let want = [
        ("open", Offered),
        ("deal", Won),
        ("agreed", LostToDeal),
        ("low", BelowFloor),
        ("elsewhere", UnknownImp),
        ("both-1", GroupIncomplete),
        ("both-2", GroupIncomplete),
        ("stranger", SeatUndeclared),
        ("dear", BudgetExhausted),
        ("next", Won),
        ("no-price", NoPrice),
        ("", Malformed),
    ];
    assert_eq!(bids, want);
    let campaigns = record.bids.iter().filter(|bid| !bid.campaign.is_empty());
    let campaigns: Vec<_> = campaigns.map(|bid| (bid.id, bid.campaign)).collect();
    assert_eq!(campaigns, [("deal", "campaign-better"), ("agreed", "campaign-agreed")]);
    let sold: Vec<_> = record.sales.iter().map(|sale| (sale.bid, sale.price, sale.paid)).collect();
    let next = (9, cpm("0.972"), cpm("0.9"));
    assert_eq!(sold, [(1, cpm("1.9"), cpm("1.9")), (0, cpm("2.5"), cpm("2.5")), next]);
    assert_eq!(record.sales[2].revenue.to_string(), "0.00243");
    let refused: Vec<_> =
        record.refusals.iter().map(|refusal| (refusal.bid, refusal.price)).collect();
    assert_eq!(refused, [(8, cpm("7.56"))]);
    assert_eq!(record.request, Some(&br#"{"id":"caller-1"}"#[..]));
}

#[test]
fn sold_deals_keep_their_bytes() {
    let case = sold::case();
    let held = held(&case);
    assert!(held.record == AUCTION_SOLD, "{:?}", v1::Auction::decode(&*held.record));
    let rates = rates_in(&case.market);
    let mut record = Vec::new();
    encode_generation(&in_force(&case.market, &rates), &mut record).unwrap();
    assert!(record == GENERATION_SOLD, "{:?}", v1::Generation::decode(&*record));
    let auction = AuctionRecord::decode(AUCTION_SOLD).unwrap();
    let generation = GenerationRecord::decode(GENERATION_SOLD).unwrap();
    assert_eq!(replay(&auction, &generation), Ok(ReplayOutcome::Same));
    assert_eq!(auction.sales[0].price, cpm("2.16"));
    assert_eq!(v1::Auction::decode(AUCTION_SOLD).unwrap().encode_to_vec(), AUCTION_SOLD);
    assert_eq!(v1::Generation::decode(GENERATION_SOLD).unwrap().encode_to_vec(), GENERATION_SOLD);
}
