//! Answers that a later process finds again.

use std::path::Path;

use bytes::Bytes;
use cache_disk::{DiskTier, UnusableFolder};

use crate::config::LookupDisk;

/// The bodies of providers' answers, on disk.
pub(crate) struct DiskAnswers(DiskTier);

impl DiskAnswers {
    /// The key of a provider's answer. Another provider may get another answer from the same URL.
    pub fn key(provider: &str, url: &str) -> String {
        format!("{provider} {url}")
    }

    pub fn open(config: &LookupDisk, folder: &Path) -> Result<Self, UnusableFolder> {
        let directory = folder.join(&config.directory);
        DiskTier::open_folder(&directory, config.limits(), &[]).map(Self)
    }

    pub const fn tier(&self) -> &DiskTier {
        &self.0
    }

    /// Writes the body of an answer, in place of an earlier one.
    pub fn write(&self, key: &str, fetched_unix_ms: u64, body: Bytes) {
        let fetched = Bytes::copy_from_slice(&fetched_unix_ms.to_le_bytes());
        self.0.write_content(key, vec![fetched, body]);
    }

    /// When an answer was fetched, in milliseconds since 1970, and its body.
    pub async fn load(&self, key: &str) -> Option<(u64, Bytes)> {
        let mut content = self.0.load_content(key).await?;
        if content.len() < size_of::<u64>() {
            return None;
        }
        let fetched = content.split_to(size_of::<u64>());
        let fetched = fetched.as_ref().try_into().expect("so many were split off");
        Some((u64::from_le_bytes(fetched), content))
    }
}
