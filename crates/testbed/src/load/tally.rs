//! The counts of a run. Records outcomes; knows neither clocks nor sockets.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;

use super::report::{CallCounts, Quantiles, StatusReport};
use super::workload::{CallAnswer, CallFailure, Verdict};

/// Longest latency of the histograms, in microseconds; longer ones count as this.
const LATENCY_US_MAX: u64 = 600_000_000;

/// Most problems that a report quotes.
const PROBLEMS_MAX: usize = 5;

/// The intended, sending and end times of a call, since the start of the run.
#[derive(Clone, Copy, Debug)]
pub(super) struct CallTimes {
    pub(super) intended: Duration,
    pub(super) sent: Duration,
    pub(super) end: Duration,
}

/// How one call ended.
#[derive(Debug)]
pub(super) enum CallEnd<A> {
    Answered(A),
    Failed(CallFailure),
    TimedOut,
}

/// Answers with one status.
#[derive(Debug)]
struct StatusTally {
    count: u64,
    in_time: u64,
    in_time_of_send: u64,
    latency: Histogram<u64>,
    latency_of_send: Histogram<u64>,
}

/// Counters and histograms of the measured calls.
#[derive(Debug)]
pub(super) struct CallTally {
    pub(super) counts: CallCounts,
    /// Microseconds from the intended time to the end of the answer.
    pub(super) latency: Histogram<u64>,
    /// Microseconds after `tmax`; 0 for answers in time.
    pub(super) overshoot: Histogram<u64>,
    statuses: BTreeMap<u16, StatusTally>,
    tmax: Option<Duration>,
    /// The first few distinct problems.
    pub(super) problems: Vec<String>,
    /// When the last measured call ended, since the start.
    pub(super) last_end: Duration,
}

impl CallTally {
    pub(super) fn new(tmax: Option<Duration>) -> Self {
        Self {
            counts: CallCounts::default(),
            latency: histogram(3),
            overshoot: histogram(3),
            statuses: BTreeMap::new(),
            tmax,
            problems: Vec::new(),
            last_end: Duration::ZERO,
        }
    }

    /// Counts one measured call.
    pub(super) fn record<A: CallAnswer>(&mut self, times: CallTimes, call: &CallEnd<A>) {
        self.last_end = self.last_end.max(times.end);
        match call {
            CallEnd::Answered(answer) => {
                self.counts.answer_bytes += answer.bytes();
                let (verdict, status) = (answer.verdict(), answer.status());
                self.record_status(times, status, verdict == Verdict::Valid);
                match verdict {
                    Verdict::Valid => self.counts.valid += 1,
                    Verdict::Refused => {
                        self.counts.refused += 1;
                        // One quote per status: answers may differ for every request.
                        if self.statuses[&status].count == 1 {
                            self.note(&answer.quote());
                        }
                        // Quick refusals would flatter the target, so each status has latencies of
                        // its own.
                        return;
                    }
                    Verdict::Invalid(problem) => {
                        self.counts.invalid += 1;
                        self.note(problem);
                    }
                }
            }
            CallEnd::TimedOut => self.counts.timeouts += 1,
            // Nothing was sent, so there is no latency.
            CallEnd::Failed(CallFailure::Unconnected(problem)) => {
                self.counts.connect_errors += 1;
                return self.note(problem);
            }
            CallEnd::Failed(CallFailure::Broken(problem)) => {
                self.counts.broken += 1;
                return self.note(problem);
            }
        }
        let latency = times.end.saturating_sub(times.intended);
        // A timeout counts with its duration; leaving it out would flatter the target.
        self.latency.saturating_record(micros(latency));
        if let Some(tmax) = self.tmax {
            let over = latency.saturating_sub(tmax);
            self.counts.after_tmax += u64::from(!over.is_zero());
            self.overshoot.saturating_record(micros(over));
        }
    }

    fn record_status(&mut self, times: CallTimes, status: u16, is_valid: bool) {
        let CallTimes { intended, sent, end } = times;
        let tally = self.statuses.entry(status).or_insert_with(|| StatusTally {
            count: 0,
            in_time: 0,
            in_time_of_send: 0,
            // A target may answer hundreds of different statuses: a coarse histogram is small.
            latency: histogram(2),
            latency_of_send: histogram(2),
        });
        let latency = end.saturating_sub(intended);
        let latency_of_send = end.saturating_sub(sent);
        tally.count += 1;
        tally.latency.saturating_record(micros(latency));
        tally.latency_of_send.saturating_record(micros(latency_of_send));
        if let Some(tmax) = self.tmax {
            let (in_time, in_time_of_send) = (latency <= tmax, latency_of_send <= tmax);
            tally.in_time += u64::from(in_time);
            tally.in_time_of_send += u64::from(in_time_of_send);
            self.counts.in_time += u64::from(is_valid && in_time);
            self.counts.in_time_of_send += u64::from(is_valid && in_time_of_send);
        }
    }

    /// The answers by status.
    pub(super) fn statuses(&self) -> BTreeMap<u16, StatusReport> {
        let has_tmax = self.tmax.is_some();
        let report = |(status, tally): (&u16, &StatusTally)| {
            let report = StatusReport {
                count: tally.count,
                in_time: has_tmax.then_some(tally.in_time),
                in_time_of_send: has_tmax.then_some(tally.in_time_of_send),
                latency_us: quantiles(&tally.latency),
                latency_of_send_us: quantiles(&tally.latency_of_send),
            };
            (*status, report)
        };
        self.statuses.iter().map(report).collect()
    }

    fn note(&mut self, problem: &str) {
        let is_new = !self.problems.iter().any(|known| known == problem);
        if self.problems.len() < PROBLEMS_MAX && is_new {
            self.problems.push(problem.to_owned());
        }
    }
}

/// The quantiles of `histogram`. None if it is empty.
pub(super) fn quantiles(histogram: &Histogram<u64>) -> Option<Quantiles> {
    (!histogram.is_empty()).then(|| Quantiles::of(histogram))
}

/// With this many significant digits.
fn histogram(digits: u8) -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_US_MAX, digits).expect("the bounds are in order")
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
