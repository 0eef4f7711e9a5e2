//! What is kept in memory: responses by their keys, up to a number of bytes, read by all threads at once.

pub mod answer;
pub mod directory;
pub mod encoded;
pub mod head;
pub mod history;
pub mod hot;
pub mod purges;
pub mod read_mostly;
pub mod response;
mod sieve;
pub mod wire;
