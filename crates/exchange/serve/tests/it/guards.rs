//! Guards as seen by a DSP: calls per second, calls in flight, throttling of a failing DSP, and the
//! operator's pause.

use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use exchange_core::NotAsked;
use exchange_core::guard::{BreakerLimits, BreakerState};
use exchange_core::record::CallOutcome;
use exchange_serve::ExchangeConfig;
use runtime::config::{ms, secs};
use testbed::dsp::{self, BidFault, DspAct, DspBehaviour, DspProfile, Fleet};
use testbed::server::ServerOptions;

use crate::fixtures::{Dsp, Running, Script, Setup, Step, banner, bid, bids, ok, posted, until};

/// The guarded DSP; the other one always bids.
const GUARDED: usize = 0;
const OTHER: usize = 1;

/// Results count for a minute, and few of them suffice.
fn strict(config: &mut ExchangeConfig) {
    for breaker in config.guards.iter_mut().filter_map(|guard| guard.breaker.as_mut()) {
        *breaker = BreakerLimits {
            window: secs(60),
            calls_min: 5,
            probe_qps: NonZeroU32::new(20).expect("20 is not 0"),
            probe_interval: ms(200),
            ..*breaker
        };
    }
}

/// Two DSPs that bid; the first has further keys.
struct Two {
    fleet: Fleet,
    exchange: Running,
}

impl Two {
    fn start(keys: &str, tune: fn(&mut ExchangeConfig)) -> Self {
        let profile = DspProfile { no_bid_ppm: 0, ..DspProfile::default() };
        let dsps = vec![profile; 3];
        let fleet = dsp::start(dsps, &ServerOptions::default()).expect("a fleet");
        let exchange = Running::start(&Setup {
            dsps: &Self::dsps(&fleet, &keyed(GUARDED, keys), &keyed(OTHER, "")),
            tune,
            ..Setup::default()
        });
        Self { fleet, exchange }
    }

    fn dsps<'k>(
        fleet: &Fleet,
        guarded: &'k str,
        other: &'k str,
    ) -> [(std::net::SocketAddr, &'k str); 2] {
        [(fleet.addresses()[GUARDED], guarded), (fleet.addresses()[OTHER], other)]
    }

    /// Reloads with other keys of the guarded DSP.
    fn reload(&self, keys: &str, tune: fn(&mut ExchangeConfig)) {
        self.exchange.reload(&Setup {
            dsps: &Self::dsps(&self.fleet, &keyed(GUARDED, keys), &keyed(OTHER, "")),
            tune,
            ..Setup::default()
        });
    }

    fn behave(&self, behaviour: impl Into<DspBehaviour>) {
        self.fleet.set_behaviour(GUARDED, behaviour).expect("a behaviour that makes sense");
    }

    /// Runs one auction, which is filled. Returns whether the guarded DSP was called.
    fn asks(&self) -> bool {
        let before = self.asked();
        assert_eq!(self.exchange.auction(&banner("")).status, 200, "the other one bids");
        self.asked() > before
    }

    fn auctions(&self, count: usize) {
        for _ in 0..count {
            self.asks();
        }
    }

    fn asked(&self) -> u64 {
        CallOutcome::ALL.iter().map(|outcome| self.exchange.outcomes(GUARDED, *outcome)).sum()
    }

    fn not_asked(&self, reason: NotAsked) -> u64 {
        self.exchange.not_asked(GUARDED, reason)
    }

    /// Waits until the governors know of every auction so far: shards report all DSPs at once, and
    /// the other one has answered each.
    fn until_told(&self) {
        let answered = self.exchange.outcomes(OTHER, CallOutcome::Answered);
        until("the governors have heard", || self.exchange.guard(OTHER).good == answered);
    }

    fn is_throttled(&self) -> bool {
        matches!(self.exchange.guard(GUARDED).state, BreakerState::Throttled { .. })
    }
}

fn keyed(dsp: usize, keys: &str) -> String {
    format!("seats = [\"seat-{dsp}\"]\n{keys}")
}

fn failing() -> DspAct {
    DspAct::Status { code: 500, body: String::new() }
}

#[test]
fn calls_per_second() {
    let (qps, burst) = (100.0, 60.0);
    let limited = Dsp::bidding("2.00");
    let free = Dsp::bidding("1.00");
    // A delayed call left even earlier than observed.
    let began = Instant::now();
    let dsps = [(limited.address, "qps = 100\nqps_burst = 60"), (free.address, "")];
    let exchange = Running::start(&Setup { dsps: &dsps, ..Setup::default() });
    let mut caller = exchange.caller();
    let mut auctions = 0;
    until("more than a burst has been asked, and a second is over", || {
        assert_eq!(caller.post(&banner("")).status, 200);
        auctions += 1;
        limited.requests() > 100 && began.elapsed() > Duration::from_secs(1)
    });
    let asked = limited.requests();
    for index in 0..asked {
        let since = limited.request(index).at.duration_since(began).as_secs_f64();
        let most = burst + qps * since;
        assert!((index as f64) < most, "{} within {since} s", index + 1);
    }
    let refused = exchange.not_asked(0, NotAsked::Qps);
    assert_eq!(asked as u64 + refused, auctions, "asked, or told why not");
    assert!(refused > 0, "{auctions} in {:?} are more than is allowed", began.elapsed());
    assert_eq!(exchange.not_asked(1, NotAsked::Qps), 0);
    assert_eq!(free.requests() as u64, auctions);
}

#[test]
fn calls_under_way() {
    let answer = Step::Write(ok(&bids(&bid("2.00"))).into());
    let slow = Dsp::start([Script::forever([Step::Read, Step::Wait, answer])]);
    let quick = Dsp::bidding("1.00");
    let dsps = [(slow.address, "in_flight_max = 3\nbreaker = false"), (quick.address, "")];
    let exchange = Running::start(&Setup { dsps: &dsps, ..Setup::default() });
    let mut callers: Vec<_> = (0..8).map(|_| exchange.caller()).collect();
    for round in 1..4 {
        for caller in &mut callers {
            caller.send(&posted(&banner("")));
        }
        until("all have been asked or not", || quick.requests() == 8 * round);
        drop(slow.request(3 * round - 1));
        until("five are refused", || exchange.not_asked(0, NotAsked::InFlight) == 5 * round as u64);
        assert_eq!(slow.requests(), 3 * round, "three at a time");
        (0..3).for_each(|_| slow.permit());
        let replies: Vec<_> = callers.iter_mut().map(|caller| caller.reply().price()).collect();
        assert_eq!(replies.iter().filter(|price| *price == "2").count(), 3, "{replies:?}");
    }
    until("nothing is under way", || exchange.guard(0).in_flight == 0);
}

/// A call that is late for us is not over for the DSP.
#[test]
fn a_late_call_is_under_way_until_it_is_drained() {
    let answer = Step::Write(ok(&bids(&bid("2.00"))).into());
    let slow = Dsp::start([Script::forever([Step::Read, Step::Wait, answer])]);
    let quick = Dsp::bidding("1.00");
    let keys = "in_flight_max = 1\nbreaker = false\ntimeout = \"50ms\"";
    let dsps = [(slow.address, keys), (quick.address, "")];
    let tune = |config: &mut ExchangeConfig| config.pool.drain_timeout = secs(60);
    let exchange = Running::start(&Setup { tune, dsps: &dsps, ..Setup::default() });
    assert_eq!(exchange.auction(&banner("")).price(), "1");
    assert_eq!(exchange.outcomes(0, CallOutcome::Late), 1);
    assert_eq!(exchange.auction(&banner("")).price(), "1");
    assert_eq!((slow.requests(), exchange.not_asked(0, NotAsked::InFlight)), (1, 1));
    slow.permit();
    until("it is drained", || exchange.drained(0) == 1);
    exchange.auction(&banner(""));
    assert_eq!(slow.request(1).connection, 0, "asked again, on the same connection");
}

#[test]
fn one_that_fails_is_throttled_probed_and_trusted_again() {
    let two = Two::start("", strict);
    two.auctions(5);
    two.behave(failing());
    until("it is throttled", || {
        two.auctions(5);
        two.not_asked(NotAsked::Breaker) > 0
    });
    assert!(two.is_throttled());
    let probes = two.exchange.outcomes(GUARDED, CallOutcome::Status);
    until("probes go on", || {
        two.asks();
        two.exchange.outcomes(GUARDED, CallOutcome::Status) >= probes + 10
    });
    assert!(two.is_throttled(), "probes that fail change nothing");
    two.behave(DspBehaviour::HEALTHY);
    until("it is trusted again", || {
        two.asks();
        !two.is_throttled()
    });
    until("it is asked each time", || {
        let refused = two.not_asked(NotAsked::Breaker);
        two.auctions(30);
        two.not_asked(NotAsked::Breaker) == refused
    });
    let others = two.exchange.outcomes(OTHER, CallOutcome::Answered);
    assert_eq!(two.exchange.count(|metrics| metrics.filled.value()), others);
    assert_eq!(two.exchange.not_asked(OTHER, NotAsked::Breaker), 0);
}

/// Unreadable responses are errors too, even with status 200.
#[test]
fn what_is_no_response_throttles() {
    let deep = BidFault::Deep { levels: 500 };
    for act in [BidFault::WrongId.into(), deep.into(), DspAct::Garbage, DspAct::Refused] {
        let two = Two::start("", strict);
        let counts = !matches!(act, DspAct::Content(BidFault::WrongId));
        two.behave(act.clone());
        two.auctions(20);
        two.until_told();
        // A bid for another auction loses: the DSP is up and responds.
        assert_eq!(two.is_throttled(), counts, "{act:?}");
    }
}

#[test]
fn a_timeout_counts_where_there_was_time_enough() {
    let keys = "timeout = \"20ms\"";
    let short: fn(&mut ExchangeConfig) = |config| {
        strict(config);
        config.timeout_counts_after = ms(1);
    };
    let long: fn(&mut ExchangeConfig) = |config| {
        strict(config);
        config.timeout_counts_after = secs(10);
    };
    for (least, counts) in [(short, true), (long, false)] {
        let two = Two::start(keys, least);
        two.behave(DspAct::Hang);
        two.auctions(20);
        two.until_told();
        let status = two.exchange.guard(GUARDED);
        assert_eq!((two.is_throttled(), status.bad > 0), (counts, counts), "{status:?}");
        assert!(two.exchange.outcomes(GUARDED, CallOutcome::Late) >= 5);
    }
}

/// Nor does an unresolved name, as after every start: no call was made.
#[test]
fn who_could_not_be_asked_is_not_to_blame() {
    let other = Dsp::bidding("1.00");
    let rest = format!(
        "[[dsp]]\nid = \"d0\"\nurl = \"http://dsp.invalid/\"\n\
         [[dsp]]\nid = \"d1\"\nurl = \"http://{}/\"\n",
        other.address
    );
    let exchange = Running::start(&Setup { rest: &rest, tune: strict, ..Setup::default() });
    for _ in 0..20 {
        assert_eq!(exchange.auction(&banner("")).status, 200);
    }
    until("the governors have heard", || exchange.guard(OTHER).good == 20);
    assert_eq!(exchange.outcomes(GUARDED, CallOutcome::Unresolved), 20);
    let status = exchange.guard(GUARDED);
    assert_eq!((status.state, status.bad), (BreakerState::Closed, 0));
}

#[test]
fn without_a_breaker_nothing_throttles() {
    let two = Two::start("breaker = false", strict);
    two.behave(failing());
    two.auctions(40);
    two.until_told();
    two.auctions(40);
    assert_eq!(two.exchange.outcomes(GUARDED, CallOutcome::Status), 80);
    assert_eq!(two.not_asked(NotAsked::Breaker), 0);
}

#[test]
fn a_pause_holds_until_it_is_over() {
    let two = Two::start("", |_| ());
    assert!(two.asks());
    two.exchange.pause(GUARDED, true);
    until("it is asked no more", || !two.asks());
    assert!(two.not_asked(NotAsked::Paused) > 0);
    assert_eq!(two.exchange.guard(GUARDED).state, BreakerState::Paused);
    // Changes other keys: the reload is in force once the third DSP's limit is.
    let third = format!("[[dsp]]\nid = \"d2\"\nurl = \"{}\"\n", two.fleet.url(2));
    let dsps = [keyed(GUARDED, "qps = 1000\ncountries = []"), keyed(OTHER, "")];
    let dsps = Two::dsps(&two.fleet, &dsps[GUARDED], &dsps[OTHER]);
    two.exchange.reload(&Setup { dsps: &dsps, rest: &third, ..Setup::default() });
    until("the reload is in force", || {
        assert!(!two.asks(), "it is paused");
        two.exchange.outcomes(2, CallOutcome::Answered) > 0
    });
    for _ in 0..20 {
        assert!(!two.asks(), "it is paused still");
    }
    assert_eq!(two.exchange.guard(GUARDED).state, BreakerState::Paused);
    two.exchange.pause(GUARDED, false);
    until("it is asked again", || two.asks());
    assert_eq!(two.exchange.not_asked(OTHER, NotAsked::Paused), 0);
}

#[test]
fn limits_change_by_reload() {
    let two = Two::start("", |_| ());
    assert!(two.asks());
    two.reload("qps = 1\nqps_burst = 1", |_| ());
    until("it is limited", || {
        two.asks();
        two.not_asked(NotAsked::Qps) > 0
    });
    two.reload("", |_| ());
    until("it is not", || {
        let refused = two.not_asked(NotAsked::Qps);
        two.auctions(20);
        two.not_asked(NotAsked::Qps) == refused
    });
    two.behave(failing());
    two.reload("breaker = false", strict);
    until("the reload is in force", || {
        two.auctions(1);
        two.exchange.guard(GUARDED).bad == 0
    });
    two.reload("", strict);
    until("it is throttled", || {
        two.auctions(5);
        two.not_asked(NotAsked::Breaker) > 0
    });
    two.reload("breaker = false", strict);
    until("it is not", || {
        let refused = two.not_asked(NotAsked::Breaker);
        two.auctions(20);
        two.not_asked(NotAsked::Breaker) == refused
    });
}
