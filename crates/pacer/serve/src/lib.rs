//! The ledger's thread, its store on disk, and the registry of accounts and campaigns.
//!
//! [`LedgerStart`] opens the store, begins an epoch and starts the thread that runs the ledger and
//! paces campaigns. Each shard has a [`ShardRings`], the durable log a [`SettlementFeed`], everyone
//! else a [`LedgerHandle`]. Only `pacer_core` decides what may be spent; nothing here computes
//! money.
//!
//! **The store** keeps leases, definitions and their audit in one redb file, as a
//! [`pacer_core::store::LeaseStore`]. It owns durability, recovery of a failed disk, and the lock
//! of the directory; it knows nothing of budgets. [`DiskStore`] sends requests to its own thread,
//! which serves all that wait in one transaction.
//!
//! The directory has `ledger.redb`, `lock` with the process that holds it, `open` while a process
//! runs or after an unclean end, `ledger.redb.new` while it is written to replace the first, and
//! `pacing.states` with strategies' states, none of which is money.
//!
//! **Invariant:** every later start finds a committed batch whole, as long as the medium keeps what
//! it acknowledged, and any other batch whole or not at all. A failed sync is never trusted: the
//! file is written anew before the next commit. Each start verifies every page's checksum, except
//! the first page's: a flipped bit there may go unnoticed, or show the commit before the last.

pub mod api;
mod config;
mod keys;
mod ledger;
pub mod registry;
mod service;
mod store;
pub mod wire;

pub use config::{BudgetsConfig, Spender};
pub use keys::Keyring;
pub use ledger::feed::{SettledReservation, SettlementFeed};
pub use ledger::handle::{
    DefinitionReport, DeliveryProgress, LedgerError, LedgerHandle, NamedAccount, PacedCampaign,
};
pub use ledger::hold_port::LedgerHoldPort;
pub use ledger::rings::{HaltFlag, ShardRings};
pub use ledger::start::{LedgerStart, LedgerStartError, LedgerThread, OpenLedger, StartedLedger};
pub use ledger::status::LedgerStatus;
pub use ledger::turn::LedgerFault;
pub use ledger::zones::{ZoneError, Zones};
pub use service::{
    BIDDER_LEDGER, BudgetsService, LEDGER, LEDGER_HOLDS, LedgerPort, LotCampaigns,
    PublishedCatalogues, check_files,
};
pub use store::error::StoreOpenError;
pub use store::thread::{DiskStore, StoreCounters, StoreOptions};
