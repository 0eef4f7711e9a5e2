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
//! ([`Settlement`]) decides what batches say was spent: so a batch and its `applied_seq` agree to the
//! record, and a start goes on behind it with the same messages.
//!
//! A step touches the campaigns to which something has happened, and those whose hour, flight or
//! deadline has come.

mod account;
mod ahead;
mod book;
mod bug;
mod campaign;
mod closing;
mod definition;
mod folding;
mod incoming;
mod leasing;
mod level;
mod lives;
mod standing;
mod tally;
mod timers;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use units::{Currency, Nanos, Tick};

use crate::calendar::{Calendar, Hour, Period};
use crate::messages::{Epoch, Gate, Grant, Receipt, Report, Slot, Want};
use crate::store::{BATCH_LEASES_MAX, Batch, Ended, Fold, Lease, LeaseKey, Stray};
use account::Account;
use book::{Dead, late_of, left_of};
#[cfg(not(any(test, feature = "testing")))]
use bug::Bug;
use bug::planted;
use campaign::Campaign;
use folding::Folding;
use lives::Lives;
use timers::Timers;

#[cfg(any(test, feature = "testing"))]
pub use bug::{Bug, plant};
pub use definition::{
    AccountDefinition, AccountId, CampaignBudget, CampaignDefinition, Daypart, DefinitionError,
    Holdback, Limits, Money, SLOTS_MAX, ZoneId,
};
pub use level::{Level, Owner, Span};
pub use standing::{AccountWhy, HourSpend, Spend, Why};

/// By how much the clock on the wall is believed to have been put back at a start. Where leases are
/// further ahead it was wrong then: who followed it would grant nothing until that time comes.
const AHEAD_MS_MAX: u64 = 2 * 60 * 60 * 1000;

/// How a ledger works.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Whose leases it makes.
    pub node: u32,
    /// Which start of the process this is; larger than any before.
    pub epoch: Epoch,
    /// Shards are numbered from 0; at least one.
    pub shards: u16,
    /// Nodes that share the budgets: no lease takes more than a quarter of a node's part of what
    /// remains. At least one.
    pub nodes: u16,
    /// The least time between two batches.
    pub lease_period: Duration,
    /// For how long a lease lasts at the observed rate.
    pub lease_span: Duration,
    /// How long before an hour ends the next one's rights are leased and granted, up to a lease period
    /// more: see [`Settings::ahead_of`]. With none each hour begins without rights.
    pub ahead: Duration,
    /// For how long a slice lasts at the observed rate.
    pub slice_span: Duration,
    /// The longest that a token lives (a shard's longest time to live and a sixteenth), and beside it
    /// what a win takes to come here by the log: what comes later may have been leased again.
    pub horizon: Duration,
    /// How long after that a shard still tells a late win from a repeated one.
    pub late_window: Duration,
    /// Whether settlements say which wins came late. An exchange that writes its record before it asks
    /// the shard does not know: then all of a win is told as settled.
    pub is_late_told: bool,
    /// How long after its end an hour keeps its row in the store, once nothing can change it: for whoever
    /// looks at hours, and at least as long as a clock may be put back at a start.
    pub hours_kept: Duration,
    /// For how long rights may lie at a shard that makes no use of them, where others need them.
    pub patience: Duration,
    /// Campaigns whose time has come that one step looks at; the next ones look at the rest.
    pub wakes_max: usize,
    /// The most leases of a batch; the next one says the rest.
    pub leases_max: usize,
}

impl Settings {
    /// Leases by the second, two seconds' worth; slices of a tenth of a second.
    pub fn new(node: u32, epoch: Epoch, shards: u16) -> Self {
        let lease_period = Duration::from_secs(1);
        Self {
            node,
            epoch,
            shards,
            nodes: 1,
            lease_period,
            lease_span: Duration::from_secs(2),
            ahead: Self::ahead_of(lease_period),
            slice_span: Duration::from_millis(100),
            horizon: Duration::from_secs(15 * 60),
            late_window: Duration::from_secs(60 * 60),
            is_late_told: true,
            hours_kept: Duration::from_secs(24 * 60 * 60),
            patience: Duration::from_secs(5),
            wakes_max: 4096,
            leases_max: BATCH_LEASES_MAX,
        }
    }
}

/// The time by both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// By the clock that never goes back.
    pub tick: Tick,
    /// By the clock on the wall, in milliseconds since 1970, UTC. Where it goes back the ledger stays
    /// at the latest that it has seen: a period that is over is never opened again.
    pub unix_ms: u64,
}

/// A record of the durable log that settles. Of any epoch; in the log's order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settlement {
    /// The record's number. What is not larger than the last was applied before.
    pub seq: u64,
    /// What the reservation's token says.
    pub key: LeaseKey,
    /// Out of the lease. What the lease has no room for any more is late.
    pub settled: Nanos,
    /// After the reservation had expired: see [`Settings::is_late_told`].
    pub late: Nanos,
    /// Above what was reserved.
    pub over: Nanos,
    /// Of all three.
    pub currency: Currency,
}

/// What a ledger is told.
#[derive(Clone, Debug)]
pub enum Incoming {
    /// The hours of a zone, from a day before now at the latest. A later table agrees on the hours
    /// that have begun, or are about to.
    Calendar(ZoneId, Calendar),
    /// An account, new or changed.
    Account(AccountDefinition),
    /// A campaign, new or changed. It may come before its account. As long as a lease waits for its
    /// campaign nothing is leased to any: nobody knows of which account it is.
    Campaign(CampaignDefinition),
    /// From a shard.
    Report(u16, Report),
    /// From a shard.
    Want(u16, Want),
    /// From a shard that takes no more: behind all its reports.
    Receipt(u16, Receipt),
    /// From a shard: it has ended, and has said all.
    ShardClosed(u16),
    /// The process ends: nothing is leased or granted from now on, and what no shard holds goes back.
    Close,
    /// From the store: how the batch of this number ended.
    Ended(u64, Ended),
    /// From the durable log.
    Settlement(Settlement),
    /// From the durable log: up to this record all settlements have been told.
    Logged(u64),
    /// From the durable log: all that is in it has been told, what came since the process started
    /// included, and so has every account and campaign that there is. Nothing is leased before: sums
    /// would lack something. What comes after the horizon is late.
    Replayed,
}

/// What became of a definition or a settlement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// An account holds as defined. By how much a limit of it is exceeded: nothing is granted until
    /// that has gone down.
    Account(AccountId, Result<Taken, DefinitionError>),
    /// A campaign holds as defined.
    Campaign(Slot, Result<Taken, DefinitionError>),
    /// A calendar is not taken: it says other hours than the one before.
    CalendarContradicts(ZoneId),
    /// A settlement is refused: its currency is not its account's.
    SettlementMixed(u64),
}

/// A definition that was taken, or was taken before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// Whether it is newer than what was known.
    pub is_newer: bool,
    /// The most by which exposure exceeds a limit of it.
    pub excess: Nanos,
}

/// What a ledger tells. Who reads it clears it. A shard takes its gates first: what it is granted
/// while it is recalled it sends back.
#[derive(Clone, Debug, Default)]
pub struct Outbox {
    /// For the store; the next one comes when this one has ended.
    pub batch: Option<Batch>,
    /// By shard.
    pub grants: Vec<(u16, Grant)>,
    /// By shard.
    pub gates: Vec<(u16, Gate)>,
    /// For whoever defines.
    pub notices: Vec<Notice>,
}

impl Outbox {
    /// Empties it.
    pub fn clear(&mut self) {
        self.batch = None;
        self.grants.clear();
        self.gates.clear();
        self.notices.clear();
    }
}

/// Counts of what should not be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
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
struct Zone {
    calendar: Calendar,
    hour: Option<Hour>,
    /// The one behind it.
    next: Option<Hour>,
}

/// A batch whose end is not known yet.
struct InFlight {
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
    settings: Settings,
    now: Now,
    zones: BTreeMap<ZoneId, Zone>,
    accounts: Vec<Account>,
    account_at: BTreeMap<AccountId, u32>,
    campaigns: Vec<Option<Box<Campaign>>>,
    /// Campaigns whose account is not known yet.
    strangers: BTreeMap<AccountId, Vec<CampaignDefinition>>,
    /// Leases whose campaign is not known yet.
    orphans: BTreeMap<Slot, Vec<(Period, Dead)>>,
    orphans_unsaved: BTreeSet<Slot>,
    folding: Folding,
    dirty: Vec<Slot>,
    unsaved: VecDeque<Slot>,
    hungry: Vec<Slot>,
    by_unix_ms: Timers,
    by_tick: Timers,
    in_flight: Option<InFlight>,
    next_number: u64,
    next_lease: Tick,
    is_store_failing: bool,
    applied_seq: u64,
    saved_seq: u64,
    /// What was spent out of leases that it had forgotten, and that no batch has said yet.
    strays: Vec<Stray>,
    lives: Lives,
    is_replayed: bool,
    /// Shards that have ended and said all.
    closed_shards: BTreeSet<u16>,
    /// How much shards that end have taken.
    receipts: BTreeMap<(Slot, Period, u16), u64>,
    is_closing: bool,
    touched: u64,
    stats: Stats,
}

impl Ledger {
    /// With what the store holds: every lease, of all nodes and epochs, and up to which record of the
    /// log settlements are contained in them.
    ///
    /// # Panics
    /// When the store holds leases of this epoch or a later one: it was not begun anew.
    pub fn new(
        settings: Settings,
        now: Now,
        leases: impl IntoIterator<Item = (LeaseKey, Lease)>,
        applied_seq: u64,
    ) -> Self {
        assert!(settings.shards > 0 && settings.nodes > 0, "a ledger has shards and nodes");
        let mut orphans: BTreeMap<Slot, Vec<_>> = BTreeMap::new();
        let unix_ms = now.unix_ms;
        let mut now = now;
        let mut lives = Lives::new(&settings, now.tick);
        for (key, lease) in leases {
            let LeaseKey { slot, period, node, epoch } = key;
            let is_own = node == settings.node;
            assert!(!is_own || epoch < settings.epoch, "an epoch begins once: {key:?}");
            let is_near = period.start_unix_ms() <= unix_ms.saturating_add(AHEAD_MS_MAX);
            if is_own && is_near && !planted(Bug::ReopenPeriod) {
                // The clock has been there; or was about to be, where nothing says that it was.
                let is_spent = lease.settled > Nanos::ZERO || late_of(&lease) > 0;
                let ahead_ms = if is_spent { 0 } else { settings.ahead_ms(slot) };
                now.unix_ms = now.unix_ms.max(period.start_unix_ms().saturating_sub(ahead_ms));
            }
            if is_own && left_of(&lease) > 0 {
                lives.freeze(epoch);
            }
            let dead = Dead { node, epoch, lease, is_unsaved: false, is_in_flight: false };
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
            folding: Folding::default(),
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
            stats: Stats::default(),
        }
    }

    /// Takes what has happened, and says what is to be sent.
    ///
    /// # Panics
    /// When a shard returns or settles more than it was granted, and whenever the invariant does not
    /// hold: nothing may be authorised any more.
    pub fn step(
        &mut self,
        now: Now,
        inbox: impl IntoIterator<Item = Incoming>,
        outbox: &mut Outbox,
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
    pub fn next_slot(&self) -> Slot {
        let known = u32::try_from(self.campaigns.len()).expect("slots are numbered by 32 bits");
        let leased = self.orphans.last_key_value().map_or(0, |(slot, _)| slot.0.saturating_add(1));
        let waiting = self.strangers.values().flatten().map(|definition| definition.slot.0 + 1);
        let folded = self.folding.next_slot();
        Slot(waiting.max().unwrap_or(0).max(known).max(leased).max(folded))
    }

    /// The time that it goes by, which never goes back: shards are to be given no other.
    pub const fn now(&self) -> Now {
        self.now
    }

    /// What should not be.
    pub const fn stats(&self) -> Stats {
        self.stats
    }

    /// How many times a campaign has been looked at since the beginning.
    pub const fn touched(&self) -> u64 {
        self.touched
    }
}

#[cfg(test)]
mod tests;
