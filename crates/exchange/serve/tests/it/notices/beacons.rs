//! Foreign, incomplete, expired and overlong beacons: they get the same response, are counted, and
//! have no effect.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::json;

use super::{RecordDir, beacons, bid_at, dsp};
use crate::fixtures::{Caller, Dsp, Host, Reply, Running, banner, until};

/// An exchange, and a DSP with notices that always wins.
struct One {
    exchange: Running,
    host: Host,
    _dsp: Dsp,
    _record_dir: RecordDir,
}

impl One {
    fn start(keys: &str) -> Self {
        let host = Host::start();
        let dsp = dsp(&[bid_at(&host, "a", json!({}))]);
        let record_dir = RecordDir::new();
        let exchange = record_dir.start_with(keys, &[&dsp]);
        Self { exchange, host, _dsp: dsp, _record_dir: record_dir }
    }

    fn beacon(&self) -> String {
        let reply = self.exchange.auction(&banner(""));
        let mut found = beacons(&self.exchange, &reply.body);
        found.pop().expect("a beacon")
    }

    fn refused(&self, reason: &str) -> u64 {
        let metric = format!("exchange_beacons_total{{outcome=\"{reason}\"}}");
        self.exchange.scraped(&metric).parse().expect("a number")
    }
}

/// Everything that a caller sees, except for the date.
fn seen(reply: &Reply) -> (u16, Vec<String>, String) {
    let lines = reply.head.lines().filter(|line| !line.to_ascii_lowercase().starts_with("date:"));
    (reply.status, lines.map(str::to_owned).collect(), reply.body.clone())
}

/// Changes one digit.
fn altered(beacon: &str, at: usize) -> String {
    let digit = &beacon[at..=at];
    let other = if digit == "A" { "B" } else { "A" };
    [&beacon[..at], other, &beacon[at + 1..]].concat()
}

#[test]
fn nothing_tells_a_forgery_from_what_never_was() {
    let one = One::start("");
    let elsewhere = One::start("");
    let beacon = one.beacon();
    let mut caller = one.exchange.caller();
    let unknown = seen(&caller.get("/n/", ""));
    assert_eq!((unknown.0, unknown.2.as_str()), (404, ""));
    let token = "/n/".len();
    let forged = [beacon.len() - 2, beacon.len() / 2, token + 60].map(|at| altered(&beacon, at));
    let of = |outcome: &'static str, targets: Vec<String>| (outcome, targets);
    for (outcome, targets) in [
        of("forged", forged.into()),
        of("unknown_key", vec![elsewhere.beacon(), altered(&beacon, token + 3)]),
        of(
            "malformed",
            vec![
                "/n/x".to_owned(),
                "/n/%2e%2e/n/".to_owned(),
                format!("/n/{}", "A".repeat(8000)),
                beacon[..token + 40].to_owned(),
                format!("{beacon}/"),
                format!("{beacon}="),
                format!("/n{beacon}"),
                altered(&beacon, token),
            ],
        ),
    ] {
        let before = one.refused(outcome);
        for target in &targets {
            assert_eq!(seen(&caller.get(target, "")), unknown, "{outcome}: {target}");
        }
        assert_eq!(one.refused(outcome) - before, targets.len() as u64, "{outcome}");
    }
    // Cut at any length, it reveals nothing.
    for end in (token..beacon.len()).step_by(17) {
        assert_eq!(seen(&caller.get(&beacon[..end], "")), unknown, "{end}");
    }
    assert!(one.host.calls("/a/bill").is_empty());
    // The original still counts.
    assert_eq!(caller.get(&beacon, "").status, 200);
    drop(one.host.call("/a/bill"));
    assert_eq!(one.host.calls("/a/bill").len(), 1);
}

#[test]
fn what_has_expired_is_as_good_as_forged() {
    let one = One::start("[exchange.notices.lifetimes]\nweb = \"1s\"");
    let beacon = one.beacon();
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs();
    let made = now();
    until("its second is over", || now() > made + 2);
    let mut caller = one.exchange.caller();
    assert_eq!(seen(&caller.get(&beacon, "")), seen(&caller.get("/n/x", "")));
    assert_eq!(one.refused("expired"), 1);
    let counters = one.exchange.notices().counters;
    assert_eq!((counters.beacons_accepted, counters.billing_owed), (0, 0));
}

/// Longer than any head: only the connection ends.
#[test]
fn a_token_beyond_all_limits_is_not_read() {
    let one = One::start("");
    let mut caller = one.exchange.caller();
    caller.send(format!("GET /n/{} HTTP/1.1\r\nhost: x\r\n\r\n", "A".repeat(70_000)).as_bytes());
    let reply = caller.try_reply();
    assert!(!matches!(&reply, Ok(Some(reply)) if reply.status < 400), "{reply:?}");
    assert_eq!(one.exchange.caller().get(&one.beacon(), "").status, 200);
}

/// Crawlers and preloaders use other methods: no ad is shown, none is billed.
#[test]
fn only_a_get_counts() {
    let one = One::start("");
    let beacon = one.beacon();
    for method in ["HEAD", "POST", "PUT", "OPTIONS"] {
        let answer = |target: &str| {
            let mut caller = Caller::connect(one.exchange.address);
            let head = "host: x\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
            caller.send(format!("{method} {target} HTTP/1.1\r\n{head}").as_bytes());
            let rest = caller.rest();
            let lines = rest.lines().filter(|line| !line.to_ascii_lowercase().starts_with("date:"));
            lines.map(str::to_owned).collect::<Vec<_>>()
        };
        let (ours, unknown) = (answer(&beacon), answer("/n/x"));
        assert_eq!(ours, unknown, "{method}");
        assert!(ours[0].starts_with("HTTP/1.1 40"), "{method}: {ours:?}");
    }
    let counters = || one.exchange.notices().counters;
    assert_eq!(counters().beacons_accepted, 0);
    // Any query is accepted: it is not part of the token.
    assert_eq!(one.exchange.caller().get(&format!("{beacon}?cachebuster=1"), "").status, 200);
    until("it is billed", || counters().billing_delivered == 1);
    assert!(!one.host.call("/a/bill").head.contains("cachebuster"));
}

/// The old key opens its beacons as long as it is configured.
#[test]
fn keys_are_renewed_without_losing_a_beacon() {
    let digits = |digit: &str| digit.repeat(64);
    let host = Host::start();
    let dsp = dsp(&[bid_at(&host, "a", json!({}))]);
    let record_dir = RecordDir::new();
    let start = |keys: String| record_dir.start_with(&keys, &[&dsp]);
    let first = start(format!("key = \"{}\"", digits("1")));
    let reply = first.auction(&banner(""));
    let beacon = beacons(&first, &reply.body).pop().expect("a beacon");
    drop(first);
    let second = start(format!("key = \"{}\"", digits("2")));
    assert_eq!(second.caller().get(&beacon, "").status, 404, "an unknown key");
    drop(second);
    let third = start(format!("key = \"{}\"\nkey_previous = \"{}\"", digits("2"), digits("1")));
    assert_eq!(third.caller().get(&beacon, "").status, 200);
    drop(host.call("/a/bill"));
}
