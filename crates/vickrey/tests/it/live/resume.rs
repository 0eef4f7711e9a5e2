//! Clients that disconnect and resume: from the ring, from the log, after the server was killed. Each
//! message once, and none missing.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;
use units::SplitMix64;

use super::fixtures::{Client, Closed, Floor, TABLES, position};
use crate::program::{check, until, vickrey};

/// Reads until `last`, leaving and resuming at random. Returns the bodies.
fn read_with_interruptions(address: &str, seed: u64, last: u64) -> Vec<u64> {
    let (mut draws, mut read, mut after) = (SplitMix64::new(seed), Vec::new(), None);
    while read.last() != Some(&last) {
        let mut client = Client::connect(address, "");
        let more = after.as_ref().map_or(
            json!({ "after": { "epoch": 0, "sequence": 0 } }),
            |after| json!({ "after": after }),
        );
        client.subscribe("news", &more);
        for _ in 0..draws.bits() % 200 {
            let message = match client.heard() {
                Ok(message) => message,
                // It was too slow, and is told so.
                Err(Closed { code, reason }) => {
                    assert_eq!(code, Some(4_000), "{reason}");
                    break;
                }
            };
            match message["type"].as_str() {
                Some("message") => {
                    read.push(message["data"]["body"].as_u64().unwrap());
                    after = Some(position(&message));
                    if read.last() == Some(&last) {
                        break;
                    }
                }
                // What was covered need not be read again.
                Some("heartbeat") => after = Some(message["covered"].clone()),
                _ => panic!("{message}"),
            }
        }
    }
    read
}

#[test]
fn random_disconnections_lose_and_repeat_nothing() {
    const LAST: u64 = 3_000;
    // So small that much comes from the log.
    let ring = "[live.ring]\nbytes = \"64KiB\"\nage = \"2s\"\n";
    let floor = Floor::with(&format!("{TABLES}{ring}"));
    let address = floor.address();
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..6)
            .map(|seed| {
                let address = &address;
                scope.spawn(move || read_with_interruptions(address, seed, LAST))
            })
            .collect();
        let mut publisher = floor.client();
        let mut draws = SplitMix64::new(99);
        for body in 0..=LAST {
            publisher.publish("news", &json!(body));
            // Others' messages are in between.
            if draws.bits().is_multiple_of(3) {
                publisher.publish("prices", &json!(body));
            }
        }
        for reader in readers {
            let read = reader.join().unwrap();
            assert!(read.iter().copied().eq(0..=LAST), "{read:?}");
        }
    });
    assert!(floor.count("resumed_from_ring") > 20, "these were fast");
    // Once the ring has forgotten everything, all comes from the log.
    until("the ring is empty", || floor.count("ring_bytes") == 0);
    let before = floor.count("resumed_from_log");
    for seed in 6..9 {
        let read = read_with_interruptions(&address, seed, LAST);
        assert!(read.iter().copied().eq(0..=LAST), "{read:?}");
    }
    assert!(floor.count("resumed_from_log") > before + 20, "these were late");
}

/// What the log has of a topic, by position.
fn logged(floor: &Floor) -> BTreeMap<(u64, u64), u64> {
    let directory = floor.server.config_file().parent().unwrap().join("record");
    let disk = eventlog::disk::DiskFolder::read_only(directory.join("firehose"));
    let mut found = BTreeMap::new();
    for item in eventlog::LogReader::new(&disk).unwrap() {
        let eventlog::LogEntry::Record(record) = item.unwrap() else { continue };
        let Ok(said) = events::Publication::decode(&record.payload) else { continue };
        found.insert((record.epoch, record.sequence), said.body.parse().unwrap());
    }
    found
}

#[test]
fn a_subscriber_survives_kill_9_of_the_server() {
    let mut floor = Floor::start();
    let (mut read, mut next) = (BTreeMap::new(), 0_u64);
    let mut after = json!({ "epoch": 0, "sequence": 0 });
    for _ in 0..4 {
        let address = floor.address();
        let mut publisher = floor.client();
        let is_over = AtomicBool::new(false);
        let begin = after.clone();
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let (mut read, mut after) = (Vec::new(), begin.clone());
                let mut client = Client::connect(&address, "");
                client.subscribe("news", &json!({ "after": after }));
                while let Ok(message) = client.heard() {
                    if message["type"] == "message" {
                        after = position(&message);
                        read.push(message);
                    }
                }
                assert!(is_over.load(Ordering::SeqCst), "the server left on its own");
                (read, after)
            });
            for _ in 0..300 {
                publisher.publish("news", &json!(next));
                next += 1;
            }
            until("much is delivered", || floor.count("delivered") > 100);
            is_over.store(true, Ordering::SeqCst);
            floor.server.kill_and_restart();
            let (messages, reached) = reader.join().unwrap();
            after = reached;
            for message in messages {
                let place =
                    [&message["epoch"], &message["sequence"]].map(|it| it.as_u64().unwrap());
                let body = message["data"]["body"].as_u64().unwrap();
                let twice = read.insert((place[0], place[1]), body);
                assert_eq!(twice, None, "{message} came twice");
            }
        });
    }
    // The rest, after the last start.
    let mut client = floor.client();
    client.subscribe("news", &json!({ "after": after }));
    floor.publish("news", &json!(1_000_000));
    loop {
        let message = client.next();
        if message["type"] != "message" {
            continue;
        }
        let place = [&message["epoch"], &message["sequence"]].map(|it| it.as_u64().unwrap());
        let body = message["data"]["body"].as_u64().unwrap();
        read.insert((place[0], place[1]), body);
        if body == 1_000_000 {
            break;
        }
    }
    assert_eq!(read, logged(&floor), "what was read is what the log has");
    let directory = floor.server.config_file().parent().unwrap().join("record");
    check(vickrey(&["log", "verify", "--dir"]).arg(&directory), 0, &[], &[]);
}

/// The load generator has its own frames and its own way to check what it gets.
#[test]
fn a_load_of_all_kinds_of_subscribers_misses_and_repeats_nothing() {
    let floor = Floor::start();
    let mut hammer = vickrey(&["hammer", "live", "--address", &floor.address()]);
    hammer.args(["--subscribers", "6", "--reconnecting", "4", "--slow", "1", "--stalled", "1"]);
    hammer.args(["--publishers", "3", "--rate", "900", "--duration", "2500ms"]);
    hammer.args(["--server", &floor.server.id().to_string()]);
    let (report, _) = check(&mut hammer, 0, &["0 gaps, 0 duplicates", " 0 refused"], &[]);
    assert!(!report.contains(" 0 opened again"), "some reconnect: {report}");
    assert!(report.contains("ms of processor time"), "{report}");
}

#[test]
fn who_claims_to_be_ahead_of_the_log_is_refused() {
    let floor = Floor::start();
    let mut client = floor.client();
    client.subscribe("prices", &json!({}));
    floor.publish("prices", &json!(1));
    client.next_of("message");
    client.say(&json!({ "op": "unsubscribe", "topic": "prices" }));
    client.next_of("unsubscribed");
    let end = client.subscribe("news", &json!({}))["after"].clone();
    client.say(&json!({ "op": "subscribe", "topic": "prices", "id": 4,
        "after": { "epoch": end["epoch"], "sequence": 1_000 } }));
    let error = client.next_of("error");
    assert_eq!(
        (&error["code"], &error["field"], &error["id"]),
        (&json!("bad_field"), &json!("after"), &json!(4))
    );
    // The connection and its other subscription go on.
    floor.publish("news", &json!(2));
    assert_eq!(client.next_of("message")["data"]["body"], 2);
}

/// A server that ends asks its clients to come back.
#[test]
fn a_server_that_ends_closes_its_connections_with_a_reason() {
    let mut floor = Floor::start();
    let mut client = floor.client();
    client.subscribe("news", &json!({}));
    floor.server.signal("-TERM");
    let Closed { code, reason } = client.ended();
    assert_eq!(code, Some(1012), "{reason}");
    assert!(floor.server.ends_well());
}
