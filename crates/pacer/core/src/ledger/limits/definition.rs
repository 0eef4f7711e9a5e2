//! Definitions of accounts and campaigns: absolute, versioned, each amount with its currency.
//!
//! Owns the checks of a definition by itself. The ledger compares it with what was spent.

use units::{Currency, Nanos, Ppm};

use super::tally::UNLIMITED;
use crate::messages::CampaignIndex;

/// A time zone's number, assigned by the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ZoneId(pub u32);

/// An account's number, assigned by the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AccountId(pub u32);

/// An amount in a currency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Money {
    /// The amount.
    pub amount: Nanos,
    /// Its currency.
    pub currency: Currency,
}

/// The span of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitSpan {
    /// The whole flight.
    Life,
    /// A day of the account's zone.
    Day,
    /// An hour of the account's zone.
    Hour,
}

impl LimitSpan {
    /// Its name in messages.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Life => "life",
            Self::Day => "day",
            Self::Hour => "hour",
        }
    }
}

/// Spending limits. None if unlimited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BudgetLimits {
    /// In total.
    pub life: Option<Money>,
    /// Per day of the account's zone.
    pub day: Option<Money>,
    /// Per hour of the account's zone.
    pub hour: Option<Money>,
}

/// Part of every limit held back for late or overpriced wins, less what these have cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holdback {
    /// An amount of each limit.
    Amount(Money),
    /// A share of each limit, rounded up.
    Share(Ppm),
}

impl Default for Holdback {
    fn default() -> Self {
        Self::Share(Ppm::ZERO)
    }
}

/// Hours of the week in which a campaign runs: bit 0 is Monday 00:00 to 01:00, in its zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Daypart([u64; 3]);

impl Daypart {
    /// Every hour.
    pub const ALWAYS: Self = Self([u64::MAX; 3]);
    /// No hour.
    pub const NEVER: Self = Self([0; 3]);

    /// Adds an hour.
    #[must_use]
    pub fn with(mut self, hour_of_week: u8) -> Self {
        self.0[usize::from(hour_of_week / 64).min(2)] |= 1 << (hour_of_week % 64);
        self
    }

    /// Whether the campaign runs in an hour.
    pub fn contains(&self, hour_of_week: u8) -> bool {
        self.0[usize::from(hour_of_week / 64).min(2)] & (1 << (hour_of_week % 64)) != 0
    }
}

/// An account, which pays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccountTerms {
    /// Its number.
    pub id: AccountId,
    /// The larger wins.
    pub version: u64,
    /// The currency of all its amounts. It never changes.
    pub currency: Currency,
    /// The zone of its days and hours. It never changes.
    pub zone: ZoneId,
    /// Limits for all its campaigns together.
    pub limits: BudgetLimits,
    /// Holdback from these limits, in addition to that of its campaigns.
    pub late_holdback: Holdback,
    /// Whether all its campaigns are paused.
    pub is_paused: bool,
}

/// A campaign, or a DSP's seat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CampaignTerms {
    /// Its number. It must be stored with the campaign, because leases outlive the process that
    /// made them; [`crate::ledger::Ledger::next_slot`] is a free number.
    pub slot: CampaignIndex,
    /// The larger wins.
    pub version: u64,
    /// The account that pays. It never changes.
    pub account: AccountId,
    /// What it may spend, and when.
    pub budget: CampaignBudget,
}

/// A campaign's limits and schedule: the same type from its definition to the ledger's books.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CampaignBudget {
    /// Its own limits, in addition to the account's.
    pub limits: BudgetLimits,
    /// Its first millisecond since 1970, UTC.
    pub start_unix_ms: u64,
    /// The first millisecond after its end.
    pub end_unix_ms: u64,
    /// Hours of the week in which it runs.
    pub daypart: Daypart,
    /// Holdback from its limits.
    pub late_holdback: Holdback,
    /// Whether it is paused.
    pub is_paused: bool,
}

/// Why a definition was rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages name the fields")]
pub enum DefinitionError {
    /// The ledger has no calendar of this zone.
    #[error("zone {} has no calendar: give the calendar first", .0.0)]
    UnknownZone(ZoneId),
    /// An account's zone never changes, because it defines the account's days.
    #[error("the zone of an account does not change: open another account")]
    ZoneChanged,
    /// An account's currency never changes.
    #[error("the currency of an account is {0} and does not change: open another account")]
    CurrencyChanged(Currency),
    /// The currency of an amount differs from the account's.
    #[error("an amount in {given}, but the account is in {account}: give it in {account}")]
    MixedCurrency { given: Currency, account: Currency },
    /// A campaign's account never changes, because it paid for what was spent.
    #[error("the account of a campaign does not change: make another campaign")]
    AccountChanged,
    /// The flight is empty.
    #[error("the flight ends before it starts: give a later end")]
    EndBeforeStart,
    /// The number is beyond the last that the ledger accepts.
    #[error("slot {} is beyond the last, {CAMPAIGNS_MAX}: number campaigns from 0 without gaps", .0.0)]
    SlotTooLarge(CampaignIndex),
}

/// Maximum number of campaigns in a ledger: their numbers are indices.
pub const CAMPAIGNS_MAX: u32 = 1 << 20;

impl BudgetLimits {
    pub(in crate::ledger) fn check(
        &self,
        late: Holdback,
        account: Currency,
    ) -> Result<(), DefinitionError> {
        let kept = match late {
            Holdback::Amount(money) => Some(money),
            Holdback::Share(_) => None,
        };
        let amounts = [self.life, self.day, self.hour, kept];
        match amounts.into_iter().flatten().find(|money| money.currency != account) {
            Some(Money { currency: given, .. }) => {
                Err(DefinitionError::MixedCurrency { given, account })
            }
            None => Ok(()),
        }
    }

    /// The limit of a span. None if unlimited.
    pub const fn of(&self, span: LimitSpan) -> Option<Money> {
        match span {
            LimitSpan::Life => self.life,
            LimitSpan::Day => self.day,
            LimitSpan::Hour => self.hour,
        }
    }

    pub(in crate::ledger) fn nanos(&self, span: LimitSpan) -> u64 {
        self.of(span).map_or(UNLIMITED, |money| money.amount.get())
    }
}

impl Holdback {
    pub(in crate::ledger) fn of(self, limit: u64) -> u64 {
        if limit == UNLIMITED {
            return 0;
        }
        match self {
            Self::Amount(money) => money.amount.get().min(limit),
            Self::Share(share) => {
                let kept = u128::from(limit) * u128::from(share.get());
                let kept = kept.div_ceil(u128::from(Ppm::ONE.get()));
                u64::try_from(kept).expect("a share of a limit is at most the limit")
            }
        }
    }
}
