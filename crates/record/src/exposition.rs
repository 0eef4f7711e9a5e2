//! Metrics of the lanes, by their names, help texts and labels.

use std::fmt;

use eventlog::lane::{LaneCounters, LaneHandle, LaneState};
use runtime::metrics::MetricsPage;

/// A counter of both lanes: name, help and source.
type LaneCount = (&'static str, &'static str, fn(&LaneCounters) -> u64);

const COUNTS: [LaneCount; 9] = [
    ("record_written", "Records made durable.", |counted| counted.records),
    ("record_written_bytes", "Bytes of the payloads of durable records.", |counted| counted.bytes),
    ("record_commits", "Groups of records made durable.", |counted| counted.commits),
    ("record_commit_failures", "Writes and commits that failed.", |counted| {
        counted.commit_failures
    }),
    ("record_gaps", "Gaps written to the log.", |counted| counted.gaps),
    ("record_lost", "Records lost, as gaps count them.", |counted| counted.lost),
    ("record_syncs", "Calls of fdatasync.", |counted| counted.syncs),
    ("record_removed_bytes", "Bytes of removed segments.", |counted| counted.removed_bytes),
    ("record_retention_failures", "Failed removals of old segments.", |counted| {
        counted.retention_failures
    }),
];

pub(crate) fn expose(lanes: [&LaneHandle; 2], page: &mut MetricsPage<'_>) -> fmt::Result {
    let help = "State of a lane: 0 written, 1 full because records arrive faster than the disk writes, 2 \
                disk failing, 3 closed.";
    let mut states = page.gauges("record_state", help)?;
    for lane in lanes {
        let state = match lane.state() {
            LaneState::Writing => 0,
            LaneState::Full => 1,
            LaneState::Failing { .. } => 2,
            LaneState::Closed => 3,
        };
        states.value(&[("lane", lane.kind().name())], state)?;
    }
    let counted = lanes.map(|lane| (lane.kind().name(), lane.counters()));
    let level = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    let mut segments = page.gauges("record_segments", "Segments of the lane.")?;
    for (lane, counters) in &counted {
        segments.value(&[("lane", *lane)], level(counters.segments))?;
    }
    let help = "Most bytes that ever waited in one ring.";
    let mut high = page.gauges("record_ring_bytes_high", help)?;
    for (lane, counters) in &counted {
        high.value(&[("lane", *lane)], level(counters.ring_bytes_high))?;
    }
    let mut refused = page.counters("record_refused", "Records that a lane refused, by reason.")?;
    for (lane, counters) in &counted {
        for (reason, count) in [
            ("full", counters.refused_full),
            ("failing", counters.refused_state),
            ("too_long", counters.too_long),
            ("shed", counters.shed),
        ] {
            refused.value(&[("lane", *lane), ("reason", reason)], count)?;
        }
    }
    for (name, help, count) in COUNTS {
        let mut counts = page.counters(name, help)?;
        for (lane, counters) in &counted {
            counts.value(&[("lane", *lane)], count(counters))?;
        }
    }
    let mut syncing =
        page.counters("record_sync_seconds", "Total duration of the calls of fdatasync.")?;
    for (lane, counters) in &counted {
        syncing.seconds(&[("lane", *lane)], counters.sync_time)?;
    }
    Ok(())
}
