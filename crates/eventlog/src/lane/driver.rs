//! The log thread's loop without the thread: both lanes, one step at a time.
//!
//! The durable lane is written first, and between any two batches of the firehose. Time is an
//! argument.

use std::sync::Arc;

use super::lane_writer::{LaneSetup, LaneWriter};
use super::report::LaneReporter;
use super::ring::{DurableRing, FirehoseRing, LaneListener};
use super::rings::{AddedRing, RingMaker};
use super::schedule::{LaneTime, NextStep};
use super::status::LaneHandle;
use super::{LaneFormats, LaneKind};
use crate::disk::Disk;

/// Records that were accepted and are not durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnfinishedRecords {
    /// In the durable lane.
    pub durable: u64,
    /// In the firehose.
    pub firehose: u64,
}

/// Drives both lanes. Dropping it closes them.
pub struct LogDriver<D: Disk> {
    durable: LaneWriter<D>,
    firehose: LaneWriter<D>,
    maker: RingMaker,
    report: LaneReporter,
}

impl<D: Disk> LogDriver<D> {
    /// For two logs, each in its own directory. Rings may be added between any two steps.
    pub fn new(
        durable: LaneSetup<D>,
        firehose: LaneSetup<D>,
        formats: impl Into<LaneFormats>,
        report: LaneReporter,
    ) -> Self {
        let formats = formats.into();
        let firehose = LaneWriter::new(LaneKind::Firehose, firehose, formats);
        let mut durable = LaneWriter::new(LaneKind::Durable, durable, formats);
        durable.keep_watermarks(firehose.watermark());
        let maker = RingMaker {
            durable: Arc::clone(durable.shared()),
            firehose: Arc::clone(firehose.shared()),
            waker: Arc::default(),
            gap_kind: formats.gaps.kind,
        };
        Self { durable, firehose, maker, report }
    }

    /// A handle to a lane.
    pub fn lane(&self, kind: LaneKind) -> LaneHandle {
        let lane_writer = match kind {
            LaneKind::Durable => &self.durable,
            LaneKind::Firehose => &self.firehose,
        };
        LaneHandle(Arc::clone(lane_writer.shared()))
    }

    /// See [`LogRings::durable_ring`](super::LogRings::durable_ring).
    pub fn durable_ring(&mut self, bytes: usize, listener: Option<LaneListener>) -> DurableRing {
        let (ring, added) = self.maker.durable_ring(bytes, listener);
        self.add(added);
        ring
    }

    /// See [`LogRings::firehose_ring`](super::LogRings::firehose_ring).
    pub fn firehose_ring(&mut self, shard: u32, bytes: usize) -> FirehoseRing {
        let (ring, added) = self.maker.firehose_ring(shard, bytes);
        self.add(added);
        ring
    }

    pub(super) fn add(&mut self, AddedRing { kind, consumer }: AddedRing) {
        match kind {
            LaneKind::Durable => self.durable.add(consumer),
            LaneKind::Firehose => self.firehose.add(consumer),
        }
    }

    /// Does what is due. It waits for nothing but the disk.
    pub fn step(&mut self, now: LaneTime) -> NextStep {
        let durable = self.durable.step(now, &mut self.report);
        let firehose = self.firehose.step(now, &mut self.report);
        let watermark = self.durable.update_watermark(self.firehose.watermark());
        durable.min(firehose).min(watermark)
    }

    /// Accepts no more records. Later steps write and commit the rest at once.
    pub fn close(&mut self) {
        self.durable.close();
        self.firehose.close();
    }

    /// Accepted records that are not durable.
    pub fn unfinished(&self) -> UnfinishedRecords {
        UnfinishedRecords {
            durable: self.durable.pending_records(),
            firehose: self.firehose.pending_records(),
        }
    }

    /// Whether all accepted records are durable and all gaps are written.
    pub fn is_drained(&self) -> bool {
        self.durable.is_drained() && self.firehose.is_drained()
    }

    /// Seals both lanes if nothing is left to write, so that a later start detects losses.
    pub fn seal(&mut self, now: LaneTime) {
        for lane_writer in [&mut self.firehose, &mut self.durable] {
            lane_writer.seal(now, &mut self.report);
        }
    }

    /// How often shards woke the thread.
    pub fn wakes(&self) -> u64 {
        self.maker.waker.wakes()
    }

    /// Rings of both lanes that are not over.
    #[cfg(test)]
    pub(crate) fn rings(&self) -> usize {
        self.durable.rings() + self.firehose.rings()
    }

    /// Makes rings whose other ends another thread adds.
    pub(super) fn ring_maker(&self) -> &RingMaker {
        &self.maker
    }
}
