//! Why a store does not open, and what redb's errors mean.

use std::io;

use pacer_core::store::StoreFault;

/// Why a store does not open. Nothing is authorised then.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages name the fields")]
pub enum StoreOpenError {
    /// Another process has it.
    #[error("{place} is in use by {holder}: end it, or name another directory")]
    InUse { place: String, holder: String },
    /// There is no space left.
    #[error("{place} has no room for the ledger's store: free some")]
    Full { place: String },
    /// The file is damaged.
    #[error(
        "the ledger's store {file} is damaged ({detail}): put back a copy of it; without one, move \
         its directory away and take from each limit what was spent"
    )]
    Damaged { file: String, detail: String },
    /// A later version wrote it.
    #[error(
        "the ledger's store {file} has format {found}, this program reads {known}: use the program that wrote it"
    )]
    Newer { file: String, found: u64, known: u64 },
    /// Any other error of the system.
    #[error("{place} cannot hold the ledger's store ({error}): see to the directory and its disk")]
    Disk { place: String, error: String },
}

#[derive(Debug)]
pub(crate) struct DiskFailure {
    pub cause: StoreFault,
    pub detail: String,
}

impl DiskFailure {
    pub(crate) fn damaged(detail: impl Into<String>) -> Self {
        Self { cause: StoreFault::Damaged, detail: detail.into() }
    }
}

impl From<io::Error> for DiskFailure {
    fn from(error: io::Error) -> Self {
        Self { cause: cause_of(&error), detail: error.to_string() }
    }
}

impl From<redb::Error> for DiskFailure {
    fn from(error: redb::Error) -> Self {
        let cause = match &error {
            redb::Error::DatabaseAlreadyOpen => {
                let detail = "another program has its file open: end it".to_owned();
                return Self { cause: StoreFault::Disk, detail };
            }
            redb::Error::Io(error) => cause_of(error),
            // redb reports these for files that are not its own, or whose types differ.
            redb::Error::Corrupted(_)
            | redb::Error::UpgradeRequired(_)
            | redb::Error::TableTypeMismatch { .. }
            | redb::Error::TableIsMultimap(_)
            | redb::Error::TypeDefinitionChanged { .. }
            | redb::Error::TableDoesNotExist(_) => StoreFault::Damaged,
            _ => StoreFault::Disk,
        };
        Self { cause, detail: error.to_string() }
    }
}

pub(crate) fn cause_of(error: &io::Error) -> StoreFault {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => StoreFault::DiskFull,
        io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => StoreFault::Damaged,
        _ => StoreFault::Disk,
    }
}
