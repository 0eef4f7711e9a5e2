//! The observer: keeps its own books of every reservation and checks after every step that no limit
//! is exceeded, no win is booked wrongly and none is lost. Trusts no core's bookkeeping.

mod books;
mod folds;
mod leases;
mod stops;
mod tokens;

use std::collections::{BTreeMap, BTreeSet};

use pacer_core::calendar::Period;
use pacer_core::ledger::{AccountTerms, BudgetLimits, CampaignTerms, LedgerInput, LedgerOutbox};
use pacer_core::messages::{BudgetGrant, CampaignIndex, SpendingGate};
use pacer_core::shard::ShardLedger;
use pacer_core::store::{Batch, LeaseKey};

use super::clock::SimClock;
use super::log::SimTokenId;
use super::places::{SimAccounts, SimLimit, SimLimitOwner, SimLimitSpan, limit_of};
pub(super) use leases::{Leases, ObservedStart};
pub(super) use tokens::ObservedClaim;

/// The state of a reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ObservedState {
    Open,
    /// A win is being settled. `was_open` if its money is still reserved.
    Claimed {
        was_open: bool,
    },
    Released,
    Expired,
    Won,
}

#[derive(Clone, Copy, Debug)]
struct ObservedReservation {
    slot: CampaignIndex,
    period: Period,
    amount: u64,
    expires_ms: u64,
    forgotten_ms: u64,
    state: ObservedState,
    /// The amount that counts as authorised: the whole while it can be won in time, then its price.
    authorised: u64,
    /// The durable record that settles it.
    record: Option<u64>,
}

/// What one shard was granted for a period, and how it was used.
#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    granted: u64,
    until_ms: u64,
    reserved: u64,
    settled: u64,
    returned: u64,
    late: u64,
    over: u64,
}

/// Reservations of a class that expire together.
#[derive(Clone, Copy, Debug)]
struct ObservedBucket {
    full_ms: u64,
    expires_ms: u64,
}

/// What durable records say about a lease.
#[derive(Clone, Copy, Debug, Default)]
struct ObservedSpend {
    settled: u64,
    late: u64,
    over: u64,
    /// Part of the total that was never authorised: late, or above the reserved price.
    beside: u64,
    /// Part of the total that came so late that the ledger may have forgotten the lease.
    ancient: u64,
}

/// How the record of a win became durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ObservedWin {
    /// The amount paid out of a reservation that had not expired.
    in_time: u64,
    /// Whether it came so late that the ledger may have forgotten the lease.
    is_ancient: bool,
}

#[derive(Debug)]
pub(super) struct Observer {
    pub(super) places: SimAccounts,
    pub(super) leases: Leases,
    tokens: BTreeMap<SimTokenId, ObservedReservation>,
    cells: BTreeMap<(u16, CampaignIndex, Period), Cell>,
    buckets: BTreeMap<(u16, usize), ObservedBucket>,
    gates: BTreeMap<(u16, CampaignIndex), SpendingGate>,
    /// Open reservations by shard, in order of expiry.
    expiries: BTreeMap<u16, BTreeSet<(u64, SimTokenId)>>,
    /// The latest wall-clock time that each shard has seen.
    seen_unix_ms: BTreeMap<u16, u64>,
    /// Open reservations of dead epochs, in order of expiry.
    dead_expiries: BTreeSet<(u64, SimTokenId)>,
    authorised: BTreeMap<SimLimit, u64>,
    /// The highest value that each limit ever had.
    most: BTreeMap<(SimLimitOwner, u8), u64>,
    spent: BTreeMap<LeaseKey, ObservedSpend>,
    /// By number of the record.
    came: BTreeMap<u64, ObservedWin>,
    /// Amounts reserved when their shard closed cleanly.
    held_at_end: BTreeMap<(CampaignIndex, Period), u64>,
    /// Whether records say which wins came late.
    is_late_told: bool,
    /// Numbers of reservations made and won.
    pub(super) made: u64,
    pub(super) won: u64,
}

fn span_number(span: SimLimitSpan) -> u8 {
    match span {
        SimLimitSpan::Life => 0,
        SimLimitSpan::Day(_) => 1,
        SimLimitSpan::Hour(_) => 2,
    }
}

impl Observer {
    pub(super) fn new(places: SimAccounts, is_late_told: bool) -> Self {
        Self {
            leases: Leases::new(places.clone(), is_late_told),
            is_late_told,
            places,
            tokens: BTreeMap::new(),
            cells: BTreeMap::new(),
            buckets: BTreeMap::new(),
            gates: BTreeMap::new(),
            expiries: BTreeMap::new(),
            seen_unix_ms: BTreeMap::new(),
            dead_expiries: BTreeSet::new(),
            authorised: BTreeMap::new(),
            most: BTreeMap::new(),
            spent: BTreeMap::new(),
            came: BTreeMap::new(),
            held_at_end: BTreeMap::new(),
            made: 0,
            won: 0,
        }
    }

    /// Notes the limits of an account.
    pub(super) fn account_defined(&mut self, account: &AccountTerms) {
        self.note_most(SimLimitOwner::Account(account.id.0), &account.limits);
    }

    /// Notes the limits of a campaign.
    pub(super) fn campaign_defined(&mut self, campaign: &CampaignTerms) {
        self.note_most(SimLimitOwner::Campaign(campaign.slot.0), &campaign.budget.limits);
    }

    fn note_most(&mut self, owner: SimLimitOwner, limits: &BudgetLimits) {
        for span in [SimLimitSpan::Life, SimLimitSpan::Day(0), SimLimitSpan::Hour(Period(0))] {
            let known = self.most.entry((owner, span_number(span))).or_default();
            *known = (*known).max(limit_of(limits, span));
        }
    }

    /// A shard has taken a grant.
    pub(super) fn granted(&mut self, shard: u16, grant: &BudgetGrant) {
        let cell = self.cells.entry((shard, grant.slot, grant.period)).or_default();
        if cell.granted < grant.granted.get() {
            cell.granted = grant.granted.get();
            cell.until_ms = grant.until.nanos() / 1_000_000;
        }
    }

    /// A shard has taken a gate.
    pub(super) fn gated(&mut self, shard: u16, gate: &SpendingGate) {
        let known = self.gates.entry((shard, gate.slot)).or_insert(*gate);
        if known.version < gate.version {
            *known = *gate;
        }
    }

    /// A process has started from this state of the store.
    pub(super) fn started(&mut self, start: &ObservedStart<'_>) {
        self.leases.start(start, &self.came);
    }

    /// The ledger is about to receive a message.
    pub(super) fn tell(&mut self, incoming: &LedgerInput) {
        self.leases.tell(incoming, &self.came);
    }

    /// The ledger has taken a step. `unix_ms` is its wall-clock time.
    pub(super) fn ledger_stepped(&mut self, clock: &SimClock, outbox: &LedgerOutbox, unix_ms: u64) {
        self.leases.stepped(clock, outbox, unix_ms);
        if let Some(batch) = &outbox.batch {
            self.check_batch(batch);
        }
        self.leases.note_closed();
    }

    fn check_batch(&mut self, batch: &Batch) {
        let Self { leases, tokens, dead_expiries, .. } = self;
        let open = |key: &LeaseKey| {
            let held = dead_expiries.iter().map(|(_, id)| (id, &tokens[id]));
            let of_key = held.filter(|(id, it)| {
                let origin = id.0;
                (it.slot, it.period, origin.epoch) == (key.slot, key.period, key.epoch)
                    && it.state == ObservedState::Open
            });
            of_key.map(|(_, it)| it.amount).sum()
        };
        leases.check_batch(batch, open);
    }

    /// Changes the amount that a reservation adds to each of its limits. No limit's highest value
    /// is exceeded.
    fn authorise(&mut self, id: SimTokenId, amount: u64) {
        let Self { tokens, authorised, most, places, .. } = self;
        let it = tokens.get_mut(&id).expect("the reservation was made");
        let was = std::mem::replace(&mut it.authorised, amount);
        for level in places.levels(it.slot, it.period) {
            let sum = authorised.entry(level).or_default();
            *sum = *sum + amount - was;
            let limit = most[&(level.0, span_number(level.1))];
            assert!(*sum <= limit, "{sum} authorised of {limit} of {level:?}");
        }
    }

    /// A shard's holdings match what it was granted and what it reserved, released and won.
    pub(super) fn check_shard(
        &mut self,
        number: u16,
        shard: &ShardLedger,
        slots: u32,
        clock: &SimClock,
    ) {
        for slot in (0..slots).map(CampaignIndex) {
            let gate = self.gates.get(&(number, slot));
            let is_recalled = gate.is_some_and(|gate| gate.is_recalled);
            for held in shard.holdings(slot) {
                let cell = self.cells.get_mut(&(number, slot, held.period));
                let cell = cell.expect("what a shard holds was granted");
                let told = [held.granted, held.reserved, held.settled, held.late, held.over];
                let due = [cell.granted, cell.reserved, cell.settled, cell.late, cell.over];
                assert_eq!(told.map(units::Nanos::get), due, "{held:?} of {slot:?} at {number}");
                let rest = cell.granted - cell.reserved - cell.settled;
                let (free, returned) = (held.free.get(), held.returned.get());
                assert_eq!(free + returned, rest, "{held:?} of {slot:?} at {number}");
                assert!(cell.returned <= returned, "what is sent back stays so: {held:?}");
                cell.returned = returned;
                let is_over = cell.until_ms <= clock.tick_ms;
                assert!(free == 0 || !is_over, "an hour's rights go back with it: {held:?}");
                assert!(free == 0 || !is_recalled, "recalled rights go back: {held:?}");
            }
        }
    }

    /// The amounts in use at every level of a campaign's current hour.
    fn used(&self, slot: CampaignIndex, clock: &SimClock) -> [(SimLimit, u64); 6] {
        let period = self.places.hour(slot, clock.unix_ms).period;
        self.places.levels(slot, period).map(|level| {
            let authorised = self.authorised.get(&level).copied().unwrap_or(0);
            (level, authorised + self.beside(level))
        })
    }

    /// Spend that was never authorised, by durable records.
    fn beside(&self, level: SimLimit) -> u64 {
        let is_of = |key: &LeaseKey| self.places.levels(key.slot, key.period).contains(&level);
        let of_level = self.spent.iter().filter(|(key, _)| is_of(key));
        of_level.map(|(_, spent)| spent.beside).sum()
    }
}
