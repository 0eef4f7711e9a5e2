//! What a run found, for people and for machines, and whether it met its objectives.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::Serialize;

use super::Mode;

/// Counters of the measured requests. `sent` is the sum of `ok_bid` to `abandoned`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Requests that got a connection, or tried to.
    pub sent: u64,
    /// Open loop: requests given up because no connection was free within the timeout, or before
    /// the run ended.
    pub unsent: u64,
    /// Answered 200 with at least one bid.
    pub ok_bid: u64,
    /// Answered 204.
    pub no_bid: u64,
    /// Answered 200 with a reason in place of a bid.
    pub nbr: u64,
    /// Refused with 4xx.
    pub client_errors: u64,
    /// Refused with 5xx.
    pub server_errors: u64,
    /// Answered, but with another status, no bid response, or another request's id.
    pub bad_answers: u64,
    /// Without a whole answer within the timeout.
    pub timeouts: u64,
    /// Without a connection.
    pub connect_errors: u64,
    /// The connection ended before the answer did.
    pub broken: u64,
    /// Still waiting when the run was stopped.
    pub abandoned: u64,
    /// Answers and timeouts that took longer than `tmax`.
    pub after_tmax: u64,
    /// Valid answers within `tmax` of the moment the request was meant to leave; 0 without a `tmax`.
    pub in_time: u64,
    /// Valid answers within `tmax` of the moment the request left; 0 without a `tmax`.
    pub in_time_of_send: u64,
    /// Bids in all answers.
    pub bids: u64,
    /// Sum of their prices, micros CPM, whatever the currency.
    pub price_micros: u64,
    /// Beacons in answers that were called.
    pub beacons: u64,
    /// Of those, the ones not answered with success in time.
    pub beacons_failed: u64,
    /// Bytes of request bodies.
    pub request_bytes: u64,
    /// Bytes of answer bodies.
    pub answer_bytes: u64,
}

impl Counts {
    /// Answers that are valid outcomes of an auction. A refusal does not count.
    pub const fn answered(&self) -> u64 {
        self.ok_bid + self.no_bid + self.nbr
    }

    /// Requests that were refused with 4xx or 5xx.
    pub const fn refused(&self) -> u64 {
        self.client_errors + self.server_errors
    }

    /// Requests that went wrong, the unsent included.
    pub const fn errors(&self) -> u64 {
        self.client_errors
            + self.server_errors
            + self.bad_answers
            + self.timeouts
            + self.connect_errors
            + self.broken
            + self.unsent
    }

    /// Errors among all requests that were meant to be sent, in parts per million.
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

/// The answers with one status. Quantiles are within 1 % of the true value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct StatusReport {
    /// Answers.
    pub count: u64,
    /// Answers within `tmax` of the moment the request was meant to leave; `None` without a `tmax`.
    pub in_time: Option<u64>,
    /// Answers within `tmax` of the moment the request left; `None` without a `tmax`.
    pub in_time_of_send: Option<u64>,
    /// From the intended time of a request to the end of its answer, in microseconds.
    pub latency_us: Option<Quantiles>,
    /// From the moment a request left to the end of its answer, in microseconds.
    pub latency_of_send_us: Option<Quantiles>,
}

/// What a run found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// How the load was made.
    pub mode: Mode,
    /// URL that the requests went to.
    pub target: String,
    /// When the run began, in seconds since 1970.
    pub started_at_unix_s: u64,
    /// From the end of the warm-up to the end of the last request, in seconds.
    pub duration_s: f64,
    /// Whether the run was stopped before its end.
    pub stopped: bool,
    /// Most connections open at once.
    pub connections: usize,
    /// What became of the requests.
    pub counts: Counts,
    /// Valid answers per second.
    pub answers_per_s: f64,
    /// From the intended time of a request to the end of its answer, or to its timeout, in
    /// microseconds; `None` if there was neither.
    pub latency_us: Option<Quantiles>,
    /// By how much answers came after `tmax`, those in time counting 0, in microseconds.
    pub overshoot_us: Option<Quantiles>,
    /// CPU time of the generating thread over wall time, in parts per million: near the whole,
    /// the generator is the bottleneck.
    pub generator_busy_ppm: u64,
    /// What was answered, by HTTP status.
    pub statuses: BTreeMap<u16, StatusReport>,
    /// The first few different problems with answers and connections. The first refusal of each
    /// status is quoted.
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
    /// Most errors among the requests, in parts per million.
    pub error_rate_max_ppm: Option<u32>,
    /// Fewest answers per second.
    pub rate_min: Option<u32>,
}

impl Report {
    /// The objectives that were missed, each with what was found; empty if all were met.
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
        let error_rate = self.counts.error_rate_ppm();
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

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = &self.counts;
        let mut row = |name: &str, value: String| writeln!(f, "{name:<16} {value}");
        row("target", self.target.clone())?;
        row("load", self.mode.to_string())?;
        let stopped = if self.stopped { ", stopped early" } else { "" };
        row("duration", format!("{:.1} s{stopped}", self.duration_s))?;
        row("connections", self.connections.to_string())?;
        row("sent", format!("{} ({} could not be sent)", counts.sent, counts.unsent))?;
        row("answers", format!("{} ({:.1}/s)", counts.answered(), self.answers_per_s))?;
        let cpm = counts.price_micros / counts.bids.max(1);
        let average = format!("{}.{:06}", cpm / 1_000_000, cpm % 1_000_000);
        row("  with bids", format!("{} ({} bids, {average} CPM)", counts.ok_bid, counts.bids))?;
        row("  no bid", format!("{} (204), {} (nbr)", counts.no_bid, counts.nbr))?;
        if self.overshoot_us.is_some() {
            let (due, sent) = (counts.in_time, counts.in_time_of_send);
            row("  in time", format!("{due} by when they were due, {sent} by when they left"))?;
        }
        row("refused", format!("{} 4xx, {} 5xx", counts.client_errors, counts.server_errors))?;
        row("not valid", counts.bad_answers.to_string())?;
        for (status, found) in &self.statuses {
            let latency = found.latency_of_send_us.map_or_else(String::new, |sent| {
                format!("; p50 {}, p99 {} after sending", Micros(sent.p50), Micros(sent.p99))
            });
            row("  status", format!("{status}: {}{latency}", found.count))?;
        }
        row("timeouts", counts.timeouts.to_string())?;
        let (unconnected, broken) = (counts.connect_errors, counts.broken);
        row("connection", format!("{unconnected} not connected, {broken} broken"))?;
        if counts.abandoned > 0 {
            row("abandoned", counts.abandoned.to_string())?;
        }
        if counts.beacons > 0 {
            row("beacons", format!("{} called, {} failed", counts.beacons, counts.beacons_failed))?;
        }
        let quantiles = |q: &Quantiles| {
            let [p50, p90, p99, p999, max] = [q.p50, q.p90, q.p99, q.p999, q.max].map(Micros);
            format!("p50 {p50}, p90 {p90}, p99 {p99}, p99.9 {p999}, max {max}")
        };
        if let Some(latency) = &self.latency_us {
            row("latency", quantiles(latency))?;
        }
        if let Some(overshoot) = &self.overshoot_us {
            row("past tmax", format!("{} answers; {}", counts.after_tmax, quantiles(overshoot)))?;
        }
        row("generator", format!("{} % busy", self.generator_busy_ppm / 10_000))?;
        self.problems.iter().try_for_each(|problem| row("problem", problem.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let q = Quantiles { p50: 900, p90: 2_000, p99: 5_000, p999: 8_000, max: 1_500_000 };
        let refused = StatusReport {
            count: 7,
            in_time: Some(5),
            in_time_of_send: Some(6),
            latency_us: Some(q),
            latency_of_send_us: Some(q),
        };
        Report {
            mode: Mode::Open { rate_per_s: 100 },
            target: "http://127.0.0.1:1/openrtb2/auction".to_owned(),
            started_at_unix_s: 1_700_000_000,
            duration_s: 10.0,
            stopped: false,
            connections: 3,
            counts: Counts { sent: 990, unsent: 10, ok_bid: 985, timeouts: 5, ..Counts::default() },
            answers_per_s: 98.5,
            latency_us: Some(q),
            overshoot_us: Some(Quantiles { p50: 0, p90: 0, p99: 0, p999: 1_000, max: 2_000 }),
            generator_busy_ppm: 120_000,
            statuses: BTreeMap::from([(503, refused)]),
            problems: vec!["cut".to_owned()],
        }
    }

    #[test]
    fn objectives_hold_at_their_edges() {
        let check = |objectives: Objectives, want: &[&str]| {
            assert_eq!(report().violations(&objectives), want);
        };
        let ms = |ms| Some(Duration::from_millis(ms));
        let none = Objectives::default();
        check(none, &[]);
        check(Objectives { p99_max: ms(5), p999_max: ms(8), ..none }, &[]);
        check(Objectives { p99_max: ms(4), ..none }, &["latency p99 is 5.000 ms, objective 4ms"]);
        check(
            Objectives { p999_max: ms(7), ..none },
            &["latency p99.9 is 8.000 ms, objective 7ms"],
        );
        check(Objectives { overshoot_p999_max: ms(1), ..none }, &[]);
        check(
            Objectives { overshoot_p999_max: ms(0), ..none },
            &["overshoot p99.9 is 1.000 ms, objective 0ns"],
        );
        check(Objectives { error_rate_max_ppm: Some(15_000), ..none }, &[]);
        check(
            Objectives { error_rate_max_ppm: Some(14_999), ..none },
            &["error rate is 15000 ppm, objective 14999 ppm"],
        );
        check(Objectives { rate_min: Some(98), ..none }, &[]);
        check(Objectives { rate_min: Some(99), ..none }, &["rate is 98.5 answers/s, objective 99"]);
        let silent = Report { latency_us: None, ..report() };
        assert_eq!(silent.violations(&Objectives { p99_max: ms(9), ..none }).len(), 1);
    }

    #[test]
    fn a_report_reads_as_a_table_and_as_json() {
        let text = report().to_string();
        for part in [
            "open loop, 100/s",
            "990 (10 could not",
            "503: 7; p50 900 µs, p99 5.000 ms",
            "max 1.500 s",
            "12 %",
            "cut",
        ] {
            assert!(text.contains(part), "{part} in:\n{text}");
        }
        let json = serde_json::to_value(report()).expect("JSON");
        assert_eq!(json["mode"], serde_json::json!({"open": {"rate_per_s": 100}}));
        assert_eq!(json["latency_us"]["p999"], 8_000);
        assert_eq!(json["counts"]["unsent"], 10);
        assert_eq!(json["statuses"]["503"]["in_time_of_send"], 6);
        assert_eq!(json["statuses"]["503"]["latency_us"]["p99"], 5_000);
    }
}
