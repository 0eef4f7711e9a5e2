//! An operator's limits on calls to one DSP. Knows nothing of their enforcement.

use std::num::NonZeroU32;
use std::time::Duration;

use units::Ppm;

/// Limits of one DSP, over all shards of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GuardLimits {
    /// Calls per second. None if unlimited.
    pub rate: Option<CallRate>,
    /// Limit of calls in flight, including late ones still being read. None if unlimited. A new
    /// limit holds once every shard knows it and earlier calls have ended.
    pub in_flight_max: Option<NonZeroU32>,
    /// When errors throttle the DSP. None if never.
    pub breaker: Option<BreakerLimits>,
}

impl GuardLimits {
    /// No limit, no breaker.
    pub const NONE: Self = Self { rate: None, in_flight_max: None, breaker: None };

    /// Only a rate, as for a publisher.
    pub const fn of_rate(rate: CallRate) -> Self {
        Self { rate: Some(rate), ..Self::NONE }
    }
}

impl Default for GuardLimits {
    fn default() -> Self {
        Self { breaker: Some(BreakerLimits::default()), ..Self::NONE }
    }
}

/// A token bucket: at most `burst + qps × T` calls in any window of length T.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallRate {
    /// Sustained calls per second.
    pub qps: NonZeroU32,
    /// Calls that may be made at once, including tokens that shards hold or have used and not yet
    /// reported. Below half a second's worth the rate is not reached. With more shards than tokens,
    /// a shard's first call is refused until it gets a token.
    pub burst: NonZeroU32,
}

impl CallRate {
    /// A burst of one second's worth, at least 2: one token travels while one is used.
    pub fn per_second(qps: NonZeroU32) -> Self {
        Self { qps, burst: qps.max(const { NonZeroU32::new(2).expect("2 is not 0") }) }
    }
}

/// Error throttling. If over `window` more than `error_share_max` of at least `calls_min` results
/// are bad, the DSP gets only `probe_qps` calls per second. Each `probe_interval` with a share of
/// bad results of at most `error_share_max` doubles the allowance; when it reaches demand, the
/// breaker closes. A bad interval returns to probes, as soon as it has `calls_min` results or at
/// its end.
///
/// Bounds under steady demand of at least `probe_qps`, with `slack` = 5 × [`STEP`](super::STEP) for
/// reports and grants to arrive:
///
/// - A DSP whose calls all turn bad is throttled within `error_share_max × window + slack`, or the
///   time for `calls_min` results if longer.
/// - A recovered DSP gets all calls within `(2 + ⌈log₂(demand / probe_qps)⌉) × (probe_interval +
///   STEP) + slack` after its last bad call: the interval of that call, one of probes, and one per
///   doubling.
///
/// If `in_flight_max` is set, hanging calls hold their permits until their connections close;
/// probes wait for that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BreakerLimits {
    /// Highest tolerated share of errors and timeouts.
    pub error_share_max: Ppm,
    /// Period over which results are counted.
    pub window: Duration,
    /// Fewest results in the window for the breaker to act.
    pub calls_min: u32,
    /// Initial calls per second when throttled.
    pub probe_qps: NonZeroU32,
    /// Duration of probes before they are judged.
    pub probe_interval: Duration,
}

impl Default for BreakerLimits {
    /// 15 % over 10 s of at least 50 calls; then 5 probes per second, judged each second.
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
