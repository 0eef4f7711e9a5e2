//! What a store keeps of leases that are closed: sums of what was spent, by day, and then for life.
//!
//! Owns what is added up, and which folds no store may do. A fold **moves**: the row is gone, and what
//! was spent out of it stands in the sum, in one transaction. So the sum of rows and sums is what it
//! was, and a fold that comes twice finds nothing to move. A row that is gone must not come back: from
//! the first batch that folds on, older batches of the same epoch are refused, and that one itself
//! changes nothing when it comes again. What they say is said
//! again by whoever was not told that they are durable.

use units::Nanos;

use super::{Lease, LeaseKey, StoreDenial, StoreWriter};
use crate::messages::CampaignIndex;

/// What a sum is of. In order of declaration they are ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SumKey {
    /// The campaign.
    pub slot: CampaignIndex,
    /// Whose leases they were.
    pub node: u32,
    /// The day of the account's zone, in days since 1970, below the largest number; `None` is all days
    /// that have no sum of their own any more.
    pub day: Option<u32>,
}

/// What was spent out of closed leases: all three count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpentSum {
    /// Out of what was reserved.
    pub settled: Nanos,
    /// After the reservation had expired.
    pub late: Nanos,
    /// Above what was reserved.
    pub over: Nanos,
}

/// What a batch moves into a sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fold {
    /// A lease of which nothing is left, into the sum of its day.
    Lease(LeaseKey, u32),
    /// The sum of a day, into that of the days before.
    Day(SumKey),
}

/// What was spent out of a lease that the ledger had forgotten: the win came too late for its row. It
/// counts in the sum, once: with the first batch behind which its record is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnattributedWin {
    /// Of the record in the node's durable log.
    pub seq: u64,
    /// Where it counts.
    pub sum: SumKey,
    /// What it cost.
    pub spent: SpentSum,
}

impl SpentSum {
    /// Of a lease.
    pub const fn of(lease: &Lease) -> Self {
        Self { settled: lease.settled, late: lease.late, over: lease.over }
    }

    /// Both. What others say that they paid may be any number: each figure ends at the largest there
    /// is, in whatever order they are added up.
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

    /// Whether a writer may fold it, whatever stands there.
    ///
    /// # Errors
    /// [`StoreDenial::Invalid`].
    pub fn check(self, writer: StoreWriter) -> Result<(), StoreDenial> {
        let (node, day) = match self {
            Self::Lease(key, day) => (key.node, Some(day)),
            Self::Day(key) => (key.node, key.day),
        };
        if node != writer.node {
            // An older batch of that node might bring back what is gone.
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
    /// Whether nothing is left of it: all was returned or settled.
    pub fn is_closed(&self) -> bool {
        self.returned.checked_add(self.settled) == Some(self.granted)
    }
}
