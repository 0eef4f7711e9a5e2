//! The ledger's published status, and its waker.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::Thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use pacer_core::ledger::LedgerTime;

use pacer_core::messages::Epoch;
use pacer_core::store::StoreFault;
use runtime::metrics::Exposition;
use units::Tick;

use super::rings::HaltFlag;

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

/// Published status of the ledger.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LedgerStatus {
    /// Node that its leases belong to.
    pub node: u32,
    /// Epoch of this start.
    pub epoch: Epoch,
    /// The store's fault, if any: nothing new is granted then.
    pub failing: Option<StoreFault>,
    /// Whether the books do not add up: nothing more is authorised.
    pub is_halted: bool,
    /// Whether the thread has ended, cleanly or not.
    pub is_over: bool,
    /// Whether the log as of the start is replayed.
    pub is_replayed: bool,
    /// Position up to which the log's settlements are durable in the books.
    pub applied_seq: u64,
    /// Accounts defined.
    pub accounts: u64,
    /// Campaigns defined.
    pub campaigns: u64,
    /// Standing holds for bids of lots.
    pub holds: u64,
    /// Batches committed.
    pub batches: u64,
    /// Batches refused.
    pub refused: u64,
    /// Batches of unknown outcome; each was followed by one that says the same.
    pub unknown: u64,
    /// Reports and settlements of unknown or forgotten leases.
    pub strays: u64,
    /// Cost of such settlements.
    pub stray_nanos: u64,
    /// Messages waiting for room in a shard's ring.
    pub waiting: u64,
    /// Times the pacer looked at a campaign.
    pub looked: u64,
    /// Files of strategies' states written.
    pub states_kept: u64,
    /// Files of strategies' states that could not be written.
    pub states_failed: u64,
    /// Duration of the last turn.
    pub turn: Duration,
    /// Duration of the longest turn.
    pub turn_longest: Duration,
}

#[derive(Clone, Debug)]
pub(crate) struct SharedStatus(Arc<SharedFigures>);

#[derive(Debug)]
struct SharedFigures {
    begun: Instant,
    halted: HaltFlag,
    unix_ms: AtomicU64,
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
            applied_seq: AtomicU64::new(applied_seq),
            status: Mutex::new(status),
        }))
    }

    pub(crate) fn age(&self) -> Duration {
        self.0.begun.elapsed()
    }

    pub(crate) fn halted(&self) -> &HaltFlag {
        &self.0.halted
    }

    pub(crate) fn unix_ms(&self) -> u64 {
        // Grants do not become valid by this clock, so no ordering is needed.
        self.0.unix_ms.load(Ordering::Relaxed)
    }

    pub(crate) fn set_unix_ms(&self, unix_ms: u64) {
        self.0.unix_ms.store(unix_ms, Ordering::Relaxed);
    }

    pub(crate) fn applied_seq(&self) -> u64 {
        // Nothing else is read after it, so no ordering is needed.
        self.0.applied_seq.load(Ordering::Relaxed)
    }

    pub(crate) fn set_applied(&self, seq: u64) {
        self.0.applied_seq.fetch_max(seq, Ordering::Relaxed);
    }

    pub(crate) fn end(&self) {
        self.change(|status| status.is_over = true);
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut LedgerStatus)) {
        change(&mut self.0.status.lock().unwrap_or_else(PoisonError::into_inner));
    }

    pub(crate) fn status(&self) -> LedgerStatus {
        let mut status = self.0.status.lock().unwrap_or_else(PoisonError::into_inner).clone();
        status.is_halted = self.0.halted.is_set();
        status.applied_seq = self.applied_seq();
        status
    }

    /// Adds the ledger's metrics. Campaigns are no label: their number has no limit.
    pub(crate) fn expose(&self, exposition: &mut Exposition) {
        let shared = self.clone();
        exposition.add(move |page| {
            let status = shared.status();
            let is = |it: bool| i64::from(it);
            let count = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
            let mut batches = page.counters("ledger_batches", "Batches of leases, by outcome.")?;
            batches.value(&[("ended", "committed")], status.batches)?;
            batches.value(&[("ended", "refused")], status.refused)?;
            batches.value(&[("ended", "unknown")], status.unknown)?;
            page.counters(
                "ledger_unattributed_wins",
                "Reports and settlements of leases that the ledger does not know.",
            )?
            .value(&[], status.strays)?;
            page.counters(
                "ledger_unattributed_spend",
                "Cost of settlements of leases that the ledger does not know, in any currency.",
            )?
            .nanos(&[], status.stray_nanos)?;
            page.counters("ledger_paces", "Pacing slots that have ended.")?
                .value(&[], status.looked)?;
            let mut states =
                page.counters("ledger_states", "Files of strategies' states, by outcome.")?;
            states.value(&[("ended", "kept")], status.states_kept)?;
            states.value(&[("ended", "failed")], status.states_failed)?;
            page.gauges("ledger_campaigns", "Defined campaigns.")?
                .value(&[], count(status.campaigns))?;
            page.gauges("ledger_holds", "Standing bids of lots whose money is on hold.")?
                .value(&[], count(status.holds))?;
            page.gauges(
                "ledger_messages_waiting",
                "Messages that wait because a shard's ring is full.",
            )?
            .value(&[], count(status.waiting))?;
            page.gauges(
                "ledger_applied_sequence",
                "Sequence number up to which settlements are booked.",
            )?
            .value(&[], count(status.applied_seq))?;
            page.gauges("ledger_store_failing", "Whether leases cannot be made durable.")?
                .value(&[], is(status.failing.is_some()))?;
            page.gauges(
                "ledger_replayed",
                "Whether all settlements that the log held at the start are booked.",
            )?
            .value(&[], is(status.is_replayed))?;
            page.gauges(
                "ledger_halted",
                "Whether the ledger has halted: nothing more is authorized.",
            )?
            .value(&[], is(status.is_halted))?;
            let mut turns =
                page.gauges("ledger_turn_seconds", "Duration of a turn of the ledger's loop.")?;
            turns.seconds(&[("turn", "last")], status.turn)?;
            turns.seconds(&[("turn", "longest")], status.turn_longest)
        });
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct LedgerWaker(Arc<OnceLock<Thread>>);

impl LedgerWaker {
    /// Does nothing before the thread has begun.
    pub(crate) fn wake(&self) {
        if let Some(thread) = self.0.get() {
            thread.unpark();
        }
    }

    pub(crate) fn begin(&self) {
        let _begun = self.0.set(std::thread::current());
    }
}
