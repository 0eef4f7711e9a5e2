//! A governor and its shards, simulated: messages that are late, lost, repeated and overtaken;
//! demand that moves; shards and a governor that stall; a DSP that falls ill and recovers.
//!
//! [`GuardScenario`] says what happens, [`run`] lets it happen, [`checks`] say what must hold of the
//! [`GuardTrace`]. [`GuardBug`]s are planted to prove that the checks can fail.

mod bug;
pub mod checks;
mod network;
mod scenario;
mod world;

pub use bug::GuardBug;
pub use network::NetworkFaults;
pub use scenario::{GuardScenario, Health, ScenarioPhase, Stall};
pub use world::{GuardTrace, run};
