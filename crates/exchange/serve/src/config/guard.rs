//! Limits of calls to a DSP: rate, concurrency, errors.

use std::num::NonZeroU32;
use std::time::Duration;

use exchange_core::guard::{BreakerLimits, CallRate, GuardLimits};
use runtime::config::{Optional, Section, ms, secs};
use units::Ppm;

/// Fixed limits of breakers: 50 results tell 15 % from chance, and a recovered DSP gets all its
/// calls within seconds, because good probes double them.
const BREAKER: BreakerLimits = BreakerLimits {
    error_share_max: Ppm::ONE,
    window: secs(10),
    calls_min: 50,
    probe_qps: NonZeroU32::new(5).expect("5 is not 0"),
    probe_interval: secs(1),
};

/// Twice the default of `exchange.dsp_time_min`: a timeout with less time is not the DSP's fault.
pub(super) const TIMEOUT_COUNTS_AFTER: Duration = ms(20);

pub(super) const ABOUT_BREAKER: &str = "Circuit breaker that throttles a failing DSP to probes: 5 \
                                        calls per second, doubled after each good second until all \
                                        calls pass.";

pub(super) fn read_breaker(s: &mut Section<'_>) -> BreakerLimits {
    BreakerLimits {
        error_share_max: s.ppm(
            "error_share_max",
            "15%",
            "Maximum share of errors and timeouts among a DSP's results in the last 10s. Above it, \
             the DSP is throttled to probes, if there are at least 50 results. A timeout counts \
             only if the DSP had at least 20ms.",
        ),
        ..BREAKER
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct DspGuard {
    rate: Option<CallRate>,
    in_flight_max: Option<NonZeroU32>,
    breaker: bool,
}

impl DspGuard {
    pub(super) fn read(s: &mut Section<'_>) -> Self {
        let any = 1..=10_000_000_u32;
        let qps = s.integer(
            "qps",
            Optional(1000),
            any.clone(),
            "Maximum number of calls per second, over all shards. If absent, no limit.",
        );
        let burst = s.integer(
            "qps_burst",
            Optional(1000),
            any.clone(),
            "Maximum burst of calls. If absent, one second's worth of calls.",
        );
        if let (None, Some(burst)) = (qps, burst) {
            s.problem("qps_burst", burst, "means nothing without `qps`, add it");
        }
        let in_flight_max = s.integer(
            "in_flight_max",
            Optional(500),
            any,
            "Maximum number of calls in flight, over all shards. If absent, no limit.",
        );
        let rate = qps.map(|qps| {
            let usual = CallRate::per_second(at_least_one(qps));
            CallRate { burst: burst.map_or(usual.burst, at_least_one), ..usual }
        });
        Self {
            rate,
            in_flight_max: in_flight_max.map(at_least_one),
            breaker: s.boolean(
                "breaker",
                true,
                "Whether the circuit breaker applies to this DSP; see [exchange.breaker].",
            ),
        }
    }

    pub(super) fn limits(&self, breaker: &BreakerLimits) -> GuardLimits {
        GuardLimits {
            rate: self.rate,
            in_flight_max: self.in_flight_max,
            breaker: self.breaker.then_some(*breaker),
        }
    }
}

fn at_least_one(number: u32) -> NonZeroU32 {
    NonZeroU32::new(number).unwrap_or(NonZeroU32::MIN)
}
