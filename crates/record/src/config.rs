//! `[record]`: where records go and how long they are kept.

use std::path::PathBuf;
use std::time::Duration;

use eventlog::lane::{BatchLimits, LaneOptions, LogOptions, Retention};
use events::RECORD_BYTES_MAX;
use runtime::config::{Section, ms, secs};

/// Room for several segments of a lane.
const KEPT_MIN: usize = 256 << 20;
const KEPT_MAX: usize = 1 << 50;
/// Room for any record.
const RING_MIN: usize = RECORD_BYTES_MAX + (64 << 10);

/// Defaults of a lane, with their help texts.
struct LaneDefaults {
    ring: (&'static str, &'static str),
    commit_after: (&'static str, &'static str),
    /// Commit at this size without waiting.
    commit_bytes: usize,
    keep_bytes: &'static str,
    keep_for: &'static str,
}

const DURABLE: LaneDefaults = LaneDefaults {
    ring: (
        "4MiB",
        "Size of the buffer for records that are not yet synced to disk. While it is full, beacons \
         are answered with 503.",
    ),
    commit_after: (
        "1ms",
        "Maximum time that a record waits for others to be synced to disk with it (group commit).",
    ),
    // Hundreds of billing notices: waiting for more gains nothing.
    commit_bytes: 256 << 10,
    keep_bytes: "64GiB",
    keep_for: "720h",
};

const FIREHOSE: LaneDefaults = LaneDefaults {
    ring: (
        "8MiB",
        "Size of each shard's buffer for records that are not yet written. While it is full, \
         auctions are not recorded.",
    ),
    commit_after: ("1s", "Maximum time until a written record is synced to disk."),
    // Half of a shard's default ring, so that a slow disk does not find it full.
    commit_bytes: 4 << 20,
    keep_bytes: "20GiB",
    keep_for: "168h",
};

/// Configuration of the record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordConfig {
    /// Holds one directory per lane.
    pub directory: PathBuf,
    /// Number of this node in the cluster.
    pub node: u32,
    /// Records that must not be lost.
    pub durable: LaneConfig,
    /// Auctions.
    pub firehose: LaneConfig,
}

/// Configuration of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneConfig {
    /// Size of a ring: of each shard's in the firehose, of each writer's in the durable lane.
    pub ring_bytes: usize,
    /// When records are written to disk together.
    pub commit: BatchLimits,
    /// Size above which the oldest segments go.
    pub keep_bytes: Option<u64>,
    /// Age above which segments go.
    pub keep_for: Option<Duration>,
}

impl RecordConfig {
    /// Declares and reads `[record]`. None if the file does not have it.
    pub fn read(s: &mut Section<'_>) -> Option<Self> {
        let about = "On-disk record of auctions, configurations and billing notices: see `vickrey \
             log`.";
        s.table("record", about, Self::read_keys)
    }

    fn read_keys(s: &mut Section<'_>) -> Self {
        let directory = s.text(
            "directory",
            "vickrey-record",
            "Directory of the lanes `durable` and `firehose`. Only one process may use it.",
        );
        let node = s.integer(
            "node",
            0,
            ..=u32::MAX,
            "Number of this node in the cluster. Together with epoch and sequence number, it \
             identifies a record.",
        );
        let about = "Records of auctions. Records that the disk cannot keep up with are left out, \
                     and the gap is recorded.";
        let firehose = s.section("firehose", about, |s| read_lane(s, &FIREHOSE));
        let about = "Records that must not be lost: configurations and billing notices.";
        let durable = s.section("durable", about, |s| {
            let durable = read_lane(s, &DURABLE);
            check_age(s, &durable, &firehose);
            durable
        });
        s.renamed("bodies", "exchange.bodies");
        Self { directory: directory.into(), node, durable, firehose }
    }

    pub(crate) fn options(&self) -> LogOptions {
        let lane = |usual: LaneOptions, config: &LaneConfig| LaneOptions {
            writer: eventlog::WriterOptions { node: self.node, ..usual.writer },
            retention: Retention {
                bytes_max: config.keep_bytes,
                age_max: config.keep_for,
                ..Retention::ALL
            },
            ..usual
        };
        let durable = lane(LaneOptions::DURABLE, &self.durable);
        let firehose = lane(LaneOptions::FIREHOSE, &self.firehose);
        LogOptions {
            durable: LaneOptions { gather: self.durable.commit, ..durable },
            firehose: LaneOptions { commit: self.firehose.commit, ..firehose },
            ..LogOptions::DEFAULT
        }
    }
}

/// An auction's record is useless without its generation's.
fn check_age(s: &mut Section<'_>, durable: &LaneConfig, firehose: &LaneConfig) {
    let Some(age) = durable.keep_for else { return };
    if firehose.keep_for.is_none_or(|firehose| age < firehose) {
        let value = format!("\"{}s\"", age.as_secs());
        let remedy = "must not be shorter than that of [record.firehose]: auctions are recomputed by the configuration that they were held by";
        s.problem("keep_for", value, remedy);
    }
}

fn read_lane(s: &mut Section<'_>, usual: &LaneDefaults) -> LaneConfig {
    let ring_bytes = s.bytes("ring", usual.ring.0, RING_MIN..=1 << 30, usual.ring.1);
    let (after, about) = usual.commit_after;
    let commit = BatchLimits {
        after: s.duration("commit_after", after, ms(0)..=secs(10), about),
        bytes: usual.commit_bytes,
    };
    let keep_bytes = s.bytes(
        "keep_bytes",
        usual.keep_bytes,
        0..=KEPT_MAX,
        "Retention by size: the oldest segments are removed while the lane is larger than this. \
         `0B` disables it.",
    );
    if (1..KEPT_MIN).contains(&keep_bytes) {
        let value = format!("\"{keep_bytes}B\"");
        s.problem("keep_bytes", value, "must be at least 256MiB, or 0B for no limit");
    }
    let keep_for = s.duration(
        "keep_for",
        usual.keep_for,
        secs(0)..=secs(100 * 366 * 86_400),
        "Retention by age, measured from the newest record of the lane: older segments are \
         removed. `0s` disables it.",
    );
    LaneConfig {
        ring_bytes,
        commit,
        keep_bytes: Some(keep_bytes as u64).filter(|bytes| *bytes > 0),
        keep_for: Some(keep_for).filter(|age| !age.is_zero()),
    }
}

#[cfg(test)]
mod tests;
