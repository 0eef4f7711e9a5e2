//! Log-normal spreads of prices and latencies, computed as tables of integers at start, so answers
//! need no floating point. Knows no clock and no socket.

use std::time::Duration;

/// Entries of a table; each stands for an equal share of draws.
const ENTRIES: u32 = 1024;

/// The 99th percentile of the standard normal distribution.
const Z_P99: f64 = 2.326_347_874_040_841;

/// Prices: log-normal around a median, clamped at both ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PriceSpread {
    /// Half of all prices are below this; micros CPM.
    pub median_micros: u64,
    /// Standard deviation of the price's natural logarithm: 0 makes every price the median.
    pub sigma: f64,
    /// Lowest price, micros CPM.
    pub min_micros: u64,
    /// Highest price, micros CPM.
    pub max_micros: u64,
}

/// Time from a whole request to its answer: log-normal above a minimum. All three equal makes it
/// constant; all three zero answers at once, with no timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct LatencySpread {
    /// No answer is faster.
    pub min: Duration,
    /// Half of all answers are faster.
    pub median: Duration,
    /// One answer in a hundred is slower.
    pub p99: Duration,
}

impl PriceSpread {
    /// Micros CPM, in rising order.
    pub(crate) fn table(&self) -> Vec<u64> {
        let quantile = |z: f64| {
            let price = (self.median_micros as f64) * (self.sigma * z).exp();
            rounded(price).clamp(self.min_micros, self.max_micros)
        };
        (0..ENTRIES).map(|entry| quantile(normal_quantile(middle_of(entry)))).collect()
    }

    /// The problem of this spread. None if it is valid.
    pub(crate) fn problem(&self) -> Option<&'static str> {
        if !(self.sigma.is_finite() && (0.0..=5.0).contains(&self.sigma)) {
            return Some("price sigma must lie between 0 and 5");
        }
        (self.min_micros > self.max_micros).then_some("the lowest price must not pass the highest")
    }
}

impl LatencySpread {
    /// The same latency for every answer.
    pub const fn constant(latency: Duration) -> Self {
        Self { min: latency, median: latency, p99: latency }
    }

    /// Microseconds, in rising order; empty if every answer is immediate.
    pub(crate) fn table(&self) -> Vec<u64> {
        if self.p99.is_zero() {
            return Vec::new();
        }
        let micros = |duration: Duration| duration.as_micros() as f64;
        let middle = micros(self.median - self.min);
        let sigma = match micros(self.p99 - self.min) / middle {
            ratio if ratio.is_finite() => ratio.ln() / Z_P99,
            _ => 0.0, // The median equals the minimum: no spread.
        };
        let quantile = |z: f64| rounded(micros(self.min) + middle * (sigma * z).exp());
        (0..ENTRIES).map(|entry| quantile(normal_quantile(middle_of(entry)))).collect()
    }

    /// The problem of this spread. None if it is valid.
    pub(crate) fn problem(&self) -> Option<&'static str> {
        (self.min > self.median || self.median > self.p99)
            .then_some("latencies must rise from min to median to p99")
    }
}

/// The middle of an entry's share, strictly between 0 and 1.
fn middle_of(entry: u32) -> f64 {
    (f64::from(entry) + 0.5) / f64::from(ENTRIES)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the cast saturates, and what it is given is never negative"
)]
fn rounded(value: f64) -> u64 {
    value.round() as u64
}

/// Inverse of the standard normal distribution for `0 < p < 1`, to 1.2e-9 (P. J. Acklam, 2003).
fn normal_quantile(p: f64) -> f64 {
    const A: [f64; 6] = [
        -3.969_683_028_665_376e1,
        2.209_460_984_245_205e2,
        -2.759_285_104_469_687e2,
        1.383_577_518_672_69e2,
        -3.066_479_806_614_716e1,
        2.506_628_277_459_239,
    ];
    const B: [f64; 6] = [
        -5.447_609_879_822_406e1,
        1.615_858_368_580_409e2,
        -1.556_989_798_598_866e2,
        6.680_131_188_771_972e1,
        -1.328_068_155_288_572e1,
        1.0,
    ];
    const C: [f64; 6] = [
        -7.784_894_002_430_293e-3,
        -3.223_964_580_411_365e-1,
        -2.400_758_277_161_838,
        -2.549_732_539_343_734,
        4.374_664_141_464_968,
        2.938_163_982_698_783,
    ];
    const D: [f64; 5] = [
        7.784_695_709_041_462e-3,
        3.224_671_290_700_398e-1,
        2.445_134_137_142_996,
        3.754_408_661_907_416,
        1.0,
    ];
    const TAIL: f64 = 0.024_25;
    let polynomial = |terms: &[f64], x: f64| terms.iter().fold(0.0, |sum, term| sum * x + term);
    let tail = |p: f64| {
        let q = (-2.0 * p.ln()).sqrt();
        polynomial(&C, q) / polynomial(&D, q)
    };
    if p < TAIL {
        tail(p)
    } else if p > 1.0 - TAIL {
        -tail(1.0 - p)
    } else {
        let q = p - 0.5;
        q * polynomial(&A, q * q) / polynomial(&B, q * q)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRICES: PriceSpread = PriceSpread {
        median_micros: 1_000_000,
        sigma: 0.5,
        min_micros: 200_000,
        max_micros: 2_500_000,
    };

    #[test]
    fn the_quantile_matches_known_points() {
        for (p, want) in [(0.5, 0.0), (0.99, Z_P99), (0.01, -Z_P99), (0.975, 1.959_963_984_540)] {
            assert!((normal_quantile(p) - want).abs() < 1e-8, "{p}");
        }
    }

    #[test]
    fn prices_spread_around_the_median_within_their_clamp() {
        let table = PRICES.table();
        assert!(table.is_sorted());
        let middle = table[table.len() / 2];
        assert!((995_000..1_005_000).contains(&middle), "{middle}");
        assert_eq!(*table.last().unwrap(), 2_500_000);
        assert!(table[0] >= 200_000);
        let flat = PriceSpread { sigma: 0.0, ..PRICES }.table();
        assert!(flat.iter().all(|&price| price == 1_000_000));
    }

    #[test]
    fn latencies_meet_their_three_points() {
        let ms = Duration::from_millis;
        let table = LatencySpread { min: ms(2), median: ms(10), p99: ms(60) }.table();
        assert!(table.is_sorted());
        assert!(table[0] >= 2_000);
        assert!((9_900..10_100).contains(&table[512]), "{}", table[512]);
        assert!((55_000..65_000).contains(&table[1013]), "{}", table[1013]);
        assert!(LatencySpread::default().table().is_empty());
        assert!(LatencySpread::constant(ms(5)).table().iter().all(|&latency| latency == 5_000));
    }

    #[test]
    fn senseless_spreads_are_named() {
        assert_eq!(PRICES.problem(), None);
        assert!(PriceSpread { sigma: f64::NAN, ..PRICES }.problem().is_some());
        assert!(PriceSpread { sigma: 5.1, ..PRICES }.problem().is_some());
        assert!(PriceSpread { min_micros: 3_000_000, ..PRICES }.problem().is_some());
        let ms = Duration::from_millis;
        assert!(LatencySpread { min: ms(2), median: ms(1), p99: ms(3) }.problem().is_some());
        assert!(LatencySpread { min: ms(1), median: ms(3), p99: ms(2) }.problem().is_some());
    }
}
