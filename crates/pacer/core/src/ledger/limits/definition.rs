//! What accounts and campaigns are allowed, as it is given from outside: absolute, versioned, each
//! amount with its currency.
//!
//! Owns what is refused in a definition by itself. What a definition means beside what has been
//! spent is the ledger's.

use units::{Currency, Nanos, Ppm};

use super::tally::UNLIMITED;
use crate::messages::CampaignIndex;

/// A time zone, as whoever makes the calendars numbers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ZoneId(pub u32);

/// An account, as whoever defines accounts numbers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AccountId(pub u32);

/// An amount of a currency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Money {
    /// How much.
    pub amount: Nanos,
    /// Of what.
    pub currency: Currency,
}

/// For how long a limit holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitSpan {
    /// For ever.
    Life,
    /// For a day of the account's zone.
    Day,
    /// For an hour of its clocks.
    Hour,
}

/// The most that may be spent; `None` is without a limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BudgetLimits {
    /// In all.
    pub life: Option<Money>,
    /// On a day of the account's zone.
    pub day: Option<Money>,
    /// In an hour of its clocks.
    pub hour: Option<Money>,
}

/// What of every limit is kept back for wins that come late or above their price. What such wins
/// have cost already is kept back no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holdback {
    /// So much of each.
    Amount(Money),
    /// A share of each, rounded up.
    Share(Ppm),
}

impl Default for Holdback {
    fn default() -> Self {
        Self::Share(Ppm::ZERO)
    }
}

/// Hours of the week in which a campaign runs: bit 0 is Monday, midnight to one, in its zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Daypart([u64; 3]);

impl Daypart {
    /// All of them.
    pub const ALWAYS: Self = Self([u64::MAX; 3]);
    /// None of them.
    pub const NEVER: Self = Self([0; 3]);

    /// This, and the hour.
    #[must_use]
    pub fn with(mut self, hour_of_week: u8) -> Self {
        self.0[usize::from(hour_of_week / 64).min(2)] |= 1 << (hour_of_week % 64);
        self
    }

    /// Whether a campaign runs in the hour.
    pub fn contains(&self, hour_of_week: u8) -> bool {
        self.0[usize::from(hour_of_week / 64).min(2)] & (1 << (hour_of_week % 64)) != 0
    }
}

/// An account: who pays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccountDefinition {
    /// Which.
    pub id: AccountId,
    /// The larger wins.
    pub version: u64,
    /// Of all its money; never another.
    pub currency: Currency,
    /// By whose clocks its days and hours are counted; never another.
    pub zone: ZoneId,
    /// Of all its campaigns together.
    pub limits: BudgetLimits,
    /// What of these is kept back, beside what its campaigns keep back of theirs.
    pub late_holdback: Holdback,
    /// Whether none of them may spend.
    pub is_paused: bool,
}

/// A campaign, or a DSP's seat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CampaignDefinition {
    /// Which. Whoever defines campaigns keeps the number with the campaign, for leases outlive the
    /// process that made them; [`crate::ledger::Ledger::next_slot`] is free.
    pub slot: CampaignIndex,
    /// The larger wins.
    pub version: u64,
    /// Who pays; never another.
    pub account: AccountId,
    /// What it may spend, and when.
    pub budget: CampaignBudget,
}

/// What a campaign may spend, and when: the same from its definition to the ledger's books.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CampaignBudget {
    /// Its own, beside the account's.
    pub limits: BudgetLimits,
    /// Its first millisecond since 1970, UTC.
    pub start_unix_ms: u64,
    /// The first one behind it.
    pub end_unix_ms: u64,
    /// When it runs within these.
    pub daypart: Daypart,
    /// What of its limits is kept back.
    pub late_holdback: Holdback,
    /// Whether it may not spend.
    pub is_paused: bool,
}

/// Why a definition was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DefinitionError {
    /// It names a calendar that the ledger has not been given.
    #[error("zone {} has no calendar: give the calendar first", .0.0)]
    UnknownZone(ZoneId),
    /// An account's zone is for ever, for its days are counted by it.
    #[error("the zone of an account does not change: open another account")]
    ZoneChanged,
    /// An account's currency is for ever.
    #[error("the currency of an account is {0} and does not change: open another account")]
    CurrencyChanged(Currency),
    /// An amount is in another currency than the account.
    #[error("an amount in {given}, but the account is in {account}: give it in {account}")]
    MixedCurrency {
        /// Of the amount.
        given: Currency,
        /// Of the account.
        account: Currency,
    },
    /// A campaign's account is for ever, for what it spent was spent from it.
    #[error("the account of a campaign does not change: make another campaign")]
    AccountChanged,
    /// The flight has no time in it.
    #[error("the flight ends before it starts: give a later end")]
    EndBeforeStart,
    /// The number is beyond what the ledger keeps.
    #[error("slot {} is beyond the last, {SLOTS_MAX}: number campaigns from 0 without gaps", .0.0)]
    SlotTooLarge(CampaignIndex),
}

/// Campaigns that a ledger keeps at most: their numbers are an index.
pub const SLOTS_MAX: u32 = 1 << 20;

impl BudgetLimits {
    /// Refuses an amount in another currency than the account's, of a limit or of what is kept back.
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

    /// The limit of a span, in nanos.
    pub(in crate::ledger) fn of(&self, span: LimitSpan) -> u64 {
        let limit = match span {
            LimitSpan::Life => self.life,
            LimitSpan::Day => self.day,
            LimitSpan::Hour => self.hour,
        };
        limit.map_or(UNLIMITED, |money| money.amount.get())
    }
}

impl Holdback {
    /// What is kept back of a limit.
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
