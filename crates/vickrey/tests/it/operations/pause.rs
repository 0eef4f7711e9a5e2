//! A paused DSP is not called, and called again afterwards.

use serde_json::Value;

use super::fixtures::{Server, dsp, table};
use crate::program::until;

#[test]
fn a_paused_dsp_is_not_asked() {
    let server = Server::start(
        &(table("a b", &dsp().to_string(), "") + &table("c", &dsp().to_string(), "")),
    );
    let view = |id: &str| server.get(&format!("/v1/dsps/{id}"));
    let count = |view: &Value, of: &str, label: &str| view[of][label].as_u64().unwrap();
    assert_eq!(server.auction(), 204);
    let before = view("a%20b");
    assert_eq!((count(&before, "calls", "no_bid"), &before["paused"]), (1, &Value::from(false)));
    assert_eq!(before["latency_us"]["count"], 1);
    assert!(before["latency_us"]["p99_9"].as_u64() >= before["latency_us"]["p50"].as_u64());
    assert_eq!(before["connections"]["open"], 1);

    for _ in 0..2 {
        assert_eq!(server.ask("PUT", "/v1/dsps/a%20b/pause", "").status, 204);
    }
    // Shards get the pause within a tenth of a second.
    until("it is no longer asked", || {
        server.auction();
        count(&view("a%20b"), "not_asked", "paused") > 0
    });
    let paused = view("a%20b");
    assert_eq!(paused["paused"], true);
    assert_eq!(paused["breaker"]["state"], "paused");
    let (calls, others) = (count(&paused, "calls", "no_bid"), count(&view("c"), "calls", "no_bid"));
    assert_eq!(server.auction(), 204);
    assert_eq!(count(&view("a%20b"), "calls", "no_bid"), calls);
    assert_eq!(count(&view("c"), "calls", "no_bid"), others + 1, "the other one is asked on");

    for _ in 0..2 {
        assert_eq!(server.ask("DELETE", "/v1/dsps/a%20b/pause", "").status, 204);
    }
    until("it is asked again", || {
        server.auction();
        count(&view("a%20b"), "calls", "no_bid") > calls
    });
    assert_eq!(view("a%20b")["paused"], false);
}
