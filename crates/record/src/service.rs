//! The record as a service: opened before all that write it, closed after them.

use std::path::Path;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard};

use eventlog::lane::{LaneHandle, LaneKind, LogRings, LogThread, RetentionClaim};
use runtime::config::Section;
use runtime::metrics::Exposition;
use runtime::service::{
    BoxError, LocalFuture, Port, RunningService, Service, ServiceError, ServiceShard, Startup,
};
use runtime::shards::ShardContext;
use tracing::warn;

use crate::config::RecordConfig;
use crate::exposition;
use crate::log::{self, RecordError};

/// Port of the node's record. Each service that writes it gets a clone.
pub const RECORD: Port<Record> = Port::new("record");

/// The node's record, for a service that writes or reads it.
#[derive(Clone, Debug)]
pub struct Record {
    /// Holds one directory per lane, named by [`LaneKind::name`].
    pub directory: Arc<Path>,
    /// Number of this node in the cluster.
    pub node: u32,
    /// The lane of records that must not be lost. A service that reads its own records at a start
    /// claims them in its `start`, before it reads: nothing is removed earlier.
    pub durable: LaneHandle,
    /// The lane of auctions.
    pub firehose: LaneHandle,
    /// Makes rings into both lanes. Drop them before the record closes.
    pub rings: LogRings,
    /// Configured size of a ring into the durable lane.
    pub durable_ring_bytes: usize,
    /// Configured size of a shard's ring into the firehose.
    pub firehose_ring_bytes: usize,
}

/// The open record, and the thread that writes it.
#[derive(Debug)]
pub struct RecordService {
    record: Record,
    /// None once it is closed.
    thread: Mutex<Option<LogThread>>,
    /// Protects the whole durable lane until all services have started, so that each can claim
    /// what it needs, and again from the end of the shards on, when they drop their claims.
    claim: Mutex<Option<RetentionClaim>>,
}

impl RecordService {
    /// Opens or creates the record and starts its thread.
    ///
    /// # Errors
    /// The log cannot be opened, or the thread not started.
    pub fn open(config: &RecordConfig) -> Result<Self, RecordError> {
        let log = log::open(config)?;
        let [durable, firehose] =
            [LaneKind::Durable, LaneKind::Firehose].map(|kind| log.lane(kind));
        let claim = Mutex::new(Some(durable.protect()));
        let thread = log.start().map_err(RecordError::Thread)?;
        let record = Record {
            directory: config.directory.as_path().into(),
            node: config.node,
            durable,
            firehose,
            rings: thread.rings().clone(),
            durable_ring_bytes: config.durable.ring_bytes,
            firehose_ring_bytes: config.firehose.ring_bytes,
        };
        Ok(Self { record, thread: Mutex::new(Some(thread)), claim })
    }

    /// The value at the port [`RECORD`].
    pub fn record(&self) -> &Record {
        &self.record
    }

    fn claim(&self) -> MutexGuard<'_, Option<RetentionClaim>> {
        self.claim.lock().expect("nothing panics while it holds the claim")
    }
}

impl Service for RecordService {
    const NAME: &'static str = "record";
    const OFFERS: &'static [&'static str] = &[RECORD.name()];
    const RUNS_ALONE: bool = false;

    type Config = RecordConfig;

    fn read(s: &mut Section<'_>) -> Option<RecordConfig> {
        RecordConfig::read(s)
    }

    fn start(config: RecordConfig, startup: &mut Startup<'_>) -> Result<Arc<Self>, ServiceError> {
        warn_of_open_directory(&config.directory);
        let service = Self::open(&config).map_err(ServiceError::unavailable)?;
        startup.ports.offer(&RECORD, service.record.clone());
        Ok(Arc::new(service))
    }
}

impl RunningService for RecordService {
    /// Every service has started, and has claimed what it needs.
    fn start_shard<'s>(
        self: Arc<Self>,
        _shard: &'s ShardContext,
    ) -> LocalFuture<'s, Result<Option<Rc<dyn ServiceShard>>, BoxError>> {
        drop(self.claim().take());
        Box::pin(async { Ok(None) })
    }

    fn expose(self: Arc<Self>, exposition: &mut Exposition) {
        let Record { durable, firehose, .. } = self.record.clone();
        exposition.add(move |page| exposition::expose([&durable, &firehose], page));
    }

    fn shards_ended(&self) {
        self.claim().get_or_insert_with(|| self.record.durable.protect());
    }

    fn close(&self) -> Result<(), ServiceError> {
        let thread = self.thread.lock().expect("nothing panics while it holds the thread").take();
        if let Some(thread) = thread {
            log::close(thread);
        }
        Ok(())
    }
}

/// Directories that we create are private; an existing one may be open to others.
fn warn_of_open_directory(directory: &Path) {
    if let Some(mode) = runtime::process::open_to_others(directory) {
        warn!(
            "record.directory: other users have rights to {} (mode {mode:o}): chmod 700",
            directory.display()
        );
    }
}

#[cfg(test)]
mod tests;
