//! The services' surroundings: simulated DSPs and origins, realistic traffic, and a load generator. Owns
//! everything that a measurement needs besides the measured system. It shares no protocol code with
//! it, so the same error cannot hide in both, except for the pacer's frames, which clients in other
//! languages check.

pub mod cache;
pub mod draws;
pub mod dsp;
pub mod exchange;
pub mod live;
pub mod load;
pub mod origin;
pub mod pacer;
pub mod provider;
mod scan;
pub mod server;
pub mod traffic;
