//! The plan of a query, with what of its answer is known, as a JSON document. Nothing is called.

use std::collections::HashMap;

use lookup_core::plan::{Plan, PlanView, to_json};
use serde_json::{Value, json};

use crate::config::LookupLimits;
use crate::maps::LoadedMaps;
use crate::queries::forecast::{ForecastCalls, QueryForecast};

/// The document.
pub(super) fn explained(
    maps: &LoadedMaps,
    limits: LookupLimits,
    plan: &Plan,
    forecast: &QueryForecast,
) -> Value {
    let view = PlanView { plan, map: &maps.map };
    let mut document = to_json(&view);
    document["plan"] = view.to_string().into();
    document["calls_estimate"] = plan.calls_estimate(&maps.map, &HashMap::new()).into();
    document["calls_max"] = limits.calls_max.into();
    document["background_calls_max"] = limits.background_calls_max.into();
    document["reuses"] = forecast.reuses.clone().into();
    let known = |of: &ForecastCalls| {
        let ForecastCalls { call, instance, count, fresh, stale } = *of;
        let (name, _) = &maps.map.providers[call.provider].instances[instance];
        json!({
            "call": maps.map.call_name(call), "instance": name,
            "calls": count, "cached": fresh, "stale": stale,
        })
    };
    document["known"] = forecast.calls.iter().map(known).collect();
    document
}
