//! One DSP's rights to call, over all shards of the process: accrues them, leases them to shards
//! according to recent demand, and recalls them. Must not know how messages travel.

use std::num::NonZeroU32;

use units::Tick;

use super::breaker::{BreakerChange, CircuitBreaker};
use super::bucket::TokenBucket;
use super::lease::{CallLease, ReportDelta};
use super::limits::{CallRate, GuardLimits};
use super::message::{CallGrant, GuardMode, GuardReport};
use super::share::{ShareClaim, ShareDivider};

/// Steps before an indivisible remainder moves: permits must be used longer than they travel.
const TURN_STEPS: u64 = 10;

/// The rights of one DSP.
#[derive(Clone, Debug)]
pub struct Governor {
    limits: GuardLimits,
    now: Tick,
    steps: u64,
    is_paused: bool,
    breaker: Option<CircuitBreaker>,
    /// Lets shards tell calls before a throttling from those during it.
    epoch: u32,
    limit: Option<TokenBucket>,
    throttle: Option<TokenBucket>,
    leases: Vec<CallLease>,
    token_shares: ShareDivider,
    reserve_shares: ShareDivider,
    permit_shares: ShareDivider,
    claims: Vec<ShareClaim>,
    parts: Vec<u64>,
    grants: Vec<CallGrant>,
}

/// Whether a DSP is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakerState {
    /// Up to its limits.
    Closed,
    /// Only probes, to see whether it has recovered.
    Throttled {
        /// Calls per second, over all shards.
        allowance: NonZeroU32,
    },
    /// No calls: the operator has paused it.
    Paused,
}

/// The state of a DSP's guard, for operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GuardStatus {
    /// Whether it is asked.
    pub state: BreakerState,
    /// Tokens not leased. None if calls need none.
    pub level: Option<u64>,
    /// Tokens leased to shards, including used ones not yet reported.
    pub outstanding: u64,
    /// Calls in flight, as last reported.
    pub in_flight: u64,
    /// Good results in the breaker's window.
    pub good: u64,
    /// Bad results in the breaker's window.
    pub bad: u64,
}

impl Governor {
    /// A governor of `shards` shards. Without tokens at first, because the previous process may
    /// just have used its burst: they come with the first [`step`](Self::step) after some time. All
    /// other rights are in [`grants`](Self::grants) at once.
    pub fn new(limits: GuardLimits, shards: usize, now: Tick) -> Self {
        let mut governor = Self {
            limits,
            now,
            steps: 0,
            is_paused: false,
            breaker: limits.breaker.map(|limits| CircuitBreaker::new(limits, now)),
            epoch: 0,
            limit: limits.rate.map(TokenBucket::empty),
            throttle: None,
            leases: vec![CallLease::default(); shards],
            token_shares: ShareDivider::new(shards),
            reserve_shares: ShareDivider::new(shards),
            permit_shares: ShareDivider::new(shards),
            claims: Vec::with_capacity(shards),
            parts: vec![0; shards],
            grants: Vec::with_capacity(shards),
        };
        governor.lease();
        governor
    }

    /// The same rights under other limits, from the next step on: mints nothing and keeps leased
    /// tokens counted. A breaker keeps its state unless its own limits change.
    #[must_use]
    pub fn with_limits(mut self, limits: GuardLimits, now: Tick) -> Self {
        self.accrue(now);
        let outstanding = outstanding(&self.leases);
        self.limit = match (self.limit.take(), limits.rate) {
            (_, None) => None,
            (None, Some(rate)) => Some(TokenBucket::empty(rate)),
            (Some(mut bucket), Some(rate)) => {
                bucket.set_rate(rate, outstanding);
                Some(bucket)
            }
        };
        if self.limits.breaker != limits.breaker {
            self.breaker = limits.breaker.map(|limits| CircuitBreaker::new(limits, self.now));
            self.end_epoch();
        }
        self.limits = limits;
        self
    }

    /// Pauses or resumes calls. From the next step on, shards of a paused DSP return their rights.
    pub fn pause(&mut self, is_paused: bool) {
        self.is_paused = is_paused;
    }

    /// Applies reports and leases anew, with one grant per shard. Call it every
    /// [`STEP`](super::STEP) with the reports since the last call, in any order.
    ///
    /// # Panics
    /// If rights were minted: more are at hand and outstanding than the limits allow, or a shard
    /// has spent more than it was granted.
    pub fn step(&mut self, now: Tick, reports: &[GuardReport]) -> &[CallGrant] {
        self.accrue(now);
        let mut news = ReportDelta::default();
        for report in reports {
            news.add(self.leases[report.shard].take(report, self.epoch));
        }
        self.refund(&news);
        self.judge(&news);
        for lease in &mut self.leases {
            lease.follow_demand();
        }
        self.lease();
        &self.grants
    }

    /// The last grants, by shard.
    pub fn grants(&self) -> &[CallGrant] {
        &self.grants
    }

    /// The current state, for operators.
    pub fn status(&self) -> GuardStatus {
        let throttled = self.breaker.as_ref().and_then(CircuitBreaker::allowance);
        let counts = self.breaker.as_ref().map(CircuitBreaker::counts).unwrap_or_default();
        GuardStatus {
            state: match throttled {
                _ if self.is_paused => BreakerState::Paused,
                Some(allowance) => BreakerState::Throttled { allowance },
                None => BreakerState::Closed,
            },
            level: self.tokens_available(),
            outstanding: outstanding(&self.leases),
            in_flight: self.leases.iter().map(|lease| u64::from(lease.in_use)).sum(),
            good: counts.good,
            bad: counts.bad,
        }
    }

    fn accrue(&mut self, now: Tick) {
        let elapsed = now.since(self.now);
        self.now = self.now.max(now);
        let (limit, throttle) = (&mut self.limit, &mut self.throttle);
        if let Some(limit) = limit {
            limit.accrue(elapsed, outstanding(&self.leases));
        }
        if let Some(throttle) = throttle {
            throttle.accrue(elapsed, outstanding_in(&self.leases, self.epoch));
        }
    }

    fn refund(&mut self, news: &ReportDelta) {
        let (limit, throttle) = (&mut self.limit, &mut self.throttle);
        if let Some(limit) = limit {
            limit.refund(news.returned, outstanding(&self.leases));
        }
        if let Some(throttle) = throttle {
            throttle.refund(news.returned_in_epoch, outstanding_in(&self.leases, self.epoch));
        }
    }

    fn judge(&mut self, news: &ReportDelta) {
        let qps_max = self.limits.rate.map(|rate| rate.qps);
        let Some(breaker) = &mut self.breaker else { return };
        match breaker.step(self.now, news.results, news.attempts, qps_max) {
            BreakerChange::None => (),
            BreakerChange::Throttled(allowance) => {
                self.end_epoch();
                // Earlier grants must not add to the probes.
                for lease in &mut self.leases {
                    lease.void = lease.granted;
                }
                self.throttle = Some(TokenBucket::empty(CallRate::per_second(allowance)));
            }
            BreakerChange::Raised(allowance) => {
                let outstanding = outstanding_in(&self.leases, self.epoch);
                if let Some(throttle) = &mut self.throttle {
                    throttle.set_rate(CallRate::per_second(allowance), outstanding);
                }
            }
            BreakerChange::Closed => self.end_epoch(),
        }
    }

    fn end_epoch(&mut self) {
        self.epoch = self.epoch.wrapping_add(1);
        self.throttle = None;
    }

    fn lease(&mut self) {
        self.steps += 1;
        let mode = match (&self.limit, &self.throttle) {
            _ if self.is_paused => GuardMode::Paused,
            (_, Some(_)) => GuardMode::Throttled,
            (Some(_), None) => GuardMode::Limited,
            (None, None) => GuardMode::Open,
        };
        self.grants.clear();
        for (shard, lease) in self.leases.iter().enumerate() {
            self.grants.push(CallGrant {
                shard,
                seq: self.steps,
                mode,
                epoch: self.epoch,
                tokens: lease.granted,
                tokens_void: lease.void,
                tokens_keep: 0,
                permits: self.limits.in_flight_max.map(|_| lease.permits_granted),
                permits_keep: 0,
            });
        }
        if !self.is_paused {
            self.lease_tokens();
            self.lease_permits();
        }
        self.assert_conserved();
    }

    /// Serves recent demand first. Half of the burst's remainder is spread as a reserve for sudden
    /// demand; all of it if shards are many and tokens few.
    fn lease_tokens(&mut self) {
        let Some(level) = self.tokens_available() else { return };
        let burst = [&self.limit, &self.throttle].into_iter().flatten();
        let burst = burst.map(|bucket| u64::from(bucket.rate().burst.get())).min().unwrap_or(0);
        let shards = self.leases.len() as u64;
        let wanted: u64 = self.leases.iter().map(CallLease::tokens_wanted).sum();
        let spare = burst.saturating_sub(wanted);
        let reserve = if spare < 2 * shards { spare } else { spare / 2 };
        let reserve = SpareUnits::new(reserve, shards, self.steps / TURN_STEPS);
        self.claims.clear();
        for lease in &self.leases {
            let want = lease.tokens_wanted().saturating_sub(self.tokens_held(lease));
            self.claims.push(ShareClaim { demand: want, weight: lease.weight() });
        }
        let left = self.token_shares.divide(level, &self.claims, true, &mut self.parts);
        self.grant_parts();
        self.claims.clear();
        for (shard, lease) in self.leases.iter().enumerate() {
            let keep = lease.tokens_wanted() + reserve.of(shard as u64);
            self.grants[shard].tokens_keep = keep;
            self.claims.push(ShareClaim {
                demand: keep.saturating_sub(self.tokens_held(lease)),
                weight: 1,
            });
        }
        let left = self.reserve_shares.divide(left, &self.claims, true, &mut self.parts);
        self.grant_parts();
        for bucket in [&mut self.limit, &mut self.throttle].into_iter().flatten() {
            bucket.debit(level - left);
        }
    }

    fn grant_parts(&mut self) {
        for (shard, part) in self.parts.iter().enumerate() {
            self.leases[shard].granted += part;
            self.grants[shard].tokens = self.leases[shard].granted;
        }
    }

    /// Permits are not used up: each step divides all of them anew.
    fn lease_permits(&mut self) {
        let Some(cap) = self.limits.in_flight_max else { return };
        let cap = u64::from(cap.get());
        self.claims.clear();
        for lease in &mut self.leases {
            let want = lease.permits_wanted(cap);
            self.claims.push(ShareClaim { demand: want, weight: lease.weight() });
        }
        let turn = self.steps.is_multiple_of(TURN_STEPS);
        let spare = self.permit_shares.divide(cap, &self.claims, turn, &mut self.parts);
        let shards = self.leases.len();
        let spread = SpareUnits::new(spare, shards as u64, self.steps / TURN_STEPS);
        let held: u64 = self.leases.iter().map(CallLease::permits_held).sum();
        let mut free = cap.saturating_sub(held);
        // Rotates who is first while permits are still on their way back.
        let first = usize::try_from(self.steps % shards.max(1) as u64).unwrap_or(0);
        for shard in (first..shards).chain(0..first) {
            let lease = &mut self.leases[shard];
            let keep = self.parts[shard] + spread.of(shard as u64);
            let more = keep.saturating_sub(lease.permits_held()).min(free);
            free -= more;
            lease.permits_granted += more;
            self.grants[shard].permits = Some(lease.permits_granted);
            self.grants[shard].permits_keep = u32::try_from(keep).unwrap_or(u32::MAX - 1);
        }
    }

    fn tokens_held(&self, lease: &CallLease) -> u64 {
        match self.throttle {
            Some(_) => lease.outstanding_in(self.epoch),
            None => lease.outstanding(),
        }
    }

    fn tokens_available(&self) -> Option<u64> {
        let buckets = [&self.limit, &self.throttle].into_iter().flatten();
        buckets.map(TokenBucket::tokens).min()
    }

    fn assert_conserved(&self) {
        if let Some(limit) = &self.limit {
            limit.assert_conserved(outstanding(&self.leases));
        }
        if let Some(throttle) = &self.throttle {
            throttle.assert_conserved(outstanding_in(&self.leases, self.epoch));
        }
    }
}

fn outstanding(leases: &[CallLease]) -> u64 {
    leases.iter().map(CallLease::outstanding).sum()
}

fn outstanding_in(leases: &[CallLease], epoch: u32) -> u64 {
    leases.iter().map(|lease| lease.outstanding_in(epoch)).sum()
}

/// Units without demand, spread evenly; the remainder rotates.
struct SpareUnits {
    each: u64,
    remainder: u64,
    shards: u64,
    first: u64,
}

impl SpareUnits {
    fn new(units: u64, shards: u64, turn: u64) -> Self {
        let shards = shards.max(1);
        Self { each: units / shards, remainder: units % shards, shards, first: turn % shards }
    }

    fn of(&self, shard: u64) -> u64 {
        let place = (shard + self.shards - self.first) % self.shards;
        self.each + u64::from(place < self.remainder)
    }
}

#[cfg(test)]
mod tests;
