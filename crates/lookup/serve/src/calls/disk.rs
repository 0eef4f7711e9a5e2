//! Answers that a later process finds again.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::Path;

use bytes::Bytes;
use cache_disk::{DiskTier, UnusableFolder};
use lookup_core::map::ProviderCall;

use crate::config::LookupDisk;
use crate::maps::LoadedMaps;

/// The bodies of providers' answers, on disk.
pub(crate) struct DiskAnswers(DiskTier);

impl DiskAnswers {
    /// What the answers of a call depend on besides their URLs: header fields, the query and the database.
    /// So few bits of a hash say nothing of the secrets in it.
    pub fn origin(maps: &LoadedMaps, provider: usize, call: &ProviderCall) -> u32 {
        let mut hasher = DefaultHasher::new();
        let mut headers: Vec<_> = maps.headers[provider].iter().collect();
        headers.sort_by_key(|(name, _)| name.as_str());
        for (name, value) in headers {
            (name.as_str(), value.as_bytes()).hash(&mut hasher);
        }
        call.statement
            .as_ref()
            .map(|of| of.numbered(|name| call.takes_list(name)))
            .hash(&mut hasher);
        if let Some(database) = &maps.databases[provider] {
            let hosts = format!("{:?} {:?}", database.get_hosts(), database.get_hostaddrs());
            hosts.hash(&mut hasher);
            database.get_ports().hash(&mut hasher);
            (database.get_dbname(), database.get_user()).hash(&mut hasher);
        }
        // The upper half.
        u32::try_from(hasher.finish() >> 32).unwrap_or_default()
    }

    /// Removes an answer.
    pub fn forget(&self, key: &str) {
        self.0.forget(key);
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
