//! Healthy, sick, healthy: by schedule, and on command.

use std::io;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use testbed::dsp::{self, DspAct, DspBehaviour, DspPhase, DspProfile, DspSchedule, Fleet};
use testbed::server::ServerOptions;

use super::fixture::{answer, ask, assert_bid, bidding, connect, fleet_of, sick};

fn status(code: u16) -> DspBehaviour {
    DspAct::Status { code, body: String::new() }.into()
}

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// The distinct consecutive statuses, up to `wanted`.
fn changes(fleet: &Fleet, wanted: usize) -> Vec<u16> {
    let (started, mut stream) = (Instant::now(), connect(fleet));
    let mut seen = Vec::new();
    while seen.len() < wanted {
        assert!(started.elapsed() < Duration::from_secs(20), "{seen:?}");
        ask(&mut stream, "req-1");
        let (status, _) = answer(&mut stream);
        if seen.last() != Some(&status) {
            seen.push(status);
        }
    }
    seen
}

#[test]
fn phases_follow_each_other_by_themselves() {
    // Long enough that a delayed test thread does not miss the first.
    let steps = [(ms(1_500), status(501)), (ms(1), DspBehaviour::HEALTHY)];
    let fleet = fleet_of(DspProfile { schedule: DspSchedule::steps(steps), ..bidding() });
    assert_eq!(changes(&fleet, 2), [501, 200]);
}

#[test]
fn a_schedule_repeats() {
    let steps = [(ms(100), status(501)), (ms(100), status(502))];
    let schedule = DspSchedule { repeat: true, ..DspSchedule::steps(steps) };
    let fleet = fleet_of(DspProfile { schedule, ..bidding() });
    let seen = changes(&fleet, 4);
    assert!(seen == [501, 502, 501, 502] || seen == [502, 501, 502, 501], "{seen:?}");
}

#[test]
fn a_port_that_refuses_by_schedule_comes_back_by_itself() {
    let refused = DspPhase { lasts: Some(ms(1_500)), behaviour: DspAct::Refused.into() };
    let well = DspPhase { lasts: None, behaviour: DspBehaviour::HEALTHY };
    let schedule = DspSchedule { phases: vec![refused, well], repeat: false };
    let fleet = fleet_of(DspProfile { schedule, ..bidding() });
    let error = TcpStream::connect(fleet.addresses()[0]).expect_err("refused from the start");
    assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
    let started = Instant::now();
    let mut stream = loop {
        match TcpStream::connect(fleet.addresses()[0]) {
            Ok(stream) => break stream,
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused),
        }
        assert!(started.elapsed() < Duration::from_secs(20), "it stays closed");
    };
    ask(&mut stream, "req-1");
    assert_bid(answer(&mut stream), "req-1");
}

#[test]
fn a_command_holds_when_it_returns_and_ends_the_schedule() {
    let steps = [(ms(1), status(501)), (ms(1), status(502))];
    let schedule = DspSchedule { repeat: true, ..DspSchedule::steps(steps) };
    let fleet = fleet_of(DspProfile { schedule, ..bidding() });
    let mut stream = connect(&fleet);
    for code in [503, 504, 505] {
        fleet.set_behaviour(0, status(code)).expect("set");
        for _ in 0..50 {
            ask(&mut stream, "req-1");
            assert_eq!(answer(&mut stream).0, code);
        }
    }
    fleet.set_behaviour(0, DspBehaviour::HEALTHY).expect("set");
    ask(&mut stream, "req-1");
    assert_bid(answer(&mut stream), "req-1");
}

#[test]
fn a_command_is_for_one_dsp_of_any_thread() {
    let options = ServerOptions { threads: 2, ..ServerOptions::default() };
    let fleet = dsp::start(vec![bidding(); 5], &options).expect("a fleet");
    fleet.set_behaviour(3, status(503)).expect("set");
    for (index, address) in fleet.addresses().iter().enumerate() {
        let mut stream = TcpStream::connect(address).expect("it listens");
        ask(&mut stream, "req-1");
        assert_eq!(answer(&mut stream).0, if index == 3 { 503 } else { 200 });
    }
}

#[test]
fn senseless_commands_and_schedules_are_refused() {
    let fleet = sick(DspBehaviour::HEALTHY);
    let error = fleet.set_behaviour(1, DspAct::Hang).expect_err("one DSP").to_string();
    assert!(error.contains("there is no server 1 among 1"), "{error}");
    let error = fleet.set_behaviour(0, status(42)).expect_err("no status").to_string();
    assert!(error.contains("200 to 599"), "{error}");
    let mut stream = connect(&fleet);
    ask(&mut stream, "req-1");
    assert_bid(answer(&mut stream), "req-1");
    let schedule = DspSchedule::always(status(42));
    let dsps = vec![DspProfile { schedule, ..bidding() }];
    let error = dsp::start(dsps, &ServerOptions::default()).expect_err("no status");
    assert!(error.to_string().contains("dsp 0"), "{error}");
}
