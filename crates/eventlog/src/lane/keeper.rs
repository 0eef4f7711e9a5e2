//! The log thread's loop without the thread: both lanes, a step at a time.
//!
//! Owns the order in which they are written: the durable lane first, and between any two pieces of
//! the firehose. Knows no clock; time is an argument.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::bell::Bell;
use super::outlet::Outlet;
use super::ring::{DurableRing, FirehoseRing, Inlet, Tell};
use super::scribe::Scribe;
use super::status::Lane;
use super::{LaneFormats, LaneKind, LaneOptions};
use crate::disk::{Disk, SyncMeter};
use crate::writer::{CommitError, Removed, RetainError, Writer};

/// A moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// Since any moment that stays the same; never goes back.
    pub tick: Duration,
    /// Unix milliseconds, which may.
    pub unix_ms: u64,
}

/// When the next step is due. What is sooner is less.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Next {
    /// At once.
    Now,
    /// At this tick, or when a shard wakes the thread.
    At(Duration),
    /// When a shard wakes the thread.
    Woken,
}

/// What an operator should know.
#[derive(Debug)]
pub enum Report<'a> {
    /// The lane is not written any more; it is told once, however often it is tried.
    Failing {
        /// Which.
        lane: LaneKind,
        /// Why.
        error: &'a CommitError,
    },
    /// The lane is written again.
    Healed {
        /// Which.
        lane: LaneKind,
        /// How long it was not.
        after: Duration,
    },
    /// Old segments are gone.
    Removed {
        /// Of which lane.
        lane: LaneKind,
        /// Which.
        removed: &'a Removed,
    },
    /// More than [`CLOCK_STEP_MAX_MS`](crate::CLOCK_STEP_MAX_MS) lie between two records: the clock
    /// stepped, or nothing came. That time counts towards no age.
    ClockStep {
        /// Of which lane.
        lane: LaneKind,
    },
    /// Old segments are still there.
    RetainFailed {
        /// Of which lane.
        lane: LaneKind,
        /// Why.
        error: &'a RetainError,
    },
    /// The lane ended without its seal: the next start cannot tell whether all of it is there.
    SealFailed {
        /// Of which lane.
        lane: LaneKind,
        /// Why.
        error: &'a io::Error,
    },
    /// The lane ended without its seal, for something was left to write.
    Unsealed {
        /// Which.
        lane: LaneKind,
        /// What was left.
        reason: &'static str,
    },
}

/// Who is told, on the log thread: it must neither wait nor panic.
pub type Reporter = Box<dyn FnMut(Report<'_>) + Send>;

/// What a lane is made of.
pub struct Setup<D: Disk> {
    /// Opened; all that it found is behind it.
    pub writer: Writer<D>,
    /// How it is kept.
    pub options: LaneOptions,
    /// Of its disk, for the counters.
    pub meter: Arc<SyncMeter>,
}

/// Records that were handed over and are not durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Left {
    /// In the durable lane.
    pub durable: u64,
    /// In the firehose.
    pub firehose: u64,
}

/// Keeps both lanes. When it is dropped they are closed.
pub struct Keeper<D: Disk> {
    durable: Scribe<D>,
    firehose: Scribe<D>,
    formats: LaneFormats,
    bell: Arc<Bell>,
    report: Reporter,
}

impl<D: Disk> Keeper<D> {
    /// Of two logs, each in a directory of its own. Rings are added before the first step.
    pub fn new(
        durable: Setup<D>,
        firehose: Setup<D>,
        formats: impl Into<LaneFormats>,
        report: Reporter,
    ) -> Self {
        let formats = formats.into();
        let firehose = Scribe::new(LaneKind::Firehose, firehose, formats);
        let mut durable = Scribe::new(LaneKind::Durable, durable, formats);
        durable.watermark(firehose.reached());
        Self { durable, firehose, formats, bell: Arc::default(), report }
    }

    /// A handle to a lane.
    pub fn lane(&self, kind: LaneKind) -> Lane {
        let scribe = match kind {
            LaneKind::Durable => &self.durable,
            LaneKind::Firehose => &self.firehose,
        };
        Lane(Arc::clone(scribe.shared()))
    }

    /// A ring of so many bytes into the durable lane. Records stay in it until they are durable: it
    /// should hold what comes while a commit lasts. `tell` hears of commits, and of failures.
    pub fn durable_ring(&mut self, bytes: usize, tell: Option<Tell>) -> DurableRing {
        DurableRing(ring(&mut self.durable, &self.bell, (0, bytes), tell))
    }

    /// A ring of so many bytes into the firehose, whose gaps will name `shard`.
    pub fn firehose_ring(&mut self, shard: u32, bytes: usize) -> FirehoseRing {
        let inlet = ring(&mut self.firehose, &self.bell, (shard, bytes), None);
        FirehoseRing { inlet, gap_kind: self.formats.gaps.kind }
    }

    /// Does what is due. May wait for the disk, and for nothing else.
    pub fn step(&mut self, now: Now) -> Next {
        let durable = self.durable.step(now, &mut self.report);
        let firehose = self.firehose.step(now, &mut self.report);
        let watermark = self.durable.reach(self.firehose.reached());
        durable.min(firehose).min(watermark)
    }

    /// Takes nothing more. Steps that follow write and commit what is left, at once.
    pub fn close(&mut self) {
        self.durable.close();
        self.firehose.close();
    }

    /// What was handed over and is not durable.
    pub fn left(&self) -> Left {
        Left { durable: self.durable.left(), firehose: self.firehose.left() }
    }

    /// Whether all that was handed over is durable, and every gap told.
    pub fn is_settled(&self) -> bool {
        self.durable.is_settled() && self.firehose.is_settled()
    }

    /// Seals both lanes, where nothing is left to do: a later start finds out what of them is lost.
    pub fn seal(&mut self, now: Now) {
        for scribe in [&mut self.firehose, &mut self.durable] {
            scribe.seal(now, &mut self.report);
        }
    }

    /// How often shards woke the thread.
    pub fn wakes(&self) -> u64 {
        self.bell.rung()
    }

    pub(super) fn bell(&self) -> &Arc<Bell> {
        &self.bell
    }
}

fn ring<D: Disk>(
    scribe: &mut Scribe<D>,
    bell: &Arc<Bell>,
    (shard, bytes): (u32, usize),
    tell: Option<Tell>,
) -> Inlet {
    let (inlet, consumer, shared) = Inlet::new(bytes, scribe.shared(), bell);
    scribe.add(Outlet::new(shard, consumer, shared, tell));
    inlet
}
