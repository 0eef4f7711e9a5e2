//! What of a query's answer is known before anything is called.

use std::collections::HashMap;

use lookup_core::map::CallId;
use lookup_core::plan::{Plan, PlanStep, PlannedFetch};
use lookup_core::query::LookupQuery;
use lookup_core::target::{CallValues, listed_values, target};
use runtime::process::unix_ms;
use tokio::sync::oneshot;

use super::known::KnownAnswers;
use crate::calls::ProviderCalls;
use crate::calls::answers::{AnswerSource, CallKey};
use crate::maps::LoadedMaps;

/// A plan, of which somebody wants to know that.
pub(crate) struct ForecastQuestion {
    pub query: LookupQuery,
    pub plan: Plan,
    pub answer: oneshot::Sender<QueryForecast>,
}

#[derive(Debug, Default)]
pub(crate) struct QueryForecast {
    /// A query whose answer contains that of this one. Then nothing is called.
    pub reuses: Option<String>,
    /// Calls whose values the query has. The values of others are to be found first.
    pub calls: Vec<ForecastCalls>,
}

/// Calls of one kind.
#[derive(Debug)]
pub(crate) struct ForecastCalls {
    pub call: CallId,
    /// Index of the provider's instance.
    pub instance: usize,
    pub count: u64,
    /// Those whose answers are in memory, and count.
    pub fresh: u64,
    /// Those whose answers are used while they are replaced.
    pub stale: u64,
}

/// What is known. Must run on the look-up thread.
pub(crate) fn forecast(
    calls: &ProviderCalls,
    maps: &LoadedMaps,
    answers: &KnownAnswers,
    question: &ForecastQuestion,
) -> QueryForecast {
    let ForecastQuestion { query, plan, .. } = question;
    let now_unix_ms = unix_ms();
    let known = answers.find(query, plan, now_unix_ms);
    let reuses = known.map(|wider| wider.known.query.to_string());
    let mut forecast = Forecaster { calls, maps, query, now_unix_ms, found: Vec::new() };
    forecast.step(&plan.step, &HashMap::new());
    QueryForecast { reuses, calls: forecast.found }
}

struct Forecaster<'f> {
    calls: &'f ProviderCalls,
    maps: &'f LoadedMaps,
    query: &'f LookupQuery,
    now_unix_ms: u64,
    found: Vec<ForecastCalls>,
}

impl Forecaster<'_> {
    fn step(&mut self, step: &PlanStep, bound: &HashMap<String, Vec<String>>) {
        match step {
            PlanStep::Fetch(fetch) => self.fetch(fetch, bound),
            PlanStep::Parallel(steps) => steps.iter().for_each(|step| self.step(step, bound)),
            // The others need what the first one finds.
            PlanStep::Sequence(steps) => {
                steps.iter().take(1).for_each(|step| self.step(step, bound));
            }
            PlanStep::ForEach { listed: None, .. } => (),
            PlanStep::ForEach { key, chunk, step, .. } => {
                let mut conditions = self.query.conditions.iter();
                let condition = conditions.find(|condition| condition.key == *key);
                let values = condition.map_or_else(Vec::new, listed_values);
                for chunk in values.chunks((*chunk).max(1)) {
                    let mut bound = bound.clone();
                    bound.insert(key.clone(), chunk.to_vec());
                    self.step(step, &bound);
                }
            }
        }
    }

    fn fetch(&mut self, fetch: &PlannedFetch, bound: &HashMap<String, Vec<String>>) {
        let PlannedFetch { call, instance, takes, .. } = fetch;
        let now = i64::try_from(self.now_unix_ms / 1_000).unwrap_or(i64::MAX);
        let conditions = &self.query.conditions;
        let values = CallValues { conditions, takes, bound, now, page: 0 };
        let target = target(self.maps.map.call(*call), values).ok();
        let source = target.and_then(|target| {
            let key = CallKey { call: *call, instance: *instance, target };
            self.calls.cached(&key, self.now_unix_ms).map(|answer| answer.source)
        });
        let at = self.found.iter().position(|of| (of.call, of.instance) == (*call, *instance));
        let at = at.unwrap_or_else(|| {
            let (call, instance) = (*call, *instance);
            self.found.push(ForecastCalls { call, instance, count: 0, fresh: 0, stale: 0 });
            self.found.len() - 1
        });
        let of_kind = &mut self.found[at];
        of_kind.count += 1;
        of_kind.fresh += u64::from(source == Some(AnswerSource::Cache));
        of_kind.stale += u64::from(source == Some(AnswerSource::Stale));
    }
}
