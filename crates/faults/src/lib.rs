//! Machine faults for tests.
//!
//! Owns seeded random choices ([`Chance`]), a disk in memory that loses, tears and fails
//! ([`FaultDisk`]), processes that are killed ([`process`]), and a browser that nobody here wrote
//! ([`browser`]). Knows nothing of the code under test, and is part of no binary.

pub mod browser;
mod chance;
mod disk;
pub mod process;

pub use chance::Chance;
pub use disk::{DiskFaults, FaultDisk, FaultFile, FaultLock};
