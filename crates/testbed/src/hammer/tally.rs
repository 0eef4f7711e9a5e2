//! What a run has counted so far. Records outcomes; knows neither clocks nor sockets.

use std::time::Duration;

use hdrhistogram::Histogram;

use super::report::{Counts, Quantiles};
use super::verdict::Verdict;

/// Longest latency told apart, in microseconds; longer ones count as this.
const LATENCY_US_MAX: u64 = 600_000_000;

/// Problems of answers and connections that a report quotes.
const PROBLEMS_MAX: usize = 5;

/// Counters and histograms of the measured requests.
#[derive(Debug)]
pub(super) struct Tally {
    pub(super) counts: Counts,
    /// Microseconds from the intended time to the end of the answer.
    pub(super) latency: Histogram<u64>,
    /// Microseconds past `tmax`, 0 for those in time.
    pub(super) overshoot: Histogram<u64>,
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
            latency: histogram(),
            overshoot: histogram(),
            tmax,
            problems: Vec::new(),
            last_end: Duration::ZERO,
        }
    }

    /// Counts one measured request that was meant to leave at `intended`, ended at `end`, and
    /// brought `bytes` of body.
    pub(super) fn record(
        &mut self,
        (intended, end): (Duration, Duration),
        verdict: Verdict,
        bytes: u64,
    ) {
        self.last_end = self.last_end.max(end);
        let counts = &mut self.counts;
        counts.answer_bytes += bytes;
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
        let latency = end.saturating_sub(intended);
        // A timeout counts with the time it took: leaving it out would flatter the target.
        self.latency.saturating_record(micros(latency));
        if let Some(tmax) = self.tmax {
            let over = latency.saturating_sub(tmax);
            self.counts.after_tmax += u64::from(!over.is_zero());
            self.overshoot.saturating_record(micros(over));
        }
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

fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_US_MAX, 3).expect("the bounds are in order")
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_land_in_their_counters() {
        let mut tally = Tally::new(Some(Duration::from_millis(10)));
        let ms = Duration::from_millis;
        let mut end = |end, verdict| tally.record((ms(5), ms(end)), verdict, 7);
        end(15, Verdict::Bids { bids: 2, price_micros: 3 });
        end(16, Verdict::NoBid);
        end(6, Verdict::Nbr);
        end(6, Verdict::ClientError);
        end(6, Verdict::ServerError);
        end(1_005, Verdict::Timeout);
        for _ in 0..2 * PROBLEMS_MAX {
            end(6, Verdict::Bad("same".to_owned()));
        }
        for n in 0..PROBLEMS_MAX {
            end(6, Verdict::Unconnected(format!("problem {n}")));
        }
        end(6, Verdict::Broken("cut".to_owned()));
        let want = Counts {
            ok_bid: 1,
            no_bid: 1,
            nbr: 1,
            client_errors: 1,
            server_errors: 1,
            timeouts: 1,
            bad_answers: 10,
            connect_errors: 5,
            broken: 1,
            after_tmax: 2, // 10 ms is in time, 11 ms and the timeout are not.
            bids: 2,
            price_micros: 3,
            answer_bytes: 7 * 22,
            ..Counts::default()
        };
        assert_eq!(tally.counts, want);
        assert_eq!(tally.problems.len(), PROBLEMS_MAX);
        assert_eq!(tally.latency.len(), 16); // Without connection, without latency.
        let overshoot = quantiles(&tally.overshoot).expect("recorded");
        assert_eq!((overshoot.p50, overshoot.max), (0, tally.overshoot.max()));
        assert!((989_000..992_000).contains(&overshoot.max), "{}", overshoot.max);
        assert_eq!(quantiles(&histogram()), None);
    }

    #[test]
    fn a_latency_past_the_scale_counts_as_its_end() {
        let mut tally = Tally::new(None);
        tally.record((Duration::ZERO, Duration::MAX), Verdict::NoBid, 0);
        assert!(tally.latency.max() >= LATENCY_US_MAX);
        assert_eq!(tally.overshoot.len(), 0);
    }
}
