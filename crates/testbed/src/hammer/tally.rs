//! What a run has counted so far. Records outcomes; knows neither clocks nor sockets.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use hdrhistogram::Histogram;
use hyper::StatusCode;

use super::report::{Counts, Quantiles, StatusReport};
use super::verdict::Verdict;

/// Longest latency told apart, in microseconds; longer ones count as this.
const LATENCY_US_MAX: u64 = 600_000_000;

/// Problems of answers and connections that a report quotes.
const PROBLEMS_MAX: usize = 5;

/// Bytes of an answer's body that a report quotes.
const QUOTE_BYTES_MAX: usize = 300;

/// When one request was meant to leave, left and ended, each since the start of the run.
#[derive(Clone, Copy, Debug)]
pub(super) struct RequestTimes {
    pub(super) intended: Duration,
    pub(super) sent: Duration,
    pub(super) end: Duration,
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

/// Counters and histograms of the measured requests.
#[derive(Debug)]
pub(super) struct Tally {
    pub(super) counts: Counts,
    /// Microseconds from the intended time to the end of the answer.
    pub(super) latency: Histogram<u64>,
    /// Microseconds past `tmax`, 0 for those in time.
    pub(super) overshoot: Histogram<u64>,
    statuses: BTreeMap<u16, StatusTally>,
    tmax: Option<Duration>,
    /// The first few, each once.
    pub(super) problems: Vec<String>,
    /// When the last measured request ended, since the start.
    pub(super) last_end: Duration,
}

impl Tally {
    pub(super) fn new(tmax: Option<Duration>) -> Self {
        Self {
            counts: Counts::default(),
            latency: histogram(3),
            overshoot: histogram(3),
            statuses: BTreeMap::new(),
            tmax,
            problems: Vec::new(),
            last_end: Duration::ZERO,
        }
    }

    /// Counts one measured request; `answer` is its status and body, if there was one.
    pub(super) fn record(
        &mut self,
        times: RequestTimes,
        verdict: Verdict,
        answer: Option<(StatusCode, Bytes)>,
    ) {
        let RequestTimes { intended, end, .. } = times;
        self.last_end = self.last_end.max(end);
        if let Some((status, body)) = answer {
            self.counts.answer_bytes += body.len() as u64;
            self.record_status(times, status, verdict.is_valid());
            // One quotation of each status: bodies may differ for every request.
            if verdict.is_refusal() && self.statuses[&status.as_u16()].count == 1 {
                self.note(quote(status, &body));
            }
        }
        let is_refusal = verdict.is_refusal();
        let counts = &mut self.counts;
        let problem = match verdict {
            Verdict::Bids { bids, price_micros } => {
                counts.ok_bid += 1;
                counts.bids += bids;
                counts.price_micros = counts.price_micros.saturating_add(price_micros);
                None
            }
            Verdict::NoBid => count(&mut counts.no_bid),
            Verdict::Nbr => count(&mut counts.nbr),
            Verdict::ClientError => count(&mut counts.client_errors),
            Verdict::ServerError => count(&mut counts.server_errors),
            Verdict::Timeout => count(&mut counts.timeouts),
            Verdict::Bad(problem) => count(&mut counts.bad_answers).or(Some(problem)),
            Verdict::Unconnected(problem) => {
                self.note(problem);
                self.counts.connect_errors += 1;
                return; // No answer was due: no latency.
            }
            Verdict::Broken(problem) => {
                self.note(problem);
                self.counts.broken += 1;
                return;
            }
        };
        if let Some(problem) = problem {
            self.note(problem);
        }
        if is_refusal {
            return; // Quick refusals would flatter the target; each status has times of its own.
        }
        let latency = end.saturating_sub(intended);
        // A timeout counts with the time it took: leaving it out would flatter the target.
        self.latency.saturating_record(micros(latency));
        if let Some(tmax) = self.tmax {
            let over = latency.saturating_sub(tmax);
            self.counts.after_tmax += u64::from(!over.is_zero());
            self.overshoot.saturating_record(micros(over));
        }
    }

    fn record_status(&mut self, times: RequestTimes, status: StatusCode, is_valid: bool) {
        let RequestTimes { intended, sent, end } = times;
        let tally = self.statuses.entry(status.as_u16()).or_insert_with(|| StatusTally {
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

    /// What was answered with each status.
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

    fn note(&mut self, problem: String) {
        if self.problems.len() < PROBLEMS_MAX && !self.problems.contains(&problem) {
            self.problems.push(problem);
        }
    }
}

fn count(counter: &mut u64) -> Option<String> {
    *counter += 1;
    None
}

/// The quantiles of `histogram`; `None` if it is empty.
pub(super) fn quantiles(histogram: &Histogram<u64>) -> Option<Quantiles> {
    (!histogram.is_empty()).then(|| Quantiles {
        p50: histogram.value_at_quantile(0.5),
        p90: histogram.value_at_quantile(0.9),
        p99: histogram.value_at_quantile(0.99),
        p999: histogram.value_at_quantile(0.999),
        max: histogram.max(),
    })
}

/// A status and the beginning of its body, on one line and without control characters.
fn quote(status: StatusCode, body: &[u8]) -> String {
    let text = String::from_utf8_lossy(&body[..body.len().min(QUOTE_BYTES_MAX)]);
    let printable = |c: char| if c.is_control() { ' ' } else { c };
    let text: String = text.trim().chars().map(printable).collect();
    let cut = if body.len() > QUOTE_BYTES_MAX { "…" } else { "" };
    match text.is_empty() {
        true => format!("status {status}, without a body"),
        false => format!("status {status}: {text}{cut}"),
    }
}

/// With so many significant digits.
fn histogram(digits: u8) -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_US_MAX, digits).expect("the bounds are in order")
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(intended_ms: u64, sent_ms: u64, end_ms: u64) -> RequestTimes {
        let [intended, sent, end] = [intended_ms, sent_ms, end_ms].map(Duration::from_millis);
        RequestTimes { intended, sent, end }
    }

    #[test]
    fn outcomes_land_in_their_counters() {
        let mut tally = Tally::new(Some(Duration::from_millis(10)));
        let mut end = |end, verdict, status: Option<u16>| {
            let status = status.map(|status| StatusCode::from_u16(status).expect("a status"));
            let answer = status.map(|status| (status, Bytes::from_static(b"a\nbody ")));
            tally.record(times(5, 7, end), verdict, answer);
        };
        end(15, Verdict::Bids { bids: 2, price_micros: 3 }, Some(200));
        end(16, Verdict::NoBid, Some(204));
        end(6, Verdict::Nbr, Some(200));
        end(6, Verdict::ClientError, Some(404));
        end(6, Verdict::ServerError, Some(503));
        end(18, Verdict::ServerError, Some(503));
        end(1_005, Verdict::Timeout, None);
        for _ in 0..2 * PROBLEMS_MAX {
            end(6, Verdict::Bad("same".to_owned()), Some(200));
        }
        for n in 0..PROBLEMS_MAX {
            end(6, Verdict::Unconnected(format!("problem {n}")), None);
        }
        end(6, Verdict::Broken("cut".to_owned()), None);
        let want = Counts {
            ok_bid: 1,
            no_bid: 1,
            nbr: 1,
            client_errors: 1,
            server_errors: 2,
            timeouts: 1,
            bad_answers: 10,
            connect_errors: 5,
            broken: 1,
            after_tmax: 2, // 10 ms is in time; 11 ms and the timeout are not.
            in_time: 2,
            in_time_of_send: 3,
            bids: 2,
            price_micros: 3,
            answer_bytes: 7 * 16,
            ..Counts::default()
        };
        assert_eq!(tally.counts, want);
        assert_eq!(tally.problems.len(), PROBLEMS_MAX);
        let quoted = "status 404 Not Found: a body".to_owned();
        assert_eq!(tally.problems[0], quoted);
        assert_eq!(tally.latency.len(), 14); // Refusals and lost connections have none.
        let overshoot = quantiles(&tally.overshoot).expect("recorded");
        assert_eq!((overshoot.p50, overshoot.max), (0, tally.overshoot.max()));
        assert!((989_000..992_000).contains(&overshoot.max), "{}", overshoot.max);
        assert_eq!(quantiles(&histogram(3)), None);
    }

    #[test]
    fn answers_are_told_apart_by_status_and_by_both_clocks() {
        let mut tally = Tally::new(Some(Duration::from_millis(10)));
        let body = || Bytes::from(vec![b'x'; 2 * QUOTE_BYTES_MAX]);
        for end in [15, 17, 18] {
            let answer = Some((StatusCode::SERVICE_UNAVAILABLE, body()));
            tally.record(times(5, 7, end), Verdict::ServerError, answer);
        }
        let answer = Some((StatusCode::NO_CONTENT, Bytes::new()));
        tally.record(times(5, 5, 15), Verdict::NoBid, answer);
        let found = tally.statuses();
        let counts = |status: u16| {
            let found = &found[&status];
            (found.count, found.in_time, found.in_time_of_send)
        };
        assert_eq!(counts(503), (3, Some(1), Some(2)));
        assert_eq!(counts(204), (1, Some(1), Some(1)));
        let refused = found[&503].latency_us.expect("recorded");
        assert!((11_900..12_200).contains(&refused.p50), "{refused:?}");
        assert_eq!((tally.counts.in_time, tally.counts.in_time_of_send), (1, 1));
        assert_eq!(tally.problems.len(), 1);
        assert!(tally.problems[0].ends_with("x…"), "{:?}", tally.problems);
        assert!(tally.problems[0].len() < QUOTE_BYTES_MAX + 50);
    }

    #[test]
    fn a_latency_past_the_scale_counts_as_its_end() {
        let mut tally = Tally::new(None);
        let times = RequestTimes { end: Duration::MAX, ..times(0, 0, 0) };
        tally.record(times, Verdict::NoBid, Some((StatusCode::NO_CONTENT, Bytes::new())));
        assert!(tally.latency.max() >= LATENCY_US_MAX);
        assert_eq!(tally.overshoot.len(), 0);
    }
}
