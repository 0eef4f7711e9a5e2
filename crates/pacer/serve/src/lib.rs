//! The ledger on disk: leases, definitions and their audit in one file of redb, behind
//! [`pacer_core::store::LeaseStore`].
//!
//! Owns when something is durable, what is done when a disk fails, and who may open a directory.
//! Knows nothing of budgets. [`Store`] is what others hold; a thread of its own does the work, and
//! takes all that waits into one transaction.
//!
//! In the directory stand `ledger.redb`, `lock` with the process that holds it, and `open` while one
//! does or when it did not end well; `ledger.redb.new` is on its way to take the first one's place.
//!
//! **What holds:** a batch that is committed is found by every later start, whole, as long as the
//! medium keeps what it said it kept; one that is not is found whole or not at all. A failed sync is
//! never believed to have kept anything: the file is written anew before the next commit. Damage is
//! found by a checksum of every page at each start, but for the file's first page: a flipped bit
//! there may go unseen, or show the commit before the last.

mod bug;
mod engine;
mod error;
mod place;
mod tables;
#[cfg(test)]
mod tests;
mod thread;
mod watched;

pub use error::OpenError;
pub use thread::{Counters, Options, Store};
