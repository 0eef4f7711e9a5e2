//! Two logs, called lanes, and the one thread that writes both.
//!
//! Owns how records get from shards to files: grouping, commits, refusals, shedding, and events for
//! producers. Knows nothing of what a record means. A shard never waits here: it writes a record to
//! its own ring, or is refused at once.
//!
//! The *durable* lane reports to each ring how far its records are durable. A record stays in its
//! ring until then, so the ring retains it while the disk fails, and the next commit tries the same
//! records in the same order. Until a commit succeeds the lane takes no more.
//!
//! The *firehose* takes what fits. For records that did not fit it writes a [`LaneGap`] at their
//! place in the log, which counts the records of that ring that were shed since the previous
//! record. Written records that a failing disk lost are counted too.
//!
//! A record that a durable ring took but that was not acknowledged when the lane began to fail is
//! undecided: it reaches the log once the lane is written again, unless the process ends first. A
//! producer that gives up on it records that.

mod consumer;
mod driver;
mod gap;
mod lane_writer;
mod report;
mod ring;
mod rings;
mod schedule;
mod status;
mod thread;
mod waker;
mod watermark;

use std::time::Duration;

use crate::writer::WriterOptions;

pub use crate::writer::ReadScope;
pub use driver::{LogDriver, UnfinishedRecords};
pub use gap::{GapFormat, LaneGap};
pub use lane_writer::LaneSetup;
pub use report::{LaneReport, LaneReporter};
pub use ring::{DurableRing, FirehoseRing, LaneEvent, LaneListener, PushError, RingPosition};
pub use rings::LogRings;
pub use schedule::{LaneTime, NextStep};
pub use status::{
    CLASSES, LaneCounters, LaneFailure, LaneHandle, LaneState, LaneWatch, RetentionClaim,
};
pub use thread::{CloseError, KnownReach, LogBuilder, LogError, LogOptions, LogThread, Recoveries};
#[cfg(test)]
pub(crate) use waker::{AtomicWord, WakeThreshold};
pub use watermark::{LaneFormats, LaneWatermark, WatermarkFormat};

/// One of the two lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaneKind {
    /// Acknowledges durable records; refuses what it cannot take.
    Durable,
    /// Acknowledges nothing; sheds what it cannot take.
    Firehose,
}

impl LaneKind {
    /// Name of the lane and of its directory.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Durable => "durable",
            Self::Firehose => "firehose",
        }
    }
}

/// How much may gather before it is processed; the first limit that is reached counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchLimits {
    /// Time since the first of it.
    pub after: Duration,
    /// Total bytes.
    pub bytes: usize,
}

/// Which segments a lane keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Remove the oldest segments while the total is longer.
    pub bytes_max: Option<u64>,
    /// Remove the oldest segments when all their records are older than this, compared with the
    /// newest record.
    pub age_max: Option<Duration>,
    /// How often the limits are checked.
    pub every: Duration,
}

impl Retention {
    /// Keeps everything.
    pub const ALL: Self = Self { bytes_max: None, age_max: None, every: Duration::from_secs(10) };

    fn is_bounded(&self) -> bool {
        self.bytes_max.is_some() || self.age_max.is_some()
    }
}

/// Options of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneOptions {
    /// Options of its files. The firehose commits when `batch_bytes_max` is reached, whatever
    /// `commit` says.
    pub writer: WriterOptions,
    /// How long records wait in their rings before they are written. A ring that is half full is
    /// written at once.
    pub gather: BatchLimits,
    /// How long written records may wait for the commit. The durable lane commits every write.
    pub commit: BatchLimits,
    /// What is read at the start.
    pub start: ReadScope,
    /// Which segments are kept.
    pub retention: Retention,
    /// Delay of the first retry after a failure; doubles with each further failure.
    pub retry_min: Duration,
    /// Longest delay of a retry.
    pub retry_max: Duration,
}

impl LaneOptions {
    /// For a lane whose producers wait for the commit. Commits are bounded, so that the first
    /// record of a group does not wait for many others.
    pub const DURABLE: Self = Self {
        writer: WriterOptions {
            segment_bytes: 64 << 20,
            batch_bytes_max: 1 << 20,
            preallocate: true,
            ..WriterOptions::DEFAULT
        },
        gather: BatchLimits { after: Duration::from_millis(1), bytes: 256 << 10 },
        commit: BatchLimits { after: Duration::ZERO, bytes: 0 },
        start: ReadScope::Newest,
        retention: Retention::ALL,
        retry_min: Duration::from_millis(10),
        retry_max: Duration::from_secs(1),
    };

    /// For a lane whose producers do not wait. Commits are bounded, because the other lane waits
    /// meanwhile.
    pub const FIREHOSE: Self = Self {
        writer: WriterOptions {
            segment_bytes: 64 << 20,
            batch_bytes_max: 16 << 20,
            preallocate: true,
            ..WriterOptions::DEFAULT
        },
        gather: BatchLimits { after: Duration::from_millis(10), bytes: 1 << 20 },
        commit: BatchLimits { after: Duration::from_secs(1), bytes: 4 << 20 },
        ..Self::DURABLE
    };
}
