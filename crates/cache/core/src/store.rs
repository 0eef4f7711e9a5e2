//! What is kept in memory: values by their keys, up to a number of bytes, read by all threads at once.

pub mod directory;
pub mod read_mostly;
mod sieve;
