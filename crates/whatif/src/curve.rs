//! The spent share of a budget over time. It must not know the origin of the data.

/// A curve through points, linear between them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SpendCurve {
    /// Its name in a legend.
    pub name: String,
    /// Milliseconds since 1970, rising, and the share spent by then, where 1 is the budget.
    pub points: Vec<(u64, f64)>,
}

impl SpendCurve {
    /// The share at a time, constant before the first point and after the last; 0 without points.
    pub fn at(&self, time_ms: u64) -> f64 {
        let next = self.points.partition_point(|point| point.0 <= time_ms);
        let before = next.checked_sub(1).map(|at| self.points[at]);
        match (before, self.points.get(next)) {
            (None, None) => 0.0,
            (None, Some(point)) => point.1,
            (Some(point), None) => point.1,
            (Some((from_ms, from)), Some(&(to_ms, to))) => {
                from + (to - from) * ratio(time_ms - from_ms, to_ms - from_ms)
            }
        }
    }
}

/// Curves of one flight.
#[derive(Clone, Debug, PartialEq)]
pub struct Drawing {
    /// The title.
    pub title: String,
    /// Start, in milliseconds since 1970.
    pub start_ms: u64,
    /// End, after `start_ms`.
    pub end_ms: u64,
    /// The planned spend. None if it is unknown.
    pub target: Option<SpendCurve>,
    /// The actual spend.
    pub lines: Vec<SpendCurve>,
    /// Up to here spend is known: lines stop and the target becomes a plan. None if the flight is
    /// over.
    pub now_ms: Option<u64>,
}

impl Drawing {
    /// The time at a share of the flight, 0 to 1.
    pub(crate) fn moment(&self, share: f64) -> u64 {
        #[expect(clippy::cast_precision_loss, reason = "a flight's milliseconds are below 2^53")]
        let since = share * self.length_ms() as f64;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a share of the flight's milliseconds"
        )]
        let since_ms = since as u64;
        self.start_ms.saturating_add(since_ms)
    }

    pub(crate) fn is_coming(&self, time_ms: u64) -> bool {
        self.now_ms.is_some_and(|now_ms| now_ms < time_ms)
    }

    /// Whether an ongoing curve starts only after `time_ms`.
    pub(crate) fn is_unknown(&self, curve: &SpendCurve, time_ms: u64) -> bool {
        self.now_ms.is_some() && curve.points.first().is_some_and(|(at_ms, _)| time_ms < *at_ms)
    }

    pub(crate) const fn length_ms(&self) -> u64 {
        self.end_ms.saturating_sub(self.start_ms)
    }
}

/// Formats a duration in its largest units: `6 h`, `2 d 12 h`, `90 s`.
pub(crate) fn length(ms: u64) -> String {
    let (seconds, minutes, hours) = (ms / 1000, ms / 60_000, ms / 3_600_000);
    match ms {
        0..10_000 => format!("{ms} ms"),
        10_000..600_000 => format!("{seconds} s"),
        600_000..7_200_000 => format!("{minutes} min"),
        7_200_000..172_800_000 if minutes.is_multiple_of(60) => format!("{hours} h"),
        7_200_000..172_800_000 => format!("{hours} h {} min", minutes % 60),
        _ if hours.is_multiple_of(24) => format!("{} d", hours / 24),
        _ => format!("{} d {} h", hours / 24, hours % 24),
    }
}

/// A share of a whole above 0; exact if both are below 2^53.
#[expect(clippy::cast_precision_loss, reason = "for drawing and measuring")]
pub(crate) fn ratio(part: u64, whole: u64) -> f64 {
    part as f64 / whole as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_is_straight_between_its_points() {
        let curve = SpendCurve {
            name: String::new(),
            points: vec![(10, 0.0), (20, 0.5), (20, 0.6), (30, 1.0)],
        };
        for (time_ms, want) in
            [(0, 0.0), (10, 0.0), (15, 0.25), (20, 0.6), (25, 0.8), (30, 1.0), (99, 1.0)]
        {
            assert!((curve.at(time_ms) - want).abs() < 1e-12, "{time_ms}: {}", curve.at(time_ms));
        }
        assert!(SpendCurve::default().at(5).abs() < 1e-12);
    }

    #[test]
    fn lengths_are_told_in_the_largest_units() {
        for (ms, want) in [
            (9_999, "9999 ms"),
            (90_000, "90 s"),
            (3_600_000, "60 min"),
            (21_600_000, "6 h"),
            (23_400_000, "6 h 30 min"),
            (172_800_000, "2 d"),
            (216_000_000, "2 d 12 h"),
        ] {
            assert_eq!(length(ms), want);
        }
    }
}
