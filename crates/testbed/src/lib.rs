//! The exchange's surroundings: simulated DSPs, realistic traffic, and a load generator. Owns
//! everything that a measurement needs besides the measured system, and shares no protocol code
//! with it, so the same error cannot hide in both.

pub mod draws;
pub mod dsp;
pub mod exchange;
pub mod load;
mod scan;
pub mod server;
pub mod traffic;
