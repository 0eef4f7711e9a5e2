//! Simulation of a governor and its shards under faults: late, lost, repeated and overtaken
//! messages, moving demand, stalled shards, a stalled governor, a DSP that fails and recovers.
//!
//! [`GuardScenario`] describes a run, [`run`] executes it, and [`checks`] judge the resulting
//! [`GuardTrace`].

pub mod checks;
mod network;
mod scenario;
mod world;

pub use network::NetworkFaults;
pub use scenario::{GuardScenario, Health, ScenarioPhase, Stall};
pub use world::{GuardTrace, run};
