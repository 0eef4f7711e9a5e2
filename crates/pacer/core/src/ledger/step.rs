//! What a step of the ledger is told, and what it tells.

use units::{Currency, Nanos, Tick};

use super::limits::definition::{
    AccountDefinition, AccountId, CampaignDefinition, DefinitionError, ZoneId,
};
use crate::calendar::Calendar;
use crate::messages::{
    BudgetGrant, CampaignIndex, Receipt, RefillRequest, SpendReport, SpendingGate,
};
use crate::store::{Batch, CommitOutcome, LeaseKey};

/// The time by both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LedgerTime {
    /// By the clock that never goes back.
    pub tick: Tick,
    /// By the clock on the wall, in milliseconds since 1970, UTC. Where it goes back the ledger stays
    /// at the latest that it has seen: a period that is over is never opened again.
    pub unix_ms: u64,
}

/// A record of the durable log that settles. Of any epoch; in the log's order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SettlementRecord {
    /// The record's number. What is not larger than the last was applied before.
    pub seq: u64,
    /// What the reservation's token says.
    pub key: LeaseKey,
    /// Out of the lease. What the lease has no room for any more is late.
    pub settled: Nanos,
    /// After the reservation had expired: see [`is_late_told`](super::LedgerSettings::is_late_told).
    pub late: Nanos,
    /// Above what was reserved.
    pub over: Nanos,
    /// Of all three.
    pub currency: Currency,
}

/// What a ledger is told.
#[derive(Clone, Debug)]
pub enum LedgerInput {
    /// The hours of a zone, from a day before now at the latest. A later table agrees on the hours
    /// that have begun, or are about to.
    Calendar(ZoneId, Calendar),
    /// An account, new or changed.
    Account(AccountDefinition),
    /// A campaign, new or changed. It may come before its account. As long as a lease waits for its
    /// campaign nothing is leased to any: nobody knows of which account it is.
    Campaign(CampaignDefinition),
    /// From a shard.
    Report(u16, SpendReport),
    /// From a shard.
    Want(u16, RefillRequest),
    /// From a shard that takes no more: behind all its reports.
    Receipt(u16, Receipt),
    /// From a shard: it has ended, and has said all.
    ShardClosed(u16),
    /// The process ends: nothing is leased or granted from now on, and what no shard holds goes back.
    Close,
    /// From the store: how the batch of this number ended.
    Ended(u64, CommitOutcome),
    /// From the durable log.
    Settlement(SettlementRecord),
    /// From the durable log: up to this record all settlements have been told.
    Logged(u64),
    /// From the durable log: all that is in it has been told, what came since the process started
    /// included, and so has every account and campaign that there is. Nothing is leased before: sums
    /// would lack something. What comes after the horizon is late.
    Replayed,
}

/// What became of a definition or a settlement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LedgerReply {
    /// An account holds as defined. By how much a limit of it is exceeded: nothing is granted until
    /// that has gone down.
    Account(AccountId, Result<AcceptedDefinition, DefinitionError>),
    /// A campaign holds as defined.
    Campaign(CampaignIndex, Result<AcceptedDefinition, DefinitionError>),
    /// A calendar is not taken: it says other hours than the one before.
    CalendarContradicts(ZoneId),
    /// A settlement is refused: its currency is not its account's.
    SettlementMixed(u64),
}

/// A definition that was taken, or was taken before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AcceptedDefinition {
    /// Whether it is newer than what was known.
    pub is_newer: bool,
    /// The most by which exposure exceeds a limit of it.
    pub excess: Nanos,
}

/// What a ledger tells. Who reads it clears it. A shard takes its gates first: what it is granted
/// while it is recalled it sends back.
#[derive(Clone, Debug, Default)]
pub struct LedgerOutbox {
    /// For the store; the next one comes when this one has ended.
    pub batch: Option<Batch>,
    /// By shard.
    pub grants: Vec<(u16, BudgetGrant)>,
    /// By shard.
    pub gates: Vec<(u16, SpendingGate)>,
    /// For whoever defines.
    pub notices: Vec<LedgerReply>,
}

impl LedgerOutbox {
    /// Empties it.
    pub fn clear(&mut self) {
        self.batch = None;
        self.grants.clear();
        self.gates.clear();
        self.notices.clear();
    }
}
