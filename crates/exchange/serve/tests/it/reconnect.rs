//! Connections that break, cannot be opened, or are too many.

use std::net::{SocketAddr, TcpListener};

use exchange_core::record::CallOutcome;
use exchange_serve::{Backoff, ExchangeConfig};
use runtime::config::{ms, secs};
use socket2::{Domain, Socket, Type};

use crate::fixtures::{Dsp, Running, Script, Setup, Step, banner, bid, bids, ok, posted, until};

fn answer(price: &str) -> Vec<u8> {
    ok(&bids(&bid(price))).into()
}

fn start(address: SocketAddr, pool: &str) -> Running {
    Running::start(&Setup { dsps: &[(address, "")], pool, ..Setup::default() })
}

fn tuned(address: SocketAddr, tune: fn(&mut ExchangeConfig)) -> Running {
    Running::start(&Setup { dsps: &[(address, "")], tune, ..Setup::default() })
}

/// An unreachable address is not tried for a minute.
const MINUTE: Backoff = Backoff { unanswered_max: 2, min: secs(60), max: secs(60) };

fn retries(exchange: &Running) -> u64 {
    exchange.count_dsp(0, |dsp| dsp.retries.value())
}

/// A port that refuses connections, but is reserved.
struct Deserted {
    socket: Socket,
    address: SocketAddr,
}

impl Deserted {
    fn new() -> Self {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        let any: SocketAddr = "127.0.0.1:0".parse().expect("an address");
        socket.bind(&any.into()).expect("a free port");
        let address = socket.local_addr().expect("an address").as_socket().expect("of IP");
        Self { socket, address }
    }

    /// Starts a DSP on it.
    fn settle(self) -> Dsp {
        self.socket.listen(128).expect("it listens");
        Dsp::on(TcpListener::from(self.socket), [Script::answering(answer("1.00"))])
    }
}

/// As if the DSP closes an idle connection just as the request leaves.
#[test]
fn a_reset_on_a_reused_connection_is_retried_on_a_new_one() {
    for last in [vec![Step::Read, Step::Reset], vec![Step::Read]] {
        let good = vec![Step::Read, Step::Write(answer("1.00"))];
        let dying = Script::once([good, last].concat());
        let dsp = Dsp::start([dying, Script::answering(answer("2.00"))]);
        let exchange = start(dsp.address, "");
        assert_eq!(exchange.auction(&banner("")).price(), "1");
        assert_eq!(exchange.auction(&banner("")).price(), "2");
        assert_eq!((retries(&exchange), dsp.requests(), dsp.accepted()), (1, 3, 2));
        assert_eq!(dsp.request(1).id(), dsp.request(2).id(), "the same question");
        assert_eq!((dsp.request(1).connection, dsp.request(2).connection), (0, 1));
        assert_eq!(exchange.outcomes(0, CallOutcome::Answered), 2);
        assert_eq!(exchange.outcomes(0, CallOutcome::Reset), 0);
    }
}

#[test]
fn a_call_is_retried_once_only() {
    let good = [Step::Read, Step::Write(answer("1.00")), Step::Read, Step::Reset];
    let bad = Script::once([Step::Read, Step::Reset]);
    let dsp = Dsp::start([Script::once(good), bad]);
    let exchange = start(dsp.address, "");
    assert_eq!(exchange.auction(&banner("")).price(), "1");
    assert_eq!(exchange.auction(&banner("")).status, 204);
    assert_eq!((retries(&exchange), dsp.requests(), dsp.accepted()), (1, 3, 2));
    assert_eq!(exchange.outcomes(0, CallOutcome::Reset), 1);
    exchange.until_open(0, 0);
}

#[test]
fn a_reset_on_a_new_connection_is_not_retried() {
    let dsp = Dsp::start([Script::once([Step::Read, Step::Reset])]);
    let exchange = start(dsp.address, "");
    assert_eq!(exchange.auction(&banner("")).status, 204);
    assert_eq!((retries(&exchange), dsp.requests(), dsp.accepted()), (0, 1, 1));
    assert_eq!(exchange.outcomes(0, CallOutcome::Reset), 1);
}

/// A response has begun, so the DSP has the request: a retry would send it twice.
#[test]
fn an_answer_that_has_begun_is_not_retried() {
    let half = Step::Write(answer("9.00")[..20].into());
    let script = [Step::Read, Step::Write(answer("1.00")), Step::Read, half, Step::Reset];
    let dsp = Dsp::start([Script::once(script)]);
    let exchange = start(dsp.address, "");
    assert_eq!(exchange.auction(&banner("")).price(), "1");
    assert_eq!(exchange.auction(&banner("")).status, 204);
    assert_eq!((retries(&exchange), dsp.requests()), (0, 2));
    assert_eq!(exchange.outcomes(0, CallOutcome::Malformed), 1);
}

#[test]
fn a_refused_connection_is_not_sought_again_at_once() {
    let port = Deserted::new();
    let exchange = tuned(port.address, |config| config.pool.backoff = MINUTE);
    for auctions in 1..5 {
        assert_eq!(exchange.auction(&banner("")).status, 204);
        assert_eq!(exchange.outcomes(0, CallOutcome::Unreachable), auctions);
    }
    // A retry would find it.
    let dsp = port.settle();
    assert_eq!(exchange.auction(&banner("")).status, 204);
    assert_eq!(dsp.accepted(), 0);
}

#[test]
fn a_dsp_that_comes_back_is_found() {
    let port = Deserted::new();
    let exchange = tuned(port.address, |config| {
        config.pool.backoff = Backoff { min: ms(1), max: ms(20), ..MINUTE };
    });
    assert_eq!(exchange.auction(&banner("")).status, 204);
    let _dsp = port.settle();
    until("it is found", || exchange.auction(&banner("")).status == 200);
}

/// Concurrent failed attempts count as one failure: the pause is the first, not the longest.
#[test]
fn attempts_that_fail_together_count_once() {
    let port = Deserted::new();
    let exchange = tuned(port.address, |config| {
        config.pool.backoff = Backoff { min: ms(1), max: secs(600), ..MINUTE };
    });
    let mut callers: Vec<_> = (0..32).map(|_| exchange.caller()).collect();
    for caller in &mut callers {
        caller.send(&posted(&banner("")));
    }
    for caller in &mut callers {
        assert_eq!(caller.reply().status, 204);
    }
    // 32 doublings of a millisecond would be 50 days.
    let _dsp = port.settle();
    until("it is found", || exchange.auction(&banner("")).status == 200);
}

/// A DSP that accepts connections and never responds is treated as unreachable.
#[test]
fn connections_that_bear_no_answer_are_not_opened_for_ever() {
    let dying = || Script::once([Step::Read, Step::Reset]);
    let dsp = Dsp::start([dying()]);
    let exchange = tuned(dsp.address, |config| config.pool.backoff = MINUTE);
    for _ in 0..6 {
        assert_eq!(exchange.auction(&banner("")).status, 204);
    }
    assert_eq!(dsp.accepted(), 3);
    assert_eq!(exchange.outcomes(0, CallOutcome::Reset), 3);
    assert_eq!(exchange.outcomes(0, CallOutcome::Unreachable), 3);

    // One response resets the pause.
    let good = Script::once([Step::Read, Step::Write(answer("1.00"))]);
    let dsp = Dsp::start([dying(), dying(), good, dying()]);
    let exchange = tuned(dsp.address, |config| config.pool.backoff = MINUTE);
    let statuses: Vec<_> = (0..7).map(|_| exchange.auction(&banner("")).status).collect();
    assert_eq!(statuses, [204, 204, 200, 204, 204, 204, 204]);
    assert_eq!(dsp.accepted(), 6);
    assert_eq!(exchange.outcomes(0, CallOutcome::Reset), 5);
    assert_eq!(exchange.outcomes(0, CallOutcome::Unreachable), 1);
}

#[test]
fn a_pool_grows_to_its_limit_and_no_further() {
    let script = Script::forever([Step::Read, Step::Wait, Step::Write(answer("1.00"))]);
    let dsp = Dsp::start([script]);
    let exchange = start(dsp.address, "connections_max = 2");
    let mut callers = [exchange.caller(), exchange.caller()];
    for caller in &mut callers {
        caller.send(&posted(&banner("")));
    }
    dsp.request(1);
    // This many may wait.
    let mut waiting = [exchange.caller(), exchange.caller()];
    for caller in &mut waiting {
        caller.send(&posted(&banner("")));
    }
    until("both are refused what a third would be", || {
        exchange.auction(&banner(r#","tmax":30"#));
        exchange.outcomes(0, CallOutcome::Saturated) > 0
    });
    for _ in 0..4 {
        dsp.permit();
    }
    for caller in callers.iter_mut().chain(&mut waiting) {
        assert_eq!(caller.reply().price(), "1");
    }
    dsp.permit();
    assert_eq!(exchange.auction(&banner("")).price(), "1", "there is room again");
    assert_eq!((dsp.accepted(), exchange.open(0)), (2, 2));
}

/// It accepts one connection and closes every other: calls wait for the one.
#[test]
fn a_connection_that_has_borne_answers_is_waited_for() {
    let good = Script::forever([Step::Read, Step::Wait, Step::Write(answer("1.00"))]);
    let dsp = Dsp::start([good, Script::once([Step::Read])]);
    let exchange = tuned(dsp.address, |config| {
        config.pool.backoff = Backoff { unanswered_max: 0, ..MINUTE };
    });
    dsp.permit();
    assert_eq!(exchange.auction(&banner("")).price(), "1");
    let mut busy = exchange.caller();
    busy.send(&posted(&banner("")));
    dsp.request(1);
    assert_eq!(exchange.auction(&banner("")).status, 204, "on a second connection");
    assert_eq!(exchange.outcomes(0, CallOutcome::Reset), 1);
    let mut waits = exchange.caller();
    waits.send(&posted(&banner("")));
    dsp.permit();
    assert_eq!(busy.reply().price(), "1");
    dsp.request(3);
    dsp.permit();
    assert_eq!(waits.reply().price(), "1");
    assert_eq!(exchange.outcomes(0, CallOutcome::Unreachable), 0);
}

/// Concurrent auctions use connections of their own, which later auctions reuse.
#[test]
fn a_pool_grows_with_what_is_in_flight() {
    let script = Script::forever([Step::Read, Step::Wait, Step::Write(answer("1.00"))]);
    let dsp = Dsp::start([script]);
    let exchange = start(dsp.address, "");
    let mut callers: Vec<_> = (0..16).map(|_| exchange.caller()).collect();
    for round in 1..4 {
        for caller in &mut callers {
            caller.send(&posted(&banner("")));
        }
        dsp.request(16 * round - 1);
        for _ in 0..16 {
            dsp.permit();
        }
        for caller in &mut callers {
            assert_eq!(caller.reply().price(), "1");
        }
        assert_eq!((dsp.accepted(), exchange.open(0)), (16, 16));
    }
}

#[test]
fn a_name_that_does_not_resolve() {
    // `.invalid` never resolves (RFC 6761).
    let dsp = Dsp::bidding("1.00");
    let rest = "[[dsp]]\nid = \"lost\"\nurl = \"http://dsp.invalid:1/bid\"\n";
    let dsps = [(dsp.address, "")];
    let exchange = Running::start(&Setup { dsps: &dsps, rest, ..Setup::default() });
    assert_eq!(exchange.auction(&banner("")).price(), "1");
    assert_eq!(exchange.outcomes(1, CallOutcome::Unresolved), 1);
}
