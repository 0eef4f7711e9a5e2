//! Requests that a shard has no time for are refused at once and counted; nothing else is.

use crate::fixtures::{Caller, Dsp, Reply, Running, Script, Setup, Step, banner, bid, bids, ok};

/// A DSP that bids on its first request once permitted, and on others at once.
fn slow_once() -> Dsp {
    let answer = || ok(&bids(&bid("1.00")));
    let slow = [Step::Read, Step::Wait, Step::Write(answer().into())];
    Dsp::start([Script::once(slow), Script::answering(answer())])
}

/// An exchange that runs one auction at a time, and a caller whose auction is in flight.
fn busy(dsp: &Dsp, keys: &str) -> (Running, Caller) {
    let dsps = [(dsp.address, "")];
    let setup = Setup { exchange: keys, dsps: &dsps, in_flight_max: 1, ..Setup::default() };
    let exchange = Running::start(&setup);
    let mut first = exchange.caller();
    first.send(&crate::fixtures::posted(&banner("")));
    drop(dsp.request(0));
    (exchange, first)
}

#[test]
fn a_request_too_many_is_refused_and_its_connection_kept() {
    let dsp = slow_once();
    let (exchange, mut first) = busy(&dsp, "");
    let mut second = exchange.caller();
    for _ in 0..2 {
        let refused = second.post(&banner(""));
        assert_eq!((refused.status, refused.header("retry-after")), (503, Some("1")));
        let problem = refused.json()["error"]["problem"].to_string();
        assert!(problem.contains("overloaded"), "{problem}");
    }
    // Other requests need no time, and a beacon may bill.
    assert_eq!(second.get("/", "").status, 404);
    assert_eq!(second.get("/n/x", "").status, 404);
    assert_eq!(dsp.requests(), 1);
    dsp.permit();
    assert_eq!(first.reply().price(), "1");
    assert_eq!(second.post(&banner("")).price(), "1");
    let refused = "requests_refused_total{reason=\"in_flight\"}";
    assert_eq!(exchange.scraped(refused), "2");
    assert_eq!(exchange.scraped("exchange_auctions_total{outcome=\"overloaded\"}"), "2");
    assert_eq!(exchange.scraped("exchange_auctions_total{outcome=\"filled\"}"), "2");
    assert_eq!(exchange.scraped("requests_in_flight"), "0");
}

#[track_caller]
fn refused_by(keys: &str, body: &str) -> Reply {
    let dsp = slow_once();
    let (exchange, _first) = busy(&dsp, keys);
    exchange.auction(body)
}

#[test]
fn a_refusal_may_look_like_no_bid() {
    let quiet = "overload_answer = \"no_bid\"\n";
    assert_eq!(refused_by(quiet, &banner("")).status, 204);
    let explained = format!("{quiet}explain_no_bid = true\n");
    let reply = refused_by(&explained, &banner(""));
    let want = serde_json::json!({ "id": "caller-1", "seatbid": [], "nbr": 502 });
    assert_eq!((reply.status, reply.json()), (200, want));
    // Only its id is read.
    let unread = refused_by(&explained, r#"{"imp":7,"id":"x"}"#);
    assert_eq!((unread.status, &unread.json()["id"]), (200, &"x".into()));
    assert_eq!(refused_by(&explained, "no JSON").json()["id"], "");
}
