//! Bidders who answer each other at once, and the checks of everything they are told.

use serde_json::Value;

use super::fixtures::LotsFloor;
use crate::program::vickrey;

#[test]
fn prices_numbers_feed_and_winners_are_right_while_bidders_race() {
    let lots = LotsFloor::start();
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("report.json");
    let mut hammer = vickrey(&["hammer", "lots", "--address", &lots.floor.address()]);
    hammer.arg("--config").arg(lots.floor.server.config_file());
    hammer.args(["--account", "acme", "--account", "globex", "--bidders", "12", "--lots", "3"]);
    hammer.args(["--duration", "2s"]).arg("--json").arg(&json);
    let done = hammer.output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stdout));
    let report: Value = serde_json::from_slice(&std::fs::read(json).unwrap()).unwrap();
    assert_eq!(report["problems"], Value::Array(Vec::new()), "{report}");
    assert_eq!(report["is_checked"], true, "{report}");
    assert!(report["accepted"].as_u64() >= Some(10), "{report}");
    // What was on hold for those who lost is free again.
    assert_eq!(lots.holds(), 0);
}
