//! Inputs and outputs of a step of the ledger.

mod holds;

use std::sync::Arc;

use units::{Currency, Nanos, Tick};

use super::limits::definition::{AccountId, AccountTerms, CampaignTerms, DefinitionError, ZoneId};
use crate::calendar::Calendar;
use crate::messages::{
    BudgetGrant, CampaignIndex, Receipt, RefillRequest, SpendReport, SpendingGate,
};
use crate::store::{Batch, CommitOutcome, LeaseKey};

pub use holds::{HoldAnswer, HoldDenial, HoldInput, HoldOutcome, HoldPlacement};

/// The time on both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LedgerTime {
    /// The monotonic clock.
    pub tick: Tick,
    /// The wall clock, in milliseconds since 1970, UTC. If it goes back, the ledger stays at its
    /// latest time: a period that is over never opens again.
    pub unix_ms: u64,
}

/// A settlement of the durable log, of any epoch, in the log's order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SettlementRecord {
    /// Sequence number of the log record. The ledger skips records up to the last that an earlier
    /// step applied. All settlements of one record belong in one step.
    pub seq: u64,
    /// The lease that the reservation's token names.
    pub key: LeaseKey,
    /// Paid from the lease. The part that exceeds the lease's remainder is late.
    pub settled: Nanos,
    /// Paid late: see [`is_lateness_recorded`](super::LedgerSettings::is_lateness_recorded).
    pub late: Nanos,
    /// Paid above the reservation.
    pub over: Nanos,
    /// The currency of all three.
    pub currency: Currency,
}

/// An event for the ledger.
#[derive(Clone, Debug)]
pub enum LedgerInput {
    /// The hours of a zone, from at most a day ago. A later table must agree on begun hours.
    Calendar(ZoneId, Calendar),
    /// An account, new or changed.
    Account(AccountTerms),
    /// The permanent identifier of an account, before or with its definition: holds name it.
    AccountName(AccountId, Arc<str>),
    /// A campaign, new or changed, possibly before its account. While a lease waits for its
    /// campaign nothing is leased to any, because the lease's account is unknown.
    Campaign(CampaignTerms),
    /// From a shard.
    Report(u16, SpendReport),
    /// From a shard.
    Refill(u16, RefillRequest),
    /// From a shard that takes no more grants, after all its reports.
    Receipt(u16, Receipt),
    /// From a shard that has ended and sent everything.
    ShardClosed(u16),
    /// Shutdown: leasing and granting end, and what no shard has is returned.
    Close,
    /// From the store: the outcome of the batch of this number.
    Ended(u64, CommitOutcome),
    /// From the durable log.
    Settlement(SettlementRecord),
    /// From the owner of lots.
    Hold(HoldInput),
    /// From the durable log: all settlements up to this record have been sent.
    Logged(u64),
    /// The whole durable log, records since the start included, and every account and campaign have
    /// been sent. Leasing begins only then, because sums would be incomplete. What comes after the
    /// horizon is late.
    Replayed,
}

/// The result of a definition or a settlement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LedgerReply {
    /// An account's definition is accepted or rejected.
    Account(AccountId, Result<AcceptedDefinition, DefinitionError>),
    /// A campaign's definition is accepted or rejected.
    Campaign(CampaignIndex, Result<AcceptedDefinition, DefinitionError>),
    /// A calendar is rejected, because it contradicts the previous one.
    CalendarContradicts(ZoneId),
    /// A settlement is rejected, because its currency is not the account's.
    SettlementMixed(u64),
}

/// An accepted definition, including a repeated one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AcceptedDefinition {
    /// Whether it is newer than the known one.
    pub is_newer: bool,
    /// The largest excess of exposure over a limit. Nothing is granted until it is gone.
    pub excess: Nanos,
}

/// The ledger's messages; the reader clears them. A shard must get its gates before its grants.
#[derive(Clone, Debug, Default)]
pub struct LedgerOutbox {
    /// For the store; the next follows after its outcome.
    pub batch: Option<Batch>,
    /// By shard.
    pub grants: Vec<(u16, BudgetGrant)>,
    /// By shard.
    pub gates: Vec<(u16, SpendingGate)>,
    /// For the source of definitions.
    pub notices: Vec<LedgerReply>,
    /// For the owner of lots.
    pub holds: Vec<HoldAnswer>,
}

impl LedgerOutbox {
    /// Empties it for the next step; what it allocated stays.
    pub fn clear(&mut self) {
        self.batch = None;
        self.grants.clear();
        self.gates.clear();
        self.notices.clear();
        self.holds.clear();
    }
}
