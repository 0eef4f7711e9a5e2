//! Which counters and histograms each outcome changes.

use super::*;

struct TestAnswer {
    verdict: Verdict<'static>,
    status: u16,
}

impl CallAnswer for TestAnswer {
    fn verdict(&self) -> Verdict<'_> {
        self.verdict
    }

    fn status(&self) -> u16 {
        self.status
    }

    fn bytes(&self) -> u64 {
        7
    }

    fn quote(&self) -> String {
        format!("refused with {}", self.status)
    }
}

fn answered(verdict: Verdict<'static>, status: u16) -> CallEnd<TestAnswer> {
    CallEnd::Answered(TestAnswer { verdict, status })
}

fn times(intended_ms: u64, sent_ms: u64, end_ms: u64) -> CallTimes {
    let [intended, sent, end] = [intended_ms, sent_ms, end_ms].map(Duration::from_millis);
    CallTimes { intended, sent, end }
}

#[test]
fn ends_land_in_their_counters() {
    let mut tally = CallTally::new(Some(Duration::from_millis(10)));
    let mut end = |end, call| tally.record(times(5, 7, end), &call);
    end(15, answered(Verdict::Valid, 200));
    end(16, answered(Verdict::Valid, 204));
    end(6, answered(Verdict::Valid, 200));
    end(6, answered(Verdict::Refused, 404));
    end(6, answered(Verdict::Refused, 503));
    end(18, answered(Verdict::Refused, 503));
    end(1_005, CallEnd::TimedOut);
    for _ in 0..2 * PROBLEMS_MAX {
        end(6, answered(Verdict::Invalid("same"), 200));
    }
    for n in 0..PROBLEMS_MAX {
        end(6, CallEnd::Failed(CallFailure::Unconnected(format!("problem {n}"))));
    }
    end(6, CallEnd::Failed(CallFailure::Broken("cut".to_owned())));
    let want = CallCounts {
        valid: 3,
        refused: 3,
        timeouts: 1,
        invalid: 10,
        connect_errors: 5,
        broken: 1,
        after_tmax: 2, // 10 ms is in time; 11 ms and the timeout are not.
        in_time: 2,
        in_time_of_send: 3,
        answer_bytes: 7 * 16,
        ..CallCounts::default()
    };
    assert_eq!(tally.counts, want);
    assert_eq!(tally.problems.len(), PROBLEMS_MAX);
    assert_eq!(tally.problems[0], "refused with 404");
    assert_eq!(tally.latency.len(), 14); // Refusals and lost connections do not count.
    let overshoot = quantiles(&tally.overshoot).expect("recorded");
    assert_eq!((overshoot.p50, overshoot.max), (0, tally.overshoot.max()));
    assert!((989_000..992_000).contains(&overshoot.max), "{}", overshoot.max);
    assert_eq!(quantiles(&histogram(3)), None);
}

#[test]
fn answers_are_told_apart_by_status_and_by_both_clocks() {
    let mut tally = CallTally::new(Some(Duration::from_millis(10)));
    for end in [15, 17, 18] {
        tally.record(times(5, 7, end), &answered(Verdict::Refused, 503));
    }
    tally.record(times(5, 5, 15), &answered(Verdict::Valid, 204));
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
    assert_eq!(tally.problems, ["refused with 503"]);
}

#[test]
fn a_latency_past_the_scale_counts_as_its_end() {
    let mut tally = CallTally::new(None);
    let times = CallTimes { end: Duration::MAX, ..times(0, 0, 0) };
    tally.record(times, &answered(Verdict::Valid, 204));
    assert!(tally.latency.max() >= LATENCY_US_MAX);
    assert_eq!(tally.overshoot.len(), 0);
}
