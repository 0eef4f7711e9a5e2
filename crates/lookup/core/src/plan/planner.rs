//! Finds the calls that answer a query.
//!
//! A call answers if it gives exactly the keys that are asked for and every condition is taken by one
//! of its parameters or, if it is about a key that the call gives, applied to its records. If a
//! parameter that the call needs has no condition, the call that the map names (`from`) finds its
//! values first, and takes the conditions that remain. Calls that need no other are preferred: if
//! there is one, those that do are left out.

use super::rejection::{PlanError, RejectedCall, Rejection};
use super::step::{Plan, PlanStep, PlannedFetch};
use crate::map::{CallId, KeyParameter, LookupProvider, ProviderCall, ProviderMap};
use crate::query::{LookupQuery, QueryCondition, QueryTest, QueryValue};
use crate::wildcard;

/// Plans a query. The map has no problems.
///
/// # Errors
/// Why no provider can answer it.
pub fn plan(map: &ProviderMap, query: &LookupQuery) -> Result<Plan, PlanError> {
    let is_known = |name: &&String| map.providers.iter().any(|of| of.name == **name);
    if let Some(unknown) = query.systems.iter().find(|name| !is_known(name)) {
        return Err(PlanError::UnknownSystem(unknown.clone()));
    }
    let conditions: Vec<_> = query.conditions.iter().collect();
    let planner = Planner { map, query };
    let (mut direct, mut chained, mut rejected) = (Vec::new(), Vec::new(), Vec::new());
    for (id, provider, _) in map.calls().filter(|(_, provider, call)| {
        planner.may_answer(provider) && gives_exactly(call, &query.fields)
    }) {
        let name = map.call_name(id);
        match planner.step(id, provider, StepConditions { covered: &conditions, others: &[] }) {
            Ok(step) if matches!(step, PlanStep::Sequence(_)) => chained.push((name, step)),
            Ok(step) => direct.push(step),
            Err(reason) => rejected.push(RejectedCall { name, reason }),
        }
    }
    let mut steps = direct;
    if steps.is_empty() {
        steps = chained.into_iter().map(|(_, step)| step).collect();
    } else {
        let not_needed = |(name, _)| RejectedCall { name, reason: Rejection::NotNeeded };
        rejected.extend(chained.into_iter().map(not_needed));
    }
    let step = match steps.len() {
        0 if rejected.is_empty() => return Err(PlanError::NothingGives(query.fields.clone())),
        0 => return Err(PlanError::AllRejected(rejected)),
        1 => steps.remove(0),
        _ => PlanStep::Parallel(steps),
    };
    let plan = Plan { step, rejected };
    assert!(plan.covers(query), "a plan takes all conditions");
    Ok(plan)
}

fn gives_exactly(call: &ProviderCall, fields: &[String]) -> bool {
    call.gives.len() == fields.len() && fields.iter().all(|field| call.gives.contains(field))
}

/// What a step does with conditions.
#[derive(Clone, Copy)]
struct StepConditions<'c> {
    /// It must cover these.
    covered: &'c [&'c QueryCondition],
    /// A later step applies these. It takes those that it can, to find less.
    others: &'c [&'c QueryCondition],
}

struct Planner<'p> {
    map: &'p ProviderMap,
    query: &'p LookupQuery,
}

impl Planner<'_> {
    fn may_answer(&self, provider: &LookupProvider) -> bool {
        self.query.systems.is_empty() || self.query.systems.contains(&provider.name)
    }

    /// The step of a call.
    fn step(
        &self,
        id: CallId,
        provider: &LookupProvider,
        conditions: StepConditions<'_>,
    ) -> Result<PlanStep, Rejection> {
        let call = self.map.call(id);
        let instance = self.instance(provider)?;
        let (mut takes, mut filters, mut remaining) = (Vec::new(), Vec::new(), Vec::new());
        // Of conditions that no parameter takes, by key.
        let mut refusals = Vec::new();
        let others = conditions.others.iter().filter(|condition| taken(call, condition).is_ok());
        for condition in conditions.covered.iter().chain(others) {
            match taken(call, condition) {
                Ok(()) => takes.push(*condition),
                // No record would satisfy it.
                Err(reason @ Rejection::Unfit { .. }) => return Err(reason),
                Err(reason) => {
                    let is_given = call.gives.contains(&condition.key);
                    let list = if is_given { &mut filters } else { &mut remaining };
                    list.push(*condition);
                    refusals.push((&condition.key, reason));
                }
            }
        }
        let is_found = |key: &str| takes.iter().any(|condition| condition.key == key);
        let missing: Vec<_> =
            call.key_parameters().filter(|of| of.is_required && !is_found(&of.key)).collect();
        // A condition that does not suit the parameter is no reason to look for other values.
        let is_asked =
            |of: &KeyParameter| remaining.iter().any(|condition| condition.key == of.key);
        let refused = |of: &KeyParameter| refusals.iter().find(|(key, _)| **key == of.key);
        for of in missing.iter().filter(|of| of.from.is_none() || is_asked(of)) {
            if let Some((_, reason)) = refused(of) {
                return Err(reason.clone());
            }
        }
        let keys = |of: &[&QueryCondition]| of.iter().map(|of| of.key.clone()).collect();
        let (takes_keys, filter_keys) = (keys(&takes), keys(&filters));
        let fetch = PlannedFetch { call: id, instance, takes: takes_keys, filters: filter_keys };
        let mut step = PlanStep::Fetch(fetch);
        for condition in takes.iter().rev() {
            if let QueryTest::In(values) = &condition.test {
                let chunk = call.parameter_of(&condition.key).map_or(1, |of| of.batch);
                step = for_each(&condition.key, chunk, Some(values.len()), step);
            }
        }
        if missing.is_empty() {
            let first = remaining.first().map(|condition| &condition.key);
            let reason = refusals.into_iter().find(|(key, _)| Some(*key) == first);
            return reason.map_or(Ok(step), |(_, reason)| Err(reason));
        }
        let [parameter] = missing[..] else {
            let without = missing.iter().find(|of| of.from.is_none()).unwrap_or(&missing[0]);
            return Err(Rejection::NeedsCondition(without.key.clone()));
        };
        step = for_each(&parameter.key, parameter.batch, None, step);
        let others: Vec<_> = takes.iter().chain(&filters).copied().collect();
        let conditions = StepConditions { covered: &remaining, others: &others };
        Ok(PlanStep::Sequence(vec![self.feed(parameter, conditions)?, step]))
    }

    /// The step that finds the values of a parameter.
    fn feed(
        &self,
        parameter: &KeyParameter,
        conditions: StepConditions<'_>,
    ) -> Result<PlanStep, Rejection> {
        let key = &parameter.key;
        let needs_condition = || Rejection::NeedsCondition(key.clone());
        let from = parameter.from.as_deref().ok_or_else(needs_condition)?;
        let feeder = self.map.call_named(from).expect("the map has no problems");
        let provider = &self.map.providers[feeder.provider];
        let step = match self.may_answer(provider) {
            true => self.step(feeder, provider, conditions),
            false => Err(Rejection::OtherSystem),
        };
        let step = step.map_err(|reason| {
            let feeder = RejectedCall { name: from.to_owned(), reason };
            Rejection::NoFeeder { key: key.clone(), feeder: Box::new(feeder) }
        })?;
        // Otherwise it would list all that there is.
        if step.takes_any() { Ok(step) } else { Err(needs_condition()) }
    }

    fn instance(&self, provider: &LookupProvider) -> Result<usize, Rejection> {
        let Some(wanted) = &self.query.instance else { return Ok(0) };
        let found = provider.instances.iter().position(|(name, _)| name == wanted);
        found.ok_or_else(|| Rejection::NoInstance(wanted.clone()))
    }
}

fn for_each(key: &str, chunk: usize, listed: Option<usize>, step: PlanStep) -> PlanStep {
    PlanStep::ForEach { key: key.to_owned(), chunk, listed, step: Box::new(step) }
}

/// Whether a call takes a condition as a parameter.
fn taken(call: &ProviderCall, condition: &QueryCondition) -> Result<(), Rejection> {
    let key = || condition.key.clone();
    let parameter = call.parameter_of(&condition.key);
    let parameter = parameter.ok_or_else(|| Rejection::TakesNoCondition(key()))?;
    let values = match &condition.test {
        QueryTest::Between(_) | QueryTest::Last(_) => {
            return parameter
                .range
                .as_ref()
                .map(|_| ())
                .ok_or_else(|| Rejection::TakesNoRange(key()));
        }
        QueryTest::Is(value) => std::slice::from_ref(value),
        QueryTest::In(values) => values,
    };
    for value in values {
        let text = match value {
            QueryValue::Text(text) => text.clone(),
            // As it is sent.
            QueryValue::Time(seconds) => seconds.to_string(),
            value => value.to_string(),
        };
        if text.contains('*') {
            if !parameter.takes_patterns {
                return Err(Rejection::TakesNoPattern(key()));
            }
        } else if let Some(pattern) = &parameter.pattern
            && !wildcard::matches(pattern, &text)
        {
            return Err(Rejection::Unfit { key: key(), value: text, pattern: pattern.clone() });
        }
    }
    Ok(())
}
