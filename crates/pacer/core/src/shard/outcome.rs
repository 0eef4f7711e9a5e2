//! What a shard answers: denials, token rejections and settled wins.

use strum::{IntoStaticStr, VariantArray};
use thiserror::Error;
use units::Nanos;

use super::token::ReservationToken;
use crate::calendar::Period;
use crate::messages::CampaignIndex;
use crate::refusal::SpendRefusal;

/// Why nothing was reserved, in order of precedence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
pub enum Denial {
    /// The campaign may not spend.
    #[error("{0}")]
    Refused(SpendRefusal),
    /// The shard has its maximum of reservations: see [`super::ShardOptions`].
    #[error("the shard holds as many reservations as it may")]
    Full,
}

impl Denial {
    /// As the refusal that all parts of the pacer share.
    pub const fn refusal(self) -> SpendRefusal {
        match self {
            Self::Refused(refusal) => refusal,
            Self::Full => SpendRefusal::LedgerUnavailable,
        }
    }
}

/// Why an amount could not be reserved, and how much could be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shortage {
    /// Why the reservation was refused.
    pub refusal: SpendRefusal,
    /// The last of a budget that the ledger cannot refill. Zero in all other cases.
    pub left: Nanos,
}

/// Why a shard rejected a message of the ledger. A rejected grant stays granted, and strands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
pub enum GrantRejected {
    /// Its campaign's number exceeds the shard's limit.
    #[error("the shard has no room for another campaign: raise `slots_max`")]
    SlotsMax,
    /// Its period has been reported in full and forgotten.
    #[error("the period is over, and forgotten")]
    Retired,
    /// The shard has its maximum of campaigns and periods.
    #[error("the shard has no room for another campaign's period: raise `books_max`")]
    BooksMax,
}

/// Why a token cannot be used, in order of precedence.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Error, IntoStaticStr, VariantArray,
)]
#[strum(serialize_all = "snake_case")]
pub enum TokenRejection {
    /// Forward it to the node that made it.
    #[error("another node made it")]
    OtherNode,
    /// From before a restart: the ledger answers for it.
    #[error("it is from before a restart")]
    DeadEpoch,
    /// From a later start: the node forgot starts, or two starts share a number.
    #[error("it is from a start that this node knows nothing of")]
    FutureEpoch,
    /// Forward it to the shard that made it.
    #[error("another shard made it")]
    OtherShard,
    /// Its check holds, but no such reservation exists: two starts share an epoch.
    #[error("no such reservation was made")]
    NeverMade,
    /// Past the late window: only the durable log knows whether it was won.
    #[error("it is older than the late window")]
    TooOld,
    /// Claimed, and neither settled nor given up yet: retry.
    #[error("it is being settled")]
    Pending,
    /// Settled before: notices repeat.
    #[error("it is settled already")]
    AlreadyWon,
    /// Released before. Only on release.
    #[error("it is released already")]
    AlreadyReleased,
    /// Expired. Only on release.
    #[error("it has expired")]
    Expired,
}

units::labelled!(TokenRejection);

/// The exclusive right, and the duty, to settle one reservation or give it up.
///
/// [`super::ShardLedger::settle`] and [`super::ShardLedger::unclaim`] consume it, so that settling
/// twice does not compile:
///
/// ```compile_fail,E0382
/// fn settle_twice(shard: &mut pacer_core::shard::ShardLedger, claim: pacer_core::shard::TokenClaim) {
///     shard.settle(claim, units::Nanos::new(1));
///     shard.settle(claim, units::Nanos::new(1));
/// }
/// ```
///
/// A dropped claim strands its money until the process ends; [`ShardCounts::pending`] counts it.
#[derive(Debug)]
#[must_use = "what is claimed is to be settled, or given up"]
pub struct TokenClaim {
    pub(super) token: ReservationToken,
    pub(super) book: u32,
    pub(super) was: ReservationState,
    /// Number of the reservation in its class.
    pub(super) sequence: u64,
}

impl TokenClaim {
    /// The reservation.
    pub const fn token(&self) -> &ReservationToken {
        &self.token
    }

    /// Whether the reservation expired or was released before the claim.
    pub const fn is_late(&self) -> bool {
        !matches!(self.was, ReservationState::Open)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReservationState {
    Open,
    Claimed,
    Won,
    Released,
    /// Its time ended while it was open.
    Expired,
}

/// A settled win, booked to the period of its reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SettledWin {
    /// The campaign.
    pub slot: CampaignIndex,
    /// The reservation's period.
    pub period: Period,
    /// Paid from the reservation.
    pub settled: Nanos,
    /// Paid above the reservation.
    pub over: Nanos,
    /// The whole price of a late win; otherwise zero.
    pub late: Nanos,
}

/// A shard's counters since its start, for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShardCounts {
    /// Reservations made.
    pub reserved: u64,
    /// Wins settled in time.
    pub won: u64,
    /// Wins settled late.
    pub won_late: u64,
    /// Wins priced above their reservation.
    pub over: u64,
    /// Reservations that the caller released.
    pub released: u64,
    /// Gauge of claims that are neither settled nor given up.
    pub pending: u64,
    /// Reservations denied with [`Denial::Full`].
    pub full: u64,
    /// Rejected messages of the ledger.
    pub untaken: u64,
    rejected: [u64; TokenRejection::ALL.len()],
}

impl ShardCounts {
    /// Number of tokens rejected for this reason.
    pub const fn rejected(&self, rejection: TokenRejection) -> u64 {
        self.rejected[rejection as usize]
    }

    pub(super) const fn note(&mut self, rejection: TokenRejection) {
        self.rejected[rejection as usize] += 1;
    }
}
