//! A histogram of durations in log-linear buckets, from 1 µs to 16.8 s. Every power of two is split
//! into eight equal buckets, so a quantile is at most an eighth too high. It must not know how it
//! is exposed.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use units::Ppm;

use super::add_as_only_writer;

/// Buckets per power of two, as an exponent of two.
const SPLIT_BITS: usize = 3;
const SPLIT: usize = 1 << SPLIT_BITS;
/// Durations from 2^24 µs share the last bucket.
const OCTAVES: usize = 24;
/// Number of buckets.
pub const BUCKETS: usize = SPLIT + (OCTAVES - SPLIT_BITS) * SPLIT + 1;

const _: () = assert!(BUCKETS <= 200, "a histogram of 64 labels stays within 100 KiB");
const _: () = assert!(1 << OCTAVES > 10_000_000, "ten seconds are told apart from more");

fn bucket_of(micros: u64) -> usize {
    let octave = micros.checked_ilog2().unwrap_or(0) as usize;
    if octave >= OCTAVES {
        return BUCKETS - 1;
    }
    let micros = usize::try_from(micros).expect("below 2^24");
    if octave < SPLIT_BITS {
        return micros;
    }
    let step = octave - SPLIT_BITS;
    // The leading digit selects the octave, the next three the bucket in it.
    SPLIT + step * SPLIT + ((micros >> step) & (SPLIT - 1))
}

/// The first microsecond beyond a bucket. None if it is the last, which has no end.
pub(super) fn end_of(bucket: usize) -> Option<u64> {
    match bucket.checked_sub(SPLIT) {
        None => Some(bucket as u64 + 1),
        Some(_) if bucket == BUCKETS - 1 => None,
        Some(above) => Some(((SPLIT + above % SPLIT + 1) as u64) << (above / SPLIT)),
    }
}

/// Counts of durations. One thread writes it, any may read it.
#[derive(Debug)]
pub struct Histogram {
    buckets: [AtomicU64; BUCKETS],
    sum_us: AtomicU64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { buckets: std::array::from_fn(|_| AtomicU64::new(0)), sum_us: AtomicU64::new(0) }
    }
}

impl Histogram {
    /// Counts a duration, rounded down to microseconds.
    pub fn record(&self, duration: Duration) {
        self.record_many(duration, 1);
    }

    /// Counts `count` equal durations.
    pub fn record_many(&self, duration: Duration, count: u64) {
        let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        add_as_only_writer(&self.buckets[bucket_of(micros)], count);
        add_as_only_writer(&self.sum_us, micros.saturating_mul(count));
    }

    /// The current counts. The sum may be ahead of the counts while the writer goes on.
    pub fn snapshot(&self) -> HistogramSnapshot {
        let load = |cell: &AtomicU64| cell.load(Ordering::Relaxed);
        HistogramSnapshot {
            buckets: self.buckets.iter().map(load).collect(),
            sum_us: load(&self.sum_us),
        }
    }
}

/// The counts of a histogram, or of several merged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistogramSnapshot {
    buckets: Vec<u64>,
    sum_us: u64,
}

impl Default for HistogramSnapshot {
    fn default() -> Self {
        Self { buckets: vec![0; BUCKETS], sum_us: 0 }
    }
}

impl HistogramSnapshot {
    /// Adds the counts of another.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.buckets.iter_mut().zip(&other.buckets) {
            *mine = mine.wrapping_add(*theirs);
        }
        self.sum_us = self.sum_us.wrapping_add(other.sum_us);
    }

    /// The number of durations.
    pub fn count(&self) -> u64 {
        self.buckets.iter().fold(0, |sum, n| sum.wrapping_add(*n))
    }

    /// The sum of all durations, in microseconds.
    pub fn sum_us(&self) -> u64 {
        self.sum_us
    }

    pub(super) fn buckets(&self) -> &[u64] {
        &self.buckets
    }

    /// Upper bound in microseconds of the given share of durations, at most an eighth too high;
    /// `u64::MAX` beyond 16.8 s. None if nothing was counted.
    pub fn quantile_us(&self, share: Ppm) -> Option<u64> {
        let count = u128::from(self.count());
        let rank = (count * u128::from(share.get())).div_ceil(u128::from(Ppm::ONE.get())).max(1);
        let mut seen = 0;
        for (bucket, n) in self.buckets.iter().enumerate() {
            seen += u128::from(*n);
            if rank <= seen {
                return Some(end_of(bucket).map_or(u64::MAX, |end| end - 1));
            }
        }
        None
    }
}
