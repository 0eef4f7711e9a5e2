//! Callers that disconnect, and the end of an exchange.

use exchange_core::record::CallOutcome;

use crate::fixtures::{Dsp, Running, Script, Step, banner, bid, bids, ok, posted, until};

fn answer(price: &str) -> Vec<u8> {
    ok(&bids(&bid(price))).into()
}

fn waiting() -> Dsp {
    Dsp::start([Script::forever([Step::Read, Step::Wait, Step::Write(answer("1.00"))])])
}

fn abandoned(exchange: &Running) -> u64 {
    exchange.count(|metrics| metrics.abandoned.value())
}

#[test]
fn a_caller_that_leaves_takes_only_its_own_auction_along() {
    let dsp = waiting();
    let exchange = Running::with(&[&dsp]);
    let mut leaving = exchange.caller();
    leaving.send(&posted(&banner("")));
    dsp.request(0);
    drop(leaving);
    until("the auction is given up", || abandoned(&exchange) == 1);
    assert_eq!(exchange.open(0), 1, "its answer is still to come");
    dsp.permit();
    until("the answer is drained", || exchange.drained(0) == 1);
    let mut caller = exchange.caller();
    caller.send(&posted(&banner("")));
    dsp.request(1);
    dsp.permit();
    let reply = caller.reply();
    assert_eq!(reply.json()["bidid"], dsp.request(1).id());
    assert_eq!((dsp.accepted(), exchange.drained(0), abandoned(&exchange)), (1, 1, 1));
}

/// Judging long lists yields at times, which notices a caller that disconnects.
#[test]
fn a_caller_that_leaves_while_answers_are_judged() {
    const DSPS: usize = 8;
    let domains = |count: usize| {
        let domains: Vec<_> = (0..count).map(|at| format!("\"{at}.adv.example\"")).collect();
        domains.join(",")
    };
    let with_domains = format!("\"adomain\":[{}],\"impid\"", domains(32));
    let long = bids(&vec![bid("1.00").replace("\"impid\"", &with_domains); 80].join(","));
    let script = Script::forever([Step::Read, Step::Wait, Step::Write(ok(&long).into())]);
    let dsps: Vec<_> = (0..DSPS).map(|_| Dsp::start([script.clone()])).collect();
    let exchange = Running::with(&dsps.iter().collect::<Vec<_>>());
    let request = banner(&format!(",\"badv\":[{}]", domains(10_000)));
    let mut caller = exchange.caller();
    caller.send(&posted(&request));
    for dsp in &dsps {
        dsp.request(0);
        dsp.permit();
    }
    let is_answered =
        |dsp| exchange.count_dsp(dsp, |metrics| metrics.latency.snapshot().count()) == 1;
    until("the answers are in", || (0..DSPS).all(is_answered));
    drop(caller);
    until("the auction is given up", || abandoned(&exchange) == 1);
    for dsp in 0..DSPS {
        let counted = CallOutcome::ALL.map(|outcome| exchange.outcomes(dsp, outcome));
        assert_eq!(counted.iter().sum::<u64>(), 1, "calls of d{dsp}: {counted:?}");
    }
}

/// While connections are still being opened.
#[test]
fn callers_that_leave_at_once() {
    let dsp = Dsp::bidding("1.00");
    let exchange = Running::with(&[&dsp]);
    for _ in 0..50 {
        exchange.caller().send(&posted(&banner("")));
    }
    until("all have been accepted", || exchange.scraped("connections_accepted_total") == "50");
    until("all are gone", || exchange.scraped("connections_open") == "0");
    assert_eq!(exchange.auction(&banner("")).price(), "1");
}

#[test]
fn an_auction_in_flight_ends_before_the_exchange() {
    let dsp = waiting();
    let exchange = Running::with(&[&dsp]);
    let mut idle = exchange.caller();
    let mut caller = exchange.caller();
    idle.send(&posted(&banner("")));
    dsp.request(0);
    dsp.permit();
    assert_eq!(idle.reply().status, 200);
    caller.send(&posted(&banner("")));
    dsp.request(1);
    exchange.shutdown.begin();
    assert!(idle.is_closed(), "nothing holds it");
    assert!(is_refused(&exchange));
    dsp.permit();
    let reply = caller.reply();
    assert_eq!(reply.status, 200);
    assert!(caller.is_closed());
    exchange.finish();
    dsp.until_ended(1);
}

/// A connection in the backlog of a closed listener is closed without a response.
fn is_refused(exchange: &Running) -> bool {
    use std::io::{Read as _, Write as _};
    // The listener may close at any moment: refused, reset and closed are equivalent.
    let Ok(mut late) = std::net::TcpStream::connect(exchange.address) else { return true };
    let _ = late.write_all(posted(&banner("")).as_ref());
    !matches!(late.read(&mut [0; 1]), Ok(1..))
}

#[test]
fn the_drain_has_an_end() {
    let dsp = waiting();
    let exchange = Running::with(&[&dsp]);
    let mut caller = exchange.caller();
    caller.send(&posted(&banner("")));
    dsp.request(0);
    exchange.shutdown.begin();
    exchange.shutdown.end();
    exchange.finish();
    assert!(caller.is_closed());
}
