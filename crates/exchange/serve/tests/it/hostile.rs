//! Every fault of a simulated DSP, beside a healthy DSP: it costs only the faulty one, shows in the
//! outcome of its calls, and ends with the fault.

use std::collections::BTreeSet;
use std::time::Duration;

use exchange_core::record::CallOutcome;
use exchange_core::{Fate, ResponseFate};
use exchange_serve::{Backoff, ExchangeConfig};
use http2::Http2ErrorCode;
use testbed::dsp::{
    self, ACTS, BidFault, DspAct, DspBehaviour, DspProfile, DspSchedule, Fleet, Garble,
};
use testbed::server::{Cut, DripFrom, FloodFrame, Http2Fault, ServerOptions};

use crate::fixtures::{Running, Setup, banner, posted, until};

const CALLERS: usize = 3;
const ROUNDS: usize = 4;
const AUCTIONS: u64 = (CALLERS * ROUNDS) as u64;
const HEALTHY: usize = 0;
const SICK: usize = 1;

/// The results of a faulty DSP's calls.
#[derive(Clone, Copy, Debug)]
enum Want {
    /// All calls, without a bid that counts.
    Call(CallOutcome),
    /// Answered with a body that is not a response.
    Response(ResponseFate),
    /// Answered with bids that all have this fate.
    Fate(Fate),
    /// Answered with valid bids.
    Bids,
}

/// A fleet of one healthy DSP and one with a schedule; both bid whenever they can.
fn fleet(schedule: DspSchedule) -> Fleet {
    let healthy = DspProfile { no_bid_ppm: 0, ..DspProfile::default() };
    let sick = DspProfile { schedule, ..healthy.clone() };
    dsp::start(vec![healthy, sick], &ServerOptions::default()).expect("a fleet")
}

/// An exchange that calls both; `keys` are the faulty one's.
fn exchange(fleet: &Fleet, keys: &str) -> Running {
    let keys = format!("seats = [\"seat-1\"]\n{keys}");
    let [healthy, sick] = *fleet.addresses() else { panic!("two DSPs") };
    let dsps = [(healthy, "seats = [\"seat-0\"]"), (sick, keys.as_str())];
    // A new connection for each call.
    let tune = |config: &mut ExchangeConfig| {
        config.pool.drain_timeout = ms(50);
        config.pool.backoff = Backoff { unanswered_max: 1_000_000, min: ms(1), max: ms(2) };
    };
    Running::start(&Setup { tune, dsps: &dsps, ..Setup::default() })
}

/// Runs [`AUCTIONS`] auctions, [`CALLERS`] at a time; all are filled.
fn auctions(exchange: &Running) {
    let mut callers: Vec<_> = (0..CALLERS).map(|_| exchange.caller()).collect();
    for _ in 0..ROUNDS {
        for caller in &mut callers {
            caller.send(&posted(&banner("")));
        }
        for caller in &mut callers {
            assert_eq!(caller.reply().status, 200, "the healthy DSP bids");
        }
    }
}

/// Healthy, faulty, healthy.
#[track_caller]
fn check(act: &DspAct, keys: &str, want: Want) {
    let fleet = fleet(DspSchedule::default());
    let exchange = exchange(&fleet, &format!("breaker = false\n{keys}"));
    auctions(&exchange);
    let bids = |dsp| exchange.responses(dsp, ResponseFate::Bids);
    assert_eq!(bids(SICK), AUCTIONS, "{act:?}: well at first");
    let good = || [Fate::Won, Fate::LostToHigherBid].map(|fate| exchange.fates(fate)).iter().sum();
    let good_before: u64 = good();
    fleet.set_behaviour(SICK, act.clone()).expect("a behaviour that makes sense");
    auctions(&exchange);
    let counted = match want {
        Want::Call(outcome) => exchange.outcomes(SICK, outcome),
        Want::Response(fate) => exchange.responses(SICK, fate),
        Want::Fate(fate) => exchange.fates(fate),
        Want::Bids => bids(SICK) - AUCTIONS,
    };
    assert!(counted >= AUCTIONS, "{act:?}: {want:?} came {counted} times; {}", told(&exchange));
    let of_sick = if matches!(want, Want::Bids) { AUCTIONS } else { 0 };
    // Each valid bid has won or lost by its price.
    assert_eq!(good() - good_before, AUCTIONS + of_sick, "{act:?}");
    fleet.set_behaviour(SICK, DspBehaviour::HEALTHY).expect("well again");
    recovers(&exchange);
    assert_eq!(bids(HEALTHY), exchange.outcomes(HEALTHY, CallOutcome::Answered));
    sound(&exchange);
    let open = |dsp: usize| fleet.stats().dsps[dsp].connections_open;
    until("connections are few", || open(SICK) <= CALLERS as u64 + 1);
    assert!(open(HEALTHY) <= CALLERS as u64, "{act:?}: the healthy DSP's are kept");
}

/// Runs auctions until the faulty DSP bids again.
#[track_caller]
fn recovers(exchange: &Running) {
    let bids = || exchange.responses(SICK, ResponseFate::Bids);
    let before = bids();
    until("it bids again", || {
        assert_eq!(exchange.auction(&banner("")).status, 200);
        bids() > before
    });
}

/// No auction was lost, failed or late, nor any call to the healthy DSP.
#[track_caller]
fn sound(exchange: &Running) {
    let auctions: u64 =
        CallOutcome::ALL.iter().map(|outcome| exchange.outcomes(HEALTHY, *outcome)).sum();
    let filled = exchange.count(|metrics| metrics.filled.value());
    assert_eq!((filled, exchange.outcomes(HEALTHY, CallOutcome::Answered)), (auctions, auctions));
    assert_eq!(exchange.count(|metrics| metrics.abandoned.value()), 0);
    assert_eq!(exchange.count(|metrics| metrics.overshoot.snapshot().count()), 0);
    assert_eq!(exchange.count(|metrics| metrics.reactor_panics.value()), 0);
    let calls: u64 = CallOutcome::ALL.iter().map(|outcome| exchange.outcomes(SICK, *outcome)).sum();
    assert_eq!(calls, auctions, "each call has one outcome");
}

/// The outcomes of its calls, for messages.
fn told(exchange: &Running) -> String {
    let count =
        |outcome: &CallOutcome| format!("{outcome:?} {}", exchange.outcomes(SICK, *outcome));
    CallOutcome::ALL.iter().map(count).collect::<Vec<_>>().join(", ")
}

/// Long enough for a healthy response on a slow machine, short for calls that time out.
const SHORT: &str = "timeout = \"150ms\"";
const GZIP: &str = "gzip = true";
const PLAIN: &str = "gzip = false";

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// By the name of the act: the act, keys of the DSP, the expected results of its calls.
fn table() -> Vec<(&'static str, DspAct, &'static str, Want)> {
    use CallOutcome::{Encoded, Late, Malformed, Reset, Status, TooLarge, Trickle, Unreachable};
    use Want::{Bids, Call, Fate as Of, Response};
    let status = |code, body: &str| DspAct::Status { code, body: body.to_owned() };
    let drip = |bytes, every, from| DspAct::Trickle { bytes, every, from };
    let garbled = |how| DspAct::Content(BidFault::Malformed { how: Some(how) });
    let no_response = Response(ResponseFate::Malformed);
    let elsewhere = || DspAct::Redirect { code: 307, to: Some("http://192.0.2.1/".to_owned()) };
    vec![
        ("healthy", DspAct::Healthy, "", Bids),
        ("status", status(503, "sorry"), "", Call(Status)),
        ("status", status(404, ""), "", Call(Status)),
        ("status", status(204, ""), "", Call(CallOutcome::NoBid)),
        ("hang", DspAct::Hang, SHORT, Call(Late)),
        ("trickle", drip(1, ms(1), DripFrom::Head), "", Call(Trickle)),
        ("trickle", drip(20, ms(1), DripFrom::Body), "", Call(Trickle)),
        ("trickle", drip(1, ms(1000), DripFrom::Body), SHORT, Call(Late)),
        ("trickle", drip(400, ms(1), DripFrom::Body), "", Bids),
        ("close", DspAct::Close { at: Cut::Before }, "", Call(Reset)),
        ("close", DspAct::Close { at: Cut::Head }, "", Call(Malformed)),
        ("close", DspAct::Close { at: Cut::Body }, "", Call(Malformed)),
        ("reset", DspAct::Reset { at: Cut::Before }, "", Call(Reset)),
        ("reset", DspAct::Reset { at: Cut::Body }, "", Call(Malformed)),
        ("garbage", DspAct::Garbage, "", Call(Malformed)),
        ("malformed", garbled(Garble::Empty), "", Call(CallOutcome::NoBid)),
        ("malformed", garbled(Garble::Html), "", no_response),
        ("malformed", garbled(Garble::Truncated), "", no_response),
        ("malformed", garbled(Garble::Trailing), "", no_response),
        ("malformed", garbled(Garble::Encoding), "", no_response),
        ("malformed", garbled(Garble::Types), "", no_response),
        ("malformed", garbled(Garble::Number), "", no_response),
        ("malformed", garbled(Garble::Escape), "", no_response),
        ("huge", BidFault::Huge { bytes: Some(64 << 20) }.into(), "", Call(TooLarge)),
        ("huge", BidFault::Huge { bytes: None }.into(), "", Call(TooLarge)),
        ("deep", BidFault::Deep { levels: 10_000 }.into(), "", no_response),
        ("wrong_id", BidFault::WrongId.into(), "", Of(Fate::WrongAuction)),
        ("wrong_imp", BidFault::WrongImp.into(), "", Of(Fate::UnknownImp)),
        (
            "wrong_currency",
            BidFault::WrongCurrency { code: "XTS".to_owned() }.into(),
            "",
            Of(Fate::CurrencyNotAccepted),
        ),
        ("late", DspAct::Late { by: ms(400) }, SHORT, Call(Late)),
        ("refused", DspAct::Refused, "", Call(Unreachable)),
        ("gzip", DspAct::Gzip { always: false }, GZIP, Bids),
        ("gzip", DspAct::Gzip { always: false }, PLAIN, Bids),
        ("gzip", DspAct::Gzip { always: true }, PLAIN, Call(Encoded)),
        ("gzip_bomb", DspAct::GzipBomb { inflated: 32 << 20 }, GZIP, Call(TooLarge)),
        ("gzip_bomb", DspAct::GzipBomb { inflated: 32 << 20 }, PLAIN, Call(Encoded)),
        ("bad_gzip", DspAct::BadGzip, GZIP, Call(Encoded)),
        ("chunked", DspAct::Chunked { bytes: 1 }, "", Bids),
        ("redirect", DspAct::Redirect { code: 302, to: None }, "", Call(Status)),
        ("redirect", elsewhere(), "", Call(Status)),
        ("interim", DspAct::Interim { code: 103, count: None }, "", Call(TooLarge)),
        ("interim", DspAct::Interim { code: 103, count: Some(5) }, "", Call(TooLarge)),
        ("interim", DspAct::Interim { code: 103, count: Some(4) }, "", Bids),
        ("closing", DspAct::Closing { announced: true }, "", Bids),
        ("closing", DspAct::Closing { announced: false }, "", Bids),
        // Over HTTP/1.1 it is well.
        ("http2", DspAct::Http2(Http2Fault::HpackBomb), "", Bids),
    ]
}

/// What a DSP can do wrong only over HTTP/2.
fn http2_table() -> Vec<(Http2Fault, Want)> {
    use Want::{Bids, Call};
    let flood = |frames| Http2Fault::Flood { frames, times: 5_000 };
    let code = |code: Http2ErrorCode| Http2Fault::Reset { code: code.0 };
    vec![
        // The first is repeated, and refused again.
        (code(Http2ErrorCode::REFUSED_STREAM), Call(CallOutcome::Reset)),
        (code(Http2ErrorCode::CANCEL), Call(CallOutcome::Reset)),
        (flood(FloodFrame::Settings), Call(CallOutcome::Malformed)),
        (flood(FloodFrame::Ping), Call(CallOutcome::Malformed)),
        (flood(FloodFrame::Continuation), Call(CallOutcome::Malformed)),
        (Http2Fault::HpackBomb, Call(CallOutcome::TooLarge)),
        (Http2Fault::WindowOverflow, Call(CallOutcome::Malformed)),
        (Http2Fault::UnknownStream, Call(CallOutcome::Malformed)),
        (Http2Fault::Endless { bytes: 10, every: ms(1) }, Call(CallOutcome::Trickle)),
        (Http2Fault::Endless { bytes: 1_000, every: ms(1) }, Call(CallOutcome::TooLarge)),
        (Http2Fault::ZeroWindow, Call(CallOutcome::Saturated)),
        (Http2Fault::Trailers, Bids),
        (Http2Fault::GoAway, Bids),
    ]
}

const HTTP2: &str = "http = \"2\"";

/// Healthy, faulty, healthy over HTTP/2. Calls that share a connection may also fail with it.
#[track_caller]
fn check_http2(act: &DspAct, keys: &str, want: Want) {
    let fleet = fleet(DspSchedule::default());
    let exchange = exchange(&fleet, &format!("breaker = false\n{HTTP2}\n{keys}"));
    auctions(&exchange);
    let bids = || exchange.responses(SICK, ResponseFate::Bids);
    assert_eq!(bids(), AUCTIONS, "{act:?}: well at first");
    fleet.set_behaviour(SICK, act.clone()).expect("a behaviour that makes sense");
    let seen = || match want {
        Want::Call(CallOutcome::Reset | CallOutcome::Malformed) => {
            exchange.outcomes(SICK, CallOutcome::Reset)
                + exchange.outcomes(SICK, CallOutcome::Malformed)
        }
        Want::Call(outcome) => exchange.outcomes(SICK, outcome),
        Want::Response(fate) => exchange.responses(SICK, fate),
        Want::Fate(fate) => exchange.fates(fate),
        Want::Bids => bids() - AUCTIONS,
    };
    auctions(&exchange);
    assert!(seen() > 0, "{act:?}: {want:?} did not come; {}", told(&exchange));
    fleet.set_behaviour(SICK, DspBehaviour::HEALTHY).expect("well again");
    recovers(&exchange);
    sound(&exchange);
    until("connections are few", || fleet.stats().dsps[SICK].connections_open <= 2);
}

#[test]
fn every_sickness_costs_its_own_dsp_alone_over_http2() {
    for (_, act, keys, want) in table() {
        let want = match act {
            DspAct::Http2(_) => continue, // Below.
            // A frame for each of its bytes.
            DspAct::Chunked { .. } => Want::Call(CallOutcome::Trickle),
            _ => want,
        };
        check_http2(&act, keys, want);
    }
}

#[test]
fn what_only_http2_can_express_costs_its_own_dsp_alone() {
    for (fault, want) in http2_table() {
        check_http2(&DspAct::Http2(fault), "", want);
    }
}

#[test]
fn every_sickness_is_named_here() {
    let known: BTreeSet<_> = ACTS.iter().map(|act| act.name).collect();
    let here: BTreeSet<_> = table().iter().map(|(name, ..)| *name).collect();
    assert_eq!(here, known);
}

#[test]
fn every_sickness_costs_its_own_dsp_alone() {
    for (_, act, keys, want) in table() {
        check(&act, keys, want);
    }
}

/// Faults may affect only a share of requests; the others count.
#[test]
fn one_that_is_sick_now_and_then_bids_in_between() {
    let fleet = fleet(DspSchedule::default());
    let exchange = exchange(&fleet, "breaker = false");
    let act = DspAct::Status { code: 500, body: String::new() };
    fleet.set_behaviour(SICK, DspBehaviour { act, share_ppm: 500_000 }).expect("half of them");
    for _ in 0..5 {
        auctions(&exchange);
    }
    let (bad, good) = (
        exchange.outcomes(SICK, CallOutcome::Status),
        exchange.outcomes(SICK, CallOutcome::Answered),
    );
    assert_eq!(bad + good, 5 * AUCTIONS);
    // 60 draws of one half: outside this range once in ten million times.
    assert!((9..=51).contains(&bad), "{bad}");
    assert_eq!(bad, fleet.stats().dsps[SICK].misbehaved);
    sound(&exchange);
}

/// By schedule, one fault after another: each shows, none lasts.
#[test]
fn it_falls_ill_and_recovers_by_schedule() {
    let well = DspBehaviour::HEALTHY;
    let steps = [
        (ms(300), well.clone()),
        (ms(300), DspAct::Status { code: 500, body: String::new() }.into()),
        (ms(300), DspAct::Reset { at: Cut::Before }.into()),
        (ms(300), DspAct::Refused.into()),
        (ms(300), DspAct::Garbage.into()),
        (ms(300), well),
    ];
    let fleet = fleet(DspSchedule { repeat: true, ..DspSchedule::steps(steps) });
    let exchange = exchange(&fleet, "breaker = false");
    let seen = |outcome| exchange.outcomes(SICK, outcome) > 0;
    let all =
        [CallOutcome::Answered, CallOutcome::Status, CallOutcome::Reset, CallOutcome::Unreachable];
    until("all of it was seen", || {
        auctions(&exchange);
        all.iter().all(|outcome| seen(*outcome)) && seen(CallOutcome::Malformed)
    });
    recovers(&exchange);
    sound(&exchange);
}
