//! Machine faults for tests.
//!
//! Owns seeded random choices ([`Chance`]), a disk in memory that loses, tears and fails
//! ([`FaultDisk`]), and processes that are killed ([`process`]). Knows nothing of the code under
//! test, and is part of no binary.

mod chance;
mod disk;
pub mod process;

pub use chance::Chance;
pub use disk::{DiskFaults, FaultDisk, FaultFile, FaultLock};
