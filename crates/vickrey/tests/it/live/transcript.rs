//! The transcript in docs/live.md, played against a server: its answers have the same form and, but
//! for numbers of the log, the same values.

use serde_json::Value;

use super::fixtures::Floor;
use crate::program::root;

/// Fields whose values differ between servers.
const OWN: [&str; 4] = ["epoch", "sequence", "time_ms", "next"];

/// The difference between an answer and the documented one. None if they agree.
fn difference(documented: &Value, answer: &Value) -> Option<String> {
    let (Value::Object(wanted), Value::Object(found)) = (documented, answer) else {
        return (documented != answer).then(|| format!("{answer} instead of {documented}"));
    };
    if !wanted.keys().eq(found.keys()) {
        return Some(format!("the fields of {answer} instead of {documented}"));
    }
    let compared = wanted.iter().filter(|(name, _)| !OWN.contains(&name.as_str()));
    let differences = compared
        .filter_map(|(name, value)| Some(format!("{name}: {}", difference(value, &found[name])?)));
    differences.reduce(|all, more| format!("{all}; {more}"))
}

#[test]
fn the_documented_transcript_is_what_a_server_says() {
    let page = std::fs::read_to_string(root().join("docs/live.md")).unwrap();
    let (_, transcript) = page.split_once("```transcript\n").unwrap();
    let (transcript, _) = transcript.split_once("```").unwrap();
    let floor = Floor::start();
    let mut client = floor.client_before_welcome();
    let (mut said, mut heard) = (0, 0);
    for line in transcript.lines() {
        let (who, message) = line.split_once(' ').unwrap();
        let message: Value = serde_json::from_str(message).unwrap();
        if who == ">" {
            client.say(&message);
            said += 1;
            continue;
        }
        // Heartbeats come at any time.
        let mut answer = client.next();
        while answer["type"] == "heartbeat" && message["type"] != "heartbeat" {
            answer = client.next();
        }
        while message["type"] == "heartbeat" && answer["covered"]["sequence"] != 1 {
            answer = client.next();
        }
        assert_eq!(difference(&message, &answer), None, "{line}");
        heard += 1;
    }
    assert!(said >= 5 && heard >= 9, "the transcript is there");
}
