//! Folds: the store moves closed leases into sums of spend, by day and then per campaign.
//!
//! A fold **moves**: one transaction deletes the row and adds its spend to the sum. So the total is
//! unchanged, and a repeated fold has no effect. A deleted row must not return: after the first
//! batch that folds, the store refuses older batches of the same epoch, and ignores a repetition of
//! that one. Writers repeat content that they do not know to be durable.

use units::Nanos;

use super::{Lease, LeaseKey, StoreDenial, StoreWriter};
use crate::messages::CampaignIndex;

/// The name of a sum. Keys sort by declaration order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SumKey {
    /// The campaign.
    pub slot: CampaignIndex,
    /// The node that leased.
    pub node: u32,
    /// Day of the account's zone since 1970, below `u32::MAX`. None for all folded days.
    pub day: Option<u32>,
}

/// Spend of closed leases, in three parts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpentSum {
    /// From reservations.
    pub settled: Nanos,
    /// After the reservation had expired.
    pub late: Nanos,
    /// Above the reservation.
    pub over: Nanos,
}

/// A row that a batch folds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fold {
    /// A closed lease, into the sum of its day.
    Lease(LeaseKey, u32),
    /// The sum of a day, into that of all folded days.
    Day(SumKey),
}

/// A win of a forgotten lease. It counts once: with the first batch that applies its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnattributedWin {
    /// Sequence number of the node's log record.
    pub seq: u64,
    /// The sum that it is added to.
    pub sum: SumKey,
    /// Its cost.
    pub spent: SpentSum,
}

impl SpentSum {
    /// The spend of a lease.
    pub const fn of(lease: &Lease) -> Self {
        Self { settled: lease.settled, late: lease.late, over: lease.over }
    }

    /// Adds both. Reported prices may be any number, so each figure saturates, in any order.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let sum = |one: Nanos, two: Nanos| Nanos::new(one.get().saturating_add(two.get()));
        Self {
            settled: sum(self.settled, other.settled),
            late: sum(self.late, other.late),
            over: sum(self.over, other.over),
        }
    }
}

impl Fold {
    /// The sum that it is moved into.
    pub const fn into_sum(self) -> SumKey {
        match self {
            Self::Lease(LeaseKey { slot, node, .. }, day) => SumKey { slot, node, day: Some(day) },
            Self::Day(key) => SumKey { day: None, ..key },
        }
    }

    /// Checks that the writer may fold it, regardless of what is stored.
    ///
    /// # Errors
    /// [`StoreDenial::Invalid`].
    pub fn check(self, writer: StoreWriter) -> Result<(), StoreDenial> {
        let (node, day) = match self {
            Self::Lease(key, day) => (key.node, Some(day)),
            Self::Day(key) => (key.node, key.day),
        };
        if node != writer.node {
            // An older batch of that node could restore the row.
            return Err(StoreDenial::Invalid("a node folds what another leased: it folds its own"));
        }
        match day {
            Some(u32::MAX) => {
                Err(StoreDenial::Invalid("a day is the largest number: name a real one"))
            }
            None => Err(StoreDenial::Invalid("the sum of all days is folded: it is the last")),
            Some(_) => Ok(()),
        }
    }
}

impl Lease {
    /// Whether everything is returned or settled.
    pub fn is_closed(&self) -> bool {
        self.returned.checked_add(self.settled) == Some(self.granted)
    }
}
