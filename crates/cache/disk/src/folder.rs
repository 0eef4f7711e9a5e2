//! The store in a folder of the file system.

use std::io;
use std::path::{Path, PathBuf};

use eventlog::disk::DiskFolder;
use http::HeaderName;

use crate::tier::{DiskLimits, DiskTier};

/// Why a folder is not opened.
#[derive(Debug, thiserror::Error)]
pub enum UnusableFolder {
    /// By another process, or by another store of this one.
    #[error("{} is in use by {holder}", directory.display())]
    InUse {
        /// The folder.
        directory: PathBuf,
        /// Who has it.
        holder: io::Error,
    },
    /// The disk refuses.
    #[error("{} cannot be used: {source}", directory.display())]
    Unusable {
        /// The folder.
        directory: PathBuf,
        /// What it says.
        source: io::Error,
    },
}

impl DiskTier {
    /// Opens the store of a folder, which is made if it is missing: see [`Self::open`].
    ///
    /// # Errors
    /// The folder is in use, or the disk refuses.
    pub fn open_folder(
        directory: &Path,
        limits: DiskLimits,
        targets: &'static [HeaderName],
    ) -> Result<Self, UnusableFolder> {
        let opened =
            DiskFolder::new(directory).and_then(|folder| Self::open(folder, limits, targets));
        opened.map_err(|error| {
            let directory = directory.to_owned();
            match error.kind() {
                io::ErrorKind::WouldBlock => UnusableFolder::InUse { directory, holder: error },
                _ => UnusableFolder::Unusable { directory, source: error },
            }
        })
    }
}
