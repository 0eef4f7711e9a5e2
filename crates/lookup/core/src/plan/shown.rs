//! Plans, shown to users.

use std::fmt::{self, Display, Formatter};

use serde_json::{Value, json};

use super::rejection::RejectedCall;
use super::step::{Plan, PlanStep, PlannedFetch};
use crate::map::{LookupProvider, ProviderMap};

/// A plan as text: one line for each step, indented below the one that it belongs to, one for each
/// provider with its limits, and one for each call that cannot be used.
#[derive(Debug)]
pub struct PlanView<'v> {
    /// The plan.
    pub plan: &'v Plan,
    /// The map that it is of.
    pub map: &'v ProviderMap,
}

impl Display for PlanView<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.step(f, &self.plan.step, 0)?;
        for at in self.plan.providers() {
            let LookupProvider { name, concurrency_max, rate_max, timeout, .. } =
                &self.map.providers[at];
            match concurrency_max {
                Some(count) => write!(f, "{name}: at most {count} calls at a time")?,
                None => write!(f, "{name}: as many calls at a time as it bears")?,
            }
            if let Some(rate) = rate_max {
                write!(f, ", {rate} per second")?;
            }
            writeln!(f, ", {timeout:?} for each")?;
        }
        for RejectedCall { name, reason } in &self.plan.rejected {
            writeln!(f, "not {name}: it {reason}")?;
        }
        Ok(())
    }
}

impl PlanView<'_> {
    fn step(&self, f: &mut Formatter<'_>, step: &PlanStep, depth: usize) -> fmt::Result {
        write!(f, "{:1$}", "", 2 * depth)?;
        match step {
            PlanStep::Fetch(fetch) => self.fetch(f, fetch),
            PlanStep::Parallel(steps) => {
                writeln!(f, "at once:")?;
                steps.iter().try_for_each(|step| self.step(f, step, depth + 1))
            }
            PlanStep::Sequence(steps) => {
                writeln!(f, "in turn:")?;
                steps.iter().try_for_each(|step| self.step(f, step, depth + 1))
            }
            PlanStep::ForEach { key, chunk, listed, step } => {
                write!(f, "for each {key}")?;
                if let Some(count) = listed {
                    write!(f, " of {count}")?;
                }
                if *chunk > 1 {
                    write!(f, ", {chunk} at a time")?;
                }
                writeln!(f, ":")?;
                self.step(f, step, depth + 1)
            }
        }
    }

    fn fetch(&self, f: &mut Formatter<'_>, fetch: &PlannedFetch) -> fmt::Result {
        let PlannedFetch { call, instance, takes, filters } = fetch;
        let provider = &self.map.providers[call.provider];
        write!(f, "call {}", self.map.call_name(*call))?;
        if provider.instances.len() > 1 {
            write!(f, " at {}", provider.instances[*instance].0)?;
        }
        if !takes.is_empty() {
            write!(f, " with {}", takes.join(", "))?;
        }
        if !filters.is_empty() {
            write!(f, ", then keep records by {}", filters.join(", "))?;
        }
        writeln!(f)
    }
}

/// A plan as JSON.
pub fn to_json(PlanView { plan, map }: &PlanView<'_>) -> Value {
    let rejected = plan
        .rejected
        .iter()
        .map(|RejectedCall { name, reason }| json!({ "call": name, "reason": reason.to_string() }));
    let limits = plan.providers().into_iter().map(|at| {
        let LookupProvider { name, concurrency_max, rate_max, timeout, .. } = &map.providers[at];
        json!({
            "provider": name,
            "concurrency": concurrency_max,
            "rate": rate_max,
            "timeout_ms": u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX),
        })
    });
    json!({
        "step": step_json(map, &plan.step),
        "limits": limits.collect::<Vec<_>>(),
        "rejected": rejected.collect::<Vec<_>>(),
    })
}

fn step_json(map: &ProviderMap, step: &PlanStep) -> Value {
    let all =
        |steps: &[PlanStep]| -> Vec<_> { steps.iter().map(|step| step_json(map, step)).collect() };
    match step {
        PlanStep::Fetch(PlannedFetch { call, instance, takes, filters }) => json!({ "fetch": {
            "call": map.call_name(*call),
            "instance": map.providers[call.provider].instances[*instance].0,
            "takes": takes,
            "filters": filters,
        } }),
        PlanStep::Parallel(steps) => json!({ "parallel": all(steps) }),
        PlanStep::Sequence(steps) => json!({ "sequence": all(steps) }),
        PlanStep::ForEach { key, chunk, listed, step } => json!({ "for_each": {
            "over": key, "chunk": chunk, "listed": listed, "step": step_json(map, step),
        } }),
    }
}
