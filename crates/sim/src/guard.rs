//! Simulation of a governor and its shards under faults: late, lost, repeated and overtaken
//! messages, moving demand, stalled shards, a stalled governor, a DSP that fails and recovers.
//!
//! [`GuardScenario`] describes a run, [`run`] executes it, and [`checks`] judge the resulting
//! [`GuardTrace`]. Planted [`GuardBug`]s prove that the checks can fail.

mod bug;
pub mod checks;
mod network;
mod scenario;
mod world;

pub use bug::GuardBug;
pub use network::NetworkFaults;
pub use scenario::{GuardScenario, Health, ScenarioPhase, Stall};
pub use world::{GuardTrace, run};
