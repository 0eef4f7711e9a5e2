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
mod config;
mod keys;
mod ledger;
pub mod registry;
mod service;
mod store;

pub use config::BudgetsConfig;
pub use keys::Keyring;
pub use ledger::feed::SettlementFeed;
pub use ledger::handle::{
    CampaignTerms, DefinitionReport, DeliveryProgress, LedgerError, LedgerHandle,
};
pub use ledger::rings::{HaltFlag, ShardRings};
pub use ledger::start::{LedgerStart, LedgerStartError, LedgerThread, OpenLedger, StartedLedger};
pub use ledger::status::LedgerStatus;
pub use ledger::turn::LedgerFault;
pub use ledger::zones::{ZoneError, Zones};
pub use service::{ExchangeSlot, LEDGER, LedgerPort, LogFeed, PacerService, check_files};
pub use store::error::StoreOpenError;
pub use store::thread::{DiskStore, StoreCounters, StoreOptions};
