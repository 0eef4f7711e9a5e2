//! What is counted during a run.

use std::ops::Range;
use std::time::Duration;

use hdrhistogram::Histogram;
use rustix::time::{ClockId, clock_gettime};

/// Longest latency of the histogram, in microseconds; longer ones count as this.
const LATENCY_US_MAX: u64 = 600_000_000;

/// Counts of a run.
pub(super) struct LiveLoadCounts {
    /// Due times of measured messages, in microseconds of the monotonic clock.
    pub window: Range<u64>,
    /// Measured messages that healthy subscribers received.
    pub delivered: u64,
    /// From the due time to the receipt, in microseconds.
    pub latency_us: Histogram<u64>,
    pub gaps: u64,
    pub duplicates: u64,
    pub skipped: u64,
    pub closed: u64,
    pub reconnections: u64,
    pub published: u64,
    pub refused: u64,
    /// The first refusal, in the server's words.
    pub refusal: Option<String>,
}

impl LiveLoadCounts {
    pub fn new() -> Self {
        let latency_us = Histogram::new_with_max(LATENCY_US_MAX, 3).expect("the range is valid");
        Self {
            window: 0..0,
            delivered: 0,
            latency_us,
            gaps: 0,
            duplicates: 0,
            skipped: 0,
            closed: 0,
            reconnections: 0,
            published: 0,
            refused: 0,
            refusal: None,
        }
    }
}

/// Microseconds of the monotonic clock, the same for all processes of the machine.
pub(super) fn now_us() -> u64 {
    let now = Duration::try_from(clock_gettime(ClockId::Monotonic)).unwrap_or_default();
    u64::try_from(now.as_micros()).unwrap_or(u64::MAX)
}
