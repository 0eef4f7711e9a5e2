//! A beacon's call: acknowledged once durable, sent until answered, remembered.

use std::time::Duration;

use super::fixtures::*;
use crate::delivery::*;
use openrtb::NoticeKind;

#[test]
fn nothing_happens_before_the_record_is_durable() {
    let mut bench = Bench::new(policy());
    let mut outbox = Vec::new();
    let beacon = bench.beacon_event(1, notice("a", "x"));
    let again = bench.beacon_event(1, notice("a", "x"));
    bench.delivery.step(bench.now(), &mut vec![beacon, again], &mut outbox);
    let [Effect::Journal { ticket, .. }] = outbox[..] else { panic!("{outbox:?}") };
    outbox.clear();
    let committed = Event::JournalCommitted(vec![(ticket, 1)]);
    bench.delivery.step(bench.now(), &mut vec![committed], &mut outbox);
    let [
        Effect::Acknowledge { call: 1, duplicate: false },
        Effect::Acknowledge { call: 2, duplicate: true },
        Effect::Send { kind: NoticeKind::Billing, .. },
    ] = outbox[..]
    else {
        panic!("{outbox:?}")
    };
}

#[test]
fn a_journal_that_fails_refuses_and_forgets() {
    let mut bench = Bench::new(policy());
    bench.journal_works = false;
    let events = [1, 1, 2].map(|number| bench.beacon_event(number, notice("a", "x"))).to_vec();
    let refused = |call| Saw::Refused(call, BeaconRefusal::Journal);
    assert_eq!(bench.step(events), [refused(1), refused(2), refused(3)]);
    let counters = bench.delivery.counters();
    assert_eq!((counters.billing_owed, counters.remembered), (0, 0));
    bench.journal_works = true;
    assert_eq!(bench.beacon(1, notice("a", "x")), [Saw::Acknowledged(4), sent("a", "x")]);
}

#[test]
fn a_token_is_acknowledged_for_ever_and_sent_once() {
    let mut bench = Bench::new(policy());
    assert_eq!(bench.beacon(1, notice("a", "x")), [Saw::Acknowledged(1), sent("a", "x")]);
    assert_eq!(bench.beacon(1, notice("a", "x")), [Saw::Duplicate(2)]);
    assert_eq!(bench.answer(SendOutcome::Status(204)), []);
    assert_eq!(bench.beacon(1, notice("a", "y")), [Saw::Duplicate(3)]);
    bench.restart();
    assert_eq!(bench.step(Vec::new()), []);
    assert_eq!(bench.beacon(1, notice("a", "x")), [Saw::Duplicate(4)]);
    assert_eq!(bench.delivery.counters().remembered, 1);
    bench.wake();
    assert_eq!(bench.elapsed, Duration::from_secs(3600));
    assert_eq!(bench.delivery.counters().remembered, 0);
    assert_eq!(bench.beacon(1, notice("a", "x")), [Saw::Refused(5, BeaconRefusal::Expired)]);
    assert_eq!(bench.delivery.safe_before(), 3);
}

#[test]
fn a_clock_set_forward_and_back_makes_no_token_good_again() {
    let mut bench = Bench::new(policy());
    bench.beacon(1, notice("a", "x"));
    bench.answer(SendOutcome::Status(200));
    let forward = DeliveryTime { unix_ms: START_MS + 100_000_000, ..bench.now() };
    bench.delivery.step(forward, &mut Vec::new(), &mut Vec::new());
    assert_eq!(bench.beacon(1, notice("a", "x")), [Saw::Duplicate(2)]);
    // A clock that lags behind the other delays forgetting.
    bench.elapsed = Duration::from_secs(3600);
    let behind = DeliveryTime { unix_ms: START_MS, ..bench.now() };
    bench.delivery.step(behind, &mut Vec::new(), &mut Vec::new());
    assert_eq!(bench.delivery.counters().remembered, 1);
}

#[test]
fn pauses_are_the_standards_and_then_grow() {
    let mut bench = Bench::new(DeliveryPolicy { failures_to_probe: u32::MAX, ..policy() });
    bench.beacon(1, notice("a", "x"));
    let mut pauses = Vec::new();
    let mut tries = 0;
    loop {
        let before = bench.elapsed;
        assert_eq!(bench.answer(SendOutcome::Status(500)), []);
        tries += 1;
        let saw = bench.wake();
        if saw == [Saw::GivenUp(id(1), tries, GiveUpReason::Horizon)] {
            break;
        }
        assert_eq!(saw, [sent("a", "x")]);
        pauses.push((bench.elapsed - before).as_secs());
    }
    assert_eq!(pauses[..10], [10, 10, 10, 10, 10, 10, 20, 40, 80, 120]);
    assert_eq!(bench.elapsed, Duration::from_secs(3600));
    assert_eq!(bench.delivery.counters().billing_given_up, 1);
    // Given-up notices are remembered like delivered ones.
    bench.restart();
    assert_eq!(bench.step(Vec::new()), []);
}

#[test]
fn outcomes() {
    #[track_caller]
    fn check(outcome: SendOutcome, delivered: bool, saw: &[Saw]) {
        let mut bench = Bench::new(policy());
        bench.beacon(1, notice("a", "x"));
        assert_eq!(bench.answer(outcome), saw, "{outcome:?}");
        let counters = bench.delivery.counters();
        assert_eq!(counters.billing_delivered == 1, delivered, "{outcome:?}");
        let owed = usize::from(!delivered && saw.is_empty());
        assert_eq!(counters.billing_owed, owed, "{outcome:?}");
    }
    check(SendOutcome::Status(200), true, &[]);
    check(SendOutcome::Status(204), true, &[]);
    check(SendOutcome::Status(201), false, &[]);
    check(SendOutcome::Status(302), false, &[]);
    check(SendOutcome::Status(404), false, &[]);
    check(SendOutcome::Status(503), false, &[]);
    check(SendOutcome::Failed, false, &[]);
    check(SendOutcome::Forbidden, false, &[Saw::GivenUp(id(1), 1, GiveUpReason::Forbidden)]);
}

#[test]
fn a_call_that_is_never_accounted_for_has_failed() {
    let mut bench = Bench::new(policy());
    bench.beacon(1, notice("a", "x"));
    let (_, late) = bench.flying.remove(0);
    assert_eq!(bench.wake(), []);
    assert_eq!(bench.elapsed, policy().answer_timeout);
    assert_eq!(bench.delivery.counters().tries_failed, 1);
    assert_eq!(bench.wake(), [sent("a", "x")]);
    // Its late answer is ignored.
    let event = Event::Sent { attempt: late, outcome: SendOutcome::Status(200) };
    assert_eq!(bench.step(vec![event]), []);
    assert_eq!(bench.delivery.counters().billing_delivered, 0);
}

#[test]
fn what_is_owed_survives_a_restart_as_it_was() {
    let mut bench = Bench::new(policy());
    let url = "https://a.example/?t=1700000000007";
    let forwarded = ForwardedDevice::new(Some("192.0.2.1"), Some("Browser/1"));
    let owed = Notice::new("a".into(), url.into(), forwarded.clone()).unwrap();
    bench.elapsed = Duration::from_millis(7);
    assert_eq!(bench.beacon(1, owed), [Saw::Acknowledged(1), Saw::Sent(url.into())]);
    bench.answer(SendOutcome::Failed);
    bench.elapsed = Duration::from_secs(30);
    bench.restart();
    let mut outbox = Vec::new();
    bench.delivery.step(bench.now(), &mut Vec::new(), &mut outbox);
    let [Effect::Send { notice, .. }] = &outbox[..] else { panic!("{outbox:?}") };
    assert_eq!((notice.url(), notice.forwarded()), (url, &forwarded));
    let headers = [("x-forwarded-for", "192.0.2.1"), ("x-device-user-agent", "Browser/1")];
    assert!(notice.forwarded().headers().eq(headers));
}

/// Down for longer than the horizon: the standard's minute still applies.
#[test]
fn a_long_outage_of_ours_costs_no_notice() {
    let mut bench = Bench::new(policy());
    bench.beacon(1, notice("a", "x"));
    bench.elapsed = Duration::from_secs(10_000);
    bench.restart();
    assert_eq!(bench.step(Vec::new()), [sent("a", "x")]);
    bench.flying.drain(..);
    let mut tries = 1;
    let given_up = loop {
        let saw = bench.wake();
        match saw.as_slice() {
            [] => (),
            [Saw::Sent(_)] => tries += 1,
            [Saw::GivenUp(..)] => break bench.elapsed,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!((tries, given_up), (3, Duration::from_secs(10_060)));
}

#[test]
fn a_delivery_that_could_not_be_recorded_is_recorded_later() {
    let mut bench = Bench::new(policy());
    bench.beacon(1, notice("a", "x"));
    bench.journal_works = false;
    assert_eq!(bench.answer(SendOutcome::Status(200)), []);
    assert_eq!(bench.delivery.safe_before(), 1, "until then the first record is needed");
    bench.journal_works = true;
    bench.wake();
    assert_eq!((bench.journal.len(), bench.delivery.safe_before()), (2, 2));
    bench.restart();
    assert_eq!(bench.step(Vec::new()), []);
}

#[test]
fn notices_that_could_not_be_called_are_none() {
    #[track_caller]
    fn check(dsp: &str, url: &str, want: Option<NoticeError>) {
        let got = Notice::new(dsp.into(), url.to_owned(), ForwardedDevice::default());
        assert_eq!(got.err(), want, "{url}");
    }
    let fill = |length: usize| format!("https://a/{}", "x".repeat(length - 10));
    check("a", "https://a.example/", None);
    check("a", "HTTP://a.example/ü", None);
    check("a", &fill(URL_BYTES_MAX), None);
    check("", "https://a.example/", Some(NoticeError::Dsp));
    check(&"d".repeat(DSP_BYTES_MAX + 1), "https://a.example/", Some(NoticeError::Dsp));
    check("a", &fill(URL_BYTES_MAX + 1), Some(NoticeError::Length));
    check("a", "", Some(NoticeError::Scheme));
    check("a", "file:///etc/passwd", Some(NoticeError::Scheme));
    check("a", "https://a.example/ HTTP/1.1", Some(NoticeError::Character));
    check("a", "https://a.example/\r\nx: y", Some(NoticeError::Character));
    check("a", "https://a.example/\u{7f}", Some(NoticeError::Character));
    let forwarded = |ip, user_agent| {
        let forwarded = ForwardedDevice::new(Some(ip), Some(user_agent));
        (forwarded.ip().is_some(), forwarded.user_agent().is_some())
    };
    assert_eq!(forwarded("::1", "A b"), (true, true));
    assert_eq!(forwarded("", "a\r\nb: c"), (false, false));
    assert_eq!(forwarded("1\t", &"u".repeat(HEADER_BYTES_MAX + 1)), (false, false));
}
