//! How long a shard is kept by one auction at a stretch, in steps: whatever lists a request has, and
//! whatever answers it is given.

use openrtb::{BID_LIST_MAX, CODES_MAX, DEALS_MAX, LIST_MAX};

use super::*;
use crate::fixtures::dsp;

/// Five milliseconds, at 20 ns a step.
const STRETCH_MAX: u64 = 250_000;

/// `body_max` and `response_bytes_max` by default.
const REQUEST_BYTES_MAX: usize = 256 * 1024;
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// The steps of each stretch in which `bodies`, of as many DSPs, are judged.
fn stretches(request: &str, bodies: &[String]) -> Vec<u64> {
    let mut market = market();
    market.dsps = (0..bodies.len()).map(|at| dsp(&format!("dsp-{at}"), &["a1"])).collect();
    with_auction(&market, request, |auction| {
        let bodies: Vec<_> = bodies.iter().cloned().enumerate().collect();
        let asked = auction.steps();
        let answers = answers(auction, &bodies);
        assert_eq!(answers.len(), bodies.len());
        // To find who is asked is a stretch of its own.
        let mut stretches = vec![auction.steps() - asked];
        let mut judging = Judging::new(auction, &answers);
        loop {
            let before = auction.steps();
            let is_left = judging.proceed();
            stretches.push(auction.steps() - before);
            if !is_left {
                break;
            }
        }
        let judgement = judging.finish();
        assert!(judgement.responses.iter().all(|fate| *fate == ResponseFate::Bids));
        stretches
    })
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

/// As many bids as fit, each with lists as long as they may be.
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

/// Compared one by one, these are 77 million comparisons for each answer.
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
            "wseat": texts(30, |at| if at == 0 { "a1".to_owned() } else { format!("{at}") }),
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

/// A name beyond ASCII takes far longer to read than to compare.
#[test]
fn names_in_any_script_keep_no_shard() {
    let request = request(json!({ "badv": texts(1600, |at| format!("m\u{fc}ller{at}.example")) }));
    let names = texts(BID_LIST_MAX, |at| format!("\u{e9}\u{e9}\u{e9}{at}.example"));
    check(&request, &vec![answer(60, &json!({ "adomain": names })); 8]);
}
