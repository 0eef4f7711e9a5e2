//! What a shard answers: why it does not reserve, what a token is good for, and what a win came to.

use strum::{IntoStaticStr, VariantArray};
use thiserror::Error;
use units::Nanos;

use super::token::ReservationToken;
use crate::calendar::Period;
use crate::messages::CampaignIndex;
use crate::refusal::SpendRefusal;

/// Why nothing was reserved. Declaration order is precedence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
pub enum Denial {
    /// The campaign may not spend.
    #[error("{0}")]
    Refused(SpendRefusal),
    /// The campaign may, but the shard keeps as many reservations in mind as it may: see
    /// [`super::ShardOptions`].
    #[error("the shard holds as many reservations as it may")]
    Full,
}

impl Denial {
    /// In the words that all parts share.
    pub const fn refusal(self) -> SpendRefusal {
        match self {
            Self::Refused(refusal) => refusal,
            Self::Full => SpendRefusal::LedgerUnavailable,
        }
    }
}

/// Why an amount could not be reserved, and how much could.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shortage {
    /// Why the reservation was refused.
    pub refusal: SpendRefusal,
    /// The last of a budget, of which the ledger has no more to give. Nothing while more is on its way,
    /// or when the campaign may not spend.
    pub left: Nanos,
}

/// Why a message of the ledger was not taken. What is granted so stays granted, and strands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
pub enum GrantRejected {
    /// Its campaign's number is above what the shard has room for.
    #[error("the shard has no room for another campaign: raise `slots_max`")]
    SlotsMax,
    /// All was reported of its period, and nothing is kept.
    #[error("the period is over, and forgotten")]
    Retired,
    /// As many campaigns and periods are kept as may be.
    #[error("the shard has no room for another campaign's period: raise `books_max`")]
    BooksMax,
}

/// Why a token is good for nothing, or nothing more. Declaration order is precedence.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Error, IntoStaticStr, VariantArray,
)]
#[strum(serialize_all = "snake_case")]
pub enum TokenRejection {
    /// It is to be forwarded to the node that made it.
    #[error("another node made it")]
    OtherNode,
    /// From before a restart: the ledger answers for it.
    #[error("it is from before a restart")]
    DeadEpoch,
    /// From a start that is still to come: the node forgot starts, or two share a number.
    #[error("it is from a start that this node knows nothing of")]
    FutureEpoch,
    /// It is to be forwarded to the shard that made it.
    #[error("another shard made it")]
    OtherShard,
    /// Though its check holds, there is no such reservation: two starts share an epoch.
    #[error("no such reservation was made")]
    NeverMade,
    /// Whether it was won before is not known any more: the durable log knows.
    #[error("it is older than the late window")]
    TooOld,
    /// Claimed, and not yet settled or given up: ask again.
    #[error("it is being settled")]
    Pending,
    /// Settled before: notices repeat.
    #[error("it is settled already")]
    AlreadyWon,
    /// Only when it is to be released: it was, before.
    #[error("it is released already")]
    AlreadyReleased,
    /// Only when it is to be released: that has happened by itself.
    #[error("it has expired")]
    Expired,
}

units::labelled!(TokenRejection);

/// The right, and the duty, to settle one reservation, or to give that up: nobody else can meanwhile.
///
/// It is consumed by [`super::ShardLedger::settle`] or [`super::ShardLedger::unclaim`], so that settling twice does
/// not compile:
///
/// ```compile_fail,E0382
/// fn settle_twice(shard: &mut pacer_core::shard::Shard, claim: pacer_core::shard::Claim) {
///     shard.settle(claim, units::Nanos::new(1));
///     shard.settle(claim, units::Nanos::new(1));
/// }
/// ```
///
/// One that is dropped leaves its money reserved until the process ends: it strands, and is counted
/// in [`ShardCounts::pending`].
#[derive(Debug)]
#[must_use = "what is claimed is to be settled, or given up"]
pub struct TokenClaim {
    pub(super) token: ReservationToken,
    pub(super) book: u32,
    pub(super) was: ReservationState,
}

impl TokenClaim {
    /// The reservation.
    pub const fn token(&self) -> &ReservationToken {
        &self.token
    }

    /// Whether its money is not reserved any more: it has expired, or was released.
    pub const fn is_late(&self) -> bool {
        !matches!(self.was, ReservationState::Open)
    }
}

/// Where a reservation stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReservationState {
    Open,
    Claimed,
    Won,
    Released,
    /// Open when its time was over.
    Expired,
}

/// What a win came to: booked to the period of its reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SettledWin {
    /// Whose.
    pub slot: CampaignIndex,
    /// Of the reservation.
    pub period: Period,
    /// Out of what was reserved.
    pub settled: Nanos,
    /// Above what was reserved.
    pub over: Nanos,
    /// All of it, when it came late; else nothing.
    pub late: Nanos,
}

/// What a shard has seen since it began, for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShardCounts {
    /// Reservations made.
    pub reserved: u64,
    /// Wins settled in time.
    pub won: u64,
    /// Wins settled late.
    pub won_late: u64,
    /// Wins at a price above what was reserved.
    pub over: u64,
    /// Released because the caller said so.
    pub released: u64,
    /// Claimed, and neither settled nor given up: now.
    pub pending: u64,
    /// Not reserved because the shard was [`Denial::Full`].
    pub full: u64,
    /// Messages of the ledger that were not taken.
    pub untaken: u64,
    rejected: [u64; TokenRejection::ALL.len()],
}

impl ShardCounts {
    /// How many tokens were good for nothing, for this reason.
    pub const fn rejected(&self, rejection: TokenRejection) -> u64 {
        self.rejected[rejection as usize]
    }

    pub(super) const fn note(&mut self, rejection: TokenRejection) {
        self.rejected[rejection as usize] += 1;
    }
}
