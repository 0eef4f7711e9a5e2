//! The log thread's loop without the thread: both lanes, a step at a time.
//!
//! Owns the order in which they are written: the durable lane first, and between any two pieces of
//! the firehose. Knows no clock; time is an argument.

use std::sync::Arc;

use super::bell::Bell;
use super::outlet::Outlet;
use super::report::Reporter;
use super::ring::{DurableRing, FirehoseRing, Inlet, Tell};
use super::schedule::{Next, Now};
use super::scribe::{Scribe, Setup};
use super::status::Lane;
use super::{LaneFormats, LaneKind};
use crate::disk::Disk;

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
