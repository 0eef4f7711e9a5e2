//! How much of each limit of a campaign and its account is used, and the resulting refusal.

use units::Nanos;

use super::definition::{BudgetLimits, Holdback, LimitSpan};
use super::tally::{Exposure, ExposureTally, UNLIMITED};
use crate::calendar::CalendarHour;
use crate::refusal::SpendRefusal;

/// The owner of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitOwner {
    /// The campaign.
    Campaign,
    /// Its account.
    Account,
}

/// How much of a limit is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitLevel {
    /// Its owner.
    pub owner: LimitOwner,
    /// Its span.
    pub span: LimitSpan,
    /// The limit. None if unlimited.
    pub limit: Option<Nanos>,
    /// Leased and not returned, whether settled or not.
    pub outstanding: Nanos,
    /// Spent in addition: late, or above the price.
    pub late: Nanos,
    /// Holdback for such wins, including `late`.
    pub holdback: Nanos,
}

impl LimitLevel {
    /// Leased and not returned, or spent in addition.
    pub fn exposure(&self) -> Nanos {
        Nanos::new(Exposure { held: self.outstanding.get(), late: self.late.get() }.exposure())
    }

    /// What may still be leased. None if unlimited.
    pub fn headroom(&self) -> Option<Nanos> {
        let used = self.outstanding.get().saturating_add(self.late.get().max(self.holdback.get()));
        self.limit.map(|limit| Nanos::new(limit.get().saturating_sub(used)))
    }

    /// Excess over the limit: it was lowered, or wins came late or above their price.
    pub fn excess(&self) -> Nanos {
        let over = |limit: Nanos| self.exposure().get().saturating_sub(limit.get());
        Nanos::new(self.limit.map_or(0, over))
    }

    /// The refusal if nothing may be leased.
    pub const fn refusal(&self) -> SpendRefusal {
        match self.span {
            LimitSpan::Life => SpendRefusal::BudgetExhausted,
            LimitSpan::Day => SpendRefusal::DayExhausted,
            LimitSpan::Hour => SpendRefusal::HourExhausted,
        }
    }
}

pub(in crate::ledger) struct LimitLevels(pub(in crate::ledger) [LimitLevel; 6]);

impl LimitLevels {
    pub(in crate::ledger) fn new(
        of_campaign: [LimitLevel; 3],
        of_account: [LimitLevel; 3],
    ) -> Self {
        Self(std::array::from_fn(|at| match at % 2 {
            0 => of_campaign[at / 2],
            _ => of_account[at / 2],
        }))
    }

    pub(in crate::ledger) fn headroom(&self) -> u64 {
        let room = |level: &LimitLevel| level.headroom().map_or(UNLIMITED, Nanos::get);
        self.0.iter().map(room).min().unwrap_or(UNLIMITED)
    }

    /// Whether the account's limits run out before the campaign's.
    pub(in crate::ledger) fn is_short_of_account(&self) -> bool {
        let is_used_up = |level: &&LimitLevel| level.headroom() == Some(Nanos::ZERO);
        let mut used_up = self.0.iter().filter(is_used_up).peekable();
        used_up.peek().is_some() && used_up.all(|level| level.owner == LimitOwner::Account)
    }

    pub(in crate::ledger) fn is_exceeded(&self) -> bool {
        self.0.iter().any(|level| level.excess() > Nanos::ZERO)
    }

    pub(in crate::ledger) fn refusal(&self) -> Option<SpendRefusal> {
        let first = self.0.iter().find(|level| level.headroom() == Some(Nanos::ZERO));
        first.map(LimitLevel::refusal)
    }
}

pub(in crate::ledger) fn levels_of(
    owner: LimitOwner,
    limits: &BudgetLimits,
    late_holdback: Holdback,
    tally: &ExposureTally,
    hour: &CalendarHour,
) -> [LimitLevel; 3] {
    spans(limits, tally, hour).map(|(span, cap, sum)| {
        let kept = late_holdback.of(cap);
        level(owner, span, cap, sum, kept)
    })
}

fn spans(
    limits: &BudgetLimits,
    tally: &ExposureTally,
    hour: &CalendarHour,
) -> [(LimitSpan, u64, Exposure); 3] {
    [
        (LimitSpan::Life, limits.nanos(LimitSpan::Life), tally.life),
        (LimitSpan::Day, limits.nanos(LimitSpan::Day), tally.day(hour.day)),
        (LimitSpan::Hour, limits.nanos(LimitSpan::Hour), tally.hour(hour.period)),
    ]
}

fn level(owner: LimitOwner, span: LimitSpan, cap: u64, sum: Exposure, kept: u64) -> LimitLevel {
    let limit = (cap != UNLIMITED).then_some(Nanos::new(cap));
    let (outstanding, late) = (Nanos::new(sum.held), Nanos::new(sum.late));
    LimitLevel { owner, span, limit, outstanding, late, holdback: Nanos::new(kept) }
}

pub(in crate::ledger) fn excess(
    limits: &BudgetLimits,
    tally: &ExposureTally,
    hour: Option<&CalendarHour>,
) -> Nanos {
    let over = |sum: Exposure, cap: u64| sum.exposure().saturating_sub(cap);
    let passing = |hour: &CalendarHour| {
        let of_day = over(tally.day(hour.day), limits.nanos(LimitSpan::Day));
        of_day.max(over(tally.hour(hour.period), limits.nanos(LimitSpan::Hour)))
    };
    Nanos::new(over(tally.life, limits.nanos(LimitSpan::Life)).max(hour.map_or(0, passing)))
}
