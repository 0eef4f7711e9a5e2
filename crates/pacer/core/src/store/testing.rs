//! For tests: a store in memory, and the suite that every store passes.

pub mod conformance;
mod contents;
mod memory;

pub use memory::{MemoryFaults, MemoryStore};
