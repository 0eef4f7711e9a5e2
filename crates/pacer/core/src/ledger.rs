//! The ledger leases budget from the store durably and grants slices of it to shards.
//!
//! Owns the limits of accounts and campaigns, the use of each, and every shard's balance. Has no
//! disk, thread or clock: [`Ledger::step`] takes events and returns messages to send.
//!
//! **Invariant.** Whenever anything is leased, the exposure of every campaign and account is within
//! each of its limits: total, daily, hourly. Grants to shards are within what is known to be
//! durable. The ledger asserts both.
//!
//! **Exposure** of a lease is granted less returned, plus what was spent in addition: late, or
//! above the price. So late wins, higher prices and lowered limits reduce later leases by
//! themselves. A batch with an unknown outcome counts as exposure, and nothing of it is granted
//! until a later batch with the same content is committed.
//!
//! A hold is exposure of its account as well, from the decision to its end.
//!
//! **Two sources.** Shards' reports decide what may be granted again. The durable log
//! ([`SettlementRecord`]) decides what batches record as spent. So a batch agrees with its
//! `applied_seq` to the record, and a restart resumes after it with the same messages.
//!
//! A step touches only campaigns with events, or whose hour, flight or deadline has come.

mod account;
mod campaign;
mod epoch_lifetimes;
mod folding;
mod holds;
mod incoming;
mod leasing;
mod limits;
mod settings;
mod standing;
mod step;
mod timers;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use units::{Nanos, Tick};

use crate::calendar::{Calendar, CalendarHour, Period};
use crate::messages::{CampaignIndex, Epoch};
use crate::store::{
    EpochLifetime, Fold, HoldName, Lease, LeaseKey, SpentSum, StoreWriter, StoredHold, SumKey,
    UnattributedWin,
};
use account::LedgerAccount;
use account::holds::HoldBook;
use campaign::LedgerCampaign;
use campaign::book::{DeadLease, late_of, left_of};
use epoch_lifetimes::EpochLifetimes;
use folding::FoldQueue;
use timers::Timers;

pub use limits::definition::{
    AccountId, AccountTerms, BudgetLimits, CAMPAIGNS_MAX, CampaignBudget, CampaignTerms, Daypart,
    DefinitionError, Holdback, LimitSpan, Money, ZoneId,
};
pub use limits::level::{LimitLevel, LimitOwner};
pub use settings::LedgerSettings;
pub use standing::{AccountDiagnosis, HourSpend, Spend, SpendDiagnosis};
pub use step::{
    AcceptedDefinition, HoldAnswer, HoldDenial, HoldInput, HoldOutcome, HoldPlacement, LedgerInput,
    LedgerOutbox, LedgerReply, LedgerTime, SettlementRecord,
};

/// How far the wall clock may have gone back at a start. Leases further ahead mean that it was
/// wrong before: trusting them would stop all grants until that time comes.
const AHEAD_MS_MAX: u64 = 2 * 60 * 60 * 1000;

/// Counters of anomalies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LedgerStats {
    /// Batches refused.
    pub refused: u64,
    /// Batches with an unknown outcome.
    pub unknown: u64,
    /// Reports and settlements of leases or campaigns that the ledger does not know.
    pub strays: u64,
    /// Cost of such settlements, which is in no book.
    pub stray_nanos: u64,
}

struct ZoneHours {
    calendar: Calendar,
    hour: Option<CalendarHour>,
    next: Option<CalendarHour>,
}

struct BatchInFlight {
    number: u64,
    leases: Vec<(LeaseKey, Lease)>,
    folds: Vec<Fold>,
    holds: Vec<(HoldName, StoredHold)>,
    hold_folds: Vec<HoldName>,
    applied_seq: u64,
    lasted: Duration,
    /// The oldest epoch that still has frozen budget once the batch is committed.
    frozen_from: Epoch,
}

/// The budgets of all accounts and campaigns.
pub struct Ledger {
    settings: LedgerSettings,
    now: LedgerTime,
    zones: BTreeMap<ZoneId, ZoneHours>,
    accounts: Vec<LedgerAccount>,
    account_at: BTreeMap<AccountId, u32>,
    campaigns: Vec<Option<Box<LedgerCampaign>>>,
    /// Campaigns whose account is not known yet.
    strangers: BTreeMap<AccountId, Vec<CampaignTerms>>,
    /// Leases whose campaign is not known yet.
    orphans: BTreeMap<CampaignIndex, Vec<(Period, DeadLease)>>,
    orphans_unsaved: BTreeSet<CampaignIndex>,
    folding: FoldQueue,
    dirty: Vec<CampaignIndex>,
    unsaved: VecDeque<CampaignIndex>,
    hungry: Vec<CampaignIndex>,
    by_unix_ms: Timers,
    by_tick: Timers,
    in_flight: Option<BatchInFlight>,
    next_number: u64,
    next_lease: Tick,
    is_store_failing: bool,
    applied_seq: u64,
    /// `applied_seq` when the step began.
    applied_before: u64,
    saved_seq: u64,
    /// Wins of dropped leases that no batch contains yet.
    strays: Vec<UnattributedWin>,
    epoch_lifetimes: EpochLifetimes,
    holds: HoldBook,
    is_replayed: bool,
    closed_shards: BTreeSet<u16>,
    receipts: BTreeMap<(CampaignIndex, Period, u16), u64>,
    is_closing: bool,
    /// How often a campaign was looked at.
    #[cfg(test)]
    touched: u64,
    stats: LedgerStats,
}

impl Ledger {
    /// Starts from the store's leases, of all nodes and epochs, and the last log record whose
    /// settlements they contain.
    ///
    /// # Panics
    /// If the store has leases of this epoch or a later one.
    pub fn new(
        settings: LedgerSettings,
        now: LedgerTime,
        leases: impl IntoIterator<Item = (LeaseKey, Lease)>,
        applied_seq: u64,
    ) -> Self {
        assert!(settings.shards > 0 && settings.nodes > 0, "a ledger has shards and nodes");
        let mut orphans: BTreeMap<CampaignIndex, Vec<_>> = BTreeMap::new();
        let unix_ms = now.unix_ms;
        let mut now = now;
        let mut epoch_lifetimes = EpochLifetimes::new(&settings, now.tick);
        for (key, lease) in leases {
            let LeaseKey { slot, period, node, epoch } = key;
            let is_own = node == settings.node;
            assert!(!is_own || epoch < settings.epoch, "an epoch begins once: {key:?}");
            let is_near = period.start_unix_ms() <= unix_ms.saturating_add(AHEAD_MS_MAX);
            if is_own && is_near {
                // The clock had reached this hour or, if nothing is spent in it, the time of its
                // lease.
                let is_spent = lease.settled > Nanos::ZERO || late_of(&lease) > 0;
                let ahead_ms = if is_spent { 0 } else { settings.ahead_ms(slot) };
                now.unix_ms = now.unix_ms.max(period.start_unix_ms().saturating_sub(ahead_ms));
            }
            if is_own && left_of(&lease) > 0 {
                epoch_lifetimes.freeze(epoch);
            }
            let dead = DeadLease { node, epoch, lease, is_unsaved: false, is_in_flight: false };
            orphans.entry(slot).or_default().push((period, dead));
        }
        Self {
            settings,
            now,
            zones: BTreeMap::new(),
            accounts: Vec::new(),
            account_at: BTreeMap::new(),
            campaigns: Vec::new(),
            strangers: BTreeMap::new(),
            orphans,
            orphans_unsaved: BTreeSet::new(),
            folding: FoldQueue::default(),
            dirty: Vec::new(),
            unsaved: VecDeque::new(),
            hungry: Vec::new(),
            by_unix_ms: Timers::default(),
            by_tick: Timers::default(),
            in_flight: None,
            next_number: 1,
            next_lease: now.tick,
            is_store_failing: false,
            applied_seq,
            applied_before: applied_seq,
            saved_seq: applied_seq,
            strays: Vec::new(),
            epoch_lifetimes,
            holds: HoldBook::default(),
            is_replayed: false,
            closed_shards: BTreeSet::new(),
            receipts: BTreeMap::new(),
            is_closing: false,
            #[cfg(test)]
            touched: 0,
            stats: LedgerStats::default(),
        }
    }

    /// Adds the store's sums, of all nodes, before the first step. Missing sums are leased again.
    #[must_use]
    pub fn with_sums(mut self, sums: impl IntoIterator<Item = (SumKey, SpentSum)>) -> Self {
        for (SumKey { slot, node, day }, spent) in sums {
            if let Some(day) = day.filter(|_| node == self.settings.node) {
                self.folding.has_sum(slot, day);
            }
            self.folding.waiting.entry(slot).or_default().push((day, spent));
        }
        self
    }

    /// Adds the store's epoch lifetimes, of all nodes, before the first step. Without them, earlier
    /// epochs' remainders stay frozen for a whole horizon.
    #[must_use]
    pub fn with_epoch_lifetimes(
        mut self,
        lives: impl IntoIterator<Item = (StoreWriter, EpochLifetime)>,
    ) -> Self {
        let own = lives.into_iter().filter(|(of, _)| of.node == self.settings.node);
        let lives: BTreeMap<_, _> = own.map(|(of, life)| (of.epoch, life)).collect();
        self.epoch_lifetimes.know(&lives);
        self
    }

    /// Processes events and returns messages to send.
    ///
    /// # Panics
    /// If a shard returns or settles more than it was granted, or the invariant is broken: nothing
    /// may be authorised any more.
    pub fn step(
        &mut self,
        now: LedgerTime,
        inbox: impl IntoIterator<Item = LedgerInput>,
        outbox: &mut LedgerOutbox,
    ) {
        self.advance(now);
        self.applied_before = self.applied_seq;
        for incoming in inbox {
            self.take(incoming, outbox);
        }
        self.wake();
        self.reclaim();
        self.look(outbox);
        self.lease(outbox);
        self.look(outbox);
    }

    /// A number that no campaign, lease or sum uses.
    pub fn next_slot(&self) -> CampaignIndex {
        let known = u32::try_from(self.campaigns.len()).expect("slots are numbered by 32 bits");
        let leased = self.orphans.last_key_value().map_or(0, |(slot, _)| slot.0.saturating_add(1));
        let waiting = self.strangers.values().flatten().map(|definition| definition.slot.0 + 1);
        let folded = self.folding.next_slot();
        CampaignIndex(waiting.max().unwrap_or(0).max(known).max(leased).max(folded))
    }

    /// Whether everything is durable: a stop now loses nothing.
    pub fn is_saved(&self) -> bool {
        self.in_flight.is_none()
            && self.dirty.is_empty()
            && self.unsaved.is_empty()
            && self.orphans_unsaved.is_empty()
            && self.strays.is_empty()
            && self.holds.unsaved.is_empty()
            && !self.is_life_due()
            && self.saved_seq == self.applied_seq
    }

    /// The ledger's time, which never goes back. Give shards no other.
    pub const fn now(&self) -> LedgerTime {
        self.now
    }

    /// Counters of anomalies.
    pub const fn stats(&self) -> LedgerStats {
        self.stats
    }
}

#[cfg(test)]
mod tests;
