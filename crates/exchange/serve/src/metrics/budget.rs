//! Metrics of a shard's budgets: outcomes of reservations, and refusals of winners.

use pacer_core::funnel::FunnelStep;
use pacer_core::refusal::SpendRefusal;
use pacer_core::shard::{ShardCounts, TokenRejection};
use runtime::metrics::{Counter, Histogram};

/// A label, and what it counts.
type BudgetCount = (&'static str, fn(&ShardCounts) -> u64);

pub(crate) const RESERVATION_OUTCOMES: [BudgetCount; 5] = [
    ("reserved", |counts| counts.reserved),
    ("won", |counts| counts.won),
    ("won_late", |counts| counts.won_late),
    ("over", |counts| counts.over),
    ("released", |counts| counts.released),
];

pub(crate) const RESERVATION_PROBLEMS: [BudgetCount; 2] =
    [("reservations", |counts| counts.full), ("campaigns", |counts| counts.untaken)];

/// Metrics of one shard's budgets.
#[derive(Debug, Default)]
pub struct BudgetMetrics {
    pub(crate) outcomes: [Counter; RESERVATION_OUTCOMES.len()],
    pub(crate) problems: [Counter; RESERVATION_PROBLEMS.len()],
    pub(crate) rejected: [Counter; TokenRejection::ALL.len()],
    /// Wins billed without a beacon whose record was not durable in time; no budget counts them.
    pub unbooked: Counter,
    /// Winners refused by their account, by reason.
    pub refused: [Counter; SpendRefusal::ALL.len()],
    /// Time for the decisions of a remote pacer, by clearing.
    pub round_trip: Histogram,
    /// Impressions of campaigns by step, in the order of [`FunnelStep::ALL`].
    pub funnel: [Counter; FunnelStep::ALL.len()],
}

impl BudgetMetrics {
    pub(crate) fn add(&self, before: &ShardCounts, after: &ShardCounts) {
        for (counter, (_, of)) in self.outcomes.iter().zip(RESERVATION_OUTCOMES) {
            counter.add(of(after) - of(before));
        }
        for (counter, (_, of)) in self.problems.iter().zip(RESERVATION_PROBLEMS) {
            counter.add(of(after) - of(before));
        }
        for (counter, rejection) in self.rejected.iter().zip(TokenRejection::ALL) {
            counter.add(after.rejected(rejection) - before.rejected(rejection));
        }
    }
}

#[cfg(test)]
impl BudgetMetrics {
    pub(crate) fn outcome(&self, label: &str) -> u64 {
        let at = RESERVATION_OUTCOMES.iter().position(|(known, _)| *known == label);
        self.outcomes[at.expect("a label")].value()
    }

    pub(crate) fn rejection(&self, rejection: TokenRejection) -> u64 {
        self.rejected[rejection as usize].value()
    }
}
