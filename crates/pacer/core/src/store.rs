//! The ledger's store: batches, definition changes, queries, and the [`LeaseStore`] trait.
//!
//! Owns the idempotence of writes and the fence between epochs. Knows neither disks nor networks,
//! nor what a lease or a definition means. Every engine must pass the suite in `testing::conformance`.
//!
//! **Idempotence.** A lease is named by campaign, period, node and epoch, and its figures only
//! grow. A repeated or outdated batch changes nothing, so a batch of unknown outcome is sent again.
//!
//! **Folds.** Closed leases are summed by day, then by campaign, to bound the store. See [`Fold`].
//!
//! **Holds.** Bids of lots put money on hold, without expiry. See [`StoredHold`].
//!
//! **Epoch lifetimes.** Batches record how long their epoch has lasted, which bounds when earlier epochs
//! ended. See [`EpochLifetime`].
//!
//! **Fence.** A node begins an [`Epoch`] before it writes. From then on the store refuses batches
//! and changes of the node's older epochs, however late they arrive.

mod epoch_lifetime;
mod folds;
mod holds;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fmt;

use units::Nanos;

use crate::calendar::Period;
use crate::messages::{CampaignIndex, Epoch};

pub use epoch_lifetime::EpochLifetime;
pub use folds::{Fold, SpentSum, SumKey, UnattributedWin};
pub use holds::{
    AttemptNumber, BATCH_HOLDS_MAX, ChargeKey, HoldName, HoldState, StoredHold, StoredHoldKey,
};

/// Maximum number of leases in a batch: every campaign, in some periods.
pub const BATCH_LEASES_MAX: usize = 1 << 20;
/// Maximum number of definitions, and of audit entries, in a change.
pub const CHANGE_ITEMS_MAX: usize = 1 << 17;
/// Maximum total bytes of the definitions and audit entries of a change.
pub const CHANGE_BYTES_MAX: usize = 64 << 20;
/// Maximum length of an account's or campaign's identifier, in bytes.
pub const ID_BYTES_MAX: usize = 256;
/// Maximum number of audit entries in one query's result.
pub const AUDIT_ENTRIES_MAX: u32 = 10_000;

/// The name of a lease. Keys sort by declaration order, so a campaign's leases are adjacent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseKey {
    /// The campaign's number in this epoch.
    pub slot: CampaignIndex,
    /// The period in which it may be spent.
    pub period: Period,
    /// The node that holds it.
    pub node: u32,
    /// The node's epoch that leased it.
    pub epoch: Epoch,
}

/// How much was leased, and how it was used. All figures are cumulative and never shrink.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lease {
    /// Leased.
    pub granted: Nanos,
    /// Given back: at most what was granted and not settled.
    pub returned: Nanos,
    /// Spent from the lease: at most what was granted and not returned.
    pub settled: Nanos,
    /// Spent after the reservation had expired, in addition to the lease.
    pub late: Nanos,
    /// Spent above the reserved amount, in addition to the lease.
    pub over: Nanos,
}

impl Lease {
    /// The larger of each figure, in whichever order the two arrived.
    #[must_use]
    pub fn latest(self, other: Self) -> Self {
        Self {
            granted: self.granted.max(other.granted),
            returned: self.returned.max(other.returned),
            settled: self.settled.max(other.settled),
            late: self.late.max(other.late),
            over: self.over.max(other.over),
        }
    }

    /// Whether returned plus settled is at most what was granted.
    pub fn is_balanced(&self) -> bool {
        self.returned.checked_add(self.settled).is_some_and(|gone| gone <= self.granted)
    }
}

/// All changes of a node's leases at one moment. A batch is applied whole or not at all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// Identifies the batch in the answer; ascends within an epoch.
    pub number: u64,
    /// Changed leases, each once.
    pub leases: Vec<(LeaseKey, Lease)>,
    /// Rows to fold into sums, in order, each once. Rows that no longer exist are already folded.
    pub folds: Vec<Fold>,
    /// Wins to add to sums, ascending by log record. Skipped up to the stored `applied_seq`.
    pub strays: Vec<UnattributedWin>,
    /// Changed holds of this node, each once.
    pub holds: Vec<(StoredHoldKey, StoredHold)>,
    /// Ended holds to fold, each once. Rows that no longer exist are already folded.
    pub hold_folds: Vec<StoredHoldKey>,
    /// Sequence number of the last log record whose settlements the leases contain.
    pub applied_seq: u64,
    /// How long the batch's epoch has lasted, and how long its reservations last.
    pub life: EpochLifetime,
    /// First epoch of this node whose lifetime is still needed; older ones may be dropped.
    pub lifetimes_from: Epoch,
}

/// How a batch or a change ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitOutcome {
    /// Durable.
    Committed,
    /// Without effect, now and later.
    Refused,
    /// Possibly durable. A batch may still become so until its node begins another epoch. Sending
    /// it again has the same result.
    Unknown,
}

/// A node in one of its epochs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StoreWriter {
    /// The node.
    pub node: u32,
    /// The epoch that [`LeaseStore::begin`] returned.
    pub epoch: Epoch,
}

/// The kind of a definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum StoredKind {
    /// An account.
    Account = 0,
    /// A campaign.
    Campaign = 1,
}

impl StoredKind {
    /// All kinds.
    pub const ALL: [Self; 2] = [Self::Account, Self::Campaign];

    /// Its name in paths, files and the audit.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Account => "account",
            Self::Campaign => "campaign",
        }
    }
}

/// The name of a definition.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DefinitionKey {
    /// Account or campaign.
    pub kind: StoredKind,
    /// The operator's identifier, at most [`ID_BYTES_MAX`] bytes.
    pub id: String,
}

impl fmt::Display for DefinitionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} `{}`", self.kind.label(), self.id)
    }
}

/// A stored account or campaign.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredDefinition {
    /// Starts at 1 and grows with every change.
    pub version: u64,
    /// The definition, opaque to the store.
    pub body: Vec<u8>,
}

/// A definition to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefinitionPut {
    /// Its name.
    pub key: DefinitionKey,
    /// The version that must be stored before, 0 for none; otherwise the change is a conflict. None
    /// if the newer version wins.
    pub expected: Option<u64>,
    /// The new definition.
    pub definition: StoredDefinition,
}

/// A record of who changed what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditEntry {
    /// Time in milliseconds since 1970.
    pub at_unix_ms: u64,
    /// The record, opaque to the store.
    pub body: Vec<u8>,
}

/// The key of an audit entry. Entries of a node sort by time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AuditKey {
    /// The node.
    pub node: u32,
    /// The node's epoch.
    pub epoch: Epoch,
    /// The number of the change.
    pub number: u64,
    /// Index of the entry within its change, from 0.
    pub index: u32,
}

/// Definitions and their audit entries, applied whole or not at all. Repeating has no effect.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DefinitionChange {
    /// Identifies the change, also in the audit; ascends within an epoch.
    pub number: u64,
    /// Each definition once.
    pub puts: Vec<DefinitionPut>,
    /// Audit entries of this change.
    pub audit: Vec<AuditEntry>,
}

/// Why a store refuses a request, in order of precedence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages name the fields")]
pub enum StoreDenial {
    /// The queue of requests is full.
    #[error("the store has too much to do: ask again once it has answered")]
    Busy,
    /// It breaks a limit or a rule. A retry does not help.
    #[error("{0}")]
    Invalid(&'static str),
    /// The storage underneath fails.
    #[error("the ledger's store {0}")]
    Failing(StoreFault),
    /// The node has begun a later epoch, or never began this one.
    #[error("epoch {} of this node is not its current one, {}: another process has taken over", asked.0, current.0)]
    Fenced { asked: Epoch, current: Epoch },
    /// The batch is older than one of this epoch that folded, so it could restore folded rows.
    #[error("batch {number} is older than batch {folded}, which folded: say it anew")]
    Superseded { number: u64, folded: u64 },
    /// The epoch of a lease never began.
    #[error("a lease of node {} names epoch {}, which never began", .0.node, .0.epoch.0)]
    NeverBegan(LeaseKey),
    /// Returned plus settled would exceed what was granted.
    #[error("more of campaign slot {} would be returned and settled than was granted", .0.slot.0)]
    Unbalanced(LeaseKey),
    /// A lease to be folded has an unspent remainder.
    #[error("a lease of campaign slot {} is not closed: it cannot be folded", .0.slot.0)]
    Open(LeaseKey),
    /// A hold is stored with another end, other terms, or the charge of an earlier attempt.
    #[error("bid {} of lot `{}` has another hold: it ends once", .0.name.bid, .0.name.lot)]
    HoldChanged(StoredHoldKey),
    /// A hold to be folded has not ended.
    #[error("the hold of bid {} of lot `{}` stands: it cannot be folded", .0.name.bid, .0.name.lot)]
    HoldStanding(StoredHoldKey),
    /// A definition is not at the expected version; `present` is 0 if it does not exist.
    #[error("{key} is at version {present}: read it and change that one")]
    Conflict { key: DefinitionKey, present: u64 },
}

/// How the storage fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreFault {
    /// It is full.
    #[error("has no room left: free some; it goes on by itself")]
    DiskFull,
    /// It cannot read or write.
    #[error("cannot be read or written: see to its disk; it goes on by itself")]
    Disk,
    /// It reads something else than it wrote.
    #[error("is damaged: end this process and put back a copy of it")]
    Damaged,
}

/// A node's new epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EpochStart {
    /// The epoch, greater than all before.
    pub epoch: Epoch,
    /// Sequence number of the last record of the node's log whose settlements its leases contain.
    pub applied_seq: u64,
}

/// A read-only query. `None` in place of a node stands for all nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreQuery {
    /// All leases of a node.
    Leases(Option<u32>),
    /// All sums of closed leases of a node. For totals, read the leases first: rows folded between
    /// the two reads would be missed otherwise.
    Sums(Option<u32>),
    /// Epoch lifetimes of a node.
    EpochLifetimes(Option<u32>),
    /// All holds of a node.
    Holds(Option<u32>),
    /// All sums of folded charges of a node. For totals, read the holds first.
    Charges(Option<u32>),
    /// All definitions of a kind.
    Definitions(StoredKind),
    /// At most this many audit entries after a key, or from the first. At most [`AUDIT_ENTRIES_MAX`], and
    /// fewer if they are large; an empty result means the end.
    Audit(Option<AuditKey>, u32),
    /// A node's audit entries before a key, or from the last, newest first; limited likewise.
    AuditBefore(u32, Option<AuditKey>, u32),
}

/// The result of a [`StoreQuery`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueryResult {
    /// In any order.
    Leases(Vec<(LeaseKey, Lease)>),
    /// In any order.
    Sums(Vec<(SumKey, SpentSum)>),
    /// In order.
    EpochLifetimes(Vec<(StoreWriter, EpochLifetime)>),
    /// In order.
    Holds(Vec<(StoredHoldKey, StoredHold)>),
    /// In order.
    Charges(Vec<(ChargeKey, Nanos)>),
    /// Ordered by name.
    Definitions(Vec<(DefinitionKey, StoredDefinition)>),
    /// In the requested order.
    Audit(Vec<(AuditKey, AuditEntry)>),
}

/// The kind of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WriteKind {
    /// A [`Batch`].
    Batch,
    /// A [`DefinitionChange`].
    Change,
}

/// The result of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteOutcome {
    /// The writer.
    pub writer: StoreWriter,
    /// Batch or change.
    pub kind: WriteKind,
    /// Its number.
    pub number: u64,
    /// Its outcome.
    pub ended: CommitOutcome,
    /// Why it was refused. None if it was not refused.
    pub denied: Option<StoreDenial>,
}

/// A store's answer. Each request gets one, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreAnswer {
    /// To [`LeaseStore::begin`]. After an error the epoch may have begun nevertheless.
    Begun {
        /// The node.
        node: u32,
        /// Its new epoch.
        begun: Result<EpochStart, StoreDenial>,
    },
    /// To [`LeaseStore::submit`] and [`LeaseStore::change`].
    Ended(WriteOutcome),
    /// To [`LeaseStore::read`].
    Read(Result<QueryResult, StoreDenial>),
}

/// A request to the store.
#[derive(Clone, Debug)]
pub enum StoreRequest {
    /// Begins an epoch of a node durably and fences off all earlier ones. The epoch follows the
    /// last one, or is the given one if that is later. A caller that derives epochs from a clock
    /// never begins one twice, even after an old copy of the store was restored.
    Begin(u32, Epoch),
    /// Writes leases. Once committed, their figures are at least those of the batch.
    Submit(StoreWriter, Batch),
    /// Writes definitions and audit entries.
    Change(StoreWriter, DefinitionChange),
    /// Runs a query. Its result contains every write that was reported as committed before.
    Read(StoreQuery),
}

impl StoreRequest {
    /// The answer to this request with the given outcome; `denied` says why it was refused.
    pub fn answer(&self, ended: CommitOutcome, denied: Option<StoreDenial>) -> StoreAnswer {
        let (writer, kind, number) = match self {
            Self::Submit(writer, batch) => (*writer, WriteKind::Batch, batch.number),
            Self::Change(writer, change) => (*writer, WriteKind::Change, change.number),
            Self::Begin(node, _) => {
                let begun = Err(denied.unwrap_or(StoreDenial::Failing(StoreFault::Disk)));
                return StoreAnswer::Begun { node: *node, begun };
            }
            Self::Read(_) => {
                return StoreAnswer::Read(Err(
                    denied.unwrap_or(StoreDenial::Failing(StoreFault::Disk))
                ));
            }
        };
        StoreAnswer::Ended(WriteOutcome { writer, kind, number, ended, denied })
    }
}

/// A store of leases. It accepts requests, works on its own, and answers polls. Nothing blocks.
pub trait LeaseStore {
    /// Sends a request.
    fn ask(&mut self, request: StoreRequest);

    /// The next answer. None until one arrives.
    fn poll(&mut self) -> Option<StoreAnswer>;

    /// See [`StoreRequest::Begin`].
    fn begin(&mut self, node: u32, least: Epoch) {
        self.ask(StoreRequest::Begin(node, least));
    }

    /// See [`StoreRequest::Submit`].
    fn submit(&mut self, writer: StoreWriter, batch: Batch) {
        self.ask(StoreRequest::Submit(writer, batch));
    }

    /// See [`StoreRequest::Change`].
    fn change(&mut self, writer: StoreWriter, change: DefinitionChange) {
        self.ask(StoreRequest::Change(writer, change));
    }

    /// See [`StoreRequest::Read`].
    fn read(&mut self, query: StoreQuery) {
        self.ask(StoreRequest::Read(query));
    }
}

impl Batch {
    /// Checks the limits and rules that every store relies on.
    ///
    /// # Errors
    /// [`StoreDenial::Invalid`].
    pub fn check(&self) -> Result<(), StoreDenial> {
        if self.leases.len() > BATCH_LEASES_MAX {
            return Err(StoreDenial::Invalid("a batch has more than a million leases: divide it"));
        }
        let names: BTreeSet<_> = self.leases.iter().map(|(key, _)| key).collect();
        if names.len() < self.leases.len() {
            return Err(StoreDenial::Invalid("a batch names a lease twice: say what it is once"));
        }
        if self.folds.len() > BATCH_LEASES_MAX {
            return Err(StoreDenial::Invalid("a batch has more than a million folds: divide it"));
        }
        let folds: BTreeSet<_> = self.folds.iter().collect();
        if folds.len() < self.folds.len() {
            return Err(StoreDenial::Invalid("a batch folds the same twice: name it once"));
        }
        if self.strays.len() > BATCH_LEASES_MAX {
            return Err(StoreDenial::Invalid("a batch has more than a million strays: divide it"));
        }
        let is_ordered = self.strays.is_sorted_by(|one, next| one.seq < next.seq);
        if !is_ordered || self.strays.last().is_some_and(|last| self.applied_seq < last.seq) {
            return Err(StoreDenial::Invalid(
                "strays are not those of applied records, in their order",
            ));
        }
        self.check_holds()
    }

    fn check_holds(&self) -> Result<(), StoreDenial> {
        if self.holds.len().max(self.hold_folds.len()) > BATCH_HOLDS_MAX {
            return Err(StoreDenial::Invalid("a batch has more than a million holds: divide it"));
        }
        let names: BTreeSet<_> = self.holds.iter().map(|(key, _)| key).collect();
        let folds: BTreeSet<_> = self.hold_folds.iter().collect();
        if names.len() < self.holds.len() || folds.len() < self.hold_folds.len() {
            return Err(StoreDenial::Invalid("a batch names a hold twice: say what it is once"));
        }
        Ok(())
    }

    /// Whether it moves rows into sums: then older batches of its epoch are refused.
    pub fn has_folds(&self) -> bool {
        !self.folds.is_empty() || !self.hold_folds.is_empty()
    }
}

impl DefinitionChange {
    /// Checks the limits and rules that every store relies on.
    ///
    /// # Errors
    /// [`StoreDenial::Invalid`].
    pub fn check(&self) -> Result<(), StoreDenial> {
        let invalid = |what| Err(StoreDenial::Invalid(what));
        if self.puts.len().max(self.audit.len()) > CHANGE_ITEMS_MAX {
            return invalid("a change has more than 131072 definitions or entries: divide it");
        }
        let bodies = self.puts.iter().map(|put| put.definition.body.len());
        let bytes: usize = bodies.chain(self.audit.iter().map(|entry| entry.body.len())).sum();
        if bytes > CHANGE_BYTES_MAX {
            return invalid("a change has more than 64 MiB: divide it");
        }
        if self.puts.iter().any(|put| !(1..=ID_BYTES_MAX).contains(&put.key.id.len())) {
            return invalid("an identifier is empty or longer than 256 bytes: shorten it");
        }
        let grows = |put: &DefinitionPut| put.definition.version > put.expected.unwrap_or(0);
        if !self.puts.iter().all(grows) {
            return invalid("a version is not above the expected one, or 0: count up from 1");
        }
        let names: BTreeSet<_> = self.puts.iter().map(|put| &put.key).collect();
        if names.len() < self.puts.len() {
            return invalid("a change names a definition twice: say what it is once");
        }
        Ok(())
    }
}

impl DefinitionPut {
    /// Whether to write over `present`: false if the same or a newer definition is stored.
    ///
    /// # Errors
    /// [`StoreDenial::Conflict`].
    pub fn writes_over(&self, present: Option<(u64, &[u8])>) -> Result<bool, StoreDenial> {
        let version = present.map_or(0, |(version, _)| version);
        let is_there = present == Some((self.definition.version, &self.definition.body[..]));
        match self.expected {
            None => Ok(self.definition.version > version),
            Some(expected) if expected == version => Ok(true),
            Some(_) if is_there => Ok(false),
            Some(_) => Err(StoreDenial::Conflict { key: self.key.clone(), present: version }),
        }
    }
}
