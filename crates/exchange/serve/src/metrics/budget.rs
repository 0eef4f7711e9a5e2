//! Metrics of a shard's budgets: outcomes of reservations, and refusals of winners.

use std::fmt;

use pacer_core::funnel::FunnelStep;
use pacer_core::refusal::SpendRefusal;
use pacer_core::shard::{ShardCounts, TokenRejection};
use runtime::metrics::{Counter, MetricsPage, PerShard};

use super::ExchangeMetrics;

type BudgetCount = (&'static str, fn(&ShardCounts) -> u64);

const OUTCOMES: [BudgetCount; 5] = [
    ("reserved", |counts| counts.reserved),
    ("won", |counts| counts.won),
    ("won_late", |counts| counts.won_late),
    ("over", |counts| counts.over),
    ("released", |counts| counts.released),
];

const PROBLEMS: [BudgetCount; 2] =
    [("reservations", |counts| counts.full), ("campaigns", |counts| counts.untaken)];

/// Metrics of one shard's budgets.
#[derive(Debug, Default)]
pub struct BudgetMetrics {
    outcomes: [Counter; OUTCOMES.len()],
    problems: [Counter; PROBLEMS.len()],
    rejected: [Counter; TokenRejection::ALL.len()],
    /// Wins billed without a beacon whose record was not durable in time; no budget counts them.
    pub unbooked: Counter,
    /// Winners refused by their account, by reason.
    pub refused: [Counter; SpendRefusal::ALL.len()],
    /// Impressions of campaigns by step, in the order of [`FunnelStep::ALL`].
    pub funnel: [Counter; FunnelStep::ALL.len()],
}

impl BudgetMetrics {
    pub(crate) fn add(&self, before: &ShardCounts, after: &ShardCounts) {
        for (counter, (_, of)) in self.outcomes.iter().zip(OUTCOMES) {
            counter.add(of(after) - of(before));
        }
        for (counter, (_, of)) in self.problems.iter().zip(PROBLEMS) {
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
        let at = OUTCOMES.iter().position(|(known, _)| *known == label);
        self.outcomes[at.expect("a label")].value()
    }

    pub(crate) fn rejection(&self, rejection: TokenRejection) -> u64 {
        self.rejected[rejection as usize].value()
    }
}

pub(super) fn expose(
    shards: &PerShard<ExchangeMetrics>,
    page: &mut MetricsPage<'_>,
) -> fmt::Result {
    let all = || shards.iter().map(|shard| &shard.budget);
    let help = "Winners whose account did not authorize the price, by reason.";
    let mut refused = page.counters("exchange_wins_refused", help)?;
    for refusal in SpendRefusal::ALL {
        let counters = all().map(|budget| &budget.refused[refusal as usize]);
        refused.sum(&[("reason", refusal.label())], counters)?;
    }
    let help = "Impressions offered to campaigns, and for all campaigns together the impressions that reached each step.";
    let mut funnel = page.counters("exchange_direct_impressions", help)?;
    for (at, step) in FunnelStep::ALL.into_iter().enumerate() {
        funnel.sum(&[("step", step.label())], all().map(|budget| &budget.funnel[at]))?;
    }
    let help = "Reservations by outcome; those that are neither won nor released expire.";
    let mut outcomes = page.counters("exchange_reservations", help)?;
    for (at, (label, _)) in OUTCOMES.into_iter().enumerate() {
        outcomes.sum(&[("outcome", label)], all().map(|budget| &budget.outcomes[at]))?;
    }
    let help = "Rejected reservation tokens, by reason.";
    let mut rejected = page.counters("exchange_reservations_rejected", help)?;
    for (at, rejection) in TokenRejection::ALL.into_iter().enumerate() {
        let counters = all().map(|budget| &budget.rejected[at]);
        rejected.sum(&[("reason", rejection.label())], counters)?;
    }
    let help = "Sales without a beacon of ours that could not be booked and count in no budget.";
    let mut unbooked = page.counters("exchange_sales_unbooked", help)?;
    unbooked.sum(&[], all().map(|budget| &budget.unbooked))?;
    let help =
        "Reservations and campaigns that a shard refused because its table of them was full.";
    let mut problems = page.counters("exchange_shard_budget_full", help)?;
    for (at, (label, _)) in PROBLEMS.into_iter().enumerate() {
        problems.sum(&[("of", label)], all().map(|budget| &budget.problems[at]))?;
    }
    Ok(())
}
