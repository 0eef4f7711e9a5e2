//! Why a change was refused, or a registry has not started: enums in order of precedence.

use std::path::PathBuf;

use pacer_core::store::StoredKind;
use runtime::config::ConfigProblem;

use crate::ledger::handle::LedgerError;

/// Why a change was refused. Nothing has changed then.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages name the fields")]
pub enum ChangeRefusal {
    /// No definition has that id.
    #[error("no {} has the id `{id}`: GET /v1/{}s lists them", kind.label(), kind.label())]
    Unknown { kind: StoredKind, id: String },
    /// The key was sent before with another body.
    #[error("the idempotency key `{0}` came before with another body: take a new key")]
    KeyReused(String),
    /// The definition is changed in its file.
    #[error(
        "`{id}` is defined in {}: change it there; its budgets and pauses can be changed here",
        file.display()
    )]
    OfFile { id: String, file: PathBuf },
    /// It counts what a sold lot delivers.
    #[error("`{0}` is of a sold lot: it cannot be changed, and ends with the lot's delivery")]
    OfLot(String),
    /// It exists already.
    #[error("{} `{id}` exists already, at version {version}: PUT it to change it", kind.label())]
    Exists { kind: StoredKind, id: String, version: u64 },
    /// It was removed.
    #[error("the {} `{id}` was removed: PUT it to bring it back", kind.label())]
    Removed { kind: StoredKind, id: String },
    /// It is not at the expected version.
    #[error(
        "{} `{id}` is at version {present}, not {given}: read it again and change that",
        kind.label()
    )]
    Stale { kind: StoredKind, id: String, given: u64, present: u64 },
    /// All problems of the definition.
    #[error("{} problems; nothing was changed", .0.len())]
    Invalid(Vec<ConfigProblem>),
    /// Unavailable now. The change may still be durable; repeating it applies it once.
    #[error("{0}")]
    Unavailable(String),
}

/// Why a registry has not started.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages name the fields")]
pub enum RegistryStartError {
    /// All problems of the files.
    #[error(
        "{} in the files of accounts and campaigns; nothing was started{}",
        counted(.0.len()),
        listed(.0)
    )]
    Invalid(Vec<ConfigProblem>),
    /// A stored account cannot be read: its campaigns' money depends on it.
    #[error("account `{id}` is kept in a form that this program cannot read{}", listed(problems))]
    Unreadable { id: String, problems: Vec<ConfigProblem> },
    /// The ledger or its store does not answer.
    #[error(transparent)]
    Ask(#[from] LedgerError),
    /// Two stored definitions share a number: each would spend the other's money.
    #[error(
        "{first} and {second} are kept under one number, {slot}: put back a copy of the store in which \
         they are not"
    )]
    SharedSlot { first: String, second: String, slot: u32 },
    /// New definitions cannot be stored.
    #[error("{0}")]
    NotKept(ChangeRefusal),
}

fn counted(count: usize) -> String {
    if count == 1 { "1 problem".to_owned() } else { format!("{count} problems") }
}

pub(super) fn listed(problems: &[ConfigProblem]) -> String {
    problems.iter().map(|problem| format!("\n  {problem}")).collect()
}
