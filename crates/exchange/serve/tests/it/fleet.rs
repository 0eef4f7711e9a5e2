//! Simulated DSPs and realistic traffic: every call ends in exactly one way, and both sides count the
//! same money, over both versions of HTTP.

use std::time::Duration;

use exchange_core::Fate;
use exchange_core::record::CallOutcome;
use testbed::dsp::{self, DspProfile, Fleet, LatencySpread, NoticeStats};
use testbed::server::ServerOptions;
use testbed::traffic::{Traffic, TrafficOptions};
use units::{Cpm, Rounding};

use crate::fixtures::{Running, Setup, banner, posted, until};
use crate::notices::{LOOPBACK, RecordDir, beacons};

const DSPS: usize = 8;
const CALLERS: usize = 4;
const ROUNDS: usize = 60;

/// [`DSPS`] DSPs like this one, each with a seed and a seat of its own.
fn fleet(profile: &DspProfile) -> Fleet {
    let dsp = |seed| DspProfile { seed, seats: vec![format!("d{seed}")], ..profile.clone() };
    let dsps = (0..DSPS as u64).map(dsp).collect();
    dsp::start(dsps, &ServerOptions::default()).expect("a fleet")
}

#[test]
fn every_call_has_one_outcome() {
    check_outcomes("1.1");
}

#[test]
fn every_call_has_one_outcome_over_http2() {
    check_outcomes("2");
}

/// All DSPs are called over this version of HTTP.
fn check_outcomes(http: &str) {
    let fleet = fleet(&DspProfile {
        late_ppm: 100_000,
        late_by: Duration::from_millis(60),
        chunked_ppm: 300_000,
        ..DspProfile::default()
    });
    let keys = format!("http = {http:?}");
    let addresses: Vec<_> = fleet.addresses().iter().map(|it| (*it, keys.as_str())).collect();
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
        // On a busy machine, a call's time may be up before it has a connection.
        let harmless = matches!(
            outcome,
            CallOutcome::Answered | CallOutcome::NoBid | CallOutcome::Late | CallOutcome::Unsent
        );
        assert!(harmless || over_all(outcome) == 0, "{outcome:?}");
    }
    assert!(over_all(CallOutcome::Late) > 0, "some were late");
    let in_time = over_all(CallOutcome::Answered) + over_all(CallOutcome::NoBid);
    let drained = || (0..DSPS).map(|dsp| exchange.drained(dsp)).sum::<u64>();
    let asked = || fleet.stats().total().requests;
    if http == "1.1" {
        until("all late answers are drained", || in_time + drained() == asked());
    }
    // Over HTTP/2, late streams are reset. A call may be late before it had a connection.
    let ends = in_time + drained()..=in_time + over_all(CallOutcome::Late);
    assert!(ends.contains(&asked()), "{ends:?} ends of {} calls", asked());
    assert_eq!(exchange.fates(Fate::WrongAuction), 0);
    assert!(exchange.count(|metrics| metrics.filled.value()) > 0, "some were filled");
    drop(exchange);
    fleet.stop().expect("it stops");
}

/// Callers at a time, and auctions of each.
const BUYERS: usize = 8;
const AUCTIONS: usize = 15;

#[test]
fn dsps_are_billed_what_was_sold() {
    check_bills("1.1");
}

#[test]
fn dsps_are_billed_what_was_sold_over_http2() {
    check_bills("2");
}

/// Each auction is sold, and its beacon called. All DSPs are called over this version of HTTP.
fn check_bills(http: &str) {
    let ms = Duration::from_millis;
    let latency = LatencySpread { min: Duration::ZERO, median: ms(2), p99: ms(15) };
    let profile = DspProfile { no_bid_ppm: 0, latency, notices: true, ..DspProfile::default() };
    let fleet = fleet(&profile);
    let keys = format!("http = {http:?}");
    let addresses: Vec<_> = fleet.addresses().iter().map(|it| (*it, keys.as_str())).collect();
    let record_dir = RecordDir::new();
    let exchange = record_dir.start(LOOPBACK, &addresses, "");
    let sold = std::thread::scope(|scope| {
        let callers: Vec<_> = (0..BUYERS).map(|_| scope.spawn(|| buy(&exchange))).collect();
        let sold = callers.into_iter().map(|caller| caller.join().expect("all is sold"));
        sold.collect::<Vec<_>>().concat()
    });
    assert_eq!(sold.len(), BUYERS * AUCTIONS);
    assert_eq!(exchange.fates(Fate::Won), sold.len() as u64);
    for dsp in 0..DSPS {
        let of_dsp = sold.iter().filter(|sale| sale.seat == format!("d{dsp}"));
        let (count, micros) =
            of_dsp.fold((0, 0), |(count, micros), sale| (count + 1, micros + sale.micros));
        let want = NoticeStats {
            calls: count,
            counted: count,
            price_micros: micros,
            ..NoticeStats::default()
        };
        let told = || [fleet.stats().dsps[dsp].win, fleet.stats().dsps[dsp].bill];
        until("its notices have come", || told().iter().all(|told| told.calls >= count));
        assert_eq!(told(), [want; 2], "DSP {dsp}");
        let calls = exchange.outcomes(dsp, CallOutcome::Answered);
        assert_eq!((calls, fleet.stats().dsps[dsp].requests), (sold.len() as u64, calls));
    }
    let lost = exchange.fates(Fate::LostToHigherBid);
    until("the losers are told", || fleet.stats().total().loss.counted == lost);
    if http == "2" {
        assert_eq!(fleet.stats().total().malformed, 0);
        let opened = (0..DSPS).map(|dsp| exchange.count_dsp(dsp, |dsp| dsp.opened.value()));
        assert_eq!(opened.sum::<u64>(), DSPS as u64, "one connection each");
    }
}

/// What a caller got.
#[derive(Clone, Debug)]
struct Sale {
    seat: String,
    micros: u64,
}

/// Runs [`AUCTIONS`] auctions in a row, and calls the beacon of each.
fn buy(exchange: &Running) -> Vec<Sale> {
    let mut caller = exchange.caller();
    let mut buy = |_| {
        let reply = caller.post(&banner(""));
        let [beacon] = &beacons(exchange, &reply.body)[..] else { panic!("one beacon: {reply:?}") };
        assert_eq!(caller.get(beacon, "").status, 200);
        let price = Cpm::parse(&reply.price(), Rounding::Up).expect("a price");
        let seat = reply.json()["seatbid"][0]["seat"].as_str().expect("a seat").to_owned();
        Sale { seat, micros: price.micros() }
    };
    (0..AUCTIONS).map(&mut buy).collect()
}
