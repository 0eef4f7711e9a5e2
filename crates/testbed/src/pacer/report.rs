//! What a load on a pacer measured, for people and for machines.

use std::fmt;
use std::time::Duration;

use hdrhistogram::Histogram;
use pacer_wire::{DecisionCode, SettlementCode};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::load::Quantiles;

/// Longest latency of the histograms, in microseconds; longer ones count as this.
const LATENCY_US_MAX: u64 = 600_000_000;

/// Counts of a run. Settlements count from the first to the last, warm-up included.
#[derive(Clone, Debug)]
pub struct PacerLoadCounts {
    /// Measured batches with decisions.
    pub batches: u64,
    /// Their decisions, by code.
    pub decisions: [u64; DecisionCode::ALL.len()],
    /// Prices of all authorised bids, in nanos for one impression each.
    pub authorised_nanos: u128,
    /// Results of settlements, by code.
    pub settlements: [u64; SettlementCode::ALL.len()],
    /// Cost of all wins that were booked.
    pub billed_nanos: u128,
    /// From the intended time of a batch to its decisions, in microseconds.
    pub latency_us: Histogram<u64>,
    /// From sending a frame of settlements to its results, in microseconds.
    pub settle_us: Histogram<u64>,
}

impl Default for PacerLoadCounts {
    fn default() -> Self {
        let histogram = || Histogram::new_with_max(LATENCY_US_MAX, 3).expect("the range is valid");
        Self {
            batches: 0,
            decisions: Default::default(),
            authorised_nanos: 0,
            settlements: Default::default(),
            billed_nanos: 0,
            latency_us: histogram(),
            settle_us: histogram(),
        }
    }
}

impl PacerLoadCounts {
    /// Counts the result of a settlement.
    pub(super) fn settled(&mut self, code: SettlementCode, cost: u64) {
        self.settlements[code as usize] += 1;
        if matches!(code, SettlementCode::Booked | SettlementCode::BookedLate) {
            self.billed_nanos += u128::from(cost);
        }
    }

    /// Measured requests with a decision.
    pub fn requests(&self) -> u64 {
        self.decisions.iter().sum()
    }
}

/// The report of a run.
#[derive(Clone, Debug, Serialize)]
pub struct PacerLoadReport {
    /// The pacer's address.
    pub target: String,
    /// Measured time, in seconds.
    pub duration_s: f64,
    /// Decided bid requests, and per second.
    pub requests: u64,
    /// Per second.
    pub requests_per_s: u64,
    /// Batches with decisions.
    pub batches: u64,
    /// Requests by decision.
    pub decisions: Map<String, Value>,
    /// Settlements by result, warm-up included.
    pub settlements: Map<String, Value>,
    /// Cost of all wins that were booked, in nanos.
    pub billed_nanos: u128,
    /// From the intended time of a batch to its decisions, in microseconds.
    pub latency_us: Quantiles,
    /// From sending a frame of settlements to its results, in microseconds.
    pub settle_us: Quantiles,
    /// Share of its time that the generating thread was busy, in parts per million.
    pub generator_busy_ppm: u64,
}

impl PacerLoadReport {
    pub(super) fn of(counts: &PacerLoadCounts, target: String, times: RunTimes) -> Self {
        let requests = counts.requests();
        let micros = times.measured.as_micros().max(1);
        let share = |part: u128| u64::try_from(part / micros).unwrap_or(u64::MAX);
        let named = |names: Vec<&'static str>, counts: &[u64]| {
            let counted = names.into_iter().zip(counts).filter(|(_, count)| **count > 0);
            counted.map(|(name, count)| (name.to_owned(), Value::from(*count))).collect()
        };
        let decisions = DecisionCode::ALL.iter().map(|code| code.label()).collect();
        let settlements = SettlementCode::ALL.iter().map(|code| code.label()).collect();
        Self {
            target,
            duration_s: times.measured.as_secs_f64(),
            requests,
            requests_per_s: share(u128::from(requests) * 1_000_000),
            batches: counts.batches,
            decisions: named(decisions, &counts.decisions),
            settlements: named(settlements, &counts.settlements),
            billed_nanos: counts.billed_nanos,
            latency_us: Quantiles::of(&counts.latency_us),
            settle_us: Quantiles::of(&counts.settle_us),
            generator_busy_ppm: share(times.busy.as_micros() * 1_000_000),
        }
    }
}

/// The measured part of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct RunTimes {
    pub measured: Duration,
    /// Time in which the generating thread had something to do.
    pub busy: Duration,
}

impl fmt::Display for PacerLoadReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let row = |f: &mut fmt::Formatter<'_>, name: &str, text: fmt::Arguments<'_>| {
            writeln!(f, "{name:<16} {text}")
        };
        let counts = |counts: &Map<String, Value>| {
            let all = counts.iter().map(|(name, count)| format!("{count} {name}"));
            all.collect::<Vec<_>>().join(", ")
        };
        row(f, "target", format_args!("{}", self.target))?;
        row(
            f,
            "requests",
            format_args!(
                "{} in {:.1} s, {} per second, {} batches",
                self.requests, self.duration_s, self.requests_per_s, self.batches
            ),
        )?;
        row(f, "decisions", format_args!("{}", counts(&self.decisions)))?;
        let latency = |of: &Quantiles| {
            format!("p50 {} us, p99 {} us, p99.9 {} us, max {} us", of.p50, of.p99, of.p999, of.max)
        };
        row(f, "batch latency", format_args!("{}", latency(&self.latency_us)))?;
        if !self.settlements.is_empty() {
            row(f, "settlements", format_args!("{}", counts(&self.settlements)))?;
            row(f, "settle latency", format_args!("{}", latency(&self.settle_us)))?;
            row(f, "billed", format_args!("{} nanos", self.billed_nanos))?;
        }
        row(f, "generator", format_args!("{} % busy", self.generator_busy_ppm / 10_000))
    }
}
