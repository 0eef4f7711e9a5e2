//! Who may spend how much: leases rights from the store, durably, and grants slices of them to shards.
//!
//! Owns the limits of accounts and campaigns, what is used of each, and what every shard holds. Knows
//! no disk, no thread and no clock: [`Ledger::step`] takes what has happened, and tells what is to be
//! sent.
//!
//! **Invariant.** Whenever anything is leased, the exposure of every campaign and account is within
//! each of its limits: of its life, of the day, of the hour. What is granted to shards is within what
//! is known to be durable. Both are asserted.
//!
//! **Exposure** of a lease is what was granted less what was returned, and what was spent beside it:
//! late, or above the price. So late wins, prices above those reserved and limits that are cut reduce
//! what is leased later by themselves. A batch of which nobody knows how it ended is exposure, and
//! nothing is granted of it, until a later batch that says the same is committed.
//!
//! **Two sources.** What shards report decides what may be granted again. What the durable log says
//! ([`SettlementRecord`]) decides what batches say was spent: so a batch and its `applied_seq` agree to the
//! record, and a start goes on behind it with the same messages.
//!
//! A step touches the campaigns to which something has happened, and those whose hour, flight or
//! deadline has come.

mod account;
mod bug;
mod campaign;
mod folding;
mod incoming;
mod leasing;
mod limits;
mod lives;
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
    EpochLifetime, Fold, Lease, LeaseKey, SpentSum, StoreWriter, SumKey, UnattributedWin,
};
use account::LedgerAccount;
#[cfg(not(any(test, feature = "testing")))]
use bug::LedgerBug;
use bug::planted;
use campaign::LedgerCampaign;
use campaign::book::{DeadLease, late_of, left_of};
use folding::FoldQueue;
use lives::EpochLifetimes;
use timers::Timers;

#[cfg(any(test, feature = "testing"))]
pub use bug::{LedgerBug, plant};
pub use limits::definition::{
    AccountDefinition, AccountId, BudgetLimits, CampaignBudget, CampaignDefinition, Daypart,
    DefinitionError, Holdback, LimitSpan, Money, SLOTS_MAX, ZoneId,
};
pub use limits::level::{LimitLevel, LimitOwner};
pub use settings::LedgerSettings;
pub use standing::{AccountDiagnosis, HourSpend, Spend, SpendDiagnosis};
pub use step::{
    AcceptedDefinition, LedgerInput, LedgerOutbox, LedgerReply, LedgerTime, SettlementRecord,
};

/// By how much the clock on the wall is believed to have been put back at a start. Where leases are
/// further ahead it was wrong then: who followed it would grant nothing until that time comes.
const AHEAD_MS_MAX: u64 = 2 * 60 * 60 * 1000;

/// Counts of what should not be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LedgerStats {
    /// Batches that ended refused.
    pub refused: u64,
    /// Batches of which nobody knew how they ended.
    pub unknown: u64,
    /// Reports of leases that the ledger does not know, or no more, and settlements of such campaigns.
    pub strays: u64,
    /// What such settlements cost: it is in no book.
    pub stray_nanos: u64,
}

/// A zone, and the hour there now.
struct ZoneHours {
    calendar: Calendar,
    hour: Option<CalendarHour>,
    /// The one behind it.
    next: Option<CalendarHour>,
}

/// A batch whose end is not known yet.
struct BatchInFlight {
    number: u64,
    leases: Vec<(LeaseKey, Lease)>,
    folds: Vec<Fold>,
    applied_seq: u64,
    /// How long this epoch had lasted.
    lasted: Duration,
    /// The oldest epoch of which something is frozen once it is committed.
    frozen_from: Epoch,
}

/// The rights of all accounts and campaigns.
pub struct Ledger {
    settings: LedgerSettings,
    now: LedgerTime,
    zones: BTreeMap<ZoneId, ZoneHours>,
    accounts: Vec<LedgerAccount>,
    account_at: BTreeMap<AccountId, u32>,
    campaigns: Vec<Option<Box<LedgerCampaign>>>,
    /// Campaigns whose account is not known yet.
    strangers: BTreeMap<AccountId, Vec<CampaignDefinition>>,
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
    saved_seq: u64,
    /// What was spent out of leases that it had forgotten, and that no batch has said yet.
    strays: Vec<UnattributedWin>,
    lives: EpochLifetimes,
    is_replayed: bool,
    /// Shards that have ended and said all.
    closed_shards: BTreeSet<u16>,
    /// How much shards that end have taken.
    receipts: BTreeMap<(CampaignIndex, Period, u16), u64>,
    is_closing: bool,
    touched: u64,
    stats: LedgerStats,
}

impl Ledger {
    /// With what the store holds: every lease, of all nodes and epochs, and up to which record of the
    /// log settlements are contained in them.
    ///
    /// # Panics
    /// When the store holds leases of this epoch or a later one: it was not begun anew.
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
        let mut lives = EpochLifetimes::new(&settings, now.tick);
        for (key, lease) in leases {
            let LeaseKey { slot, period, node, epoch } = key;
            let is_own = node == settings.node;
            assert!(!is_own || epoch < settings.epoch, "an epoch begins once: {key:?}");
            let is_near = period.start_unix_ms() <= unix_ms.saturating_add(AHEAD_MS_MAX);
            if is_own && is_near && !planted(LedgerBug::ReopenPeriod) {
                // The clock has been there; or was about to be, where nothing says that it was.
                let is_spent = lease.settled > Nanos::ZERO || late_of(&lease) > 0;
                let ahead_ms = if is_spent { 0 } else { settings.ahead_ms(slot) };
                now.unix_ms = now.unix_ms.max(period.start_unix_ms().saturating_sub(ahead_ms));
            }
            if is_own && left_of(&lease) > 0 {
                lives.freeze(epoch);
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
            saved_seq: applied_seq,
            strays: Vec::new(),
            lives,
            is_replayed: false,
            closed_shards: BTreeSet::new(),
            receipts: BTreeMap::new(),
            is_closing: false,
            touched: 0,
            stats: LedgerStats::default(),
        }
    }

    /// With what the store holds beside leases: all sums, of all nodes. To be told before the first
    /// step: what is missing would be leased once more.
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

    /// With how long the epochs lasted that the store knows of, of all nodes. To be told before the first
    /// step: otherwise what they left is frozen for a whole horizon.
    #[must_use]
    pub fn with_lives(
        mut self,
        lives: impl IntoIterator<Item = (StoreWriter, EpochLifetime)>,
    ) -> Self {
        let own = lives.into_iter().filter(|(of, _)| of.node == self.settings.node);
        let lives: BTreeMap<_, _> = own.map(|(of, life)| (of.epoch, life)).collect();
        self.lives.know(&lives);
        self
    }

    /// Takes what has happened, and says what is to be sent.
    ///
    /// # Panics
    /// When a shard returns or settles more than it was granted, and whenever the invariant does not
    /// hold: nothing may be authorised any more.
    pub fn step(
        &mut self,
        now: LedgerTime,
        inbox: impl IntoIterator<Item = LedgerInput>,
        outbox: &mut LedgerOutbox,
    ) {
        self.advance(now);
        for incoming in inbox {
            self.take(incoming, outbox);
        }
        self.wake();
        self.reclaim();
        self.look(outbox);
        self.lease(outbox);
        self.look(outbox);
    }

    /// A number that no campaign has, and no lease or sum names.
    pub fn next_slot(&self) -> CampaignIndex {
        let known = u32::try_from(self.campaigns.len()).expect("slots are numbered by 32 bits");
        let leased = self.orphans.last_key_value().map_or(0, |(slot, _)| slot.0.saturating_add(1));
        let waiting = self.strangers.values().flatten().map(|definition| definition.slot.0 + 1);
        let folded = self.folding.next_slot();
        CampaignIndex(waiting.max().unwrap_or(0).max(known).max(leased).max(folded))
    }

    /// Whether all that it knows is durable: nothing is missing if it ends now.
    pub fn is_saved(&self) -> bool {
        self.in_flight.is_none()
            && self.dirty.is_empty()
            && self.unsaved.is_empty()
            && self.orphans_unsaved.is_empty()
            && self.strays.is_empty()
            && !self.is_life_due()
            && self.saved_seq == self.applied_seq
    }

    /// The time that it goes by, which never goes back: shards are to be given no other.
    pub const fn now(&self) -> LedgerTime {
        self.now
    }

    /// What should not be.
    pub const fn stats(&self) -> LedgerStats {
        self.stats
    }

    /// How many times a campaign has been looked at since the beginning.
    pub const fn touched(&self) -> u64 {
        self.touched
    }
}

#[cfg(test)]
mod tests;
