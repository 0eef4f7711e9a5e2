//! Why nothing may be spent. The order is precedence: the first that applies is reported.

use strum::{IntoStaticStr, VariantArray};
use thiserror::Error;

/// Why a campaign may not spend now.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Error, IntoStaticStr, VariantArray,
)]
#[strum(serialize_all = "snake_case")]
#[repr(u8)]
pub enum SpendRefusal {
    /// The campaign does not exist.
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
    /// Its total budget, or its account's, is used up.
    #[error("its budget is spent")]
    BudgetExhausted,
    /// The day's budget is used up.
    #[error("its budget of the day is spent")]
    DayExhausted,
    /// The hour's budget is used up.
    #[error("its budget of the hour is spent")]
    HourExhausted,
    /// Its strategy skips this request.
    #[error("its strategy passes this one by")]
    Throttled,
    /// Its bid would be below the minimum.
    #[error("what it would bid is below the minimum")]
    BelowMinimum,
    /// A refill is on its way, or impossible: the ledger or its disk does not answer.
    #[error("the ledger has granted nothing yet, or cannot")]
    LedgerUnavailable,
}

units::labelled!(SpendRefusal);

impl SpendRefusal {
    /// Whether a limit is used up: leased or spent in full.
    pub const fn is_exhausted(self) -> bool {
        matches!(self, Self::BudgetExhausted | Self::DayExhausted | Self::HourExhausted)
    }

    /// Whether no more budget can be granted. Earlier grants may still be spent.
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
