//! How far each limit of a campaign and its account is used, and what that refuses.

use units::Nanos;

use super::definition::{Holdback, Limits, Span};
use super::tally::{Sum, Tally, UNLIMITED};
use crate::calendar::Hour;
use crate::ledger::bug::{Bug, planted};
use crate::refusal::Refusal;

/// Whose a limit is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// The campaign's own.
    Campaign,
    /// Its account's.
    Account,
}

/// How far a limit is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level {
    /// Whose it is.
    pub owner: Owner,
    /// For how long it holds.
    pub span: Span,
    /// The limit, if there is one.
    pub limit: Option<Nanos>,
    /// Leased and not given back, settled or not.
    pub held: Nanos,
    /// Spent beside that: late, or above the price.
    pub late: Nanos,
    /// Kept back for such, them included.
    pub holdback: Nanos,
}

impl Level {
    /// All that was leased and not given back, or spent beside it.
    pub fn exposure(&self) -> Nanos {
        Nanos::new(Sum { held: self.held.get(), late: self.late.get() }.exposure())
    }

    /// What may be leased; `None` without a limit.
    pub fn headroom(&self) -> Option<Nanos> {
        let used = self.held.get().saturating_add(self.late.get().max(self.holdback.get()));
        self.limit.map(|limit| Nanos::new(limit.get().saturating_sub(used)))
    }

    /// By how much the limit is exceeded: it was cut below what was leased, or wins came late or
    /// above their price.
    pub fn excess(&self) -> Nanos {
        let over = |limit: Nanos| self.exposure().get().saturating_sub(limit.get());
        Nanos::new(self.limit.map_or(0, over))
    }

    /// What is refused when nothing may be leased.
    pub const fn refusal(&self) -> Refusal {
        match self.span {
            Span::Life => Refusal::BudgetExhausted,
            Span::Day => Refusal::DayExhausted,
            Span::Hour => Refusal::HourExhausted,
        }
    }
}

/// All limits that hold now, in order of precedence.
pub(in crate::ledger) struct Levels(pub(in crate::ledger) [Level; 6]);

impl Levels {
    /// Those of a campaign and of its account, in turns.
    pub(in crate::ledger) fn new(of_campaign: [Level; 3], of_account: [Level; 3]) -> Self {
        Self(std::array::from_fn(|at| match at % 2 {
            0 => of_campaign[at / 2],
            _ => of_account[at / 2],
        }))
    }

    /// What may be leased at every level; all there is without a limit.
    pub(in crate::ledger) fn headroom(&self) -> u64 {
        let room = |level: &Level| level.headroom().map_or(UNLIMITED, Nanos::get);
        self.0.iter().map(room).min().unwrap_or(UNLIMITED)
    }

    /// Whether what the account may spend runs out before what the campaign may.
    pub(in crate::ledger) fn is_short_of_account(&self) -> bool {
        let is_used_up = |level: &&Level| level.headroom() == Some(Nanos::ZERO);
        let mut used_up = self.0.iter().filter(is_used_up).peekable();
        used_up.peek().is_some() && used_up.all(|level| level.owner == Owner::Account)
    }

    pub(in crate::ledger) fn is_exceeded(&self) -> bool {
        self.0.iter().any(|level| level.excess() > Nanos::ZERO)
    }

    /// The first limit that is used up.
    pub(in crate::ledger) fn refusal(&self) -> Option<Refusal> {
        let first = self.0.iter().find(|level| level.headroom() == Some(Nanos::ZERO));
        first.map(Level::refusal)
    }
}

/// The limits of one owner that hold now, in order of precedence.
pub(in crate::ledger) fn levels_of(
    owner: Owner,
    limits: &Limits,
    late_holdback: Holdback,
    tally: &Tally,
    hour: &Hour,
) -> [Level; 3] {
    let is_campaign = owner == Owner::Campaign;
    let ignores_limit = !is_campaign && planted(Bug::IgnoreAccount);
    let bug = if is_campaign { Bug::IgnoreHoldback } else { Bug::IgnoreAccountHoldback };
    spans(limits, tally, hour).map(|(span, cap, sum)| {
        let cap = if ignores_limit { UNLIMITED } else { cap };
        let kept = if planted(bug) { 0 } else { late_holdback.of(cap) };
        level((owner, span), cap, sum, kept)
    })
}

/// Each limit with what is used of it.
fn spans(limits: &Limits, tally: &Tally, hour: &Hour) -> [(Span, u64, Sum); 3] {
    [
        (Span::Life, limits.of(Span::Life), tally.life),
        (Span::Day, limits.of(Span::Day), tally.day(day_of(hour))),
        (Span::Hour, limits.of(Span::Hour), tally.hour(hour.period)),
    ]
}

fn level((owner, span): (Owner, Span), cap: u64, sum: Sum, kept: u64) -> Level {
    let limit = (cap != UNLIMITED).then_some(Nanos::new(cap));
    let (held, late) = (Nanos::new(sum.held), Nanos::new(sum.late));
    Level { owner, span, limit, held, late, holdback: Nanos::new(kept) }
}

/// The most by which exposure exceeds a limit.
pub(in crate::ledger) fn excess(limits: &Limits, tally: &Tally, hour: Option<&Hour>) -> Nanos {
    let over = |sum: Sum, cap: u64| sum.exposure().saturating_sub(cap);
    let passing = |hour: &Hour| {
        let of_day = over(tally.day(day_of(hour)), limits.of(Span::Day));
        of_day.max(over(tally.hour(hour.period), limits.of(Span::Hour)))
    };
    Nanos::new(over(tally.life, limits.of(Span::Life)).max(hour.map_or(0, passing)))
}

/// The day that an hour is counted in.
pub(in crate::ledger) fn day_of(hour: &Hour) -> u32 {
    if planted(Bug::UtcDay) {
        return hour.period.0 / 96;
    }
    hour.day
}
