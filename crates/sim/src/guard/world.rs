//! Runs a scenario in ticks. In each tick the DSP answers, messages arrive, shards call and report,
//! and the governor steps.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::Duration;

use exchange_core::guard::{
    BreakerState, BreakerTrial, CallGrant, CallHealth, CallPermit, Governor, GuardRefusal,
    GuardReport, STEP, ShardGuard,
};
use units::Tick;

use super::network::SimNetwork;
use super::scenario::GuardScenario;
use faults::Chance;

/// What happened in a run. Times are in ms.
#[derive(Debug, Default)]
pub struct GuardTrace {
    /// Calls made: time and shard.
    pub calls: Vec<(u64, usize)>,
    /// Calls in flight after each call: time and number.
    pub in_flight: Vec<(u64, u64)>,
    /// The governor's breaker states, each with its start.
    pub states: Vec<(u64, BreakerState)>,
    /// Calls refused: time, shard, reason.
    pub refused: Vec<(u64, usize, GuardRefusal)>,
}

/// The stages of a call, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum CallStage {
    Settle,
    Release,
}

struct SimCall {
    shard: usize,
    permit: CallPermit,
    trial: Option<BreakerTrial>,
    end: CallHealth,
}

struct GuardWorld<'s> {
    setup: &'s GuardScenario,
    chance: Chance,
    governor: Option<Governor>,
    shards: Vec<ShardGuard>,
    /// Offset in a step of each shard's report, then of the governor's step.
    offsets_ms: Vec<u64>,
    to_governor: SimNetwork<GuardReport>,
    to_shards: SimNetwork<CallGrant>,
    calls: BTreeMap<u64, SimCall>,
    due: BinaryHeap<Reverse<(u64, CallStage, u64)>>,
    trace: GuardTrace,
}

/// Runs a scenario to its end.
pub fn run(setup: &GuardScenario) -> GuardTrace {
    let mut world = GuardWorld::new(setup);
    let mut now_ms = 0;
    while now_ms < setup.length_ms {
        world.tick(now_ms);
        now_ms += setup.tick_ms;
    }
    world.trace
}

fn tick_at(ms: u64) -> Tick {
    Tick::ZERO.after(Duration::from_millis(ms))
}

impl<'s> GuardWorld<'s> {
    fn new(setup: &'s GuardScenario) -> Self {
        let governor = Governor::new(setup.limits, setup.shards, Tick::ZERO);
        let mut chance = Chance::new(setup.seed);
        let step_ms = u64::try_from(STEP.as_millis()).expect("a step is short");
        let ticks = step_ms / setup.tick_ms;
        Self {
            setup,
            shards: governor.grants().iter().map(ShardGuard::new).collect(),
            governor: Some(governor),
            offsets_ms: (0..=setup.shards)
                .map(|_| chance.within(0..=ticks - 1) * setup.tick_ms)
                .collect(),
            chance,
            to_governor: SimNetwork::new(setup.faults),
            to_shards: SimNetwork::new(setup.faults),
            calls: BTreeMap::new(),
            due: BinaryHeap::new(),
            trace: GuardTrace::default(),
        }
    }

    fn tick(&mut self, now_ms: u64) {
        self.answer(now_ms);
        for shard in 0..self.setup.shards {
            if self.setup.is_stalled(Some(shard), now_ms) {
                continue;
            }
            // Calls come before grants: a shard that wakes up first uses the rights that it has.
            self.call(shard, now_ms);
            if self.is_due(shard, now_ms) {
                let report = self.shards[shard].report();
                self.to_governor.send(now_ms, report, &mut self.chance);
            }
        }
        self.deliver_grants(now_ms);
        self.govern(now_ms);
    }

    fn is_due(&self, who: usize, now_ms: u64) -> bool {
        let step_ms = u64::try_from(STEP.as_millis()).expect("a step is short");
        now_ms % step_ms == self.offsets_ms[who]
    }

    /// Ends the calls that are due. Those of a stalled shard wait until it wakes up.
    fn answer(&mut self, now_ms: u64) {
        let mut waiting = Vec::new();
        while let Some(Reverse((at_ms, stage, id))) = self.due.peek().copied() {
            if at_ms > now_ms {
                break;
            }
            self.due.pop();
            let call = self.calls.get_mut(&id).expect("a call is over once");
            let shard = call.shard;
            if self.setup.is_stalled(Some(shard), now_ms) {
                waiting.push(Reverse((now_ms + self.setup.tick_ms, stage, id)));
                continue;
            }
            match stage {
                CallStage::Settle => {
                    let trial = call.trial.take().expect("a call ends once");
                    self.shards[shard].report_outcome(trial, call.end);
                }
                CallStage::Release => self.release(id),
            }
        }
        self.due.extend(waiting);
    }

    fn release(&mut self, id: u64) {
        let call = self.calls.remove(&id).expect("a call is over once");
        self.shards[call.shard].release(call.permit);
    }

    fn call(&mut self, shard: usize, now_ms: u64) {
        let wanted = self.setup.rate(shard, now_ms) * self.setup.tick_ms;
        let extra = self.chance.happens(wanted % 1_000 * 1_000);
        for _ in 0..wanted / 1_000 + u64::from(extra) {
            match self.shards[shard].acquire() {
                Ok((permit, trial)) => self.begin(shard, permit, trial, now_ms),
                Err(refusal) => self.trace.refused.push((now_ms, shard, refusal)),
            }
        }
    }

    fn begin(&mut self, shard: usize, permit: CallPermit, trial: BreakerTrial, now_ms: u64) {
        let (end, settle_ms, release_ms) = self.setup.health(now_ms).call(&mut self.chance);
        let id = self.trace.calls.len() as u64;
        self.calls.insert(id, SimCall { shard, permit, trial: Some(trial), end });
        self.due.push(Reverse((now_ms + settle_ms, CallStage::Settle, id)));
        self.due.push(Reverse((now_ms + release_ms, CallStage::Release, id)));
        self.trace.calls.push((now_ms, shard));
        self.trace.in_flight.push((now_ms, self.calls.len() as u64));
    }

    fn deliver_grants(&mut self, now_ms: u64) {
        let setup = self.setup;
        let awake = |grant: &CallGrant| !setup.is_stalled(Some(grant.shard), now_ms);
        for grant in self.to_shards.arrived(now_ms, awake) {
            self.shards[grant.shard].apply(&grant);
        }
    }

    fn govern(&mut self, now_ms: u64) {
        if self.setup.is_stalled(None, now_ms) {
            return;
        }
        let mut governor = self.governor.take().expect("there is one between ticks");
        for (at_ms, limits) in &self.setup.changes {
            if *at_ms == now_ms {
                governor = governor.with_limits(*limits, tick_at(now_ms));
            }
        }
        if self.is_due(self.setup.shards, now_ms) {
            governor.pause(self.setup.is_paused(now_ms));
            let reports = self.to_governor.arrived(now_ms, |_| true);
            for grant in governor.step(tick_at(now_ms), &reports) {
                self.to_shards.send(now_ms, *grant, &mut self.chance);
            }
            let state = governor.status().state;
            if self.trace.states.last().is_none_or(|(_, last)| *last != state) {
                self.trace.states.push((now_ms, state));
            }
        }
        self.governor = Some(governor);
    }
}
