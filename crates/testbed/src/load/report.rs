//! The results of a run, for people and for machines, and whether it met its objectives.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

use super::options::LoadMode;

/// The counts of a run: the calls, and the workload's counts of their answers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LoadCounts<O> {
    /// The calls.
    #[serde(flatten)]
    pub calls: CallCounts,
    /// The workload's own.
    #[serde(flatten)]
    pub outcomes: O,
}

/// Counters of the measured calls. `sent` is the sum of `valid` to `abandoned`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CallCounts {
    /// Calls that got a connection or tried to open one.
    pub sent: u64,
    /// Open loop: calls given up because no connection was free within the timeout or before the
    /// end of the run.
    pub unsent: u64,
    /// Answered as the target should; the workload tells the kinds apart.
    #[serde(skip)]
    pub valid: u64,
    /// Refused by the target; the workload tells the kinds apart.
    #[serde(skip)]
    pub refused: u64,
    /// Answered with something other than an answer to the request.
    #[serde(rename = "bad_answers")]
    pub invalid: u64,
    /// Without a complete answer within the timeout.
    pub timeouts: u64,
    /// Without a connection.
    pub connect_errors: u64,
    /// The connection ended before the answer was complete.
    pub broken: u64,
    /// In flight when the run was stopped.
    pub abandoned: u64,
    /// Answers and timeouts that took longer than `tmax`.
    pub after_tmax: u64,
    /// Valid answers within `tmax` of the call's intended time; 0 without a `tmax`.
    pub in_time: u64,
    /// Valid answers within `tmax` of the call's sending; 0 without a `tmax`.
    pub in_time_of_send: u64,
    /// Bytes of requests.
    pub request_bytes: u64,
    /// Bytes of answers.
    pub answer_bytes: u64,
}

impl CallCounts {
    /// Calls that failed, including the unsent.
    pub const fn errors(&self) -> u64 {
        self.refused
            + self.invalid
            + self.timeouts
            + self.connect_errors
            + self.broken
            + self.unsent
    }

    /// Errors among all intended calls, in parts per million.
    pub fn error_rate_ppm(&self) -> u64 {
        let meant = u128::from(self.sent + self.unsent).max(1);
        u64::try_from(u128::from(self.errors()) * 1_000_000 / meant).expect("at most the whole")
    }
}

/// Quantiles of a distribution of times, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Quantiles {
    /// Median.
    pub p50: u64,
    /// 90th percentile.
    pub p90: u64,
    /// 99th percentile.
    pub p99: u64,
    /// 99.9th percentile.
    pub p999: u64,
    /// Largest.
    pub max: u64,
}

impl Quantiles {
    /// Those of a histogram; all 0 if it is empty.
    pub(crate) fn of(histogram: &Histogram<u64>) -> Self {
        Self {
            p50: histogram.value_at_quantile(0.5),
            p90: histogram.value_at_quantile(0.9),
            p99: histogram.value_at_quantile(0.99),
            p999: histogram.value_at_quantile(0.999),
            max: histogram.max(),
        }
    }
}

/// The answers with one status. Quantiles are within 1 % of the true value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct StatusReport {
    /// Answers.
    pub count: u64,
    /// Answers within `tmax` of the call's intended time. None without a `tmax`.
    pub in_time: Option<u64>,
    /// Answers within `tmax` of the call's sending. None without a `tmax`.
    pub in_time_of_send: Option<u64>,
    /// From the intended time of a call to the end of its answer, in microseconds.
    pub latency_us: Option<Quantiles>,
    /// From a call's sending to the end of its answer, in microseconds.
    pub latency_of_send_us: Option<Quantiles>,
}

/// The report of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LoadReport<O> {
    /// The kind of load.
    pub mode: LoadMode,
    /// The target, for example a URL.
    pub target: String,
    /// When the run began, in seconds since 1970.
    pub started_at_unix_s: u64,
    /// From the end of the warm-up to the end of the last call, in seconds.
    pub duration_s: f64,
    /// Whether the run was stopped before its end.
    pub stopped: bool,
    /// Most connections open at once.
    pub connections: usize,
    /// The counts.
    pub counts: LoadCounts<O>,
    /// Valid answers per second.
    pub answers_per_s: f64,
    /// From the intended time of a call to the end of its answer, or to its timeout, in
    /// microseconds. None if there was neither.
    pub latency_us: Option<Quantiles>,
    /// Lateness after `tmax` in microseconds; 0 for answers in time.
    pub overshoot_us: Option<Quantiles>,
    /// CPU time of the generating thread over wall time, in parts per million. Near one million,
    /// the generator is the bottleneck.
    pub generator_busy_ppm: u64,
    /// Answers by status.
    pub statuses: BTreeMap<u16, StatusReport>,
    /// The first few distinct problems of answers and connections, including the first refusal of
    /// each status.
    pub problems: Vec<String>,
}

/// What a run must meet to be a success. Absent objectives always hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Objectives {
    /// Highest 99th percentile of latency.
    pub p99_max: Option<Duration>,
    /// Highest 99.9th percentile of latency.
    pub p999_max: Option<Duration>,
    /// Highest 99.9th percentile of the time past `tmax`.
    pub overshoot_p999_max: Option<Duration>,
    /// Most errors among the calls, in parts per million.
    pub error_rate_max_ppm: Option<u32>,
    /// Fewest answers per second.
    pub rate_min: Option<u32>,
}

impl<O> LoadReport<O> {
    /// The missed objectives, each with the measured value; empty if all were met.
    pub fn violations(&self, objectives: &Objectives) -> Vec<String> {
        let time = |name: &str, found: Option<u64>, most: Option<Duration>| {
            let most = most?;
            match found {
                None => Some(format!("{name}: nothing was measured, objective {most:?}")),
                Some(us) if Duration::from_micros(us) > most => {
                    Some(format!("{name} is {}, objective {most:?}", Micros(us)))
                }
                Some(_) => None,
            }
        };
        let (latency, overshoot) = (self.latency_us, self.overshoot_us);
        let error_rate = self.counts.calls.error_rate_ppm();
        [
            time("latency p99", latency.map(|q| q.p99), objectives.p99_max),
            time("latency p99.9", latency.map(|q| q.p999), objectives.p999_max),
            time("overshoot p99.9", overshoot.map(|q| q.p999), objectives.overshoot_p999_max),
            objectives
                .error_rate_max_ppm
                .filter(|&most| error_rate > u64::from(most))
                .map(|most| format!("error rate is {error_rate} ppm, objective {most} ppm")),
            objectives.rate_min.filter(|&least| self.answers_per_s < f64::from(least)).map(
                |least| format!("rate is {:.1} answers/s, objective {least}", self.answers_per_s),
            ),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

/// Microseconds, shown in the unit that fits.
struct Micros(u64);

impl fmt::Display for Micros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, part) = (self.0 / 1_000, self.0 % 1_000);
        match whole {
            0 => write!(f, "{part} µs"),
            1..1_000 => write!(f, "{whole}.{part:03} ms"),
            _ => write!(f, "{}.{:03} s", whole / 1_000, whole % 1_000),
        }
    }
}

/// Writes one row of a report's table.
pub(crate) fn row(f: &mut fmt::Formatter<'_>, name: &str, value: impl fmt::Display) -> fmt::Result {
    writeln!(f, "{name:<16} {value}")
}

/// The parts of a report's table, between which the workload writes its own rows.
impl<O> LoadReport<O> {
    /// Target, load, and the numbers of calls sent and answered.
    pub(crate) fn write_load(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let calls = &self.counts.calls;
        row(f, "target", &self.target)?;
        row(f, "load", self.mode)?;
        let stopped = if self.stopped { ", stopped early" } else { "" };
        row(f, "duration", format_args!("{:.1} s{stopped}", self.duration_s))?;
        row(f, "connections", self.connections)?;
        row(f, "sent", format_args!("{} ({} could not be sent)", calls.sent, calls.unsent))?;
        row(f, "answers", format_args!("{} ({:.1}/s)", calls.valid, self.answers_per_s))
    }

    /// Answers in time. Requires a `tmax`.
    pub(crate) fn write_in_time(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.overshoot_us.is_none() {
            return Ok(());
        }
        let (due, sent) = (self.counts.calls.in_time, self.counts.calls.in_time_of_send);
        let value = format_args!("{due} by when they were due, {sent} by when they left");
        row(f, "  in time", value)
    }

    /// Invalid answers, answers by status, and calls without an answer.
    pub(crate) fn write_failures(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let calls = &self.counts.calls;
        row(f, "not valid", calls.invalid)?;
        for (status, found) in &self.statuses {
            let latency = found.latency_of_send_us.map_or_else(String::new, |sent| {
                format!("; p50 {}, p99 {} after sending", Micros(sent.p50), Micros(sent.p99))
            });
            row(f, "  status", format_args!("{status}: {}{latency}", found.count))?;
        }
        row(f, "timeouts", calls.timeouts)?;
        let (unconnected, broken) = (calls.connect_errors, calls.broken);
        row(f, "connection", format_args!("{unconnected} not connected, {broken} broken"))?;
        if calls.abandoned > 0 {
            row(f, "abandoned", calls.abandoned)?;
        }
        Ok(())
    }

    /// Latency, the generator's own load, and problems.
    pub(crate) fn write_latency(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(latency) = &self.latency_us {
            row(f, "latency", latency)?;
        }
        if let Some(overshoot) = &self.overshoot_us {
            let after = self.counts.calls.after_tmax;
            row(f, "past tmax", format_args!("{after} answers; {overshoot}"))?;
        }
        row(f, "generator", format_args!("{} % busy", self.generator_busy_ppm / 10_000))?;
        self.problems.iter().try_for_each(|problem| row(f, "problem", problem))
    }
}

impl fmt::Display for Quantiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [p50, p90, p99, p999, max] =
            [self.p50, self.p90, self.p99, self.p999, self.max].map(Micros);
        write!(f, "p50 {p50}, p90 {p90}, p99 {p99}, p99.9 {p999}, max {max}")
    }
}

#[cfg(test)]
mod tests;
