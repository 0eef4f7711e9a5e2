//! What an operator allows between us and one DSP. Knows nothing of how it is kept.

use std::num::NonZeroU32;
use std::time::Duration;

use units::Ppm;

/// Limits of one DSP, over all shards of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GuardLimits {
    /// Calls per second; absent: any number.
    pub rate: Option<CallRate>,
    /// Most calls under way at once, those that are late and still being read included; absent:
    /// any number. One that is newly set holds once every shard has heard of it and the calls of
    /// before have ended.
    pub in_flight_max: Option<NonZeroU32>,
    /// When it is throttled for its errors; absent: never.
    pub breaker: Option<BreakerLimits>,
}

impl GuardLimits {
    /// No limit, no breaker.
    pub const NONE: Self = Self { rate: None, in_flight_max: None, breaker: None };

    /// A rate alone, as for a publisher.
    pub const fn of_rate(rate: CallRate) -> Self {
        Self { rate: Some(rate), ..Self::NONE }
    }
}

impl Default for GuardLimits {
    /// No limits, and a breaker.
    fn default() -> Self {
        Self { breaker: Some(BreakerLimits::default()), ..Self::NONE }
    }
}

/// A token bucket: at most `burst + qps × T` calls in any window of length T.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallRate {
    /// Calls per second in the long run.
    pub qps: NonZeroU32,
    /// Calls that may be made at once. What shards hold and what they have used but not yet
    /// reported counts towards it: below half a second's worth the rate is not reached, and where
    /// there are more shards than tokens, a shard's first call is refused until its token comes.
    pub burst: NonZeroU32,
}

impl CallRate {
    /// With a burst of a second's worth, at least 2: one token is on its way while one is used.
    pub fn per_second(qps: NonZeroU32) -> Self {
        Self { qps, burst: qps.max(const { NonZeroU32::new(2).expect("2 is not 0") }) }
    }
}

/// Error throttling. While over `window` more than `error_share_max` of at least `calls_min` results
/// are bad, the DSP is asked `probe_qps` times per second only. Each `probe_interval` in which the
/// share of bad results is at most `error_share_max` doubles the allowance; once it is no less than
/// what is wanted, the breaker closes. A bad interval falls back to probes, as soon as it has
/// `calls_min` results, else at its end.
///
/// Bounds, while calls are wanted at a steady rate, with `slack` = 5 × [`STEP`](super::STEP) for
/// results to be reported and grants to arrive:
///
/// - A DSP of which all calls turn bad is throttled within `error_share_max × window + slack`, or
///   the time for `calls_min` results where that is longer.
/// - One that is well again is asked everything within
///   `(2 + ⌈log₂(wanted / probe_qps)⌉) × (probe_interval + STEP) + slack`, counted from the end of
///   its last bad call: the interval that held it, one of probes, and one for each doubling. What
///   is wanted must be at least `probe_qps`, so that there are probes to judge.
///
/// Where `in_flight_max` is set, hanging calls hold their permits until their connections are given
/// up: probes wait for that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BreakerLimits {
    /// Largest share of errors and timeouts that is borne.
    pub error_share_max: Ppm,
    /// Over how long it is counted.
    pub window: Duration,
    /// With fewer results in the window the breaker does nothing.
    pub calls_min: u32,
    /// Calls per second while throttled, to begin with.
    pub probe_qps: NonZeroU32,
    /// How long probes go on before they are judged.
    pub probe_interval: Duration,
}

impl Default for BreakerLimits {
    /// 15 % over 10 s of at least 50 calls; then 5 probes a second, judged each second.
    fn default() -> Self {
        Self {
            error_share_max: const { Ppm::new(150_000).expect("15 % is a share") },
            window: Duration::from_secs(10),
            calls_min: 50,
            probe_qps: const { NonZeroU32::new(5).expect("5 is not 0") },
            probe_interval: Duration::from_secs(1),
        }
    }
}
