//! Budgets as they run: the ledger's thread, and its store on disk.
//!
//! [`LedgerStart`] opens the store, begins an epoch and starts the thread that holds the rules' ledger and
//! paces campaigns. Shards have a [`ShardRings`] each, the durable log a [`SettlementFeed`], all others a
//! [`LedgerHandle`]. What may be spent is decided in `pacer_core` alone; nothing here computes money.
//!
//! **The store** keeps leases, definitions and their audit in one file of redb, behind
//! [`pacer_core::store::LeaseStore`]. It owns when something is durable, what is done when a disk
//! fails, and who may open a directory. It knows nothing of budgets. [`DiskStore`] is what others hold; a
//! thread of its own does the work, and takes all that waits into one transaction.
//!
//! In the directory stand `ledger.redb`, `lock` with the process that holds it, and `open` while one
//! does or when it did not end well; `ledger.redb.new` is on its way to take the first one's place.
//! `pacing.states` has what strategies remember, of which nothing is money.
//!
//! **What holds:** a batch that is committed is found by every later start, whole, as long as the
//! medium keeps what it said it kept; one that is not is found whole or not at all. A failed sync is
//! never believed to have kept anything: the file is written anew before the next commit. Damage is
//! found by a checksum of every page at each start, but for the file's first page: a flipped bit
//! there may go unseen, or show the commit before the last.

pub mod api;
mod bug;
mod config;
mod desk;
mod digest;
mod engine;
mod error;
mod feed;
mod handle;
mod keeper;
mod keys;
mod lines;
mod place;
pub mod registry;
mod service;
mod shared;
mod start;
mod states;
mod tables;
#[cfg(test)]
mod tests;
mod thread;
mod watched;
mod zones;

pub use config::BudgetsConfig;
pub use error::StoreOpenError;
pub use feed::SettlementFeed;
pub use handle::{CampaignTerms, DefinitionReport, DeliveryProgress, LedgerError, LedgerHandle};
pub use keys::Keyring;
pub use lines::{HaltFlag, ShardRings};
pub use service::{ExchangeSlot, LEDGER, LedgerPort, LogFeed, PacerService, check_files};
pub use shared::LedgerStatus;
pub use start::{
    LedgerFault, LedgerStart, LedgerStartError, LedgerThread, OpenLedger, StartedLedger,
};
pub use thread::{DiskStore, StoreCounters, StoreOptions};
pub use zones::{ZoneError, Zones};
