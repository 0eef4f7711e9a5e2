//! Starts the ledger's thread, and ends it.
//!
//! At a start the store is opened, a new epoch begun, and all leases read, before any shard has a
//! line: what goes wrong here is told to whoever starts, and nothing is authorised. Between the store
//! and the epoch whoever starts may look at what is defined, and go no further: nothing is used up.

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
    DefinitionKey, EpochLifetime, EpochStart, Lease, LeaseKey, LeaseStore as _, QueryResult,
    SpentSum, StoreAnswer, StoreDenial, StoreFault, StoreQuery, StoreWriter, StoredDefinition,
    StoredKind, SumKey,
};
use runtime::builder::Builder;
use runtime::shutdown::Shutdown;
use tracing::warn;

use super::feed::{SettlementFeed, TOLD_MAX};
use super::handle::{LedgerError, LedgerHandle};
use super::keeper::StatesKeeper;
use super::rings::{LINE_MESSAGES_MAX, LedgerRings, ShardRings};
use super::states::{self, ReadStates};
use super::status::{LedgerClock, LedgerWaker, SharedStatus};
use super::turn::{LedgerChannels, LedgerFault, LedgerLoop, SnapshotSchedule};
use super::zones::Zones;
use crate::store::directory::{DiskDirectory, StoreDirectory};
use crate::store::error::StoreOpenError;
use crate::store::thread::{DiskStore, StoreOptions};

/// How long the store may take to answer at the start: it reads and checks all that it has.
const STORE_PATIENCE: Duration = Duration::from_secs(600);
/// How long the end of the ledger's thread is waited for: a disk that hangs must not keep the process.
const END_PATIENCE: Duration = Duration::from_secs(15);

/// What a ledger is started with.
#[derive(Clone, Debug)]
pub struct LedgerStart {
    /// Where its store is.
    pub directory: PathBuf,
    /// Whose leases it makes: another number for every process that shares budgets.
    pub node: u32,
    /// How many shards there are.
    pub shards: u16,
    /// The least time between two batches of leases.
    pub lease_period: Duration,
    /// For how long a lease lasts at the observed rate.
    pub lease_span: Duration,
    /// For how long a slice lasts at the observed rate.
    pub slice_span: Duration,
    /// The longest that a reservation may be open: what a start had outstanding is frozen for so long
    /// after its end.
    pub horizon: Duration,
    /// How long after that a shard still tells a late win from a repeated one.
    pub late_window: Duration,
    /// How long a strategy's slots are.
    pub slot: Duration,
    /// The least time between two files of strategies' states: what a crash forgets of them.
    pub keep_every: Duration,
    /// From when ticks are counted: the same for all shards.
    pub origin: Instant,
    /// Begun when the books do not add up.
    pub shutdown: Shutdown,
    /// Writes strategies' states.
    pub builder: Builder,
}

/// A ledger that runs.
#[derive(Debug)]
pub struct StartedLedger {
    /// For each shard.
    pub lines: Vec<ShardRings>,
    /// For the durable log.
    pub feed: SettlementFeed,
    /// For all others.
    pub handle: LedgerHandle,
    /// Ends it.
    pub thread: LedgerThread,
}

/// Why a ledger does not start. Nothing may be authorised then.
#[derive(Debug, thiserror::Error)]
pub enum LedgerStartError {
    /// Its store does not open.
    #[error(transparent)]
    Open(#[from] StoreOpenError),
    /// Its store does not begin an epoch, or cannot be read.
    #[error("{place}: {denied}")]
    Begin {
        /// The directory.
        place: String,
        /// Why.
        denied: StoreDenial,
    },
    /// Its store does not answer.
    #[error("{place}: the ledger's store does not answer: see to its disk")]
    Silent {
        /// The directory.
        place: String,
    },
    /// Its thread does not start.
    #[error("the ledger's thread does not start: {0}")]
    Thread(io::Error),
}

/// The ledger's thread. Dropped, it ends like one that is closed, and nobody hears how.
#[derive(Debug)]
pub struct LedgerThread {
    closing: Arc<AtomicBool>,
    waker: LedgerWaker,
    /// Closed when the thread ends.
    ended: mpsc::Receiver<()>,
    patience: Duration,
    thread: Option<JoinHandle<Result<(), LedgerFault>>>,
}

impl LedgerThread {
    /// Takes what shards and log have said, gives back what no reservation holds, keeps that durably, and
    /// closes the store. Shards that go on are not waited for, nor is a store that hangs.
    ///
    /// # Errors
    /// See [`LedgerFault`].
    pub fn close(mut self) -> Result<(), LedgerFault> {
        self.end()
    }

    fn end(&mut self) -> Result<(), LedgerFault> {
        self.closing.store(true, Ordering::Release);
        self.waker.wake();
        let Some(thread) = self.thread.take() else { return Ok(()) };
        if self.ended.recv_timeout(self.patience) == Err(mpsc::RecvTimeoutError::Timeout) {
            // The process ends without it: to the next start it was killed.
            return Err(LedgerFault::Store(StoreFault::Disk));
        }
        thread.join().unwrap_or(Err(LedgerFault::Broken))
    }
}

impl Drop for LedgerThread {
    fn drop(&mut self) {
        // Whoever wants to know how it ended closes it.
        let _ended = self.end();
    }
}

impl LedgerStart {
    fn settings(&self, epoch: Epoch) -> LedgerSettings {
        LedgerSettings {
            lease_period: self.lease_period,
            lease_span: self.lease_span,
            slice_span: self.slice_span,
            horizon: self.horizon,
            late_window: self.late_window,
            ahead: LedgerSettings::ahead_of(self.lease_period),
            is_late_told: false,
            ..LedgerSettings::new(self.node, epoch, self.shards)
        }
    }

    /// Opens the store.
    ///
    /// # Errors
    /// See [`LedgerStartError`]: place and remedy.
    pub fn open(self) -> Result<OpenLedger, LedgerStartError> {
        let waker = LedgerWaker::default();
        let of_store = waker.clone();
        let options =
            StoreOptions { wake: Box::new(move || of_store.wake()), ..StoreOptions::default() };
        let store = DiskStore::open(&self.directory, options)?;
        Ok(OpenLedger { start: self, store, waker })
    }

    /// Opens the store, begins an epoch, and starts the thread.
    ///
    /// # Errors
    /// See [`LedgerStartError`]: place and remedy.
    pub fn start(self) -> Result<StartedLedger, LedgerStartError> {
        self.open()?.begin()
    }

    /// Begins over a store, in the directory that it holds.
    pub(crate) fn start_over(
        self,
        (mut store, waker): (DiskStore, LedgerWaker),
        directory: impl StoreDirectory,
    ) -> Result<StartedLedger, LedgerStartError> {
        let place = || self.directory.display().to_string();
        let clock = LedgerClock { origin: self.origin };
        let node = (self.node, epoch_at(clock.now().unix_ms));
        let (begun, found) = begin(&mut store, node).map_err(|wrong| match wrong {
            Some(denied) => LedgerStartError::Begin { place: place(), denied },
            None => LedgerStartError::Silent { place: place() },
        })?;
        let settings = self.settings(begun.epoch);
        let ledger = Ledger::new(settings, clock.now(), found.leases, begun.applied_seq);
        let ledger = ledger.with_sums(found.sums).with_lives(found.lives);
        let slot_ms = u64::try_from(self.slot.as_millis()).unwrap_or(u64::MAX).max(1);
        let mut pacer = CampaignPacer::new(PacerOptions { shards: self.shards, slot_ms });
        let writer = StoreWriter { node: self.node, epoch: begun.epoch };
        restore(&mut pacer, &directory, writer);
        let keeper = StatesKeeper::start(directory, writer, &self.builder);
        let keeping = SnapshotSchedule::new(keeper, self.keep_every);
        let shared = SharedStatus::new(self.node, begun.epoch, begun.applied_seq);
        let (own, lines) = (0..self.shards)
            .map(|shard| {
                let origin = TokenOrigin { node: self.node, epoch: begun.epoch, shard };
                LedgerRings::new(origin, shared.halted().clone(), LINE_MESSAGES_MAX)
            })
            .unzip();
        let (asks, asked) = mpsc::channel();
        let (told, feed) = mpsc::sync_channel(TOLD_MAX);
        let zones = Zones::default();
        let closing = Arc::<AtomicBool>::default();
        let ends = LedgerChannels { lines: own, asks: asked, feed, closing: Arc::clone(&closing) };
        let desk = LedgerLoop::new(
            (ledger, pacer),
            (store, writer),
            ends,
            (shared.clone(), zones.clone()),
            keeping,
        );
        let desk = desk.at(clock);
        let (begins, shutdown) = (waker.clone(), self.shutdown);
        let (ends, ended) = mpsc::channel();
        let run = move || {
            let _ends: mpsc::Sender<()> = ends;
            begins.begin();
            desk.run(&shutdown)
        };
        let thread = std::thread::Builder::new().name("ledger".to_owned()).spawn(run);
        let thread = Some(thread.map_err(LedgerStartError::Thread)?);
        Ok(StartedLedger {
            lines,
            feed: SettlementFeed { told, shared: shared.clone(), waker: waker.clone() },
            handle: LedgerHandle { asks, shared, waker: waker.clone(), zones },
            thread: LedgerThread { closing, waker, ended, patience: END_PATIENCE, thread },
        })
    }
}

/// A ledger whose store is open. Dropped, it closes it, and the next start finds it as it was.
#[derive(Debug)]
pub struct OpenLedger {
    start: LedgerStart,
    store: DiskStore,
    waker: LedgerWaker,
}

impl OpenLedger {
    /// All definitions of a kind that are kept.
    ///
    /// # Errors
    /// See [`LedgerError`].
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
            Err(None) => Err(LedgerError::Late),
            Ok(other) => unreachable!("definitions were asked for: {other:?}"),
        }
    }

    /// Begins an epoch, and starts the thread.
    ///
    /// # Errors
    /// See [`LedgerStartError`]: place and remedy.
    pub fn begin(self) -> Result<StartedLedger, LedgerStartError> {
        let Self { start, store, waker } = self;
        let directory = DiskDirectory::at(&start.directory);
        start.start_over((store, waker), directory)
    }
}

/// Gives a pacer what a process before has kept, as far as it can be read.
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

/// Epochs are at least the seconds since 1970 at which they begin: so an old copy of the store that is put
/// back, or an empty directory, does not begin one again whose tokens are still about. Behind 2106 they
/// count on.
fn epoch_at(unix_ms: u64) -> Epoch {
    Epoch(u32::try_from(unix_ms / 1000).unwrap_or(1))
}

/// What earlier lives left.
struct StoredState {
    leases: Vec<(LeaseKey, Lease)>,
    /// What was spent out of leases that are folded.
    sums: Vec<(SumKey, SpentSum)>,
    lives: Vec<(StoreWriter, EpochLifetime)>,
}

/// A new epoch, and all that is kept of those before; `None` for a store that does not answer.
fn begin(
    store: &mut DiskStore,
    (node, least): (u32, Epoch),
) -> Result<(EpochStart, StoredState), Option<StoreDenial>> {
    store.begin(node, least);
    let begun = match answer(store)? {
        StoreAnswer::Begun { begun, .. } => begun.map_err(Some)?,
        other => unreachable!("an epoch was to begin: {other:?}"),
    };
    let QueryResult::Leases(leases) = found(store, StoreQuery::Leases(None))? else {
        unreachable!("leases were asked for")
    };
    let QueryResult::Sums(sums) = found(store, StoreQuery::Sums(None))? else {
        unreachable!("sums were asked for")
    };
    let QueryResult::Lives(lives) = found(store, StoreQuery::Lives(Some(node)))? else {
        unreachable!("lives were asked for")
    };
    Ok((begun, StoredState { leases, sums, lives }))
}

fn found(store: &mut DiskStore, query: StoreQuery) -> Result<QueryResult, Option<StoreDenial>> {
    store.read(query);
    match answer(store)? {
        StoreAnswer::Read(found) => found.map_err(Some),
        other => unreachable!("a read is answered by what was found: {other:?}"),
    }
}

fn answer(store: &mut DiskStore) -> Result<StoreAnswer, Option<StoreDenial>> {
    store.wait(STORE_PATIENCE);
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
            // As one whose disk never answers.
            let _never = waited.recv();
            Ok(())
        });
        let patience = Duration::from_millis(1);
        let (closing, waker) = (Arc::default(), LedgerWaker::default());
        let hung = LedgerThread { closing, waker, ended, patience, thread: Some(thread) };
        assert_eq!(hung.close(), Err(LedgerFault::Store(StoreFault::Disk)));
        drop(waits);
    }
}
