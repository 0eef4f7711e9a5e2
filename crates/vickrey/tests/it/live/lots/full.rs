//! A full disk: lots pause with a clear message, connections go on, and no restart is needed.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use serde_json::json;

use super::fixtures::{LotsFloor, answer, bid};
use crate::operations::fixtures::SmallDisk;
use crate::program::until;

#[test]
fn a_full_disk_pauses_lots_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let Some(small) = SmallDisk::mount(folder.path()) else { return };
    let lots = LotsFloor::with_record(&folder.path().join("record"));
    let (mut ann, mut bob) = (lots.bidder("ann", "acme"), lots.bidder("bob", "globex"));
    let mut watcher = lots.floor.client();
    watcher.subscribe("lots", &json!({}));
    lots.create("a", &json!({}));
    lots.create("b", &json!({}));
    let ballast = small.fill();
    let (is_over, accepted) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        // Some bids fit the part of the file that is allocated; one waits until there is room.
        scope.spawn(|| {
            for cents in 200.. {
                let maximum = format!("{}.{:02}", cents / 100, cents % 100);
                let told = answer(&mut ann, &bid("a", &maximum, &maximum));
                accepted.fetch_add(u64::from(told["type"] == "accepted"), Ordering::Relaxed);
                if is_over.load(Ordering::Relaxed) {
                    return;
                }
            }
        });
        until("the record fails", || {
            lots.floor.server.scraped("record_state{lane=\"durable\"}") == 2
        });
        let told = answer(&mut bob, &bid("b", "5", "k"));
        assert_eq!(told["code"], "busy", "{told}");
        assert_eq!(told["message"], "lots are paused: the log cannot be written: its disk is full");
        let shown = lots.api("GET", "/v1/lots/b", &json!(null));
        assert_eq!(shown.status, 200, "nothing of it waits for the log: {shown:?}");
        watcher.next_of("message");
        std::fs::remove_file(&ballast).unwrap();
        until("bids are accepted again", || {
            answer(&mut bob, &bid("b", "5", "k"))["type"] == "accepted"
        });
        is_over.store(true, Ordering::Relaxed);
    });
    let bids = lots.lot("a")["lot"]["bids"].as_u64().unwrap();
    assert_eq!(bids, accepted.into_inner(), "who was not refused was accepted");
    until("two bids stand", || lots.holds() == 2);
}
