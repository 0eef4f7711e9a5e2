//! Money on hold for standing bids of lots: one row per bid, which stays until it has ended.
//!
//! Owns how two rows of a bid merge, and which rows may be folded. A charged row folds into the sum
//! of its account, a released one into nothing. The ledger folds a row days after its own day, so
//! that only total limits count the sum.

use std::sync::Arc;

use units::Nanos;

use super::{ID_BYTES_MAX, StoreDenial, StoreWriter};
use crate::calendar::Period;

/// Maximum number of holds, and of their folds, in a batch.
pub const BATCH_HOLDS_MAX: usize = 1 << 20;

/// A bid whose money is on hold.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HoldName {
    /// The lot, at most [`ID_BYTES_MAX`] bytes.
    pub lot: Arc<str>,
    /// Number of the bid. One that was never logged is used again, by a later attempt.
    pub bid: u32,
}

/// The name of a hold.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StoredHoldKey {
    /// The node of the lot.
    pub node: u32,
    /// The bid.
    pub name: HoldName,
}

/// Distinguishes attempts for the same bid: the later one is the greater one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AttemptNumber {
    /// The epoch of the log that has the bid.
    pub epoch: u64,
    /// Counts attempts of an epoch.
    pub counter: u64,
}

/// The state of a hold. It ends once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoldState {
    /// The money is on hold.
    Standing,
    /// All of it is free again.
    Released,
    /// This part is spent, and the rest is free again.
    Charged(Nanos),
}

/// Money on hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredHold {
    /// The attempt.
    pub attempt: AttemptNumber,
    /// The identifier of the account that pays. Its number differs from start to start.
    pub account: Arc<str>,
    /// The amount on hold while it stands.
    pub amount: Nanos,
    /// The hour whose limit counts it: when it was decided.
    pub period: Period,
    /// The day of that hour, in the account's zone.
    pub day: u32,
    /// Its state.
    pub state: HoldState,
}

/// The name of a sum of folded charges.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChargeKey {
    /// The node of the lots.
    pub node: u32,
    /// The account that paid.
    pub account: Arc<str>,
}

impl StoredHold {
    /// What it counts of its account's limits.
    pub const fn exposure(&self) -> Nanos {
        match self.state {
            HoldState::Standing => self.amount,
            HoldState::Released => Nanos::ZERO,
            HoldState::Charged(cost) => cost,
        }
    }

    /// The later of two rows of a bid, in whichever order they arrived: that of the greater attempt.
    /// Of one attempt, an end is later than standing.
    ///
    /// # Errors
    /// [`StoreDenial::HoldChanged`] if one attempt has two ends or other terms, or if a later
    /// attempt replaces a charge.
    pub fn latest(self, other: Self, key: &StoredHoldKey) -> Result<Self, StoreDenial> {
        let (earlier, later) =
            if other.attempt < self.attempt { (other, self) } else { (self, other) };
        let changed = || Err(StoreDenial::HoldChanged(key.clone()));
        if earlier.attempt < later.attempt {
            let is_charged = matches!(earlier.state, HoldState::Charged(_));
            return if is_charged { changed() } else { Ok(later) };
        }
        if (Self { state: HoldState::Standing, ..earlier.clone() })
            != (Self { state: HoldState::Standing, ..later.clone() })
        {
            return changed();
        }
        match (earlier.state, later.state) {
            (HoldState::Standing, _) => Ok(later),
            (_, HoldState::Standing) => Ok(earlier),
            (one, other) if one == other => Ok(later),
            _ => changed(),
        }
    }

    /// Checks what every store relies on, regardless of what is stored.
    ///
    /// # Errors
    /// [`StoreDenial::Invalid`].
    pub fn check(&self, key: &StoredHoldKey, writer: StoreWriter) -> Result<(), StoreDenial> {
        key.check(writer)?;
        let is_id = |id: &str| (1..=ID_BYTES_MAX).contains(&id.len());
        if !is_id(&key.name.lot) || !is_id(&self.account) {
            let why = "a hold's lot or account is empty or longer than 256 bytes: shorten it";
            return Err(StoreDenial::Invalid(why));
        }
        match self.state {
            HoldState::Charged(cost) if self.amount < cost => {
                Err(StoreDenial::Invalid("a hold is charged more than its amount: charge less"))
            }
            _ => Ok(()),
        }
    }
}

impl StoredHoldKey {
    /// Checks that the writer may write or fold it.
    ///
    /// # Errors
    /// [`StoreDenial::Invalid`].
    pub fn check(&self, writer: StoreWriter) -> Result<(), StoreDenial> {
        if self.node == writer.node {
            return Ok(());
        }
        // An older batch of that node could restore the row.
        Err(StoreDenial::Invalid("a hold is another node's: a node writes and folds its own"))
    }
}
