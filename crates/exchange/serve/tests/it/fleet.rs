//! Simulated DSPs and realistic traffic: every call ends in exactly one way.

use std::time::Duration;

use exchange_core::record::CallOutcome;
use testbed::dsp::{self, DspProfile};
use testbed::server::ServerOptions;
use testbed::traffic::{Traffic, TrafficOptions};

use crate::fixtures::{Running, Setup, posted, until};

const DSPS: usize = 8;
const CALLERS: usize = 4;
const ROUNDS: usize = 60;

#[test]
fn every_call_has_one_outcome() {
    let profile = |seed| DspProfile {
        seed,
        late_ppm: 100_000,
        late_by: Duration::from_millis(60),
        chunked_ppm: 300_000,
        seats: vec![format!("d{seed}")],
        ..DspProfile::default()
    };
    let dsps = (0..DSPS as u64).map(profile).collect();
    let fleet = dsp::start(dsps, &ServerOptions::default()).expect("a fleet");
    let addresses: Vec<_> = fleet.addresses().iter().map(|address| (*address, "")).collect();
    let rest = "[currency]\nrates = { EUR = \"1.08\", GBP = \"1.27\", JPY = \"0.0064\" }";
    let exchange_keys = "tmax_max = \"40ms\"\n";
    let setup = Setup { exchange: exchange_keys, dsps: &addresses, rest, ..Setup::default() };
    let exchange = Running::start(&setup);
    let mut traffic = Traffic::generated(&TrafficOptions::default()).expect("traffic");
    let mut callers: Vec<_> = (0..CALLERS).map(|_| exchange.caller()).collect();
    let (mut answered, mut body) = (0, Vec::new());
    for _ in 0..ROUNDS {
        for caller in &mut callers {
            body.clear();
            traffic.next(&mut body);
            caller.send(&posted(std::str::from_utf8(&body).expect("JSON is UTF-8")));
        }
        for caller in &mut callers {
            let reply = caller.reply();
            assert!([200, 204].contains(&reply.status), "{reply:?}");
            answered += 1;
        }
    }
    assert_eq!(answered, CALLERS * ROUNDS);
    let over_all = |outcome| (0..DSPS).map(|dsp| exchange.outcomes(dsp, outcome)).sum::<u64>();
    for outcome in CallOutcome::ALL {
        let harmless =
            matches!(outcome, CallOutcome::Answered | CallOutcome::NoBid | CallOutcome::Late);
        assert!(harmless || over_all(outcome) == 0, "{outcome:?}");
    }
    assert!(over_all(CallOutcome::Late) > 0, "some were late");
    // Every call is answered in time, or drained in the end.
    let in_time = over_all(CallOutcome::Answered) + over_all(CallOutcome::NoBid);
    let drained = || (0..DSPS).map(|dsp| exchange.drained(dsp)).sum::<u64>();
    until("all late answers are drained", || in_time + drained() == fleet.stats().total().requests);
    // A call may be late before it had a connection.
    assert!(drained() <= over_all(CallOutcome::Late), "nothing is counted twice");
    assert_eq!(exchange.fates(exchange_core::Fate::WrongAuction), 0);
    assert!(exchange.count(|metrics| metrics.filled.value()) > 0, "some were filled");
    drop(exchange);
    fleet.stop().expect("it stops");
}
