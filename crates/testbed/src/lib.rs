//! The other side of the exchange: simulated DSPs, realistic traffic, and a load generator.
//! Owns everything a measurement needs besides the system measured, and shares none of its
//! protocol code, so that an error in one is not hidden by the same error in the other.

pub mod draws;
pub mod dsp;
pub mod exchange;
pub mod load;
mod scan;
pub mod server;
pub mod traffic;
