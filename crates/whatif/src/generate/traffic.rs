//! When auctions occur: traffic over the stream, by the minute or finer. It must not know prices.

use super::bounds::DAY_MS;
use super::chance::{GeneratorChance, whole};
use super::profile::Profile;

/// Cells of a short stream's curve.
const CELLS_MIN: u64 = 1_440;

/// Cumulative traffic at the end of each cell, for inversion.
#[derive(Debug)]
pub(super) struct TrafficCurve {
    cell_ms: f64,
    /// Rising, from the end of the first cell to that of the last.
    sums: Vec<f64>,
    /// The cell of the last result: results are in order.
    at: usize,
}

impl TrafficCurve {
    pub(super) fn new(
        profile: &Profile,
        start_ms: u64,
        duration_ms: u64,
        mut chance: GeneratorChance,
    ) -> Self {
        let cell = (duration_ms / CELLS_MIN).clamp(1, 60_000);
        let bursts: Vec<(f64, f64)> = (0..profile.bursts)
            .map(|_| {
                // A burst lasts between half and one and a half times the mean length.
                let length = profile.burst_length * (0.5 + chance.positive());
                let begin = chance.positive() * (1.0 - length).max(0.0);
                (begin, begin + length)
            })
            .collect();
        let mut sum = 0.0;
        let sums = (0..duration_ms.div_ceil(cell))
            .map(|number| {
                let middle_ms = number * cell + cell / 2;
                let done = whole(middle_ms) / whole(duration_ms);
                let is_burst = bursts.iter().any(|(begin, end)| (*begin..*end).contains(&done));
                let burst = if is_burst { profile.burst_height } else { 1.0 };
                // The last cell may be shorter.
                let length = cell.min(duration_ms - number * cell);
                sum += by_day(profile, start_ms + middle_ms) * burst * whole(length);
                sum
            })
            .collect();
        Self { cell_ms: whole(cell), sums, at: 0 }
    }

    /// When `share` of the traffic has occurred, in milliseconds; shares must not decrease.
    pub(super) fn when(&mut self, share: f64) -> u64 {
        let last = self.sums.len() - 1;
        let wanted = share * self.sums[last];
        while self.at < last && self.sums[self.at] <= wanted {
            self.at += 1;
        }
        let before = if self.at == 0 { 0.0 } else { self.sums[self.at - 1] };
        let width = self.sums[self.at] - before;
        let within = if width > 0.0 { ((wanted - before) / width).clamp(0.0, 1.0) } else { 0.0 };
        #[expect(clippy::cast_precision_loss, reason = "there are at most 527,040 pieces")]
        let since_ms = (self.at as f64 + within) * self.cell_ms;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "at most 366 days, and milliseconds begin where they begin"
        )]
        let whole_ms = since_ms as u64;
        whole_ms
    }
}

/// Traffic at a time, relative to the mean of a weekday.
fn by_day(profile: &Profile, time_ms: u64) -> f64 {
    let hours = whole(time_ms % DAY_MS) / 3_600_000.0;
    let angle = (hours - profile.peak_hour) / 24.0 * 2.0 * std::f64::consts::PI;
    // 1 January 1970 was a Thursday.
    let is_weekend = matches!((time_ms / DAY_MS) % 7, 2 | 3);
    let by_week = if is_weekend { profile.weekend } else { 1.0 };
    (1.0 + profile.day_depth * libm::cos(angle)) * by_week
}
