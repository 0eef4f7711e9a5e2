//! Starts and ends the ledger's thread. A start opens the store, begins an epoch and reads all
//! leases before any shard has its rings: on an error nothing is authorised. Before the epoch, a
//! caller may read definitions and stop without using anything up.

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use pacer_core::ledger::{Ledger, LedgerSettings};
use pacer_core::messages::Epoch;
use pacer_core::pacing::{CampaignPacer, PacerOptions, PacingSnapshot};
use pacer_core::shard::token::TokenOrigin;
use pacer_core::store::{
    ChargeKey, DefinitionKey, EpochLifetime, EpochStart, Lease, LeaseKey, LeaseStore as _,
    QueryResult, SpentSum, StoreAnswer, StoreDenial, StoreFault, StoreQuery, StoreWriter,
    StoredDefinition, StoredHold, StoredHoldKey, StoredKind, SumKey,
};
use runtime::builder::Builder;
use runtime::shutdown::Shutdown;
use tracing::warn;
use units::Nanos;

use super::feed::{FeedReceiver, SettlementFeed};
use super::handle::{LedgerError, LedgerHandle};
use super::hold_port::LedgerHoldPort;
use super::rings::{LedgerRings, RING_MESSAGES_MAX, ShardRings};
use super::snapshot_writer::SnapshotWriter;
use super::states::{self, ReadStates};
use super::status::{LedgerClock, LedgerWaker, SharedStatus};
use super::turn::{LedgerChannels, LedgerFault, LedgerLoop, SnapshotSchedule};
use super::zones::Zones;
use crate::store::directory::{DiskDirectory, StoreDirectory};
use crate::store::error::StoreOpenError;
use crate::store::thread::{DiskStore, StoreOptions};

/// How long the store may take to answer at a start: it reads and checks everything.
const STORE_TIMEOUT: Duration = Duration::from_secs(600);
/// How long closing waits for the thread: a hung disk must not keep the process.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(15);

/// Settings of a ledger.
#[derive(Clone, Debug)]
pub struct LedgerStart {
    /// Directory of the store.
    pub directory: PathBuf,
    /// Settings of the rules. The node is distinct for every process that shares budgets; the epoch
    /// begins with the ledger.
    pub settings: LedgerSettings,
    /// Length of a strategy's slot.
    pub slot: Duration,
    /// Least time between two files of strategies' states: what a crash loses of them.
    pub keep_every: Duration,
    /// Origin of ticks, the same for all shards.
    pub origin: Instant,
    /// Parts of the process that write settlements to the log.
    pub writers: usize,
    /// Begun if the books do not add up.
    pub shutdown: Shutdown,
    /// Writes strategies' states.
    pub builder: Builder,
}

/// A running ledger.
#[derive(Debug)]
pub struct StartedLedger {
    /// One for each shard.
    pub rings: Vec<ShardRings>,
    /// One for each writer of settlements.
    pub feeds: Vec<SettlementFeed>,
    /// For the owner of lots.
    pub holds: LedgerHoldPort,
    /// For all others.
    pub handle: LedgerHandle,
    /// Closes the ledger.
    pub thread: LedgerThread,
}

/// Why a ledger does not start. Nothing is authorised then.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages name the fields")]
pub enum LedgerStartError {
    /// The store does not open.
    #[error(transparent)]
    Open(#[from] StoreOpenError),
    /// The store does not begin an epoch, or cannot be read.
    #[error("{place}: {denied}")]
    Begin { place: String, denied: StoreDenial },
    /// The store does not answer.
    #[error("{place}: the ledger's store does not answer: see to its disk")]
    Silent { place: String },
    /// The thread does not start.
    #[error("the ledger's thread does not start: {0}")]
    Thread(io::Error),
}

/// The ledger's thread. Dropping closes it too, without a result.
#[derive(Debug)]
pub struct LedgerThread {
    closing: Arc<AtomicBool>,
    waker: LedgerWaker,
    /// Disconnects when the thread ends.
    ended: mpsc::Receiver<()>,
    timeout: Duration,
    thread: Option<JoinHandle<Result<(), LedgerFault>>>,
}

impl LedgerThread {
    /// Takes pending messages of shards and log, durably returns what no reservation holds, and
    /// closes the store. Does not wait for shards that go on, nor for a store that hangs.
    pub fn close(mut self) -> Result<(), LedgerFault> {
        self.end()
    }

    fn end(&mut self) -> Result<(), LedgerFault> {
        self.closing.store(true, Ordering::Release);
        self.waker.wake();
        let Some(thread) = self.thread.take() else { return Ok(()) };
        if self.ended.recv_timeout(self.timeout) == Err(mpsc::RecvTimeoutError::Timeout) {
            // The process ends without it; the next start treats it as killed.
            return Err(LedgerFault::Store(StoreFault::Disk));
        }
        thread.join().unwrap_or(Err(LedgerFault::Broken))
    }
}

impl Drop for LedgerThread {
    fn drop(&mut self) {
        // Use `close` for the result.
        let _ended = self.end();
    }
}

impl LedgerStart {
    /// Opens the store.
    pub fn open(self) -> Result<OpenLedger, LedgerStartError> {
        let waker = LedgerWaker::default();
        let of_store = waker.clone();
        let options =
            StoreOptions { wake: Box::new(move || of_store.wake()), ..StoreOptions::default() };
        let store = DiskStore::open(&self.directory, options)?;
        Ok(OpenLedger { start: self, store, waker })
    }

    /// Opens the store, begins an epoch and starts the thread.
    pub fn start(self) -> Result<StartedLedger, LedgerStartError> {
        self.open()?.begin()
    }

    pub(crate) fn start_over(
        self,
        mut store: DiskStore,
        waker: LedgerWaker,
        directory: impl StoreDirectory,
    ) -> Result<StartedLedger, LedgerStartError> {
        let place = || self.directory.display().to_string();
        let clock = LedgerClock { origin: self.origin };
        let least = epoch_at(clock.now().unix_ms);
        let LedgerSettings { node, shards, .. } = self.settings;
        let (begun, found) = begin(&mut store, node, least).map_err(|wrong| match wrong {
            Some(denied) => LedgerStartError::Begin { place: place(), denied },
            None => LedgerStartError::Silent { place: place() },
        })?;
        let settings = LedgerSettings { epoch: begun.epoch, ..self.settings };
        let ledger = Ledger::new(settings, clock.now(), found.leases, begun.applied_seq);
        let ledger = ledger.with_sums(found.sums).with_epoch_lifetimes(found.lives);
        let ledger = ledger.with_holds(found.holds, found.charges);
        let slot_ms = u64::try_from(self.slot.as_millis()).unwrap_or(u64::MAX).max(1);
        let mut pacer = CampaignPacer::new(PacerOptions { shards, slot_ms });
        let writer = StoreWriter { node, epoch: begun.epoch };
        restore(&mut pacer, &directory, writer);
        let writing = SnapshotWriter::start(directory, writer, &self.builder);
        let snapshots = SnapshotSchedule::new(writing, self.keep_every);
        let shared = SharedStatus::new(node, begun.epoch, begun.applied_seq);
        let (own, rings) = (0..shards)
            .map(|shard| {
                let origin = TokenOrigin { node, epoch: begun.epoch, shard };
                LedgerRings::new(origin, shared.halted().clone(), RING_MESSAGES_MAX)
            })
            .unzip();
        let (asks, asked) = mpsc::channel();
        let feed = FeedReceiver::default();
        // Without a writer the log has nothing to replay.
        drop(feed.source(shared.clone(), waker.clone()));
        let feeds = (0..self.writers).map(|_| feed.source(shared.clone(), waker.clone())).collect();
        let (holds, hold_receiver) = LedgerHoldPort::new(waker.clone(), shared.clone());
        let zones = Zones::default();
        let closing = Arc::<AtomicBool>::default();
        let ends = LedgerChannels {
            rings: own,
            asks: asked,
            feed,
            holds: hold_receiver,
            closing: Arc::clone(&closing),
            status: shared.clone(),
            zones: zones.clone(),
            clock,
        };
        let ledger_loop = LedgerLoop::new(ledger, pacer, store, ends, snapshots);
        let (begins, shutdown) = (waker.clone(), self.shutdown);
        let (ends, ended) = mpsc::channel();
        let run = move || {
            let _ends: mpsc::Sender<()> = ends;
            begins.begin();
            ledger_loop.run(&shutdown)
        };
        let thread = std::thread::Builder::new().name("ledger".to_owned()).spawn(run);
        let thread = Some(thread.map_err(LedgerStartError::Thread)?);
        Ok(StartedLedger {
            rings,
            feeds,
            holds,
            handle: LedgerHandle { asks, shared, waker: waker.clone(), zones },
            thread: LedgerThread { closing, waker, ended, timeout: CLOSE_TIMEOUT, thread },
        })
    }
}

/// A ledger with an open store. Dropping it closes the store unchanged.
#[derive(Debug)]
pub struct OpenLedger {
    start: LedgerStart,
    store: DiskStore,
    waker: LedgerWaker,
}

impl OpenLedger {
    /// All stored definitions of a kind.
    pub fn definitions(
        &mut self,
        kind: StoredKind,
    ) -> Result<Vec<(DefinitionKey, StoredDefinition)>, LedgerError> {
        self.store.read(StoreQuery::Definitions(kind));
        match answer(&mut self.store) {
            Ok(StoreAnswer::Read(Ok(QueryResult::Definitions(definitions)))) => Ok(definitions),
            Ok(StoreAnswer::Read(Err(denied))) | Err(Some(denied)) => {
                Err(LedgerError::Denied(denied))
            }
            Err(None) => Err(LedgerError::TimedOut),
            Ok(other) => unreachable!("definitions were asked for: {other:?}"),
        }
    }

    /// Begins an epoch and starts the thread.
    pub fn begin(self) -> Result<StartedLedger, LedgerStartError> {
        let Self { start, store, waker } = self;
        let directory = DiskDirectory::at(&start.directory);
        start.start_over(store, waker, directory)
    }
}

fn restore(pacer: &mut CampaignPacer, directory: &impl StoreDirectory, writer: StoreWriter) {
    let mut take = |row: &[u8]| PacingSnapshot::decode(row).map(|kept| pacer.restore(kept)).is_ok();
    match states::read(directory, writer, &mut take) {
        Ok(ReadStates { damaged: 0, .. }) => (),
        Ok(ReadStates { taken, damaged }) => {
            warn!(
                taken,
                damaged, "strategies' states are damaged: their campaigns begin low again"
            );
        }
        Err(why) => warn!(%why, "no strategy's state is taken: campaigns begin low again"),
    }
}

/// Epochs are at least their start in seconds since 1970: an old copy of the store, or an empty
/// directory, does not reuse an epoch whose tokens still exist. After 2106 they count on from the
/// last.
fn epoch_at(unix_ms: u64) -> Epoch {
    Epoch(u32::try_from(unix_ms / 1000).unwrap_or(1))
}

#[derive(Default)]
struct StoredState {
    leases: Vec<(LeaseKey, Lease)>,
    sums: Vec<(SumKey, SpentSum)>,
    lives: Vec<(StoreWriter, EpochLifetime)>,
    holds: Vec<(StoredHoldKey, StoredHold)>,
    charges: Vec<(ChargeKey, Nanos)>,
}

/// Begins a new epoch, and reads earlier state. The error is None if the store does not answer.
fn begin(
    store: &mut DiskStore,
    node: u32,
    least: Epoch,
) -> Result<(EpochStart, StoredState), Option<StoreDenial>> {
    store.begin(node, least);
    let begun = match answer(store)? {
        StoreAnswer::Begun { begun, .. } => begun.map_err(Some)?,
        other => unreachable!("an epoch was to begin: {other:?}"),
    };
    let queries = [
        StoreQuery::Leases(None),
        StoreQuery::Sums(None),
        StoreQuery::EpochLifetimes(Some(node)),
        StoreQuery::Holds(None),
        StoreQuery::Charges(None),
    ];
    let mut stored = StoredState::default();
    for query in queries {
        match found(store, query)? {
            QueryResult::Leases(leases) => stored.leases = leases,
            QueryResult::Sums(sums) => stored.sums = sums,
            QueryResult::EpochLifetimes(lives) => stored.lives = lives,
            QueryResult::Holds(holds) => stored.holds = holds,
            QueryResult::Charges(charges) => stored.charges = charges,
            other => unreachable!("nobody asked for {other:?}"),
        }
    }
    Ok((begun, stored))
}

fn found(store: &mut DiskStore, query: StoreQuery) -> Result<QueryResult, Option<StoreDenial>> {
    store.read(query);
    match answer(store)? {
        StoreAnswer::Read(found) => found.map_err(Some),
        other => unreachable!("a read is answered by what was found: {other:?}"),
    }
}

fn answer(store: &mut DiskStore) -> Result<StoreAnswer, Option<StoreDenial>> {
    store.wait(STORE_TIMEOUT);
    store.poll().ok_or(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_hangs_does_not_keep_the_process() {
        let (ends, ended) = mpsc::channel::<()>();
        let (waits, waited) = mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            let _ends = ends;
            // Like a thread whose disk never answers.
            let _never = waited.recv();
            Ok(())
        });
        let timeout = Duration::from_millis(1);
        let (closing, waker) = (Arc::default(), LedgerWaker::default());
        let hung = LedgerThread { closing, waker, ended, timeout, thread: Some(thread) };
        assert_eq!(hung.close(), Err(LedgerFault::Store(StoreFault::Disk)));
        drop(waits);
    }
}
