//! What a start logs about the lanes it finds.

use super::*;

#[test]
fn auctions_without_a_durable_lane_are_noticed() {
    let recoveries = |durable: u64, end: RecoveredEnd, firehose: u64| Recoveries {
        durable: Recovery { last: durable, durable, end, ..Recovery::default() },
        firehose: Recovery { last: firehose, durable: firehose, ..Recovery::default() },
        watermark: None,
    };
    assert!(is_durable_lane_lost(&recoveries(0, RecoveredEnd::Unknown, 5)));
    assert!(!is_durable_lane_lost(&recoveries(0, RecoveredEnd::Unknown, 0)), "both are new");
    assert!(!is_durable_lane_lost(&recoveries(1, RecoveredEnd::Unknown, 5)));
    assert!(
        !is_durable_lane_lost(&recoveries(0, RecoveredEnd::Damaged, 5)),
        "that is told already"
    );
}
