//! A run of the simulation, drawn from a seed or written by hand.

use exchange_core::guard::{CallHealth, GuardLimits};

use super::network::NetworkFaults;
use faults::Chance;

/// Timeout of a call.
const TIMEOUT_MS: u64 = 100;
/// How long the shard keeps reading the late response to a timed-out call.
const DRAIN_MS: u64 = 400;

/// A run. Lists of changes are in order of time.
#[derive(Clone, Debug)]
pub struct GuardScenario {
    /// Seed of all random choices.
    pub seed: u64,
    /// Number of shards.
    pub shards: usize,
    /// Length of a step.
    pub tick_ms: u64,
    /// Length of the run.
    pub length_ms: u64,
    /// The DSP's limits.
    pub limits: GuardLimits,
    /// Later limits, each with its start in ms.
    pub changes: Vec<(u64, GuardLimits)>,
    /// Faults of the network.
    pub faults: NetworkFaults,
    /// Calls demanded, by phase.
    pub demand: Vec<ScenarioPhase>,
    /// The DSP's health, each with its start in ms.
    pub health: Vec<(u64, Health)>,
    /// Shards, or the governor, that stall.
    pub stalls: Vec<Stall>,
    /// Pauses of the DSP: start and end in ms.
    pub pauses: Vec<(u64, u64)>,
}

/// Demand until the next phase.
#[derive(Clone, Debug)]
pub struct ScenarioPhase {
    /// Start of the phase.
    pub from_ms: u64,
    /// Calls per second, by shard.
    pub rates: Vec<u64>,
}

/// A period in which a shard or the governor does nothing.
#[derive(Clone, Copy, Debug)]
pub struct Stall {
    /// None for the governor.
    pub shard: Option<usize>,
    /// Start of the stall.
    pub from_ms: u64,
    /// End of the stall.
    pub until_ms: u64,
}

/// How a DSP answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// In 10 to 60 ms.
    Well,
    /// With an error within 3 ms for this share of calls, in ppm.
    FastErrors(u64),
    /// Never, although it had enough time.
    Hangs,
    /// Too late, because it had too little time.
    Hurried,
}

impl Health {
    /// The verdict of a call, and in how many ms the verdict is known and the call is over.
    pub(super) fn call(self, chance: &mut Chance) -> (CallHealth, u64, u64) {
        let well = |chance: &mut Chance| {
            let latency = chance.within(10..=60);
            (CallHealth::Good, latency, latency)
        };
        match self {
            Self::Well => well(chance),
            Self::FastErrors(ppm) if chance.happens(ppm) => {
                let latency = chance.within(0..=3);
                (CallHealth::Bad, latency, latency)
            }
            Self::FastErrors(_) => well(chance),
            Self::Hangs => {
                (CallHealth::TimedOut { had_min_time: true }, TIMEOUT_MS, TIMEOUT_MS + DRAIN_MS)
            }
            Self::Hurried => {
                (CallHealth::TimedOut { had_min_time: false }, TIMEOUT_MS, TIMEOUT_MS + 20)
            }
        }
    }
}

impl GuardScenario {
    /// A run without faults. `rates` are the calls per second that each shard demands.
    pub fn steady(seed: u64, limits: GuardLimits, rates: Vec<u64>, length_ms: u64) -> Self {
        Self {
            seed,
            shards: rates.len(),
            tick_ms: 5,
            length_ms,
            limits,
            changes: Vec::new(),
            faults: NetworkFaults { delay_ms_max: 20, lost_ppm: 0, repeated_ppm: 0 },
            demand: vec![ScenarioPhase { from_ms: 0, rates }],
            health: vec![(0, Health::Well)],
            stalls: Vec::new(),
            pauses: Vec::new(),
        }
    }

    /// Calls per second that a shard demands.
    pub fn rate(&self, shard: usize, at_ms: u64) -> u64 {
        let phase = self.demand.iter().rev().find(|phase| phase.from_ms <= at_ms);
        phase.map_or(0, |phase| phase.rates[shard])
    }

    pub(super) fn health(&self, at_ms: u64) -> Health {
        let since = self.health.iter().rev().find(|(from, _)| *from <= at_ms);
        since.map_or(Health::Well, |(_, health)| *health)
    }

    /// Whether the operator has paused the DSP.
    pub fn is_paused(&self, at_ms: u64) -> bool {
        self.pauses.iter().any(|(from, until)| (*from..*until).contains(&at_ms))
    }

    /// Whether the shard, or the governor if None, is stalled.
    pub(super) fn is_stalled(&self, shard: Option<usize>, at_ms: u64) -> bool {
        let covers = |stall: &Stall| (stall.from_ms..stall.until_ms).contains(&at_ms);
        self.stalls.iter().any(|stall| stall.shard == shard && covers(stall))
    }
}
