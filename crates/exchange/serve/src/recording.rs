//! What the exchange writes to the node's record: auctions, and generations of its configuration.
//!
//! `exchange_core::record` defines records, the service `record` writes them.

mod generations;
mod recorder;

use eventlog::LogReadError;
use eventlog::lane::LaneKind;
use record::Record;

pub(crate) use generations::GenerationLog;
pub use generations::GenerationRecordError;
use generations::newest_number;
pub(crate) use recorder::Recorder;

/// The exchange's writers.
pub(crate) struct RecordParts {
    /// By shard. None if nothing is recorded.
    pub recorders: Vec<Option<Recorder>>,
    pub generations: Option<GenerationLog>,
}

impl RecordParts {
    /// Makes the rings, and reads the last generation's number.
    pub fn of(record: Option<&Record>, shards: usize) -> Result<Self, LogReadError> {
        let Some(record) = record else {
            return Ok(Self { recorders: (0..shards).map(|_| None).collect(), generations: None });
        };
        let number = newest_number(&record.directory.join(LaneKind::Durable.name()))?;
        let recorders = (0..shards).map(|shard| {
            let shard = u32::try_from(shard).expect("shards are counted by 16 bits");
            let ring = record.rings.firehose_ring(shard, record.firehose_ring_bytes);
            Some(Recorder::new(ring))
        });
        let generations = Some(GenerationLog::new(&record.rings, number));
        Ok(Self { recorders: recorders.collect(), generations })
    }
}
