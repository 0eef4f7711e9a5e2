//! Subscribers that read slowly or not at all: they cost little memory, and nobody waits for them.

use std::time::{Duration, Instant};

use serde_json::json;

use super::fixtures::{Floor, TABLES};
use crate::program::until;

/// Little memory, so that little traffic fills it.
fn small() -> Floor {
    let ring = "[live.ring]\nbytes = \"2MiB\"\n";
    Floor::with(&format!("{TABLES}{ring}"))
}

/// Publishes this many messages of 1 KiB.
fn publish(floor: &Floor, from: u64, count: u64) {
    let mut publisher = floor.client();
    for number in from..from + count {
        let body = json!({ "number": number, "filler": "x".repeat(1_000) });
        let key = format!("key-{}", number % 3);
        publisher.say(&json!({ "op": "publish", "topic": "news", "key": key, "body": body }));
        // A few at a time.
        if number >= from + 16 {
            publisher.next_of("published");
        }
    }
    (0..count.min(16)).for_each(|_| drop(publisher.next_of("published")));
}

#[test]
fn a_strict_subscriber_that_does_not_read_is_disconnected_and_resumes() {
    let floor = small();
    let (mut stalled, mut healthy) = (floor.client_with_little_room(), floor.client());
    stalled.subscribe("news", &json!({}));
    healthy.subscribe("news", &json!({}));
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            for number in 0..6_000 {
                assert_eq!(healthy.next_of("message")["data"]["body"]["number"], number);
            }
        });
        // More than the kernel takes for a socket that is not read.
        publish(&floor, 0, 6_000);
        reader.join().unwrap();
    });
    until("it is given up", || floor.count("slow_closes") == 1);
    // What it was sent before is still there, then the connection ends: by the close frame, or by a
    // reset if it took none.
    let (mut read, started) = (0, Instant::now());
    let mut after = None;
    let closed = loop {
        assert!(started.elapsed() < Duration::from_secs(60));
        match stalled.heard() {
            Ok(message) if message["type"] == "message" => {
                assert_eq!(message["data"]["body"]["number"], read);
                after = Some(super::fixtures::position(&message));
                read += 1;
            }
            Ok(_) => (),
            Err(closed) => break closed,
        }
    };
    assert!(closed.code.is_none_or(|code| code == 4_000), "{closed:?}");
    if closed.code.is_some() {
        assert!(closed.reason.starts_with("too slow: resume after epoch "), "{closed:?}");
    }
    assert!(read < 6_000, "it was disconnected in between");
    let mut resumed = floor.client();
    resumed.subscribe("news", &json!({ "after": after.unwrap() }));
    for number in read..6_000 {
        assert_eq!(resumed.next_of("message")["data"]["body"]["number"], number);
    }
}

#[test]
fn a_conflating_subscriber_gets_the_latest_of_each_key_and_a_count() {
    let floor = small();
    let mut slow = floor.client_with_little_room();
    slow.subscribe("news", &json!({ "policy": "conflate" }));
    publish(&floor, 0, 6_000);
    // It reads late: what was sent first, then a count, then the latest of each key.
    let (mut skipped, mut messages, mut last) = (0, 0, [0; 3]);
    while skipped + messages < 6_000 {
        let message = slow.next();
        match message["type"].as_str() {
            Some("message") => {
                let number = message["data"]["body"]["number"].as_u64().unwrap();
                let key = usize::try_from(number % 3).unwrap();
                assert!(messages == 0 || last[key] < number, "in order");
                last[key] = number;
                messages += 1;
            }
            Some("skipped") => skipped += message["messages"].as_u64().unwrap(),
            _ => assert_eq!(message["type"], "heartbeat"),
        }
    }
    assert!(skipped > 1_000, "{skipped} skipped");
    assert_eq!(last, [5_997, 5_998, 5_999], "the latest of each key came");
    assert_eq!(floor.count("skipped").unsigned_abs(), skipped);
    assert_eq!(floor.count("slow_closes"), 0);
}

/// A client that sends and never reads is not read any further.
#[test]
fn answers_that_nobody_reads_do_not_fill_the_memory() {
    let floor = small();
    let mut deaf = floor.client();
    let command = tungstenite::Message::text(r#"{"op":"unsubscribe","topic":"news"}"#);
    deaf.stream().set_write_timeout(Some(Duration::from_millis(500))).unwrap();
    let mut sent = 0;
    let blocked = loop {
        if sent > 2_000_000 {
            break false;
        }
        match deaf.try_send(command.clone()) {
            Ok(()) => sent += 1,
            Err(_) => break true,
        }
    };
    assert!(blocked, "the server reads {sent} commands and keeps their answers");
    floor.publish("news", &json!(1));
}
