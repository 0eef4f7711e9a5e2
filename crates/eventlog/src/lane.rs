//! Two lanes into two logs, and the one thread that writes both.
//!
//! Owns how records come from shards to the files: who waits for what, when a group is committed,
//! what is refused and what is shed, and what producers are told. Knows nothing of what a record
//! means. No shard ever waits here: it hands a record to a ring of its own, or is told at once that
//! it cannot.
//!
//! The *durable* lane tells each ring how far its records are durable. A record leaves its ring
//! only then, so the ring itself is what is retained while the disk fails, and the next commit
//! tries the same records again, in the same order. Until one succeeds nothing more is taken.
//!
//! The *firehose* takes what there is room for. What it had to leave out is told in the log at the
//! place where it is missing, by a [`Gap`]: as many records of that ring as were offered since the
//! one before. What had been written and then was lost by a disk that failed is counted in.
//!
//! A record that a ring of the durable lane took, and whose position was not acknowledged when the
//! lane began to fail, is neither: it will be in the log once the lane is written again, unless
//! the process ends before. Who gives up on it says so by another record.

mod bell;
mod gap;
mod keeper;
mod outlet;
mod report;
mod ring;
mod schedule;
mod scribe;
mod status;
mod thread;
mod watermark;

use std::time::Duration;

use crate::writer::Options;

#[cfg(test)]
pub(crate) use bell::{WakeAt, Word};
pub use gap::{Gap, GapFormat};
pub use keeper::{Keeper, Left};
pub use report::{Report, Reporter};
pub use ring::{DurableRing, FirehoseRing, Position, Refused, Tell, Told};
pub use schedule::{Next, Now};
pub use scribe::Setup;
pub use status::{CLASSES, Cause, Counters, Lane, State};
pub use thread::{CloseError, KnownReach, Log, LogError, LogOptions, LogThread, Recoveries};
pub use watermark::{LaneFormats, Watermark, WatermarkFormat};

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaneKind {
    /// Acknowledged once durable; refuses when it cannot.
    Durable,
    /// Nobody waits for it; sheds what it cannot take.
    Firehose,
}

impl LaneKind {
    /// Name of its directory, and of the lane.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Durable => "durable",
            Self::Firehose => "firehose",
        }
    }
}

/// How long something may wait for more of its like; the first that is reached ends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Since the first of it.
    pub after: Duration,
    /// Bytes of it.
    pub bytes: usize,
}

/// What of a lane is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// The oldest segments go while all are longer.
    pub bytes_max: Option<u64>,
    /// The oldest segments go once all their records are older, counted from the newest record.
    pub age_max: Option<Duration>,
    /// How often this is looked at.
    pub every: Duration,
}

impl Retention {
    /// Everything.
    pub const ALL: Self = Self { bytes_max: None, age_max: None, every: Duration::from_secs(10) };

    fn is_bounded(&self) -> bool {
        self.bytes_max.is_some() || self.age_max.is_some()
    }
}

/// How much of a lane is read when it is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// All of it.
    Everything,
    /// The newest segment: however long the lane, that is at once.
    Newest,
}

/// How a lane is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneOptions {
    /// Of its files. The firehose is committed when `batch_bytes_max` is reached, whatever its pace.
    pub writer: Options,
    /// How long records wait in their rings until they are written. A ring that is half full ends
    /// it too.
    pub gather: Pace,
    /// How long what is written may wait until it is committed. The durable lane does not wait: it
    /// commits whatever it writes.
    pub commit: Pace,
    /// What is read at the start.
    pub start: Start,
    /// What goes.
    pub retention: Retention,
    /// How soon after a failure the disk is tried again; twice as long after each that follows.
    pub retry_min: Duration,
    /// No longer than this.
    pub retry_max: Duration,
}

impl LaneOptions {
    /// Of a lane for which somebody waits. What is committed at once is bounded: others hand over
    /// meanwhile, and who waits for the first record does not wait for all.
    pub const DURABLE: Self = Self {
        writer: Options {
            segment_bytes: 64 << 20,
            batch_bytes_max: 1 << 20,
            preallocate: true,
            ..Options::DEFAULT
        },
        gather: Pace { after: Duration::from_millis(1), bytes: 256 << 10 },
        commit: Pace { after: Duration::ZERO, bytes: 0 },
        start: Start::Newest,
        retention: Retention::ALL,
        retry_min: Duration::from_millis(10),
        retry_max: Duration::from_secs(1),
    };

    /// Of a lane for which nobody does. What is committed at once is bounded, for the other lane
    /// waits meanwhile.
    pub const FIREHOSE: Self = Self {
        writer: Options {
            segment_bytes: 64 << 20,
            batch_bytes_max: 16 << 20,
            preallocate: true,
            ..Options::DEFAULT
        },
        gather: Pace { after: Duration::from_millis(10), bytes: 1 << 20 },
        commit: Pace { after: Duration::from_secs(1), bytes: 4 << 20 },
        ..Self::DURABLE
    };
}
