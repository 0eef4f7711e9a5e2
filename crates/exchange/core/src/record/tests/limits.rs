//! Records that would be too long, and records that contradict themselves.

use events::{MalformedRecord, MessageWriter, RECORD_BYTES_MAX, fields, v1};

use super::*;
use crate::fixtures::cpm;
use crate::judging::judge::ResponseFate;

#[test]
fn a_record_fits_the_log() {
    assert_eq!(RECORD_BYTES_MAX, eventlog::PAYLOAD_BYTES_MAX);
}

/// As many bids as DSPs may answer with, each with the longest id.
#[test]
fn of_too_many_bids_those_that_were_sold_are_kept() {
    let mut case = Case::of_one_bid();
    let alpha = case.market.dsps[0].clone();
    case.market.dsps = (0..20)
        .map(|dsp| crate::market::Dsp { id: format!("dsp-{dsp}").into(), ..alpha.clone() })
        .collect();
    let body = |dsp: usize| {
        let id = |n: usize| format!("{}{n}", "é".repeat(200));
        let price = |n: usize| 1.0 + f64::from(u32::try_from(n * 20 + dsp).expect("few")) / 100.0;
        let bids: Vec<_> = (0..256)
            .map(|n| bid(json!({ "id": id(n), "price": price(n), "cid": id(n) })))
            .collect();
        (dsp, crate::fixtures::response(&bids))
    };
    case.bodies = (0..20).map(body).collect();
    let held = held(&case);
    assert_eq!(held.kept, Some(RecordedExtent::SoldBidsOnly));
    let record = AuctionRecord::decode(&held.record).unwrap();
    assert_eq!((record.sales.len(), record.bids.len()), (1, 1));
    assert_eq!(record.bids_left_out, 20 * 256 - 1);
    assert_eq!((record.bids[0].fate, record.bids[0].dsp), (Fate::Won, 19));
    assert_eq!(record.bids[0].id, "é".repeat(128), "cut between characters");
    assert_eq!(record.bids[0].campaign, "é".repeat(128));
    assert_eq!(record.sales[0].price, held.result.prices[0]);
    assert_eq!(replay(&record, &held.generation), Ok(ReplayOutcome::Cut));
    assert!(held.record.len() < 2048, "{}", held.record.len());
}

pub(super) static BODY: [u8; RECORD_BYTES_MAX] = [b'x'; RECORD_BYTES_MAX];

#[test]
fn bodies_are_kept_whole_or_not_at_all() {
    let case = Case::of_one_bid();
    let answer = case.bodies[0].1.as_bytes();
    let check = |len: usize, answers: bool, want: RecordedExtent| {
        let request = Some(&BODY[..len]);
        let held = held_with(&case, &|context| {
            context.bodies = RecordedBodies { request, answers };
        });
        assert_eq!(held.kept, Some(want), "{len}");
        let record = AuctionRecord::decode(&held.record).unwrap();
        let is_whole = want == RecordedExtent::Whole;
        assert_eq!(record.request, request.filter(|_| is_whole));
        assert_eq!(record.answers, if answers && is_whole { vec![(0, answer)] } else { vec![] });
        assert_eq!(replay(&record, &held.generation), Ok(ReplayOutcome::Same));
        assert!(held.record.len() <= RECORD_BYTES_MAX);
    };
    check(0, false, RecordedExtent::Whole);
    check(1000, true, RecordedExtent::Whole);
    // The room left by the rest of the record.
    let most = RECORD_BYTES_MAX - held(&case).record.len() - 26;
    check(most, false, RecordedExtent::Whole);
    check(most + 1, false, RecordedExtent::WithoutBodies);
    let most = most - answer.len() - 16;
    check(most, true, RecordedExtent::Whole);
    check(most + 1, true, RecordedExtent::WithoutBodies);
}

#[test]
fn what_does_not_fit_at_all_is_not_written() {
    let text = request(json!({}));
    let request = openrtb::parse_request(&text).unwrap();
    let context = refused(&request);
    let mut out = b"another".to_vec();
    let all = (0..RECORD_BYTES_MAX).map(|dsp| (dsp, NotAsked::Qps));
    assert_eq!(encode(&context, all, [], &mut out), None);
    assert_eq!(out, b"another");
}

#[test]
fn floors_are_recorded_as_dsps_were_told() {
    let check = |configured: &str, want: &str| {
        let mut case = Case::of_one_bid();
        case.request = request(json!({ "at": 1, "imp": [imp(json!({ "bidfloor": 0.9 }))] }));
        case.market.publishers.others.fee = ppm(100_000);
        let floor = price(configured);
        let rule = FloorRule { publisher: None, format: None, country: None, size: None, floor };
        case.market.floors = vec![rule];
        let held = held(&case);
        let record = AuctionRecord::decode(&held.record).unwrap();
        let floors = (record.imps[0].bidfloor, record.imps[0].shown_floor);
        assert_eq!(floors, (cpm("1"), cpm(want)), "{configured}");
        assert_eq!(record.bids[0].floor, Some(cpm(want)), "{configured}");
    };
    check("0.45 USD", "1");
    check("1.35 USD", "1.5");
}

#[test]
fn ids_that_are_too_long_are_not_looked_up() {
    let mut case = Case::of_one_bid();
    let long = |what: &str| format!("{what}{}", "-".repeat(300));
    let (publisher, deal) = (long("publisher"), long("deal"));
    let terms = PublisherTerms { fee: ppm(250_000), ..PublisherTerms::default() };
    case.market.publishers.named.insert(publisher.as_str().into(), terms);
    let terms = DealTerms { discount: ppm(50_000), ..DealTerms::default() };
    case.market.deals.insert(deal.as_str().into(), terms);
    let deals = json!({ "deals": [{ "id": deal, "bidfloor": 0.5 }] });
    case.request = request(json!({
        "imp": [imp(json!({ "pmp": deals }))],
        "site": { "publisher": { "id": publisher } },
    }));
    let under_deal = bid(json!({ "dealid": deal }));
    case.bodies = vec![(0, crate::fixtures::response(&[under_deal]))];
    let held = held(&case);
    let record = AuctionRecord::decode(&held.record).unwrap();
    assert_eq!(record.publisher.map(str::len), Some(ID_BYTES_MAX));
    assert_eq!(record.sales[0].net, cpm("0.5"), "its floor, less a quarter");
    assert_eq!(replay(&record, &held.generation), Ok(ReplayOutcome::Same));
}

pub(super) fn refused<'p>(request: &'p openrtb::BidRequest<'p>) -> AuctionContext<'p> {
    AuctionContext {
        id: AUCTION_ID,
        request,
        generation: GENERATION,
        arrival_unix_us: 1,
        timings: Timings::default(),
        ending: AuctionEnding::Refused,
        no_bid: Some(NoBidReason::NoEligibleDsp),
        auction: None,
        judged: None,
        bodies: RecordedBodies::default(),
    }
}

#[test]
fn auctions_that_ended_early_are_recorded() {
    let text = request(json!({ "tmax": 7, "test": 1 }));
    let request = openrtb::parse_request(&text).unwrap();
    let generation = recorded_generation(&market());
    let mut out = Vec::new();
    let context = refused(&request);
    let nobody = [(0, NotAsked::Country), (2, NotAsked::InFlight)];
    assert_eq!(encode(&context, nobody, [], &mut out), Some(RecordedExtent::Whole));
    let record = AuctionRecord::decode(&out).unwrap();
    assert_eq!((record.id, record.caller_id, record.generation), (AUCTION_ID, "caller-1", 12));
    assert_eq!((record.ending, record.nbr), (AuctionEnding::Refused, Some(500)));
    assert_eq!((record.tmax_ms, record.is_test, record.terms), (Some(7), true, None));
    assert_eq!(record.not_asked, nobody);
    assert_eq!(replay(&record, &generation), Ok(ReplayOutcome::NotHeld));

    let market = market();
    let auction = Auction::new(AUCTION_ID, &request, &market).unwrap();
    let ask = eligible(&auction, 1).unwrap();
    let outcome = CallOutcome::Abandoned;
    let call = RecordedCall { ask, tmax_ms: 5, outcome, sent: None, latency: None };
    let abandoned = AuctionContext {
        ending: AuctionEnding::Abandoned,
        no_bid: None,
        auction: Some(&auction),
        timings: Timings { left_us: -3, ..Timings::default() },
        ..context
    };
    out.clear();
    assert_eq!(encode(&abandoned, [], [call], &mut out), Some(RecordedExtent::Whole));
    let record = AuctionRecord::decode(&out).unwrap();
    assert_eq!(
        (record.ending, record.nbr, record.timings.left_us),
        (AuctionEnding::Abandoned, None, -3)
    );
    assert_eq!(record.calls, [CallRecord { call, response: None }]);
    assert_eq!(replay(&record, &generation), Ok(ReplayOutcome::NotHeld));
}

#[track_caller]
fn check(change: impl Fn(&mut v1::Auction), want: &str) {
    let held = held(&Case::of_one_bid());
    let mut message = v1::Auction::decode(&*held.record).expect("it is protobuf");
    change(&mut message);
    let error = AuctionRecord::decode(&written(&message)).expect_err(want);
    assert_eq!(error.to_string(), want);
}

#[test]
fn endings_have_what_comes_of_them() {
    check(
        |auction| auction.version = 2,
        "the record is of version 2, known is 1: use the release that wrote it",
    );
    check(|auction| auction.set_ending(v1::Ending::Unspecified), "it has no ending");
    check(|auction| auction.set_ending(v1::Ending::NoBid), "it ended otherwise than its sales say");
    check(|auction| auction.sales.clear(), "it ended otherwise than its sales say");
    check(
        |auction| {
            auction.sales.clear();
            auction.set_ending(v1::Ending::Abandoned);
        },
        "it ended otherwise than its bids say",
    );
    check(
        |auction| {
            auction.sales.clear();
            auction.bids.clear();
            auction.set_ending(v1::Ending::Refused);
        },
        "it ended otherwise than its calls say",
    );
    check(|auction| auction.terms = None, "it has no terms");
    check(
        |auction| {
            (auction.terms, auction.bids, auction.sales) = (None, vec![], vec![]);
            auction.set_ending(v1::Ending::NoBid);
        },
        "it has no terms",
    );
}

#[test]
fn bids_are_of_what_is_there_and_have_what_their_fate_needs() {
    check(|auction| auction.bids[0].imp = Some(1), "bids[0] names imps[1], and there are 1");
    check(|auction| auction.bids[0].deal = Some(0), "bids[0] names deals[0], and there are 0");
    check(|auction| auction.bids[0].group = Some(0), "bids[0] names groups[0], and there are 0");
    check(|auction| auction.bids[0].dsp = 1, "bids[0] is of a DSP that did not answer");
    check(|auction| auction.bids[0].dsp = 9, "bids[0] is of a DSP that did not answer");
    let part = "bids[0] took part, and has not what that needs";
    check(|auction| auction.bids[0].seat = None, part);
    check(|auction| auction.bids[0].imp = None, part);
    check(|auction| auction.bids[0].price_micros = None, part);
    check(|auction| auction.bids[0].floor_micros = None, part);
    check(|auction| auction.bids[0].set_fate(v1::Fate::Size), part);
    let none = "bids[0] took no part, and has the fate of one that did";
    check(|auction| auction.bids[0].worth_micros = None, none);
    check(
        |auction| {
            auction.bids[0].worth_micros = None;
            auction.bids[0].set_fate(v1::Fate::Size);
        },
        "bids[0] came to its floor, and was out before",
    );
    check(
        |auction| auction.bids[0].set_fate(v1::Fate::Unspecified),
        "bids[0]: field 14 cannot be 0",
    );
    check(
        |auction| auction.bids[0].price_micros = Some(u64::MAX),
        "bids[0]: field 6 cannot be 18446744073709551615",
    );
    check(
        |auction| auction.bids[0].currency = "usd".to_owned(),
        "bids[0]: field 5 is text that says nothing there",
    );
}

#[test]
fn nothing_names_what_is_not_there() {
    let deal = |imp| v1::Deal { imp, auction_type: 1, ..v1::Deal::default() };
    check(|auction| auction.deals.push(deal(4)), "deals[0] names imps[4], and there are 1");
    check(
        |auction| {
            auction.imps.push(auction.imps[0].clone());
            auction.deals.push(deal(1));
            auction.bids[0].deal = Some(0);
        },
        "bids[0] is under a deal on another impression",
    );
    check(
        |auction| auction.groups.push(v1::Group { imps: vec![0, 2], is_possible: true }),
        "groups[0] names imps[2], and there are 1",
    );
    let refusal = |question, bid| v1::Refusal { question, bid, price_micros: 1, fate: 29 };
    check(
        |auction| auction.refusals.push(refusal(0, 1)),
        "refusals[0] names bids[1], and there are 1",
    );
    check(
        |auction| auction.refusals.extend([refusal(3, 0), refusal(3, 0)]),
        "refusals[1] answers a question that was asked before",
    );
    check(|auction| auction.sales[0].bid = 1, "sales[0] names bids[1], and there are 1");
    check(
        |auction| auction.bids[0].set_fate(v1::Fate::LostToDeal),
        "sales[0] is of a bid that was not sold",
    );
    let before = "calls[2] stands before one of a DSP that comes first";
    check(|auction| auction.calls[2].dsp = 1, before);
    let beyond = v1::Deal { class: 256, ..deal(0) };
    check(|auction| auction.deals.push(beyond.clone()), "deals[0]: field 4 cannot be 256");
    let not_on_sale = "calls[0] is for what was not on sale";
    check(|auction| auction.calls[0].imps = 2, not_on_sale);
    check(|auction| auction.calls[0].deals = vec![0], not_on_sale);
    check(|auction| auction.calls[0].deals = vec![128], "calls[0]: field 3 cannot be 128");
}

#[test]
fn nothing_counts_more_than_an_auction_has() {
    let deal = v1::Deal { auction_type: 1, ..v1::Deal::default() };
    check(|auction| auction.imps = vec![auction.imps[0].clone(); 65], "more than 64 imps");
    check(|auction| auction.deals = vec![deal.clone(); 129], "more than 128 deals");
    check(
        |auction| auction.groups.push(v1::Group { imps: vec![0; 65], is_possible: true }),
        "groups[0]: field 1 cannot be 0",
    );
    check(
        |auction| auction.not_asked = vec![v1::NotAsked { dsp: 0, reason: 1 }; 65_537],
        "more than 65536 not_asked",
    );
}

/// So that readers need not go back.
#[test]
fn fields_stand_in_order() {
    let mut out = Vec::new();
    let mut record = MessageWriter::new(&mut out);
    record.uint(fields::auction::VERSION, 1);
    record.uint(fields::auction::ENDING, 3);
    record.text(fields::auction::ID, "late");
    record.finish();
    let error = AuctionRecord::decode(&out).unwrap_err();
    assert_eq!(error, RecordDecodeError::Malformed(MalformedRecord::Order(2)));
}

#[test]
fn fields_of_later_releases_are_skipped() {
    let held = held(&Case::of_one_bid());
    let mut out = held.record[..held.record.len() - 6].to_vec();
    let mut later = Vec::new();
    MessageWriter::new(&mut later).text(1000, "of a later release");
    out.extend(&later);
    let length = u32::try_from(out.len()).unwrap();
    out.extend([&[0xfd, 0x7f][..], &length.to_le_bytes()].concat());
    let record = AuctionRecord::decode(&out).unwrap();
    assert_eq!(record, AuctionRecord::decode(&held.record).unwrap());
    assert_eq!(replay(&record, &held.generation), Ok(ReplayOutcome::Same));
}

#[test]
fn an_unreadable_answer_is_recorded_as_malformed() {
    let check = |body: &str, want: (CallOutcome, Option<ResponseFate>)| {
        let case = Case { bodies: vec![(0, body.to_owned())], ..Case::of_one_bid() };
        let held = held(&case);
        let record = AuctionRecord::decode(&held.record).expect("it was just written");
        assert_eq!((record.calls[0].call.outcome, record.calls[0].response), want, "{body}");
        assert_eq!(record.calls[1].call.outcome, CallOutcome::Late);
    };
    check("bid: 9.00", (CallOutcome::Malformed, Some(ResponseFate::Malformed)));
    check("{}", (CallOutcome::Answered, Some(ResponseFate::NoBid)));
}
