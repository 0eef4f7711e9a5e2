//! `[cache.disk]`: what is kept behind the memory, also when the process ends.

use std::path::{Path, PathBuf};
use std::time::Duration;

use cache_disk::{DiskAdmission, DiskLimits};
use runtime::config::{Section, secs};

/// The table `[cache.disk]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskConfig {
    /// Directory of the files.
    pub directory: PathBuf,
    /// Its limits.
    pub limits: DiskLimits,
}

impl DiskConfig {
    pub(super) fn read(s: &mut Section<'_>) -> Self {
        let directory = s.text(
            "directory",
            "vickrey-cache",
            "Directory of the files, which no other process may use. Relative to the configuration \
             file.",
        );
        let size = s.bytes(
            "size",
            "10GiB",
            64 << 20..=1 << 44,
            "Maximum size of all files. Responses of one URL that take more than a sixteenth of it, \
             or 256 MiB, are not written.",
        );
        let waiting_max = s.bytes(
            "waiting",
            "64MiB",
            1 << 20..=1 << 36,
            "Maximum size of responses that wait to be written. Beyond it, responses are not written.",
        );
        let read_timeout = s.duration(
            "read_timeout",
            "250ms",
            Duration::from_millis(1)..=secs(60),
            "Maximum wait for a response from the disk. After it, the origin is asked.",
        );
        let readers = s.integer("readers", 4, 1..=64_usize, "Threads that read from the disk.");
        let writes_all = s.boolean(
            "write_all",
            false,
            "Write every stored response. Otherwise only those that are asked for again: their URL is \
             fetched a second time, or they are asked for while in memory.",
        );
        let admission = if writes_all { DiskAdmission::First } else { DiskAdmission::Repeated };
        let bytes_max = size as u64;
        let limits = DiskLimits { bytes_max, waiting_max, read_timeout, readers, admission };
        Self { directory: directory.into(), limits }
    }

    /// The directory, if it is relative to that of the configuration file.
    pub fn directory_in(&self, folder: &Path) -> PathBuf {
        folder.join(&self.directory)
    }
}
