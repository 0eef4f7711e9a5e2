//! What several parts of the API show in the same form: latencies, and counts by label.

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, json_schema};
use serde::Serialize;
use serde_json::{Map, json};
use units::Ppm;

use crate::metrics::HistogramSnapshot;

/// Largest latency to resolve, in microseconds.
const LATENCY_US_MAX: u64 = 1 << 24;

/// Latencies in microseconds, overstated by at most an eighth; null before the first one.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Latency")]
pub struct LatencyView {
    count: u64,
    p50: Option<u64>,
    p90: Option<u64>,
    p99: Option<u64>,
    p99_9: Option<u64>,
}

impl LatencyView {
    /// Of the histograms of all shards.
    pub fn of(shards: impl Iterator<Item = HistogramSnapshot>) -> Self {
        let mut merged = HistogramSnapshot::default();
        shards.for_each(|shard| merged.merge(&shard));
        let quantile = |share| merged.quantile_us(share).map(|us| us.min(LATENCY_US_MAX));
        Self {
            count: merged.count(),
            p50: quantile(const { Ppm::new(500_000).expect("a share") }),
            p90: quantile(const { Ppm::new(900_000).expect("a share") }),
            p99: quantile(const { Ppm::new(990_000).expect("a share") }),
            p99_9: quantile(const { Ppm::new(999_000).expect("a share") }),
        }
    }
}

/// Counts, each with its label.
pub type CountsByLabel = BTreeMap<&'static str, u64>;

/// The schema of [`CountsByLabel`] with these labels.
pub fn counts_schema(labels: &[&str]) -> Schema {
    let count = |label: &&str| ((*label).to_owned(), json!({ "type": "integer", "minimum": 0 }));
    let counts: Map<_, _> = labels.iter().map(count).collect();
    json_schema!({ "type": "object", "properties": counts, "required": labels })
}
