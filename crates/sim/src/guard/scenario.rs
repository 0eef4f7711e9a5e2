//! What happens in a simulation, drawn from a seed or written down.

use exchange_core::guard::{CallVerdict, GuardLimits};

use super::network::NetworkFaults;
use faults::Chance;

/// How long a DSP is waited for.
const TIMEOUT_MS: u64 = 100;
/// How long the answer to a call that has timed out is still read for.
const DRAIN_MS: u64 = 400;

/// What happens.
#[derive(Clone, Debug)]
pub struct GuardScenario {
    /// Of all chance.
    pub seed: u64,
    /// How many shards there are.
    pub shards: usize,
    /// How finely time passes.
    pub tick_ms: u64,
    /// How long it goes on.
    pub length_ms: u64,
    /// Limits at the start.
    pub limits: GuardLimits,
    /// Other limits from then on, in order of time.
    pub changes: Vec<(u64, GuardLimits)>,
    /// What may happen to messages.
    pub faults: NetworkFaults,
    /// Calls wanted, in order of time.
    pub demand: Vec<ScenarioPhase>,
    /// How the DSP is from then on, in order of time.
    pub health: Vec<(u64, Health)>,
    /// Who does nothing for a while.
    pub stalls: Vec<Stall>,
    /// When the DSP is paused: from, until.
    pub pauses: Vec<(u64, u64)>,
}

/// Calls wanted for a while.
#[derive(Clone, Debug)]
pub struct ScenarioPhase {
    /// Until the next phase.
    pub from_ms: u64,
    /// Calls per second, by shard.
    pub rates: Vec<u64>,
}

/// A shard that does nothing for a while, or the governor.
#[derive(Clone, Copy, Debug)]
pub struct Stall {
    /// The shard; `None`: the governor.
    pub shard: Option<usize>,
    /// From when.
    pub from_ms: u64,
    /// Until when.
    pub until_ms: u64,
}

/// How a DSP answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// In 10 to 60 ms.
    Well,
    /// So many in a million with an error, in at most 3 ms.
    FastErrors(u64),
    /// Never; it had its time.
    Hangs,
    /// Too late, but it did not have its time.
    Hurried,
}

impl Health {
    /// How a call ends, when that is known, and when it is over; both in milliseconds from now.
    pub(super) fn call(self, chance: &mut Chance) -> (CallVerdict, u64, u64) {
        let well = |chance: &mut Chance| {
            let latency = chance.within(10..=60);
            (CallVerdict::Good, latency, latency)
        };
        match self {
            Self::Well => well(chance),
            Self::FastErrors(ppm) if chance.happens(ppm) => {
                let latency = chance.within(0..=3);
                (CallVerdict::Bad, latency, latency)
            }
            Self::FastErrors(_) => well(chance),
            Self::Hangs => {
                (CallVerdict::TimedOut { had_min_time: true }, TIMEOUT_MS, TIMEOUT_MS + DRAIN_MS)
            }
            Self::Hurried => {
                (CallVerdict::TimedOut { had_min_time: false }, TIMEOUT_MS, TIMEOUT_MS + 20)
            }
        }
    }
}

impl GuardScenario {
    /// Steady, without faults: `rates` calls per second wanted by each shard.
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

    /// Calls per second that a shard wants.
    pub fn rate(&self, shard: usize, at_ms: u64) -> u64 {
        let phase = self.demand.iter().rev().find(|phase| phase.from_ms <= at_ms);
        phase.map_or(0, |phase| phase.rates[shard])
    }

    /// How the DSP is.
    pub(super) fn health(&self, at_ms: u64) -> Health {
        let since = self.health.iter().rev().find(|(from, _)| *from <= at_ms);
        since.map_or(Health::Well, |(_, health)| *health)
    }

    /// Whether the operator has paused the DSP.
    pub fn is_paused(&self, at_ms: u64) -> bool {
        self.pauses.iter().any(|(from, until)| (*from..*until).contains(&at_ms))
    }

    /// Whether a shard, or the governor, does nothing.
    pub(super) fn is_stalled(&self, shard: Option<usize>, at_ms: u64) -> bool {
        let covers = |stall: &Stall| (stall.from_ms..stall.until_ms).contains(&at_ms);
        self.stalls.iter().any(|stall| stall.shard == shard && covers(stall))
    }
}
