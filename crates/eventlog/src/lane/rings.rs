//! Makes rings: both ends in one step, or the producer's end for a log whose thread runs.

use std::sync::{Arc, mpsc};
use std::thread::Thread;

use super::LaneKind;
use super::consumer::RingConsumer;
use super::ring::{DurableRing, FirehoseRing, LaneListener, RingProducer};
use super::status::LaneShared;
use super::waker::ThreadWaker;

/// The log's end of a new ring, for the writer of its lane.
pub(super) struct AddedRing {
    pub kind: LaneKind,
    pub consumer: RingConsumer,
}

/// Makes both ends of rings.
#[derive(Clone, Debug)]
pub(super) struct RingMaker {
    pub durable: Arc<LaneShared>,
    pub firehose: Arc<LaneShared>,
    pub waker: Arc<ThreadWaker>,
    /// Kind of the firehose's gaps.
    pub gap_kind: u8,
}

impl RingMaker {
    pub fn durable_ring(
        &self,
        bytes: usize,
        listener: Option<LaneListener>,
    ) -> (DurableRing, AddedRing) {
        let (producer, consumer, shared) = RingProducer::new(bytes, &self.durable, &self.waker);
        let consumer = RingConsumer::new(0, consumer, shared, listener);
        (DurableRing(producer), AddedRing { kind: LaneKind::Durable, consumer })
    }

    pub fn firehose_ring(&self, shard: u32, bytes: usize) -> (FirehoseRing, AddedRing) {
        let (producer, consumer, shared) = RingProducer::new(bytes, &self.firehose, &self.waker);
        let consumer = RingConsumer::new(shard, consumer, shared, None);
        let ring = FirehoseRing { producer, gap_kind: self.gap_kind };
        (ring, AddedRing { kind: LaneKind::Firehose, consumer })
    }
}

/// Adds rings to a log whose thread runs. Cheap to clone. Rings that are made after the thread has
/// ended refuse every record.
#[derive(Clone, Debug)]
pub struct LogRings {
    pub(super) maker: RingMaker,
    pub(super) added: mpsc::Sender<AddedRing>,
    pub(super) thread: Thread,
}

impl LogRings {
    /// A ring of this many bytes into the durable lane. Records stay in it until they are durable,
    /// so it should hold what arrives during a commit. `listener` is called at commits and failures.
    pub fn durable_ring(&self, bytes: usize, listener: Option<LaneListener>) -> DurableRing {
        let (ring, added) = self.maker.durable_ring(bytes, listener);
        self.add(added);
        ring
    }

    /// A ring of this many bytes into the firehose. Its gaps name `shard`.
    pub fn firehose_ring(&self, shard: u32, bytes: usize) -> FirehoseRing {
        let (ring, added) = self.maker.firehose_ring(shard, bytes);
        self.add(added);
        ring
    }

    fn add(&self, ring: AddedRing) {
        // If the thread has ended, its lanes are closed.
        let _unheard = self.added.send(ring);
        self.thread.unpark();
    }
}
