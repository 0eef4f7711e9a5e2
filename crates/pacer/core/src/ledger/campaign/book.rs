//! The leases of one campaign in one period: this epoch's slices, and dead epochs' leases.
//!
//! Owns what is leased, granted, returned and settled of a period. Knows no limits.

use units::{Nanos, Tick};

use crate::calendar::Period;
use crate::ledger::folding::ClosedLease;
use crate::ledger::limits::tally::Exposure;
use crate::ledger::settings::LedgerSettings;
use crate::messages::{CampaignIndex, Epoch, SpendReport};
use crate::store::{Lease, LeaseKey};

/// A shard's part of a lease: its grants and its last report, all cumulative.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::ledger) struct ShardPart {
    pub(in crate::ledger) shard: u16,
    pub(in crate::ledger) granted: u64,
    pub(in crate::ledger) returned: u64,
    pub(in crate::ledger) settled: u64,
    pub(in crate::ledger) late: u64,
    pub(in crate::ledger) over: u64,
    pub(in crate::ledger) reserved_count: u64,
}

impl ShardPart {
    pub(in crate::ledger) fn outstanding(&self) -> u64 {
        let back = self.returned.checked_add(self.settled).expect("amounts fit the books");
        self.granted.checked_sub(back).expect("a shard returns and settles what it was granted")
    }
}

/// A lease of an earlier epoch, or of another node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ledger) struct DeadLease {
    pub(in crate::ledger) node: u32,
    pub(in crate::ledger) epoch: Epoch,
    pub(in crate::ledger) lease: Lease,
    /// Whether the next batch must contain it.
    pub(in crate::ledger) is_unsaved: bool,
    /// Whether the batch in flight contains it.
    pub(in crate::ledger) is_in_flight: bool,
}

impl DeadLease {
    pub(in crate::ledger) fn win(&mut self, figures: [u64; 3]) {
        let left = left_of(&self.lease);
        book_win(&mut self.lease, left, figures);
        self.is_unsaved = true;
    }
}

#[derive(Clone, Debug)]
pub(in crate::ledger) struct PeriodLeases {
    pub(in crate::ledger) period: Period,
    /// In the account's zone.
    pub(in crate::ledger) day: u32,
    /// This epoch's, as the next batch contains it. Settled, late and over are the log's.
    pub(in crate::ledger) lease: Lease,
    /// The part of it known to be durable.
    pub(in crate::ledger) committed: u64,
    /// The part of it that may be durable: a lower bound of later leases.
    pub(in crate::ledger) maybe: u64,
    /// Its contribution to the sums of campaign and account.
    pub(in crate::ledger) counted: Exposure,
    pub(in crate::ledger) parts: Vec<ShardPart>,
    pub(in crate::ledger) dead: Vec<DeadLease>,
    is_lateness_recorded: bool,
    /// Whether it was leased before its period and no shard has a grant of it yet.
    pub(in crate::ledger) is_ahead: bool,
    pub(in crate::ledger) is_unsaved: bool,
    pub(in crate::ledger) is_in_flight: bool,
    pub(in crate::ledger) is_over: bool,
    /// The first end that shards received, in nanoseconds; 0 before.
    pub(in crate::ledger) until: u64,
    /// When nothing can change it any more, in nanoseconds; an estimate while the period lasts.
    pub(in crate::ledger) closes_at: u64,
}

impl PeriodLeases {
    pub(in crate::ledger) fn new(period: Period, day: u32, is_late_told: bool) -> Self {
        Self {
            period,
            day,
            lease: Lease::default(),
            committed: 0,
            maybe: 0,
            counted: Exposure::default(),
            parts: Vec::new(),
            dead: Vec::new(),
            is_lateness_recorded: is_late_told,
            is_ahead: false,
            is_unsaved: false,
            is_in_flight: false,
            is_over: false,
            until: 0,
            closes_at: 0,
        }
    }

    pub(in crate::ledger) fn sum(&self) -> Exposure {
        let mut held = self.lease.granted.get() - self.lease.returned.get() - self.taken_late();
        let mut late = self.own_late();
        for dead in &self.dead {
            held += dead.lease.granted.get() - dead.lease.returned.get();
            late = late.saturating_add(late_of(&dead.lease));
        }
        Exposure { held, late }
    }

    /// Free to grant: durable, not at a shard, and not spent.
    pub(in crate::ledger) fn pool(&self) -> u64 {
        (self.back() - self.taken_late()).min(self.left())
    }

    /// Durable, and neither returned nor spent, according to the log.
    fn left(&self) -> u64 {
        left_of(&self.lease).saturating_sub(self.pending())
    }

    /// Durable, and at no shard.
    fn back(&self) -> u64 {
        let at_shards: u64 = self.parts.iter().map(|part| part.granted - part.returned).sum();
        let used = at_shards.checked_add(self.lease.returned.get()).expect("amounts fit the books");
        self.committed.checked_sub(used).expect("no more is granted than is durably leased")
    }

    /// Spent after shards had returned it: reservations ended, and were won later. A log that does
    /// not know how reservations ended takes every win from the lease, while it lasts.
    fn taken_late(&self) -> u64 {
        if self.is_lateness_recorded {
            return 0;
        }
        self.reported_beside().saturating_sub(late_of(&self.lease)).min(self.back())
    }

    /// Late, or above the price, according to the shards.
    fn reported_beside(&self) -> u64 {
        self.parts.iter().flat_map(|part| [part.late, part.over]).fold(0, u64::saturating_add)
    }

    /// Leased, but not known to be durable.
    pub(in crate::ledger) fn pending(&self) -> u64 {
        self.lease.granted.get() - self.committed
    }

    pub(in crate::ledger) fn is_empty(&self) -> bool {
        self.lease.granted == Nanos::ZERO && self.parts.is_empty() && self.dead.is_empty()
    }

    pub(in crate::ledger) fn outstanding(&self) -> u64 {
        self.parts.iter().map(ShardPart::outstanding).sum()
    }

    /// Spent, except for what counts as late.
    pub(in crate::ledger) fn settled(&self) -> u64 {
        let by_log = self.lease.settled.get().saturating_add(late_of(&self.lease));
        let by_shards: u64 = self.parts.iter().map(|part| part.settled).sum();
        let spent = by_log.max(by_shards.saturating_add(self.reported_beside()));
        let dead: u64 = self.dead.iter().map(|dead| dead.lease.settled.get()).sum();
        spent.saturating_sub(self.own_late()) + dead
    }

    /// Late, or above the price, in this epoch. Log and shards each lag behind the other at times.
    fn own_late(&self) -> u64 {
        late_of(&self.lease).max(self.reported_beside())
    }

    /// Books a win of this epoch's log. A lease that is not known to be durable may yet be refused.
    pub(in crate::ledger) fn win(&mut self, figures: [u64; 3]) {
        let left = self.left();
        book_win(&mut self.lease, left, figures);
        self.is_unsaved = true;
    }

    pub(in crate::ledger) fn return_pool(&mut self) -> u64 {
        let pool = self.pool();
        if pool > 0 {
            self.lease.returned = Nanos::new(self.lease.returned.get() + pool);
            self.is_unsaved = true;
        }
        pool
    }

    pub(in crate::ledger) fn lasts_until(&mut self, until: Tick, settings: &LedgerSettings) {
        let closes_at = until.after(settings.horizon).after(settings.late_window);
        self.closes_at = self.closes_at.max(closes_at.nanos());
    }

    /// Grants from the pool to a shard. Returns the shard's total grants.
    pub(in crate::ledger) fn grant(&mut self, shard: u16, amount: u64) -> Nanos {
        assert!(amount <= self.pool(), "a grant comes out of what is durable and free");
        let part = self.part(shard);
        part.granted = part.granted.checked_add(amount).expect("amounts fit the books");
        Nanos::new(part.granted)
    }

    fn part(&mut self, shard: u16) -> &mut ShardPart {
        let at = match self.parts.iter().position(|part| part.shard == shard) {
            Some(at) => at,
            None => {
                self.parts.push(ShardPart { shard, ..ShardPart::default() });
                self.parts.len() - 1
            }
        };
        &mut self.parts[at]
    }

    /// Applies a shard's report. Returns whether the shard has reserved since the last one.
    pub(in crate::ledger) fn report(&mut self, shard: u16, report: &SpendReport) -> bool {
        let part = self.part(shard);
        part.returned = part.returned.max(report.returned.get());
        part.settled = part.settled.max(report.settled.get());
        part.late = part.late.max(report.late.get());
        part.over = part.over.max(report.over.get());
        // Asserts that the shard's figures balance.
        part.outstanding();
        let has_reserved = part.reserved_count < report.reserved_count;
        part.reserved_count = part.reserved_count.max(report.reserved_count);
        has_reserved
    }

    /// Returns what an ended shard was granted but never took.
    pub(in crate::ledger) fn return_untaken(&mut self, shard: u16, taken: u64) {
        let Some(part) = self.parts.iter_mut().find(|part| part.shard == shard) else { return };
        assert!(taken <= part.granted, "a shard takes what it was granted: {taken} of {part:?}");
        let untaken = part.granted - taken;
        // Books that the shard forgot were returned or settled before, and have no receipt.
        part.returned += untaken.min(part.outstanding());
    }

    /// Rows of a closed book: this epoch's, if leased, and those of this node's dead epochs.
    pub(in crate::ledger) fn closed_rows(
        &self,
        slot: CampaignIndex,
        settings: &LedgerSettings,
    ) -> impl Iterator<Item = (Period, ClosedLease)> {
        let own = (self.lease != Lease::default()).then_some(settings.epoch);
        let dead = self.dead.iter().filter(|dead| dead.node == settings.node);
        let epochs = own.into_iter().chain(dead.map(|dead| dead.epoch));
        epochs.map(move |epoch| (self.period, ClosedLease { slot, epoch, day: self.day }))
    }

    pub(in crate::ledger) fn is_settled(&self) -> bool {
        let lease = &self.lease;
        let own = lease.returned.get() + lease.settled.get() == lease.granted.get();
        let is_saved = !self.is_unsaved && !self.is_in_flight && self.pending() == 0;
        let is_over =
            |dead: &DeadLease| left_of(&dead.lease) == 0 && !dead.is_unsaved && !dead.is_in_flight;
        own && is_saved && self.outstanding() == 0 && self.dead.iter().all(is_over)
    }
}

/// Neither returned nor settled.
pub(in crate::ledger) fn left_of(lease: &Lease) -> u64 {
    let back =
        lease.returned.get().checked_add(lease.settled.get()).expect("amounts fit the books");
    lease.granted.get().checked_sub(back).expect("a lease returns and settles what was granted")
}

/// Spent in addition: late, or above the price.
pub(in crate::ledger) fn late_of(lease: &Lease) -> u64 {
    lease.late.get().saturating_add(lease.over.get())
}

/// Books a win of the log: from the lease's remainder first, the rest as late. Reported prices may
/// be any number, so the sum saturates, which stops all leasing.
fn book_win(lease: &mut Lease, left: u64, [paid, late, over]: [u64; 3]) {
    let inside = paid.min(left);
    let sum = |figure: Nanos, more: u64| Nanos::new(figure.get().saturating_add(more));
    lease.settled = sum(lease.settled, inside);
    lease.late = sum(sum(lease.late, paid - inside), late);
    lease.over = sum(lease.over, over);
}

pub(in crate::ledger) fn key_of(slot: CampaignIndex, period: Period, dead: &DeadLease) -> LeaseKey {
    LeaseKey { slot, period, node: dead.node, epoch: dead.epoch }
}
