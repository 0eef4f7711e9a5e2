//! The longest uninterrupted work of a shard on one auction, in steps, for any lists and answers.

use openrtb::{BID_LIST_MAX, CODES_MAX, DEAL_SEATS_MAX, DEALS_MAX, LIST_MAX};

use super::*;
use crate::asking::eligibility::DspSelection;
use crate::fixtures::dsp;

/// Five milliseconds, at 20 ns per step.
const STRETCH_MAX: u64 = 250_000;

/// Defaults of `body_max` and `response_bytes_max`.
const REQUEST_BYTES_MAX: usize = 256 * 1024;
const ANSWER_BYTES_MAX: usize = 64 * 1024;

fn stretches(request: &str, bodies: &[String]) -> Vec<u64> {
    let mut market = market();
    market.dsps = (0..bodies.len()).map(|at| dsp(&format!("dsp-{at}"), &["a1"])).collect();
    with_auction(&market, request, |auction| {
        let mut choosing = DspSelection::new(auction, bodies.len());
        let mut stretches = each_stretch(auction, || choosing.proceed());
        let asks = choosing.finish().into_iter().map(|ask| ask.expect("it is asked"));
        let answers = asks.zip(bodies).map(|(ask, body)| DspAnswer { ask, body: body.as_bytes() });
        let answers: Vec<_> = answers.collect();
        let mut judging = Judge::new(auction, &answers);
        stretches.extend(each_stretch(auction, || judging.proceed()));
        let judgement = judging.finish();
        assert!(judgement.responses.iter().all(|fate| *fate == ResponseFate::Bids));
        stretches
    })
}

fn each_stretch(auction: &Auction<'_>, mut proceed: impl FnMut() -> bool) -> Vec<u64> {
    let mut stretches = Vec::new();
    loop {
        let before = auction.steps();
        let is_left = proceed();
        stretches.push(auction.steps() - before);
        if !is_left {
            return stretches;
        }
    }
}

#[track_caller]
fn check(request: &str, bodies: &[String]) {
    let stretches = stretches(request, bodies);
    let longest = stretches.iter().max();
    assert!(longest.is_some_and(|steps| *steps <= STRETCH_MAX), "{stretches:?}");
    assert!(stretches.iter().sum::<u64>() > STEPS_MAX, "steps are counted: {stretches:?}");
}

fn texts(count: usize, form: impl Fn(usize) -> String) -> Vec<String> {
    (0..count).map(form).collect()
}

fn answer(bids: usize, change: &Value) -> String {
    let own = |at: usize| {
        let lists = json!({
            "id": at.to_string(),
            "adomain": texts(BID_LIST_MAX, |at| format!("a.{at}.c")),
        });
        bid(merged(&lists, change))
    };
    response(&(0..bids).map(own).collect::<Vec<_>>())
}

/// One by one, these are 77 million comparisons per answer.
#[test]
fn ten_thousand_blocked_advertisers_keep_no_shard() {
    let request = request(json!({ "badv": texts(LIST_MAX, |at| format!("{at}.adv.example")) }));
    assert!(request.len() <= REQUEST_BYTES_MAX, "{}", request.len());
    check(&request, &vec![answer(240, &json!({})); 8]);
}

#[test]
fn all_lists_at_once_keep_no_shard() {
    let codes: Vec<u32> = (100..).take(CODES_MAX).collect();
    let deal = |at: usize| {
        json!({
            "id": format!("d{at}"),
            "wseat": texts(DEAL_SEATS_MAX / DEALS_MAX, |at| if at == 0 { "a1".to_owned() } else { format!("{at}") }),
            "wadomain": texts(30, |at| if at == 0 { "c".to_owned() } else { format!("{at}") }),
        })
    };
    let imp = imp(json!({
        "banner": { "w": 300, "h": 250, "battr": codes },
        "pmp": { "deals": (0..DEALS_MAX).map(deal).collect::<Vec<_>>() },
    }));
    let request = request(json!({
        "imp": [imp],
        "badv": texts(2000, |at| format!("{at}.d")),
        "bapp": texts(2000, |at| format!("{at}.b")),
        "bcat": texts(4000, |at| format!("I{at}")),
        "acat": texts(4000, |at| format!("{at}")),
        "wlang": texts(4000, |at| format!("l{at}")),
        "wlangb": texts(1, |_| "en-GB".to_owned()),
        "wseat": texts(4000, |at| format!("a{at}")),
        "bseat": texts(4000, |at| format!("b{at}")),
    }));
    assert!(
        (REQUEST_BYTES_MAX / 2..=REQUEST_BYTES_MAX).contains(&request.len()),
        "{}",
        request.len()
    );
    let attr: Vec<u32> = (0..).take(BID_LIST_MAX).collect();
    let cat = texts(BID_LIST_MAX, |at| at.to_string());
    let all = json!({
        "cat": cat, "attr": attr, "language": "en", "bundle": "x", "dealid": "d127",
    });
    let body = answer(95, &all);
    assert!((ANSWER_BYTES_MAX / 2..=ANSWER_BYTES_MAX).contains(&body.len()), "{}", body.len());
    check(&request, &vec![body; 20]);
}

/// A name beyond ASCII takes far longer to convert than to compare.
#[test]
fn names_in_any_script_keep_no_shard() {
    let request = request(json!({ "badv": texts(1600, |at| format!("m\u{fc}ller{at}.example")) }));
    let names = texts(BID_LIST_MAX, |at| format!("\u{e9}\u{e9}\u{e9}{at}.example"));
    check(&request, &vec![answer(60, &json!({ "adomain": names })); 8]);
}

/// DSPs with as many seats as a request can name, and deals that admit only blocked or unknown
/// seats.
#[test]
fn thousands_of_seats_and_as_many_in_deals_keep_no_shard() {
    let own = texts(2 * LIST_MAX, |at| format!("{at:x}"));
    let own: Vec<&str> = own.iter().map(String::as_str).collect();
    let mut market = market();
    market.dsps = (0..20).map(|at| dsp(&format!("dsp-{at}"), &own)).collect();
    let half = LIST_MAX / 2;
    let listed = |from: usize, count: usize| texts(count, |at| format!("{:x}", from + at));
    let deals = |count: usize, seats: &dyn Fn(usize) -> Vec<String>| {
        let deals: Vec<_> =
            (0..count).map(|at| json!({ "id": at.to_string(), "wseat": seats(at) })).collect();
        imp(json!({ "pmp": { "deals": deals } }))
    };
    let per_deal = DEAL_SEATS_MAX / DEALS_MAX;
    for (name, request) in [
        // All seats of the deals are found, allowed, and blocked.
        (
            "blocked",
            json!({
                "wseat": listed(0, LIST_MAX), "bseat": listed(0, LIST_MAX - 1),
                "imp": [deals(DEALS_MAX, &|_| listed(half, per_deal))],
            }),
        ),
        (
            "blocked by few",
            json!({
                "bseat": listed(0, 8),
                "imp": [deals(DEALS_MAX, &|_| texts(per_deal, |at| (at % 8).to_string()))],
            }),
        ),
        (
            "unknown",
            json!({
                "wseat": listed(0, LIST_MAX),
                "imp": [deals(DEALS_MAX, &|_| texts(per_deal, |at| format!("x{at}")))],
            }),
        ),
        (
            "one long list",
            json!({
                "bseat": listed(0, LIST_MAX),
                "imp": [deals(1, &|_| listed(0, DEAL_SEATS_MAX))],
            }),
        ),
    ] {
        let request = super::request(request);
        assert!(request.len() <= REQUEST_BYTES_MAX, "{}", request.len());
        with_auction(&market, &request, |auction| {
            let mut choosing = DspSelection::new(auction, market.dsps.len());
            let stretches = each_stretch(auction, || choosing.proceed());
            assert!(stretches.iter().all(|steps| *steps <= STRETCH_MAX), "{name}: {stretches:?}");
            assert!(choosing.finish().iter().all(|ask| ask.is_ok_and(|ask| ask.deals == 0)));
        });
    }
}

/// Faulty answers are parsed again, bid by bid, each time with the path to the fault.
#[test]
fn answers_with_mistakes_count_for_what_they_take() {
    let steps = |change: Value| {
        let body = answer(BIDS_MAX, &change);
        with_auction(&market(), &request(json!({})), |auction| {
            let bodies = [(0, body.clone())];
            let answers = answers(auction, &bodies);
            let before = auction.steps();
            let judgement = judge(auction, &answers);
            let is_malformed = |bid: &JudgedBid<'_>| bid.entry == Err(Fate::Malformed);
            let malformed = judgement.bids.iter().filter(|bid| is_malformed(bid)).count();
            (malformed, (auction.steps() - before) * 100 / body.len() as u64)
        })
    };
    // All bids are for an unknown impression.
    assert_eq!(steps(json!({ "impid": "9" })), (0, 16));
    assert_eq!(steps(json!({ "impid": "9", "w": "x" })), (BIDS_MAX, 66));
}
