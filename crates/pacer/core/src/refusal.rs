//! Why nothing may be spent: one enumeration, in order of precedence. Who looks for a reason names the
//! first that holds.

use strum::{IntoStaticStr, VariantArray};
use thiserror::Error;

/// Why a campaign may not spend now.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Error, IntoStaticStr, VariantArray,
)]
#[strum(serialize_all = "snake_case")]
#[repr(u8)]
pub enum SpendRefusal {
    /// Nobody knows it.
    #[error("there is no such campaign")]
    Unknown,
    /// It, or its account, is paused.
    #[error("it is paused")]
    Paused,
    /// Before its start, or after its end.
    #[error("it is not in flight")]
    OutOfFlight,
    /// Not in this hour of the week.
    #[error("it does not run in this hour of the week")]
    OutOfDaypart,
    /// Of its life, or its account's.
    #[error("its budget is spent")]
    BudgetExhausted,
    /// Of the day.
    #[error("its budget of the day is spent")]
    DayExhausted,
    /// Of the hour.
    #[error("its budget of the hour is spent")]
    HourExhausted,
    /// Its strategy passes this one by.
    #[error("its strategy passes this one by")]
    Throttled,
    /// What it would bid is less than it must.
    #[error("what it would bid is below the minimum")]
    BelowMinimum,
    /// Rights are on their way, or cannot be had: the ledger or its disk does not answer.
    #[error("the ledger has granted nothing yet, or cannot")]
    LedgerUnavailable,
}

units::labelled!(SpendRefusal);

impl SpendRefusal {
    /// Whether a limit is used up: all of it is leased or spent.
    pub const fn is_exhausted(self) -> bool {
        matches!(self, Self::BudgetExhausted | Self::DayExhausted | Self::HourExhausted)
    }

    /// Whether there is no more money to be granted: of a gate that is closed for it, what a shard was
    /// granted before may still be spent.
    pub const fn is_out_of_budget(self) -> bool {
        self.is_exhausted() || matches!(self, Self::LedgerUnavailable)
    }
}

#[cfg(test)]
mod tests {
    use super::SpendRefusal;

    #[test]
    fn precedence_is_the_order_of_declaration() {
        for (at, refusal) in SpendRefusal::ALL.into_iter().enumerate() {
            assert_eq!(refusal as usize, at, "{refusal:?}");
            let same = SpendRefusal::ALL.iter().filter(|other| other.label() == refusal.label());
            assert_eq!(same.count(), 1, "{refusal:?}");
        }
    }
}
