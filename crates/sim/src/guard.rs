//! A governor and its shards, simulated: messages that are late, lost, repeated and overtaken;
//! demand that moves; shards and a governor that stall; a DSP that falls ill and recovers.
//!
//! [`Setup`] says what happens, [`run`] lets it happen, [`checks`] say what must hold of the
//! [`Trace`]. [`Bug`]s are planted to prove that the checks can fail.

mod bug;
pub mod checks;
mod network;
mod scenario;
mod world;

pub use bug::Bug;
pub use network::Faults;
pub use scenario::{Health, Phase, Setup, Stall};
pub use world::{Trace, run};
