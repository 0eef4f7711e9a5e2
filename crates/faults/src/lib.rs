//! What goes wrong with machines, for the tests of whatever must stand it.
//!
//! Owns chance by a seed ([`Chance`]), a disk in memory that loses, tears and fails ([`FaultDisk`]),
//! processes that are killed ([`process`]), and the switch by which tests plant a mistake
//! ([`plantable!`]). Knows nothing of what is tested, and is part of no binary.

mod chance;
mod disk;
mod plantable;
pub mod process;

pub use chance::Chance;
pub use disk::{DiskFaults, FaultDisk, FaultFile, FaultLock};
