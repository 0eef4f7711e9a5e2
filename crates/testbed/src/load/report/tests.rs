//! Objectives at their edges, and a report as a table and as JSON.

use std::collections::BTreeMap;
use std::time::Duration;

use super::*;
use crate::exchange::ExchangeOutcomes;

fn report() -> LoadReport<ExchangeOutcomes> {
    let calls = CallCounts::default();
    let q = Quantiles { p50: 900, p90: 2_000, p99: 5_000, p999: 8_000, max: 1_500_000 };
    let refused = StatusReport {
        count: 7,
        in_time: Some(5),
        in_time_of_send: Some(6),
        latency_us: Some(q),
        latency_of_send_us: Some(q),
    };
    LoadReport {
        mode: LoadMode::Open { rate_per_s: 100 },
        target: "http://127.0.0.1:1/openrtb2/auction".to_owned(),
        started_at_unix_s: 1_700_000_000,
        duration_s: 10.0,
        stopped: false,
        connections: 3,
        counts: LoadCounts {
            calls: CallCounts { sent: 990, unsent: 10, valid: 985, timeouts: 5, ..calls },
            outcomes: ExchangeOutcomes { ok_bid: 985, ..ExchangeOutcomes::default() },
        },
        answers_per_s: 98.5,
        latency_us: Some(q),
        overshoot_us: Some(Quantiles { p50: 0, p90: 0, p99: 0, p999: 1_000, max: 2_000 }),
        generator_busy_ppm: 120_000,
        statuses: BTreeMap::from([(503, refused)]),
        problems: vec!["cut".to_owned()],
    }
}

#[test]
fn objectives_hold_at_their_edges() {
    let check = |objectives: Objectives, want: &[&str]| {
        assert_eq!(report().violations(&objectives), want);
    };
    let ms = |ms| Some(Duration::from_millis(ms));
    let none = Objectives::default();
    check(none, &[]);
    check(Objectives { p99_max: ms(5), p999_max: ms(8), ..none }, &[]);
    check(Objectives { p99_max: ms(4), ..none }, &["latency p99 is 5.000 ms, objective 4ms"]);
    check(Objectives { p999_max: ms(7), ..none }, &["latency p99.9 is 8.000 ms, objective 7ms"]);
    check(Objectives { overshoot_p999_max: ms(1), ..none }, &[]);
    check(
        Objectives { overshoot_p999_max: ms(0), ..none },
        &["overshoot p99.9 is 1.000 ms, objective 0ns"],
    );
    check(Objectives { error_rate_max_ppm: Some(15_000), ..none }, &[]);
    check(
        Objectives { error_rate_max_ppm: Some(14_999), ..none },
        &["error rate is 15000 ppm, objective 14999 ppm"],
    );
    check(Objectives { rate_min: Some(98), ..none }, &[]);
    check(Objectives { rate_min: Some(99), ..none }, &["rate is 98.5 answers/s, objective 99"]);
    let silent = LoadReport { latency_us: None, ..report() };
    assert_eq!(silent.violations(&Objectives { p99_max: ms(9), ..none }).len(), 1);
}

#[test]
fn a_report_reads_as_a_table_and_as_json() {
    let text = report().to_string();
    for part in [
        "open loop, 100/s",
        "990 (10 could not",
        "503: 7; p50 900 µs, p99 5.000 ms",
        "max 1.500 s",
        "12 %",
        "cut",
    ] {
        assert!(text.contains(part), "{part} in:\n{text}");
    }
    let json = serde_json::to_value(report()).expect("JSON");
    assert_eq!(json["mode"], serde_json::json!({"open": {"rate_per_s": 100}}));
    assert_eq!(json["latency_us"]["p999"], 8_000);
    let keys: Vec<_> = json["counts"].as_object().expect("an object").keys().collect();
    let want = [
        "abandoned",
        "after_tmax",
        "answer_bytes",
        "bad_answers",
        "beacons",
        "beacons_failed",
        "bids",
        "broken",
        "client_errors",
        "connect_errors",
        "in_time",
        "in_time_of_send",
        "nbr",
        "no_bid",
        "ok_bid",
        "price_micros",
        "request_bytes",
        "sent",
        "server_errors",
        "timeouts",
        "unsent",
    ];
    assert_eq!(keys, want);
    assert_eq!(json["counts"]["unsent"], 10);
    assert_eq!(json["statuses"]["503"]["in_time_of_send"], 6);
    assert_eq!(json["statuses"]["503"]["latency_us"]["p99"], 5_000);
}
