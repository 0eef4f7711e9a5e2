//! The deadline holds regardless of DSPs, and reasons are given on request.

use std::time::{Duration, Instant};

use exchange_core::NotAsked;
use exchange_core::record::CallOutcome;

use crate::fixtures::{
    Dsp, Reply, Running, Script, Setup, Step, banner, bid, bids, ok, posted, until,
};

const EXPLAIN: &str = "explain_no_bid = true\n";

/// Reads and never responds.
fn silent() -> Dsp {
    Dsp::start([Script::once([Step::Read, Step::Wait])])
}

#[track_caller]
fn assert_reason(reply: &Reply, nbr: u32) {
    assert_eq!(reply.status, 200, "{reply:?}");
    let want = serde_json::json!({ "id": "caller-1", "seatbid": [], "nbr": nbr });
    assert_eq!(reply.json(), want);
}

#[test]
fn nobody_waits_for_a_silent_dsp_beyond_the_close() {
    let dsp = silent();
    let exchange = Running::with(&[&dsp]);
    let reply = exchange.auction(&banner(r#","tmax":50"#));
    assert_eq!((reply.status, reply.body.as_str()), (204, ""));
    assert_eq!(exchange.outcomes(0, CallOutcome::Late), 1);
    assert_eq!(exchange.scraped("exchange_auctions_total{outcome=\"no_bid\"}"), "1");
}

#[test]
fn what_came_before_the_close_counts() {
    let (quick, slow) = (Dsp::bidding("1.00"), silent());
    let exchange = Running::with(&[&slow, &quick]);
    assert_eq!(exchange.auction(&banner(r#","tmax":200"#)).price(), "1");
    assert_eq!(exchange.outcomes(0, CallOutcome::Late), 1);
    assert_eq!(exchange.outcomes(1, CallOutcome::Answered), 1);
}

#[test]
fn the_auction_closes_early_when_all_have_answered() {
    let (first, second) = (Dsp::bidding("1.00"), Dsp::bidding("2.00"));
    let exchange = Running::with(&[&first, &second]);
    let started = Instant::now();
    assert_eq!(exchange.auction(&banner("")).price(), "2");
    assert!(started.elapsed() < crate::fixtures::PATIENCE, "not the whole tmax");
}

/// The auction would wait for 20 s.
#[test]
fn a_dsp_may_have_less_time_than_the_auction() {
    let (quick, slow) = (Dsp::bidding("1.00"), silent());
    let dsps = [(slow.address, "timeout = \"40ms\""), (quick.address, "")];
    let exchange = Running::start(&Setup { dsps: &dsps, ..Setup::default() });
    let started = Instant::now();
    assert_eq!(exchange.auction(&banner("")).price(), "1");
    assert!(started.elapsed() < crate::fixtures::PATIENCE / 2, "its timeout, not the auction's");
    assert_eq!(exchange.outcomes(0, CallOutcome::Late), 1);
    let json: serde_json::Value = serde_json::from_str(&slow.request(0).body).expect("JSON");
    // Its timeout less the time before the call leaves.
    let tmax = json["tmax"].as_u64().expect("a whole number");
    assert!((1..=40).contains(&tmax), "{tmax}");
}

#[test]
fn too_little_time() {
    let dsp = Dsp::bidding("1.00");
    let dsps = [(dsp.address, "")];
    let exchange = Running::with(&[&dsp]);
    assert_eq!(exchange.auction(&banner(r#","tmax":19"#)).status, 204);
    let explain = Setup { exchange: EXPLAIN, dsps: &dsps, ..Setup::default() };
    let explaining = Running::start(&explain);
    assert_reason(&explaining.auction(&banner(r#","tmax":19"#)), 14);
    assert_reason(&explaining.auction(&banner(r#","tmax":0"#)), 14);
    let counted = explaining.scraped("exchange_auctions_total{outcome=\"insufficient_time\"}");
    assert_eq!((counted.as_str(), dsp.requests()), ("2", 0));
}

/// A slow body uses up its own auction's time: DSPs are not called in vain.
#[test]
fn a_body_that_comes_after_the_close() {
    let dsp = Dsp::bidding("1.00");
    let dsps = [(dsp.address, "")];
    let explain = Setup { exchange: EXPLAIN, dsps: &dsps, ..Setup::default() };
    let exchange = Running::start(&explain);
    let mut caller = exchange.caller();
    let request = posted(&banner(r#","tmax":20"#));
    let (head, rest) = request.split_at(request.len() - 1);
    caller.send(head);
    let sent = Instant::now();
    until("the request's time is up", || sent.elapsed() > Duration::from_millis(60));
    caller.send(rest);
    assert_reason(&caller.reply(), 14);
    assert_eq!(dsp.requests(), 0);
}

#[test]
fn reasons_for_no_bid() {
    let no_bid = Dsp::start([Script::answering("HTTP/1.1 204 No Content\r\n\r\n")]);
    let dsps = [(no_bid.address, "publishers_blocked = [\"shunned\"]")];
    let rest = "[[publisher]]\nid = \"bad\"\nblocked = true\n";
    let setup = Setup { exchange: EXPLAIN, dsps: &dsps, rest, ..Setup::default() };
    let exchange = Running::start(&setup);
    let of = |publisher: &str| {
        exchange.auction(&banner(&format!(r#","site":{{"publisher":{{"id":"{publisher}"}}}}"#)))
    };
    assert_reason(&of("good"), 0);
    assert_reason(&of("bad"), 7);
    assert_reason(&of("shunned"), 500);
    assert_reason(&exchange.auction(&banner(r#","cur":["ZZZ"]"#)), 501);
    assert_eq!(exchange.auction("{}").status, 400, "what is invalid is said with its path");
    let not_asked =
        exchange.count_dsp(0, |dsp| dsp.not_asked[NotAsked::Publisher as usize].value());
    assert_eq!((not_asked, no_bid.requests()), (1, 1));
    for (outcome, count) in [
        ("no_bid", "1"),
        ("blocked_publisher", "1"),
        ("no_eligible_dsp", "1"),
        ("no_currency", "1"),
        ("invalid_request", "1"),
        ("filled", "0"),
    ] {
        let metric = format!("exchange_auctions_total{{outcome=\"{outcome}\"}}");
        assert_eq!(exchange.scraped(&metric), count, "{outcome}");
    }
}

#[test]
fn nobody_to_be_reached() {
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let setup = Setup { exchange: EXPLAIN, dsps: &[(gone, "")], ..Setup::default() };
    let exchange = Running::start(&setup);
    assert_reason(&exchange.auction(&banner("")), 1);
}

#[test]
fn nobody_to_ask() {
    let exchange = Running::start(&Setup { exchange: EXPLAIN, ..Setup::default() });
    assert_reason(&exchange.auction(&banner("")), 500);
}

/// Repeats the race between response and close. Either way the caller gets a response, and the
/// DSP's next response belongs to the next call.
#[test]
fn answers_that_race_the_close() {
    let dsp = Dsp::start([Script::forever([
        Step::Read,
        Step::Wait,
        Step::Write(ok(&bids(&bid("1.00"))).into()),
    ])]);
    let exchange = Running::with(&[&dsp]);
    let mut caller = exchange.caller();
    for round in 0..40 {
        caller.send(&posted(&banner(r#","tmax":40"#)));
        // Around the close, which this test is about; either order is correct.
        let (sent, around) = (Instant::now(), Duration::from_millis(33 + round % 4));
        until("the close is near", || sent.elapsed() > around);
        dsp.permit();
        let reply = caller.reply();
        assert!([200, 204].contains(&reply.status), "{reply:?}");
        if reply.status == 200 {
            assert_eq!(reply.json()["bidid"], dsp.request(dsp.requests() - 1).id());
        }
    }
    let held = exchange.count(|metrics| metrics.impressions.value());
    let calls = |outcome| exchange.outcomes(0, outcome);
    assert_eq!(calls(CallOutcome::Answered) + calls(CallOutcome::Late), held);
    assert_eq!(exchange.fates(exchange_core::Fate::WrongAuction), 0);
}
