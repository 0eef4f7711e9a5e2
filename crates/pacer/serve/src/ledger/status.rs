//! What the ledger's thread lets others see without being asked, and how it is woken.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::Thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use pacer_core::ledger::LedgerTime;

use pacer_core::messages::Epoch;
use pacer_core::store::StoreFault;
use runtime::metrics::Exposition;
use units::Tick;

use super::rings::HaltFlag;

/// Time by both clocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LedgerClock {
    pub origin: Instant,
}

impl LedgerClock {
    pub(crate) fn now(self) -> LedgerTime {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let unix_ms = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
        LedgerTime { tick: Tick::ZERO.after(self.origin.elapsed()), unix_ms }
    }
}

/// How the ledger stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LedgerStatus {
    /// Whose leases it makes.
    pub node: u32,
    /// Which start of the process this is.
    pub epoch: Epoch,
    /// What of its store does not work, if something does not: nothing new is granted then.
    pub failing: Option<StoreFault>,
    /// Whether the books do not add up: nothing is authorised any more.
    pub is_halted: bool,
    /// Whether it has ended, well or not.
    pub is_over: bool,
    /// Whether all that the log held at the start is known.
    pub is_replayed: bool,
    /// Up to which record the log's settlements are durable in its books.
    pub applied_seq: u64,
    /// Accounts and campaigns that are defined.
    pub accounts: u64,
    /// See there.
    pub campaigns: u64,
    /// Batches that were committed.
    pub batches: u64,
    /// Batches that were refused.
    pub refused: u64,
    /// Batches of which nobody knew how they ended; each was followed by one that says the same.
    pub unknown: u64,
    /// Reports and settlements of leases that nobody knows, or no more.
    pub strays: u64,
    /// What such settlements cost.
    pub stray_nanos: u64,
    /// Messages that wait for room in a shard's ring.
    pub waiting: u64,
    /// How often a campaign was looked at.
    pub looked: u64,
    /// Files of strategies' states that were written, and that could not be.
    pub states_kept: u64,
    /// See there.
    pub states_failed: u64,
    /// How long the last turn took, and the longest.
    pub turn: Duration,
    /// See there.
    pub turn_longest: Duration,
}

/// What is shared; clones are the same.
#[derive(Clone, Debug)]
pub(crate) struct SharedStatus(Arc<SharedFigures>);

#[derive(Debug)]
struct SharedFigures {
    begun: Instant,
    halted: HaltFlag,
    /// The time on the wall that the ledger goes by.
    unix_ms: AtomicU64,
    is_over: AtomicBool,
    applied_seq: AtomicU64,
    status: Mutex<LedgerStatus>,
}

impl SharedStatus {
    pub(crate) fn new(node: u32, epoch: Epoch, applied_seq: u64) -> Self {
        let status = LedgerStatus { node, epoch, applied_seq, ..LedgerStatus::default() };
        Self(Arc::new(SharedFigures {
            begun: Instant::now(),
            halted: HaltFlag::default(),
            unix_ms: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
            applied_seq: AtomicU64::new(applied_seq),
            status: Mutex::new(status),
        }))
    }

    /// Since the ledger began.
    pub(crate) fn age(&self) -> Duration {
        self.0.begun.elapsed()
    }

    pub(crate) fn halted(&self) -> &HaltFlag {
        &self.0.halted
    }

    pub(crate) fn unix_ms(&self) -> u64 {
        // Grants do not become valid by it: it stands for itself.
        self.0.unix_ms.load(Ordering::Relaxed)
    }

    pub(crate) fn set_unix_ms(&self, unix_ms: u64) {
        self.0.unix_ms.store(unix_ms, Ordering::Relaxed);
    }

    pub(crate) fn applied_seq(&self) -> u64 {
        // What is read behind it is not: the figure alone says what is durable.
        self.0.applied_seq.load(Ordering::Relaxed)
    }

    pub(crate) fn set_applied(&self, seq: u64) {
        self.0.applied_seq.fetch_max(seq, Ordering::Relaxed);
    }

    pub(crate) fn end(&self) {
        self.0.is_over.store(true, Ordering::Relaxed);
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut LedgerStatus)) {
        change(&mut self.0.status.lock().unwrap_or_else(PoisonError::into_inner));
    }

    pub(crate) fn status(&self) -> LedgerStatus {
        let mut status = self.0.status.lock().unwrap_or_else(PoisonError::into_inner).clone();
        status.is_halted = self.0.halted.is_set();
        status.is_over = self.0.is_over.load(Ordering::Relaxed);
        status.applied_seq = self.applied_seq();
        status
    }

    /// Adds the ledger's metrics. No campaign is a label: there may be any number.
    pub(crate) fn expose(&self, exposition: &mut Exposition) {
        let shared = self.clone();
        exposition.add(move |page| {
            let status = shared.status();
            let is = |it: bool| i64::from(it);
            let count = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
            let mut batches =
                page.counters("ledger_batches", "Batches of leases, by their end.")?;
            batches.value(&[("ended", "committed")], status.batches)?;
            batches.value(&[("ended", "refused")], status.refused)?;
            batches.value(&[("ended", "unknown")], status.unknown)?;
            page.counters("ledger_strays", "Reports and settlements of leases nobody knows.")?
                .value(&[], status.strays)?;
            page.counters("ledger_stray_spend", "What such settlements cost, in any currency.")?
                .nanos(&[], status.stray_nanos)?;
            page.counters("ledger_paces", "Slots of campaigns that were ended.")?
                .value(&[], status.looked)?;
            let mut states =
                page.counters("ledger_states", "Files of strategies' states, by their end.")?;
            states.value(&[("ended", "kept")], status.states_kept)?;
            states.value(&[("ended", "failed")], status.states_failed)?;
            page.gauges("ledger_campaigns", "Campaigns that are defined.")?
                .value(&[], count(status.campaigns))?;
            page.gauges("ledger_messages_waiting", "Messages without room in a shard's ring.")?
                .value(&[], count(status.waiting))?;
            page.gauges("ledger_applied_sequence", "Record up to which settlements are booked.")?
                .value(&[], count(status.applied_seq))?;
            page.gauges("ledger_store_failing", "Whether nothing can be leased durably.")?
                .value(&[], is(status.failing.is_some()))?;
            page.gauges("ledger_replayed", "Whether what the log held at the start is booked.")?
                .value(&[], is(status.is_replayed))?;
            page.gauges("ledger_halted", "Whether nothing may be authorised any more.")?
                .value(&[], is(status.is_halted))?;
            let mut turns = page.gauges("ledger_turn_seconds", "How long a turn takes.")?;
            turns.seconds(&[("turn", "last")], status.turn)?;
            turns.seconds(&[("turn", "longest")], status.turn_longest)
        });
    }
}

/// Wakes the ledger's thread; clones wake the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct LedgerWaker(Arc<OnceLock<Thread>>);

impl LedgerWaker {
    /// Before the thread has begun there is nothing to wake.
    pub(crate) fn wake(&self) {
        if let Some(thread) = self.0.get() {
            thread.unpark();
        }
    }

    /// To be called by the thread itself.
    pub(crate) fn begin(&self) {
        // It begins once.
        let _begun = self.0.set(std::thread::current());
    }
}
