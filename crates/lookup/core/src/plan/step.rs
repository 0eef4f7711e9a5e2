//! The steps of a plan.

use std::collections::{BTreeSet, HashMap};

use super::rejection::RejectedCall;
use crate::map::{CallId, ProviderMap};
use crate::query::LookupQuery;

/// How a query is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// What is done.
    pub step: PlanStep,
    /// Calls that give what is asked for, but cannot be used.
    pub rejected: Vec<RejectedCall>,
}

/// A part of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlanStep {
    /// One call, with the values at hand.
    Fetch(PlannedFetch),
    /// All at once; their records are merged.
    Parallel(Vec<PlanStep>),
    /// One after the other. The records of the last are the result, those of the others give values.
    Sequence(Vec<PlanStep>),
    /// Repeats a step for the values of a key: those that the query lists, or those that an earlier
    /// step of the sequence has found.
    ForEach {
        /// The key.
        key: String,
        /// The most values at a time.
        chunk: usize,
        /// Values that the query lists. None: they are found.
        listed: Option<usize>,
        /// What is repeated.
        step: Box<PlanStep>,
    },
}

/// One call of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedFetch {
    /// The call.
    pub call: CallId,
    /// Index of the provider's instance.
    pub instance: usize,
    /// Keys of conditions that the call takes.
    pub takes: Vec<String>,
    /// Keys of conditions that are applied to its records.
    pub filters: Vec<String>,
}

/// About how much a step does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct StepEstimate {
    calls: u64,
    records: u64,
}

impl Plan {
    /// About how many calls it makes. `seen` has how many records calls have given on average; of
    /// others, the map says what is typical.
    pub fn calls_estimate(&self, map: &ProviderMap, seen: &HashMap<CallId, u64>) -> u64 {
        estimate(&self.step, map, seen, 0).calls
    }

    /// The calls whose records are the answer.
    pub fn answering(&self) -> BTreeSet<CallId> {
        let mut calls = BTreeSet::new();
        self.step.visit_answering(&mut |fetch| {
            calls.insert(fetch.call);
        });
        calls
    }

    /// The calls.
    pub fn calls(&self) -> BTreeSet<CallId> {
        let mut calls = BTreeSet::new();
        self.step.visit(&mut |fetch| {
            calls.insert(fetch.call);
        });
        calls
    }

    /// The calls that find the values of a call, if others do.
    pub fn feeders(&self, call: CallId) -> BTreeSet<CallId> {
        let mut feeders = BTreeSet::new();
        self.step.visit_feeders(call, &mut feeders);
        feeders
    }

    /// Indexes of the providers that are called, in ascending order.
    pub fn providers(&self) -> BTreeSet<usize> {
        self.calls().into_iter().map(|call| call.provider).collect()
    }

    /// Whether it fits a query: all of its conditions are taken or applied. For assertions.
    pub fn covers(&self, query: &LookupQuery) -> bool {
        let mut covered = BTreeSet::new();
        self.step.visit(&mut |fetch| {
            covered.extend(fetch.takes.iter().chain(&fetch.filters).cloned());
        });
        query.conditions.iter().all(|condition| covered.contains(&condition.key))
    }
}

/// Of a step that follows `found` records of an earlier one.
fn estimate(
    step: &PlanStep,
    map: &ProviderMap,
    seen: &HashMap<CallId, u64>,
    found: u64,
) -> StepEstimate {
    match step {
        PlanStep::Fetch(fetch) => {
            let typical = map.call(fetch.call).records_typical;
            let records = seen.get(&fetch.call).copied().unwrap_or(typical);
            StepEstimate { calls: 1, records }
        }
        PlanStep::Parallel(steps) => {
            let each = steps.iter().map(|step| estimate(step, map, seen, found));
            each.fold(StepEstimate { calls: 0, records: 0 }, |sum, of| StepEstimate {
                calls: sum.calls.saturating_add(of.calls),
                records: sum.records.max(of.records),
            })
        }
        PlanStep::Sequence(steps) => {
            let nothing = StepEstimate { calls: 0, records: found };
            steps.iter().fold(nothing, |sum, step| {
                let of = estimate(step, map, seen, sum.records);
                StepEstimate { calls: sum.calls.saturating_add(of.calls), records: of.records }
            })
        }
        PlanStep::ForEach { chunk, listed, step, .. } => {
            let values = listed.map_or(found, |count| count as u64);
            let turns = values.div_ceil((*chunk).max(1) as u64);
            let of = estimate(step, map, seen, found);
            StepEstimate {
                calls: of.calls.saturating_mul(turns),
                records: of.records.saturating_mul(turns),
            }
        }
    }
}

impl PlanStep {
    /// Whether any call of it takes a condition.
    pub(super) fn takes_any(&self) -> bool {
        let mut takes_any = false;
        self.visit(&mut |fetch| takes_any |= !fetch.takes.is_empty());
        takes_any
    }

    /// Visits the calls whose records are its result.
    fn visit_answering(&self, each: &mut impl FnMut(&PlannedFetch)) {
        match self {
            Self::Fetch(fetch) => each(fetch),
            Self::Parallel(steps) => steps.iter().for_each(|step| step.visit_answering(each)),
            Self::Sequence(steps) => {
                if let Some(last) = steps.last() {
                    last.visit_answering(each);
                }
            }
            Self::ForEach { step, .. } => step.visit_answering(each),
        }
    }

    /// Adds the calls of earlier steps of the sequences that have a call in a later one. Returns whether
    /// the step has it.
    fn visit_feeders(&self, call: CallId, feeders: &mut BTreeSet<CallId>) -> bool {
        match self {
            Self::Fetch(fetch) => fetch.call == call,
            Self::Parallel(steps) => steps.iter().any(|step| step.visit_feeders(call, feeders)),
            Self::Sequence(steps) => {
                let found = steps.iter().position(|step| step.visit_feeders(call, feeders));
                for step in steps.iter().take(found.unwrap_or(0)) {
                    step.visit(&mut |fetch| {
                        feeders.insert(fetch.call);
                    });
                }
                found.is_some()
            }
            Self::ForEach { step, .. } => step.visit_feeders(call, feeders),
        }
    }

    /// Visits all calls.
    fn visit(&self, each: &mut impl FnMut(&PlannedFetch)) {
        match self {
            Self::Fetch(fetch) => each(fetch),
            Self::Parallel(steps) | Self::Sequence(steps) => {
                steps.iter().for_each(|step| step.visit(each));
            }
            Self::ForEach { step, .. } => step.visit(each),
        }
    }
}
