//! What all shards share: the responses in memory, the fetches under way, and the rules.

use std::sync::Arc;

use bravo::Handle;
use cache_core::key::CacheKey;
use cache_core::store::directory::{Change, Directory, Occupancy};
use cache_core::store::response::{Resource, StoredResponse};
use hyper::HeaderMap;

use crate::config::CacheConfig;
use crate::fill::Fills;

/// The store, as all shards share it.
#[derive(Debug)]
pub(crate) struct SharedStore {
    pub config: CacheConfig,
    pub fills: Arc<Fills>,
    directory: Directory<Resource>,
}

impl SharedStore {
    /// With a handle for each of so many threads.
    pub fn new(config: CacheConfig, threads: usize) -> (Arc<Self>, Vec<Handle>) {
        let seeds = std::array::from_fn(|_| rand::random());
        let (directory, handles) = Directory::new(config.limits.memory, seeds, threads);
        let fills = Arc::new(Fills::new(config.limits.fetching_max));
        (Arc::new(Self { config, fills, directory }), handles)
    }

    /// Visits what is stored for a key, under its lock. None if nothing is.
    pub fn probe<R>(
        &self,
        handle: &mut Handle,
        key: &str,
        visit: impl FnOnce(&Resource) -> R,
    ) -> Option<R> {
        self.directory.probe(handle, key.as_bytes(), visit)
    }

    /// Stores a response to a request. Returns what went for it.
    pub fn put(
        &self,
        handle: &mut Handle,
        key: &CacheKey,
        response: StoredResponse,
        request: &HeaderMap,
    ) -> Vec<Resource> {
        let variants_max = self.config.limits.variants_max;
        self.directory.change(handle, key.as_str().as_bytes(), |resource| match resource {
            Some(resource) => {
                resource.put(response, request, variants_max);
                Change::Keep
            }
            None => {
                let mut resource = Resource::default();
                resource.put(response, request, variants_max);
                Change::Put(resource)
            }
        })
    }

    /// Makes all responses of a key stale.
    pub fn invalidate(&self, handle: &mut Handle, key: &CacheKey) {
        self.directory.change(handle, key.as_str().as_bytes(), |resource| {
            if let Some(resource) = resource {
                resource.responses_mut().iter_mut().for_each(StoredResponse::invalidate);
            }
            Change::Keep
        });
    }

    /// How much is stored.
    pub fn occupancy(&self) -> Occupancy {
        self.directory.occupancy()
    }
}
