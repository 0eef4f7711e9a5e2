//! `vickrey watch`: what it prints, and how it ends.

use std::net::TcpListener;

use serde_json::{Value, json};

use super::fixtures::Floor;
use crate::program::{Running, check, until, vickrey};

#[test]
fn it_prints_what_was_asked_for_and_ends() {
    let floor = Floor::start();
    let mut publisher = floor.client();
    for n in 0..3 {
        publisher.publish("news", &json!({ "n": n }));
    }
    let at = floor.address();
    let watch = ["watch", "--at", &at, "--topic", "news", "--after", "0-0", "--count", "3"];
    let (shown, _) = check(&mut vickrey(&watch), 0, &[], &[]);
    let lines: Vec<_> = shown.lines().collect();
    assert_eq!(lines.len(), 3, "{shown}");
    for (n, line) in lines.iter().enumerate() {
        assert!(line.contains("news") && line.ends_with(&format!("{{\"n\":{n}}}")), "{shown}");
    }
    let (shown, _) = check(vickrey(&watch).arg("--json"), 0, &[], &[]);
    let messages = shown.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let bodies: Vec<_> = messages
        .filter(|message| message["type"] == "message")
        .map(|message| message["data"]["body"]["n"].clone())
        .collect();
    assert_eq!(json!(bodies), json!([0, 1, 2]));
}

#[test]
fn it_says_what_is_wrong() {
    let floor = Floor::start();
    let at = floor.address();
    let refused = |args: &[&str], code: i32, why: &str| {
        check(vickrey(&["watch", "--at", &at]).args(args), code, &[], &[why]);
    };
    refused(&["--topic", "none"], 64, "the server refuses");
    refused(&["outcome=lucky"], 64, "the server refuses");
    refused(&["--after", "3"], 64, "a position is `epoch-sequence`");
    refused(&["--token", "a.b.c"], 69, "answers 401");
    drop(floor);
    refused(&[], 69, &format!("no live floor at {at}"));
}

#[test]
fn it_waits_for_a_server_that_comes_back_although_nothing_had_come() {
    let floor = Floor::start();
    let at = floor.address();
    let running = Running::start(&mut vickrey(&["watch", "--at", &at, "--topic", "news"]));
    until("it is subscribed", || floor.count("subscriptions_strict") == 1);
    floor.server.signal("-KILL");
    let mut listener = None;
    until("its address is free", || {
        listener = TcpListener::bind(&at).ok();
        listener.is_some()
    });
    let listener = listener.unwrap();
    listener.set_nonblocking(true).unwrap();
    for _ in 0..2 {
        // Somebody who hangs up.
        until("it tries again", || listener.accept().is_ok());
    }
    running.signal("-INT");
    let (code, shown) = running.wait();
    assert_eq!((code, shown.as_str()), (Some(0), ""));
}
