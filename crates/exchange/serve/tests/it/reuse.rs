//! Kept-alive connections: reused, drained after late responses, and never out of step.

use exchange_core::record::CallOutcome;
use runtime::config::ms;

use crate::fixtures::{Dsp, Reply, Running, Script, Setup, Step, banner, bid, bids, ok, until};

/// Too short for a DSP that waits for a permit.
const SHORT: &str = r#","tmax":60"#;

fn answer(price: &str) -> Vec<u8> {
    ok(&bids(&bid(price))).into()
}

/// A DSP with one script, and the pool's keys.
fn start(scripts: impl Into<Vec<Script>>, pool: &str) -> (Running, Dsp) {
    let dsp = Dsp::start(scripts);
    let dsps = [(dsp.address, "")];
    (Running::start(&Setup { dsps: &dsps, pool, ..Setup::default() }), dsp)
}

/// Asserts that the bid belongs to this auction.
#[track_caller]
fn assert_own(reply: &Reply, dsp: &Dsp, request: usize, price: &str) {
    assert_eq!(reply.price(), price);
    assert_eq!(reply.json()["bidid"], dsp.request(request).id());
}

#[test]
fn connections_are_used_again() {
    let (exchange, dsp) = start([Script::answering(answer("1.00"))], "");
    let mut caller = exchange.caller();
    for request in 0..5 {
        assert_own(&caller.post(&banner("")), &dsp, request, "1");
    }
    assert_eq!((dsp.accepted(), exchange.open(0)), (1, 1));
    assert_eq!(exchange.count_dsp(0, |dsp| dsp.opened.value()), 1);
}

#[test]
fn a_late_answer_reaches_no_auction() {
    let first = [Step::Read, Step::Wait, Step::Write(answer("9.00"))];
    let rest = [Step::Read, Step::Write(answer("1.00"))];
    let script = Script::once([&first[..], &rest, &rest].concat());
    let (exchange, dsp) = start([script], "");
    assert_eq!(exchange.auction(&banner(SHORT)).status, 204);
    assert_eq!(exchange.outcomes(0, CallOutcome::Late), 1);
    assert_eq!(exchange.drained(0), 0);
    dsp.permit();
    until("the late answer is drained", || exchange.drained(0) == 1);
    assert_own(&exchange.auction(&banner("")), &dsp, 1, "1");
    assert_own(&exchange.auction(&banner("")), &dsp, 2, "1");
    assert_eq!(dsp.accepted(), 1, "on the same connection");
    assert_eq!(exchange.fates(exchange_core::Fate::Won), 2);
    assert_eq!(exchange.fates(exchange_core::Fate::WrongAuction), 0);
}

#[test]
fn a_half_read_answer_is_read_to_its_end() {
    let whole = answer("9.00");
    let (left, right) = whole.split_at(whole.len() - 30);
    let script = [
        Step::Read,
        Step::Write(left.into()),
        Step::Wait,
        Step::Write(right.into()),
        Step::Read,
        Step::Write(answer("1.00")),
    ];
    let (exchange, dsp) = start([Script::once(script)], "");
    assert_eq!(exchange.auction(&banner(SHORT)).status, 204);
    dsp.permit();
    until("the rest is drained", || exchange.drained(0) == 1);
    assert_own(&exchange.auction(&banner("")), &dsp, 1, "1");
    assert_eq!(dsp.accepted(), 1);
}

/// A connection with a pending response is not free: another one is opened.
#[test]
fn a_connection_is_in_flight_until_its_answer_has_come() {
    let late = Script::once([Step::Read, Step::Wait, Step::Write(answer("9.00"))]);
    let (exchange, dsp) = start([late, Script::answering(answer("1.00"))], "");
    assert_eq!(exchange.auction(&banner(SHORT)).status, 204);
    assert_own(&exchange.auction(&banner("")), &dsp, 1, "1");
    assert_eq!((dsp.request(0).connection, dsp.request(1).connection), (0, 1));
    dsp.permit();
    until("the late answer is drained", || exchange.drained(0) == 1);
    assert_eq!(exchange.outcomes(0, CallOutcome::Answered), 1, "it still counts for nothing");
}

#[test]
fn a_hung_connection_is_closed() {
    let hung = Script::once([Step::Read, Step::Wait]);
    let dsp = Dsp::start([hung, Script::answering(answer("1.00"))]);
    let exchange = Running::start(&Setup {
        dsps: &[(dsp.address, "")],
        tune: |config| config.pool.drain_timeout = ms(50),
        ..Setup::default()
    });
    assert_eq!(exchange.auction(&banner(SHORT)).status, 204);
    exchange.until_open(0, 0);
    assert_own(&exchange.auction(&banner("")), &dsp, 1, "1");
    assert_eq!((dsp.accepted(), exchange.drained(0)), (2, 0));
}

/// The late response never comes: the connection closes after its auction without any effect.
#[test]
fn a_connection_that_dies_after_its_auction_is_forgotten() {
    let dies = [Step::Read, Step::Write(answer("1.00")), Step::Read, Step::Wait, Step::Reset];
    let scripts = [Script::once(dies), Script::answering(answer("2.00"))];
    let (exchange, dsp) = start(scripts, "");
    assert_own(&exchange.auction(&banner("")), &dsp, 0, "1");
    assert_eq!(exchange.auction(&banner(SHORT)).status, 204);
    assert_eq!(exchange.open(0), 1);
    dsp.permit();
    exchange.until_open(0, 0);
    assert_own(&exchange.auction(&banner("")), &dsp, 2, "2");
    assert_eq!(exchange.count_dsp(0, |dsp| dsp.retries.value()), 0, "nobody waits");
}

#[test]
fn idle_connections_closed_by_the_dsp_are_noticed() {
    let once = Script::once([Step::Read, Step::Write(answer("1.00"))]);
    let (exchange, dsp) = start([once], "");
    for connections in 1..4 {
        assert_own(&exchange.auction(&banner("")), &dsp, connections - 1, "1");
        exchange.until_open(0, 0);
        assert_eq!(dsp.accepted(), connections);
    }
    assert_eq!(exchange.count_dsp(0, |dsp| dsp.retries.value()), 0);
}

#[test]
fn idle_connections_are_closed_in_time() {
    let (exchange, dsp) = start([Script::answering(answer("1.00"))], "idle_timeout = \"100ms\"");
    assert_own(&exchange.auction(&banner("")), &dsp, 0, "1");
    exchange.until_open(0, 0);
    dsp.until_ended(1);
}

/// Bytes on an idle connection must not be taken for the next response.
#[test]
fn unasked_bytes_close_an_idle_connection() {
    let bid = Step::Write(answer("1.00"));
    let eager = [Step::Read, bid.clone(), Step::Wait, bid, Step::Wait];
    let scripts = [Script::once(eager), Script::answering(answer("2.00"))];
    let (exchange, dsp) = start(scripts, "");
    assert_own(&exchange.auction(&banner("")), &dsp, 0, "1");
    dsp.permit();
    exchange.until_open(0, 0);
    assert_own(&exchange.auction(&banner("")), &dsp, 1, "2");
}

#[test]
fn no_connection_outlives_the_exchange() {
    let (exchange, dsp) = start([Script::answering(answer("1.00"))], "");
    assert_eq!(exchange.auction(&banner("")).status, 200);
    assert_eq!(exchange.scraped("exchange_dsp_connections{dsp=\"d0\"}"), "1");
    exchange.join();
    dsp.until_ended(1);
}
