//! Checks the ledger's batches and grants against what shards, store and log have said.

use std::collections::{BTreeMap, BTreeSet};

use pacer_core::calendar::Period;
use pacer_core::ledger::{
    AccountTerms, CampaignTerms, Holdback, LedgerInput, LedgerOutbox, SettlementRecord,
};
use pacer_core::messages::{BudgetGrant, CampaignIndex, Epoch};
use pacer_core::store::{
    Batch, CommitOutcome, Fold, Lease, LeaseKey, SpentSum, SumKey, UnattributedWin,
};

use super::super::clock::SimClock;
use super::super::places::{SimAccounts, SimLimit, SimLimitOwner, limit_of, start_of};
use super::ObservedWin;

/// How long before an hour its rights may be granted: the ledger's lead time, plus the lease period
/// over which campaigns are spread.
const AHEAD_MS: u64 = 4_000;

/// The part of a lease that was granted to one shard.
#[derive(Clone, Copy, Debug, Default)]
struct ObservedGrant {
    granted: u64,
    returned: u64,
    /// Amount that the shard had received when it closed.
    received: u64,
}

/// Cost of the records that the ledger received, within and beyond reservations.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RecordedCosts {
    pub(super) paid: u64,
    pub(super) beside: u64,
    /// Cost of records so late that the ledger may have forgotten the lease. In neither of the
    /// others.
    pub(super) ancient: u64,
}

/// The ledger's side of one process.
#[derive(Debug)]
pub(in super::super) struct Leases {
    pub(super) places: SimAccounts,
    /// Whether records say which wins came late.
    is_late_told: bool,
    /// Wins that batches added to sums, by number of the record. `records` has, for every record
    /// that the ledger received, its lease, its cost and whether it was ancient.
    pub(super) strays: BTreeMap<u64, UnattributedWin>,
    pub(super) records: BTreeMap<u64, (LeaseKey, u64, bool)>,
    /// Cost of wins received before their campaign was defined.
    pub(super) unheard: BTreeMap<CampaignIndex, u64>,
    epoch: Epoch,
    /// Leases that are durable or may be.
    pub(super) certain: BTreeMap<LeaseKey, Lease>,
    /// Leases known to be durable.
    pub(super) committed: BTreeMap<LeaseKey, Lease>,
    /// Leases that earlier processes folded.
    pub(super) folded: BTreeMap<LeaseKey, Lease>,
    /// Leases that batches of this process fold; `moved` has those whose batch was committed.
    pub(super) asked: BTreeSet<LeaseKey>,
    pub(super) moved: BTreeSet<LeaseKey>,
    /// Per level of `certain`: granted and not returned; `late` is the spend beyond it.
    held: BTreeMap<SimLimit, u64>,
    late: BTreeMap<SimLimit, u64>,
    /// Amounts returned, as batches of this process say.
    given_back: BTreeMap<LeaseKey, u64>,
    parts: BTreeMap<(CampaignIndex, Period), BTreeMap<u16, ObservedGrant>>,
    pub(super) told: BTreeMap<LeaseKey, RecordedCosts>,
    /// Amounts paid out of unexpired reservations, by records that were durable at the start or
    /// received since.
    won: BTreeMap<LeaseKey, u64>,
    replay_to: u64,
    told_to: u64,
    accounts: BTreeMap<u32, AccountTerms>,
    campaigns: BTreeMap<u32, CampaignTerms>,
    /// The ledger's wall-clock time, and its upper bound until the ledger's first step.
    pub(super) unix_ms: u64,
    pub(super) latest_unix_ms: u64,
    closed: BTreeSet<CampaignIndex>,
    /// Shards that have closed.
    closed_shards: BTreeSet<u16>,
    is_up: bool,
}

/// The state that a process starts from.
pub(in super::super) struct ObservedStart<'a> {
    pub(in super::super) epoch: Epoch,
    pub(in super::super) leases: &'a [(LeaseKey, Lease)],
    pub(in super::super) sums: &'a [(SumKey, SpentSum)],
    pub(in super::super) applied_seq: u64,
    pub(in super::super) unix_ms: u64,
    /// All durable settlements.
    pub(in super::super) settlements: &'a [SettlementRecord],
}

impl Leases {
    pub(super) fn new(places: SimAccounts, is_late_told: bool) -> Self {
        Self {
            places,
            is_late_told,
            strays: BTreeMap::new(),
            records: BTreeMap::new(),
            unheard: BTreeMap::new(),
            epoch: Epoch(0),
            certain: BTreeMap::new(),
            committed: BTreeMap::new(),
            folded: BTreeMap::new(),
            asked: BTreeSet::new(),
            moved: BTreeSet::new(),
            held: BTreeMap::new(),
            late: BTreeMap::new(),
            given_back: BTreeMap::new(),
            parts: BTreeMap::new(),
            told: BTreeMap::new(),
            won: BTreeMap::new(),
            replay_to: 0,
            told_to: 0,
            accounts: BTreeMap::new(),
            campaigns: BTreeMap::new(),
            unix_ms: 0,
            latest_unix_ms: 0,
            closed: BTreeSet::new(),
            closed_shards: BTreeSet::new(),
            is_up: false,
        }
    }

    /// A process has started from this state of the store.
    pub(super) fn start(&mut self, start: &ObservedStart<'_>, came: &BTreeMap<u64, ObservedWin>) {
        assert!(self.epoch < start.epoch, "an epoch begins once: {:?}", start.epoch);
        let found: BTreeMap<_, _> = start.leases.iter().copied().collect();
        let folded = self.gone(start.leases);
        // Records that no batch has applied are replayed, and their lease may be known by then.
        self.strays.retain(|seq, _| *seq <= start.applied_seq);
        self.check_sums(&folded, start.sums, start.applied_seq);
        let strays = std::mem::take(&mut self.strays);
        let (records, unheard) =
            (std::mem::take(&mut self.records), std::mem::take(&mut self.unheard));
        for (key, lease) in self.committed.iter().filter(|(key, _)| !folded.contains_key(*key)) {
            let kept = found.get(key).copied().unwrap_or_default();
            assert_eq!(kept.latest(*lease), kept, "what was committed of {key:?} is kept");
        }
        let fresh = Self::new(self.places.clone(), self.is_late_told);
        let (epoch, unix_ms) = (start.epoch, start.unix_ms);
        let told_to = start.applied_seq;
        *self = Self { epoch, unix_ms, told_to, is_up: true, committed: found, folded, ..fresh };
        (self.strays, self.records, self.unheard) = (strays, records, unheard);
        self.latest_unix_ms = unix_ms;
        for (key, lease) in start.leases {
            // The clock has reached the hour of any spend; without spend the hour was at most about
            // to begin.
            let is_spent = lease.settled.get() + lease.late.get() + lease.over.get() > 0;
            let begins = start_of(key.period);
            let least = if is_spent { begins } else { begins - AHEAD_MS };
            self.unix_ms = self.unix_ms.max(least);
            self.latest_unix_ms = self.latest_unix_ms.max(begins);
        }
        for settlement in start.settlements {
            let came = came[&settlement.seq];
            self.add_won(settlement, came);
            self.replay_to = self.replay_to.max(settlement.seq);
            if settlement.seq <= start.applied_seq {
                self.add_told(settlement, came);
            }
        }
        for (key, lease) in start.leases.iter().copied().chain(self.folded.clone()) {
            self.set(key, lease);
        }
    }

    pub(super) fn end(&mut self) {
        self.is_up = false;
    }

    /// Notes the amount that a shard had received when it closed.
    pub(super) fn receive(
        &mut self,
        slot: CampaignIndex,
        period: Period,
        shard: u16,
        received: u64,
    ) {
        let parts = self.parts.entry((slot, period)).or_default();
        parts.entry(shard).or_default().received = received;
    }

    /// A shard has closed: what it never received is free.
    pub(super) fn close_shard(&mut self, shard: u16) {
        self.closed_shards.insert(shard);
    }

    /// Amount won out of unexpired reservations.
    pub(super) fn won_in_time(&self, key: &LeaseKey) -> u64 {
        self.won.get(key).copied().unwrap_or(0)
    }

    /// The durable leases of the current process.
    pub(super) fn own_leases(&self) -> impl Iterator<Item = (&LeaseKey, &Lease)> {
        self.committed.iter().filter(|(key, _)| self.is_own(key))
    }

    /// Whether a lease belongs to the current process.
    pub(super) fn is_own(&self, key: &LeaseKey) -> bool {
        key.epoch == self.epoch
    }

    /// Whether a campaign's gate must be closed once shards have it.
    pub(super) fn is_closed(&self, slot: CampaignIndex) -> bool {
        self.closed.contains(&slot)
    }

    fn add_won(&mut self, settlement: &SettlementRecord, came: ObservedWin) {
        *self.won.entry(settlement.key).or_default() += came.in_time;
    }

    fn add_told(&mut self, settlement: &SettlementRecord, came: ObservedWin) {
        let told = self.told.entry(settlement.key).or_default();
        let beside = settlement.late.get() + settlement.over.get();
        if came.is_ancient {
            told.ancient += settlement.settled.get() + beside;
        } else {
            told.paid += settlement.settled.get();
            told.beside += beside;
        }
    }

    fn late_of(&self, key: &LeaseKey, lease: &Lease) -> u64 {
        let told = self.told.get(key).copied().unwrap_or_default();
        (lease.late.get() + lease.over.get()).max(told.beside)
    }

    /// Updates a lease and the sums of its levels.
    fn set(&mut self, key: LeaseKey, lease: Lease) {
        let was = self.certain.insert(key, lease).unwrap_or_default();
        let held = |lease: &Lease| lease.granted.get() - lease.returned.get();
        for level in self.places.levels(key.slot, key.period) {
            let sum = self.held.entry(level).or_default();
            *sum = *sum + held(&lease) - held(&was);
        }
        self.recount_late(key);
    }

    fn recount_late(&mut self, key: LeaseKey) {
        // A campaign's hour has few leases, so their sum is computed afresh.
        let of_hour = self.certain.range(
            LeaseKey { node: 0, epoch: Epoch(0), ..key }..=LeaseKey {
                node: u32::MAX,
                epoch: Epoch(u32::MAX),
                ..key
            },
        );
        let sum: u64 = of_hour.map(|(key, lease)| self.late_of(key, lease)).sum();
        let levels = self.places.levels(key.slot, key.period);
        let was = self.late.get(&levels[4]).copied().unwrap_or_default();
        for level in levels {
            let late = self.late.entry(level).or_default();
            *late = *late + sum - was;
        }
    }

    /// The ledger is about to receive a message.
    pub(super) fn tell(&mut self, incoming: &LedgerInput, came: &BTreeMap<u64, ObservedWin>) {
        match incoming {
            LedgerInput::Account(told) => {
                let known = self.accounts.entry(told.id.0).or_insert(*told);
                if known.version < told.version {
                    *known = *told;
                }
            }
            LedgerInput::Campaign(told) => {
                let known = self.campaigns.entry(told.slot.0).or_insert(*told);
                if known.version < told.version {
                    *known = *told;
                }
            }
            LedgerInput::Report(shard, report) => {
                let parts = self.parts.entry((report.slot, report.period)).or_default();
                let part = parts.entry(*shard).or_default();
                part.returned = part.returned.max(report.returned.get());
            }
            // A repeated record changes nothing.
            LedgerInput::Settlement(settlement) if settlement.seq <= self.told_to => (),
            LedgerInput::Settlement(settlement) => {
                self.told_to = settlement.seq;
                let came = came[&settlement.seq];
                let SettlementRecord { seq, key, settled, late, over, .. } = *settlement;
                let total = settled.get() + late.get() + over.get();
                self.records.insert(seq, (key, total, came.is_ancient));
                let campaign = self.campaigns.get(&key.slot.0);
                if campaign.is_none_or(|it| !self.accounts.contains_key(&it.account.0)) {
                    *self.unheard.entry(key.slot).or_default() += total;
                }
                self.add_told(settlement, came);
                if self.replay_to < settlement.seq {
                    self.add_won(settlement, came);
                }
                if self.certain.contains_key(&settlement.key) {
                    self.recount_late(settlement.key);
                }
            }
            _ => (),
        }
    }

    /// The ledger has taken a step. Its time never goes back and is never earlier than the wall
    /// clock.
    pub(super) fn stepped(&mut self, clock: &SimClock, outbox: &LedgerOutbox, unix_ms: u64) {
        let (least, most) = (self.unix_ms, self.latest_unix_ms);
        let may_be = least.max(clock.unix_ms)..=most.max(clock.unix_ms);
        assert!(may_be.contains(&unix_ms), "the ledger goes by {unix_ms}, not within {may_be:?}");
        (self.unix_ms, self.latest_unix_ms) = (unix_ms, unix_ms);
        for (shard, grant) in &outbox.grants {
            self.check_time(clock, grant);
            let parts = self.parts.entry((grant.slot, grant.period)).or_default();
            let part = parts.entry(*shard).or_default();
            assert!(part.granted <= grant.granted.get(), "grants go up: {grant:?}");
            part.granted = grant.granted.get();
        }
        for (_, grant) in &outbox.grants {
            let key = self.own(grant.slot, grant.period);
            let durable = self.committed.get(&key).map_or(0, |lease| lease.granted.get());
            let said = outbox.batch.iter().flat_map(|batch| &batch.leases);
            let said = said.filter(|(of, _)| *of == key).map(|(_, lease)| lease.returned.get());
            let back = self.given_back.get(&key).copied().into_iter().chain(said).max();
            let out = self.out(grant.slot, grant.period) + back.unwrap_or(0);
            assert!(out <= durable, "{out} is at shards or given back, {durable} durable: {key:?}");
        }
    }

    /// Determines the closed campaigns from the definitions that the ledger has.
    pub(super) fn note_closed(&mut self) {
        let is_closed = |it: &&CampaignTerms| {
            let account = self.accounts.get(&it.account.0);
            let hour = self.places.hour(it.slot, self.unix_ms);
            let budget = &it.budget;
            budget.is_paused
                || account.is_none_or(|account| account.is_paused)
                || !(budget.start_unix_ms..budget.end_unix_ms).contains(&self.unix_ms)
                || !budget.daypart.contains(hour.hour_of_week)
        };
        self.closed = self.campaigns.values().filter(is_closed).map(|it| it.slot).collect();
    }

    fn check_time(&self, clock: &SimClock, grant: &BudgetGrant) {
        let shown = self.places.hour(grant.slot, self.unix_ms);
        let hour = if grant.period == shown.period {
            shown
        } else {
            let ends_in_ms = shown.end_unix_ms - self.unix_ms;
            assert!(ends_in_ms <= AHEAD_MS, "granted {ends_in_ms} ms ahead, at most {AHEAD_MS}");
            self.places.hour(grant.slot, shown.end_unix_ms)
        };
        assert_eq!(grant.period, hour.period, "granted in the hour that clocks show, or the next");
        let left = hour.end_unix_ms - self.unix_ms;
        let until = super::super::clock::tick_of(clock.tick_ms + left);
        assert_eq!(grant.until, until, "an hour's rights end with it");
    }

    fn own(&self, slot: CampaignIndex, period: Period) -> LeaseKey {
        LeaseKey { slot, period, node: crate::budgets::options::NODE, epoch: self.epoch }
    }

    /// Amount at shards or in transit.
    fn out(&self, slot: CampaignIndex, period: Period) -> u64 {
        let parts = self.parts.get(&(slot, period)).into_iter().flatten();
        let out = |(shard, part): (&u16, &ObservedGrant)| {
            let has_ended = self.closed_shards.contains(shard);
            let came = if has_ended { part.received } else { part.granted };
            came.saturating_sub(part.returned)
        };
        parts.map(out).sum()
    }

    /// Every lease in a batch is correct, and new leases exceed no limit. `open` returns the amount
    /// of dead reservations that can still be won in time.
    pub(super) fn check_batch(&mut self, batch: &Batch, open: impl Fn(&LeaseKey) -> u64) {
        let mut held = BTreeMap::new();
        let mut late = BTreeMap::new();
        for (key, lease) in &batch.leases {
            assert!(!self.is_folded(key), "what is folded is said no more: {key:?}");
            let was = self.certain.get(key).copied().unwrap_or_default();
            self.check_lease(key, lease, &was);
            let said = self.given_back.get(key).copied().unwrap_or(0).max(was.returned.get());
            if key.epoch != self.epoch && said < lease.returned.get() {
                let won = self.won.get(key).copied().unwrap_or(0);
                let used = lease.returned.get() + won + open(key);
                assert!(used <= lease.granted.get(), "{used} taken back or used of {key:?}");
            }
            let more_late = self.late_of(key, lease) - self.late_of(key, &was);
            for level in self.places.levels(key.slot, key.period) {
                let sum = |lease: &Lease| i128::from(lease.granted.get() - lease.returned.get());
                *held.entry(level).or_insert(0) += sum(lease) - sum(&was);
                *late.entry(level).or_insert(0) += more_late;
            }
        }
        for (key, lease) in &batch.leases {
            let was = self.certain.get(key).copied().unwrap_or_default();
            if was.granted < lease.granted {
                self.check_limits(key, &held, &late);
            }
            let back = self.given_back.entry(*key).or_default();
            *back = (*back).max(lease.returned.get());
        }
        for fold in &batch.folds {
            self.check_fold(fold, &open);
        }
        for stray in &batch.strays {
            self.check_stray(stray, batch.applied_seq);
        }
    }

    fn check_lease(&self, key: &LeaseKey, lease: &Lease, was: &Lease) {
        assert_eq!(lease.latest(*was), *lease, "what a batch says of {key:?} only grows");
        assert!(lease.is_balanced(), "no more is gone of {key:?} than there was: {lease:?}");
        let told = self.told.get(key).copied().unwrap_or_default();
        let said = lease.settled.get() + lease.late.get() + lease.over.get();
        let due = told.paid + told.beside + told.ancient;
        assert!(said <= due, "{said} spent of {key:?}, {due} by the log");
        if key.epoch == self.epoch {
            let out = self.out(key.slot, key.period) + lease.returned.get();
            assert!(out <= lease.granted.get(), "{out} is out of {key:?}: {lease:?}");
        }
    }

    fn check_limits(
        &self,
        key: &LeaseKey,
        held: &BTreeMap<SimLimit, i128>,
        late: &BTreeMap<SimLimit, u64>,
    ) {
        let campaign = &self.campaigns[&key.slot.0];
        for level in self.places.levels(key.slot, key.period) {
            let (owner, span) = level;
            let (limits, holdback) = match owner {
                SimLimitOwner::Campaign(_) => {
                    (&campaign.budget.limits, campaign.budget.late_holdback)
                }
                SimLimitOwner::Account(id) => {
                    let account = &self.accounts[&id];
                    (&account.limits, account.late_holdback)
                }
            };
            let limit = limit_of(limits, span);
            // If records do not say what came late, no holdback can be subtracted.
            let kept = if self.is_late_told { kept_of(holdback, limit) } else { 0 };
            let held = i128::from(self.held.get(&level).copied().unwrap_or(0)) + held[&level];
            let late = self.late.get(&level).copied().unwrap_or(0) + late[&level];
            let used = held + i128::from(late.max(kept));
            assert!(
                used <= i128::from(limit),
                "{used} leased of {limit} of {level:?}: {held} held, {late} late, {kept} kept back"
            );
        }
    }

    pub(in super::super) fn ended(&mut self, batch: &Batch, ended: CommitOutcome) {
        if ended == CommitOutcome::Refused || !self.is_up {
            return;
        }
        for (key, lease) in &batch.leases {
            let certain = self.certain.get(key).copied().unwrap_or_default();
            self.set(*key, certain.latest(*lease));
            if ended == CommitOutcome::Committed {
                let known = self.committed.entry(*key).or_default();
                *known = known.latest(*lease);
            }
        }
        if ended == CommitOutcome::Committed {
            self.moved.extend(batch.folds.iter().filter_map(|fold| match fold {
                Fold::Lease(key, _) => Some(*key),
                Fold::Day(_) => None,
            }));
        }
    }
}

/// The part of a limit that is held back for late wins.
pub(super) fn kept_of(holdback: Holdback, limit: u64) -> u64 {
    match holdback {
        _ if limit == u64::MAX => 0,
        Holdback::Amount(money) => money.amount.get().min(limit),
        Holdback::Share(share) => {
            let kept = (u128::from(limit) * u128::from(share.get())).div_ceil(1_000_000);
            u64::try_from(kept).expect("a part of a limit")
        }
    }
}
