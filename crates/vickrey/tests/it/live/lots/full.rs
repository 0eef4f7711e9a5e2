//! A full disk: lots pause with a clear message, connections go on, and no restart is needed.

use serde_json::json;

use super::fixtures::{LotsFloor, answer, bid};
use crate::operations::fixtures::SmallDisk;
use crate::program::until;

#[test]
fn a_full_disk_pauses_lots_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let Some(small) = SmallDisk::mount(folder.path()) else { return };
    let lots = LotsFloor::with_record(&folder.path().join("record"));
    let (mut ann, mut watcher) = (lots.bidder("ann", "acme"), lots.floor.client());
    watcher.subscribe("lots", &json!({}));
    lots.create("a", &json!({}));
    let ballast = small.fill();
    let (mut cents, mut accepted) = (200, 0);
    // Some bids fit the part of the file that is allocated.
    let mut next = |accepted: &mut u32| {
        cents += 1;
        let maximum = format!("{}.{:02}", cents / 100, cents % 100);
        let told = answer(&mut ann, &bid("a", &maximum, &maximum));
        *accepted += u32::from(told["type"] == "accepted");
        told
    };
    let mut told = json!(null);
    until("lots are paused", || {
        told = next(&mut accepted);
        told["code"] == "busy"
    });
    let message = told["message"].as_str().unwrap();
    assert!(message.starts_with("lots are paused: the log cannot be written"), "{told}");
    let page = lots.lot("a");
    watcher.next_of("heartbeat");
    std::fs::remove_file(ballast).unwrap();
    until("bids are accepted again", || next(&mut accepted)["type"] == "accepted");
    let bids = lots.lot("a")["lot"]["bids"].as_u64().unwrap();
    assert!(bids >= u64::from(accepted), "{bids} bids, {accepted} were accepted");
    assert!(page["lot"]["bids"].as_u64().unwrap() < bids, "{page}");
    assert_eq!(lots.holds(), 1);
}
