//! Why a change was not made, or a registry has not started: each an enumeration in order of precedence.

use std::path::PathBuf;

use pacer_core::store::StoredKind;
use runtime::config::ConfigProblem;

use crate::ledger::handle::LedgerError;

/// Why a change was not made. Nothing has changed then.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ChangeRefusal {
    /// Nobody has that id.
    #[error("no {} has the id `{id}`: GET /v1/{}s lists them", kind.label(), kind.label())]
    Unknown {
        /// Of which kind.
        kind: StoredKind,
        /// What was asked for.
        id: String,
    },
    /// The key was sent before, with another body.
    #[error("the idempotency key `{0}` came before with another body: take a new key")]
    KeyReused(String),
    /// A change of something that is changed in a file.
    #[error(
        "`{id}` is defined in {}: change it there; its budgets and pauses can be changed here",
        file.display()
    )]
    OfFile {
        /// What was to be changed.
        id: String,
        /// Where it is.
        file: PathBuf,
    },
    /// It exists already.
    #[error("{} `{id}` exists already, at version {version}: PUT it to change it", kind.label())]
    Exists {
        /// Of which kind.
        kind: StoredKind,
        /// Its id.
        id: String,
        /// Where it stands.
        version: u64,
    },
    /// It was removed.
    #[error("the {} `{id}` was removed: PUT it to bring it back", kind.label())]
    Removed {
        /// Of which kind.
        kind: StoredKind,
        /// Its id.
        id: String,
    },
    /// It is at another version than was named.
    #[error(
        "{} `{id}` is at version {present}, not {given}: read it again and change that",
        kind.label()
    )]
    Stale {
        /// Of which kind.
        kind: StoredKind,
        /// Its id.
        id: String,
        /// What was named.
        given: u64,
        /// Where it stands.
        present: u64,
    },
    /// It has problems, and these are all of them.
    #[error("{} problems; nothing was changed", .0.len())]
    Invalid(Vec<ConfigProblem>),
    /// Not now. What was asked for may be durable all the same: asked again, it is done once.
    #[error("{0}")]
    Unavailable(String),
}

/// Why a registry has not started.
#[derive(Debug, thiserror::Error)]
pub enum RegistryStartError {
    /// Files have problems, and these are all of them.
    #[error(
        "{} in the files of accounts and campaigns; nothing was started{}",
        counted(.0.len()),
        listed(.0)
    )]
    Invalid(Vec<ConfigProblem>),
    /// An account that is kept cannot be read: money hangs on it.
    #[error("account `{id}` is kept in a form that this program cannot read{}", listed(problems))]
    Unreadable {
        /// Which.
        id: String,
        /// Why.
        problems: Vec<ConfigProblem>,
    },
    /// The ledger or its store does not answer.
    #[error(transparent)]
    Ask(#[from] LedgerError),
    /// Two that are kept have one number: each would spend the other's money.
    #[error(
        "{first} and {second} are kept under one number, {slot}: put back a copy of the store in which \
         they are not"
    )]
    SharedSlot {
        /// Which, for people.
        first: String,
        /// And which.
        second: String,
        /// The number.
        slot: u32,
    },
    /// What is new cannot be kept.
    #[error("{0}")]
    NotKept(ChangeRefusal),
}

fn counted(count: usize) -> String {
    if count == 1 { "1 problem".to_owned() } else { format!("{count} problems") }
}

pub(super) fn listed(problems: &[ConfigProblem]) -> String {
    problems.iter().map(|problem| format!("\n  {problem}")).collect()
}
