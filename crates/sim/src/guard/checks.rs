//! The checks of a trace. Each returns a description of the first violation.

use exchange_core::guard::{BreakerState, CallRate, GuardLimits};

use super::scenario::GuardScenario;
use super::world::GuardTrace;

/// Longest time until every shard knows of a change, with the delays and losses that scenarios
/// have.
pub const HEARD_MS: u64 = 1_500;

/// A token bucket that replays the calls of a trace. It starts full. A cut of the burst keeps its
/// level: a shard may still use the rights that it holds.
struct BucketReplay {
    rate: CallRate,
    /// Thousandths of a call.
    level: u128,
    at_ms: u64,
}

impl BucketReplay {
    fn new(rate: CallRate, at_ms: u64) -> Self {
        Self { rate, level: u128::from(rate.burst.get()) * 1_000, at_ms }
    }

    fn until(&mut self, at_ms: u64) {
        let gained = u128::from(self.rate.qps.get()) * u128::from(at_ms - self.at_ms);
        let full = u128::from(self.rate.burst.get()) * 1_000;
        self.level = (self.level + gained).min(full.max(self.level));
        self.at_ms = at_ms;
    }

    fn call(&mut self, at_ms: u64) -> Result<(), String> {
        self.until(at_ms);
        self.level = self.level.checked_sub(1_000).ok_or_else(|| {
            let CallRate { qps, burst } = self.rate;
            format!("at {at_ms} ms more calls than {burst} + {qps} per second allow")
        })?;
        Ok(())
    }
}

/// Any window of length T has at most `burst + qps × T` calls; equivalently, a bucket that starts
/// full never runs dry. Requires a rate throughout the scenario.
pub fn rate_is_kept(setup: &GuardScenario, trace: &GuardTrace) -> Result<(), String> {
    let rate_of = |limits: &GuardLimits| limits.rate.ok_or("the setup has a rate all the time");
    let mut replay = BucketReplay::new(rate_of(&setup.limits)?, 0);
    let mut changes = setup.changes.iter().peekable();
    for (at_ms, _) in &trace.calls {
        while let Some((from_ms, limits)) = changes.next_if(|(from_ms, _)| from_ms <= at_ms) {
            replay.until(*from_ms);
            replay.rate = rate_of(limits)?;
        }
        replay.call(*at_ms)?;
    }
    Ok(())
}

/// Calls in flight never exceed the cap, or a cap that ended at most `grace_ms` ago: permits
/// granted under a higher cap return only when their calls end.
pub fn cap_is_kept(setup: &GuardScenario, trace: &GuardTrace, grace_ms: u64) -> Result<(), String> {
    let mut caps = vec![(0, setup.limits.in_flight_max)];
    caps.extend(setup.changes.iter().map(|(from_ms, limits)| (*from_ms, limits.in_flight_max)));
    for (at_ms, in_flight) in &trace.in_flight {
        let in_force = caps.iter().enumerate().filter(|(index, (from_ms, _))| {
            let until_ms = caps.get(index + 1).map_or(u64::MAX, |(next, _)| *next);
            from_ms <= at_ms && *at_ms < until_ms.saturating_add(grace_ms)
        });
        let cap = in_force.map(|(_, (_, cap))| cap.map_or(u64::MAX, |cap| cap.get().into())).max();
        if cap.is_some_and(|cap| *in_flight > cap) {
            return Err(format!("at {at_ms} ms {in_flight} calls are under way, of {cap:?}"));
        }
    }
    Ok(())
}

/// No calls while paused, from [`HEARD_MS`] after the pause began.
pub fn pauses_are_kept(setup: &GuardScenario, trace: &GuardTrace) -> Result<(), String> {
    for (from_ms, until_ms) in &setup.pauses {
        let quiet = from_ms + HEARD_MS..*until_ms;
        if let Some((at_ms, shard)) = trace.calls.iter().find(|(at, _)| quiet.contains(at)) {
            return Err(format!("at {at_ms} ms shard {shard} calls a paused DSP"));
        }
    }
    Ok(())
}

/// From `from_ms` on, at least `share_ppm` of the calls demanded and allowed are made.
pub fn throughput(
    setup: &GuardScenario,
    trace: &GuardTrace,
    from_ms: u64,
    share_ppm: u64,
) -> Result<(), String> {
    let calls = trace.calls.iter().filter(|(at_ms, _)| *at_ms >= from_ms).count() as u64;
    let refused = trace.refused.iter().filter(|(at_ms, ..)| *at_ms >= from_ms).count() as u64;
    let allowed = setup
        .limits
        .rate
        .map_or(u64::MAX, |rate| u64::from(rate.qps.get()) * (setup.length_ms - from_ms) / 1_000);
    let due = (calls + refused).min(allowed);
    if calls * 1_000_000 < due * share_ppm {
        return Err(format!("{calls} calls of {due} that were wanted and allowed"));
    }
    Ok(())
}

/// Every shard makes a call at least every `bound_ms`. Requires constant demand on all shards.
pub fn nobody_starves(
    setup: &GuardScenario,
    trace: &GuardTrace,
    bound_ms: u64,
) -> Result<(), String> {
    for shard in 0..setup.shards {
        let own = trace.calls.iter().filter(|(_, of)| *of == shard).map(|(at_ms, _)| *at_ms);
        let mut last_ms = 0;
        for at_ms in own.chain([setup.length_ms]) {
            if at_ms - last_ms > bound_ms {
                return Err(format!("shard {shard} makes no call from {last_ms} to {at_ms} ms"));
            }
            last_ms = at_ms;
        }
    }
    Ok(())
}

/// The breaker never throttles the DSP.
pub fn stays_closed(trace: &GuardTrace) -> Result<(), String> {
    match trace.states.iter().find(|(_, state)| matches!(state, BreakerState::Throttled { .. })) {
        Some((at_ms, _)) => Err(format!("throttled at {at_ms} ms")),
        None => Ok(()),
    }
}

/// A period in which the DSP fails, and how soon the breaker must react.
#[derive(Clone, Copy, Debug)]
pub struct Illness {
    /// All calls fail from here on.
    pub from_ms: u64,
    /// All calls succeed from here on.
    pub until_ms: u64,
    /// The breaker must throttle within this time.
    pub opens_ms: u64,
    /// The breaker must close within this time after the last failed call.
    pub closes_ms: u64,
    /// Allowed rate of calls while throttled.
    pub probes: CallRate,
}

/// The breaker throttles in time, allows only probes during the illness, closes in time and stays
/// closed.
pub fn illness_is_answered(trace: &GuardTrace, illness: &Illness) -> Result<(), String> {
    let Illness { from_ms, until_ms, opens_ms, closes_ms, probes } = *illness;
    let throttled = |state: &BreakerState| matches!(state, BreakerState::Throttled { .. });
    let opened = trace.states.iter().find(|(_, state)| throttled(state));
    let Some((opened_ms, _)) = opened else { return Err("never throttled".to_owned()) };
    if !(from_ms..=from_ms + opens_ms).contains(opened_ms) {
        return Err(format!("ill from {from_ms} ms, throttled at {opened_ms} ms"));
    }
    let mut replay = BucketReplay::new(probes, opened_ms + HEARD_MS);
    let probed = opened_ms + HEARD_MS..until_ms;
    for (at_ms, _) in trace.calls.iter().filter(|(at_ms, _)| probed.contains(at_ms)) {
        replay.call(*at_ms).map_err(|error| format!("while throttled, {error}"))?;
    }
    let after = |at_ms: u64| trace.states.iter().filter(move |(from, _)| *from > at_ms);
    if let Some((at_ms, state)) =
        after(*opened_ms).find(|(at, state)| *at < until_ms && *state == BreakerState::Closed)
    {
        return Err(format!("ill until {until_ms} ms, {state:?} at {at_ms} ms"));
    }
    match trace.states.last() {
        Some((at_ms, BreakerState::Closed)) if *at_ms <= until_ms + closes_ms => Ok(()),
        last => Err(format!("well from {until_ms} ms, last state {last:?}, due in {closes_ms} ms")),
    }
}
