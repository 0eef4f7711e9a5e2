//! Metrics of the record: records handed to the log, and its lanes' state.

use std::fmt;

use eventlog::lane::{LaneCounters, LaneState};
use exchange_core::record::RecordedExtent;
use runtime::metrics::MetricsPage;

use crate::recording::RecordLanes;

/// A counter of both lanes: name, help and source.
type LaneCount = (&'static str, &'static str, fn(&LaneCounters) -> u64);

const COUNTS: [LaneCount; 9] = [
    ("record_written", "Records that were made durable.", |counted| counted.records),
    ("record_written_bytes", "Bytes of their payloads.", |counted| counted.bytes),
    ("record_commits", "Groups that were made durable.", |counted| counted.commits),
    ("record_commit_failures", "Writes and commits that failed.", |counted| {
        counted.commit_failures
    }),
    ("record_gaps", "Gaps that were written.", |counted| counted.gaps),
    ("record_lost", "Records that gaps tell of.", |counted| counted.lost),
    ("record_syncs", "Calls of fdatasync.", |counted| counted.syncs),
    ("record_removed_bytes", "Bytes of old segments that are gone.", |counted| {
        counted.removed_bytes
    }),
    ("record_retention_failures", "Times that old segments could not be removed.", |counted| {
        counted.retention_failures
    }),
];

pub(super) fn expose(lanes: &RecordLanes, page: &mut MetricsPage<'_>) -> fmt::Result {
    let help = "Auctions by what of them is durable in the record, or why nothing is.";
    let mut auctions = page.counters("exchange_auctions_recorded", help)?;
    let firehose = lanes.firehose.counters();
    for kept in RecordedExtent::ALL {
        auctions.value(&[("kept", kept.label())], firehose.by_class[kept as usize])?;
    }
    let shed = firehose.shed.saturating_sub(firehose.too_long) + firehose.refused_state;
    for (why, count) in
        [("shed", shed), ("too_long", firehose.too_long), ("lost", firehose.disk_lost)]
    {
        auctions.value(&[("kept", why)], count)?;
    }
    let lanes = [&lanes.durable, &lanes.firehose];
    let help =
        "Whether a lane is written: 0 it is, 1 it is full, 2 its disk fails, 3 it is closed.";
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
    let mut segments = page.gauges("record_segments", "Segments there are.")?;
    for (lane, counters) in &counted {
        segments.value(&[("lane", *lane)], level(counters.segments))?;
    }
    let help = "The most bytes that ever waited in one ring.";
    let mut high = page.gauges("record_ring_bytes_high", help)?;
    for (lane, counters) in &counted {
        high.value(&[("lane", *lane)], level(counters.ring_bytes_high))?;
    }
    let mut refused =
        page.counters("record_refused", "Records that a lane did not take, by reason.")?;
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
        page.counters("record_sync_seconds", "How long those calls took together.")?;
    for (lane, counters) in &counted {
        syncing.seconds(&[("lane", *lane)], counters.sync_time)?;
    }
    Ok(())
}
