//! What the ledger asks of whatever keeps its leases: the words of it, and one trait.
//!
//! Owns what a batch is, when two of them are the same, and who may still write. Knows neither disks
//! nor networks, nor what a lease or a definition means to whoever wrote it. Any engine behind
//! [`LeaseStore`] passes the suite in `conformance`.
//!
//! **Idempotence.** A lease is named by campaign, period, node and epoch, and its figures only grow:
//! a batch that comes twice, or behind a later one, changes nothing. So whoever does not know how a
//! batch ended asks again.
//!
//! **Folds.** Rows of leases that are closed are moved into sums by day, and these into one by
//! campaign, so that a store does not grow with the hours that pass. See [`Fold`].
//!
//! **Lives.** Each batch says how long its epoch has lasted, so that a later start knows how long ago
//! an earlier epoch ended at the least. See [`EpochLifetime`].
//!
//! **Fence.** A node begins an [`Epoch`] before it writes; from then on batches and changes of its
//! older epochs are refused, whoever sends them and however late they come.

#[cfg(any(test, feature = "testing"))]
mod bug;
#[cfg(any(test, feature = "testing"))]
pub mod conformance;
#[cfg(any(test, feature = "testing"))]
mod contents;
mod folds;
mod lives;
#[cfg(any(test, feature = "testing"))]
mod memory;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fmt;

use units::Nanos;

use crate::calendar::Period;
use crate::messages::{CampaignIndex, Epoch};

#[cfg(any(test, feature = "testing"))]
pub use bug::StoreBug;
pub use folds::{Fold, SpentSum, SumKey, UnattributedWin};
pub use lives::EpochLifetime;
#[cfg(any(test, feature = "testing"))]
pub use memory::{MemoryFaults, MemoryStore};

/// The most leases of a batch: every campaign that there may be, in some periods.
pub const BATCH_LEASES_MAX: usize = 1 << 20;
/// The most definitions, and the most audit entries, of a change.
pub const CHANGE_ITEMS_MAX: usize = 1 << 17;
/// The most bytes of all definitions and audit entries of a change.
pub const CHANGE_BYTES_MAX: usize = 64 << 20;
/// The longest identifier of an account or a campaign.
pub const ID_BYTES_MAX: usize = 256;
/// The most audit entries that one query gives.
pub const AUDIT_MOST: u32 = 10_000;

/// What a lease is of. In order of declaration they are ordered, so that those of a campaign stand
/// together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseKey {
    /// The campaign, as the node numbers it in this epoch.
    pub slot: CampaignIndex,
    /// When it may be spent.
    pub period: Period,
    /// Whose it is.
    pub node: u32,
    /// In which of the node's lives it was granted.
    pub epoch: Epoch,
}

/// How much was leased, and what became of it. All cumulative: none ever shrinks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lease {
    /// Leased.
    pub granted: Nanos,
    /// Given back, at most what was granted and not settled.
    pub returned: Nanos,
    /// Spent out of it, at most what was granted and not returned.
    pub settled: Nanos,
    /// Spent after the reservation had expired: not out of it.
    pub late: Nanos,
    /// Spent above what was reserved: not out of it.
    pub over: Nanos,
}

impl Lease {
    /// The later of both, figure by figure, whichever came first.
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

    /// Whether no more is returned and settled than was granted.
    pub fn is_balanced(&self) -> bool {
        self.returned.checked_add(self.settled).is_some_and(|gone| gone <= self.granted)
    }
}

/// All that a node has to say of its leases at one moment: applied whole, or not at all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// Names it in the answer; ascends in an epoch.
    pub number: u64,
    /// What changed, each lease once.
    pub leases: Vec<(LeaseKey, Lease)>,
    /// What is moved into sums then, in order, each once. What does not stand there is moved already.
    pub folds: Vec<Fold>,
    /// What counts in sums then, by record, in their order; what was applied before counts already.
    pub strays: Vec<UnattributedWin>,
    /// Up to which record of the node's durable log settlements are in the leases.
    pub applied_seq: u64,
    /// How long its epoch has lasted by now, and how long its reservations last.
    pub life: EpochLifetime,
    /// Lives of the node's epochs before this one are needed no more.
    pub lives_from: Epoch,
}

/// How a batch or a change ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitOutcome {
    /// It is durable.
    Committed,
    /// It has changed nothing, and will not.
    Refused,
    /// It may be durable. A batch may even become so later: until its node begins another epoch.
    /// Asked again it ends as it would have.
    Unknown,
}

/// Who writes: a node, in one of its lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StoreWriter {
    /// The node.
    pub node: u32,
    /// As [`LeaseStore::begin`] gave it.
    pub epoch: Epoch,
}

/// What is defined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum StoredKind {
    /// Who pays.
    Account = 0,
    /// What is paid for.
    Campaign = 1,
}

impl StoredKind {
    /// All there are.
    pub const ALL: [Self; 2] = [Self::Account, Self::Campaign];

    /// As paths, files and the audit have it.
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
    /// Of what.
    pub kind: StoredKind,
    /// As operators name it; at most [`ID_BYTES_MAX`].
    pub id: String,
}

impl fmt::Display for DefinitionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} `{}`", self.kind.label(), self.id)
    }
}

/// An account or a campaign, as somebody defined it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredDefinition {
    /// Grows with every change, from 1.
    pub version: u64,
    /// What it says; nothing that a store looks into.
    pub body: Vec<u8>,
}

/// A definition to be kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefinitionPut {
    /// Its name.
    pub key: DefinitionKey,
    /// The version that must stand there before, 0 for none: else the whole change is a conflict.
    /// `None`: the newer one stands, and an older one changes nothing.
    pub expected: Option<u64>,
    /// What is to stand there.
    pub definition: StoredDefinition,
}

/// Who did what, for whoever asks later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditEntry {
    /// When, in milliseconds since 1970.
    pub at_unix_ms: u64,
    /// What; nothing that a store looks into.
    pub body: Vec<u8>,
}

/// Where an audit entry stands. Those of a node are in order of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AuditKey {
    /// Whose.
    pub node: u32,
    /// In which of its lives.
    pub epoch: Epoch,
    /// Of which change.
    pub number: u64,
    /// Which of that change's entries, from 0.
    pub index: u32,
}

/// Definitions and what is to be remembered of their change: applied whole, or not at all. The same
/// one again changes nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DefinitionChange {
    /// Names it, also in the audit; ascends in an epoch.
    pub number: u64,
    /// Each definition once.
    pub puts: Vec<DefinitionPut>,
    /// What is remembered of it.
    pub audit: Vec<AuditEntry>,
}

/// Why a store has not done what it was asked. In order of precedence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreDenial {
    /// As many requests wait as may.
    #[error("the store has too much to do: ask again once it has answered")]
    Busy,
    /// It breaks a limit or a rule, whoever sent it; asking again does not help.
    #[error("{0}")]
    Invalid(&'static str),
    /// What is underneath does not work.
    #[error("the ledger's store {0}")]
    Failing(StoreFault),
    /// The node has begun a later epoch, or not this one.
    #[error("epoch {} of this node is not its current one, {}: another process has taken over", asked.0, current.0)]
    Fenced {
        /// The one that was to write.
        asked: Epoch,
        /// The one that may.
        current: Epoch,
    },
    /// An older batch of this epoch than one that folded: it might bring back what is gone.
    #[error("batch {number} is older than batch {folded}, which folded: say it anew")]
    Superseded {
        /// Of the batch.
        number: u64,
        /// Of the last that folded.
        folded: u64,
    },
    /// A lease of an epoch that never began.
    #[error("a lease of node {} names epoch {}, which never began", .0.node, .0.epoch.0)]
    NeverBegan(LeaseKey),
    /// More would be returned and settled than granted.
    #[error("more of campaign slot {} would be returned and settled than was granted", .0.slot.0)]
    Unbalanced(LeaseKey),
    /// A lease that is to be folded has something left.
    #[error("a lease of campaign slot {} is not closed: it cannot be folded", .0.slot.0)]
    Open(LeaseKey),
    /// A definition does not stand where it was expected to.
    #[error("{key} is at version {present}: read it and change that one")]
    Conflict {
        /// Which.
        key: DefinitionKey,
        /// Its present version, 0 if it does not exist.
        present: u64,
    },
}

/// What does not work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreFault {
    /// There is no room.
    #[error("has no room left: free some; it goes on by itself")]
    DiskFull,
    /// It does not read or write.
    #[error("cannot be read or written: see to its disk; it goes on by itself")]
    Disk,
    /// What it reads is not what it wrote.
    #[error("is damaged: end this process and put back a copy of it")]
    Damaged,
}

/// A node's new life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EpochStart {
    /// Its epoch, greater than all before.
    pub epoch: Epoch,
    /// Up to which record of the node's log settlements are in its leases.
    pub applied_seq: u64,
}

/// What may be asked without changing anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreQuery {
    /// All leases, of one node or of all.
    Leases(Option<u32>),
    /// All sums of closed leases, of one node or of all. What another node folds between the two reads
    /// must not be missed by whoever adds both up: leases are read first.
    Sums(Option<u32>),
    /// Lives of epochs, of one node or of all.
    Lives(Option<u32>),
    /// All definitions of a kind.
    Definitions(StoredKind),
    /// Audit entries behind one, or from the first: so many, at most [`AUDIT_MOST`], and fewer where they
    /// are large; none behind the last.
    Audit(Option<AuditKey>, u32),
    /// A node's audit entries before one, or from the last: backwards, and as many.
    AuditBefore(u32, Option<AuditKey>, u32),
}

/// What was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueryResult {
    /// In any order.
    Leases(Vec<(LeaseKey, Lease)>),
    /// In any order.
    Sums(Vec<(SumKey, SpentSum)>),
    /// In order.
    Lives(Vec<(StoreWriter, EpochLifetime)>),
    /// In order of their names.
    Definitions(Vec<(DefinitionKey, StoredDefinition)>),
    /// In the order that was asked for.
    Audit(Vec<(AuditKey, AuditEntry)>),
}

/// What a writer sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WriteKind {
    /// A [`Batch`].
    Batch,
    /// A [`DefinitionChange`].
    Change,
}

/// How it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteOutcome {
    /// Whose.
    pub writer: StoreWriter,
    /// What.
    pub sent: WriteKind,
    /// Which of them.
    pub number: u64,
    /// How.
    pub ended: CommitOutcome,
    /// Why it was refused, if it was.
    pub denied: Option<StoreDenial>,
}

/// What a store says. Answers come in the order of what was asked, one for each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreAnswer {
    /// To [`LeaseStore::begin`]. After an error an epoch may have begun all the same.
    Begun {
        /// Whose life.
        node: u32,
        /// Its epoch.
        begun: Result<EpochStart, StoreDenial>,
    },
    /// To [`LeaseStore::submit`] and [`LeaseStore::change`].
    Ended(WriteOutcome),
    /// To [`LeaseStore::read`].
    Read(Result<QueryResult, StoreDenial>),
}

/// What a store is asked.
#[derive(Clone, Debug)]
pub enum StoreRequest {
    /// Begins an epoch of a node, durably, and fences off all before: the one behind the last, or the
    /// one given if that is later. Whoever asks by a clock never begins one twice, even where an old copy
    /// of the store was put back.
    Begin(u32, Epoch),
    /// Keeps leases: those in the batch are at least what it says, once it is committed.
    Submit(StoreWriter, Batch),
    /// Keeps definitions and audit entries.
    Change(StoreWriter, DefinitionChange),
    /// Looks something up: all that was answered as committed before is in it.
    Read(StoreQuery),
}

impl StoreRequest {
    /// What is answered to it if it ended so; `denied` says why it was refused.
    pub fn answer(&self, ended: CommitOutcome, denied: Option<StoreDenial>) -> StoreAnswer {
        let (writer, sent, number) = match self {
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
        StoreAnswer::Ended(WriteOutcome { writer, sent, number, ended, denied })
    }
}

/// Whatever keeps leases. It is asked, goes on by itself, and answers when it is polled; nothing
/// here waits.
pub trait LeaseStore {
    /// Asks it something.
    fn ask(&mut self, request: StoreRequest);

    /// The next answer, if there is one.
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
    /// Whether it keeps to what any store may rely on.
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
        Ok(())
    }
}

impl DefinitionChange {
    /// Whether it keeps to what any store may rely on.
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
    /// Whether it is to be written where `present` stands: not if it is there already, or a newer
    /// one is.
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
