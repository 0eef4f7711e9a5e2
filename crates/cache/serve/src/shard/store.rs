//! What all shards share: the responses in memory, the fetches under way, the purges, and the rules.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::{ArcSwap, Cache};
use bravo::Handle;
use cache_core::key::CacheKey;
use cache_core::store::directory::{Change, Directory, Occupancy};
use cache_core::store::purges::{Purge, PurgeScope, Purges, TooManyPurges};
use cache_core::store::response::{Resource, StoredResponse};
use hyper::HeaderMap;
use tokio::sync::Notify;

use crate::config::CacheConfig;
use crate::fill::Fills;

/// A thread's view of the purges, which costs it one load while they do not change.
pub(crate) type PurgesView = Cache<Arc<ArcSwap<Purges>>, Arc<Purges>>;

/// The store, as all shards share it.
#[derive(Debug)]
pub(crate) struct SharedStore {
    pub config: CacheConfig,
    pub fills: Arc<Fills>,
    directory: Directory<Resource>,
    /// For those without one of their own.
    handle: Mutex<Handle>,
    /// Held while they change.
    purges: Mutex<Purges>,
    /// The same, for those who read.
    published: Arc<ArcSwap<Purges>>,
    /// Wakes the sweeper.
    sweep: Notify,
    /// Purges listed since the start.
    purges_listed: AtomicU64,
    /// Responses that purges removed or made stale.
    responses_purged: AtomicU64,
}

impl SharedStore {
    /// With a handle for each of so many threads.
    pub fn new(config: CacheConfig, threads: usize) -> (Arc<Self>, Vec<Handle>) {
        let seeds = std::array::from_fn(|_| rand::random());
        let (directory, mut handles) = Directory::new(config.limits.memory, seeds, threads + 1);
        let handle = Mutex::new(handles.pop().expect("there is one more than threads"));
        let fills = Arc::new(Fills::new(config.limits.fetching_max));
        let store = Self {
            config,
            fills,
            directory,
            handle,
            purges: Mutex::default(),
            published: Arc::default(),
            sweep: Notify::new(),
            purges_listed: AtomicU64::new(0),
            responses_purged: AtomicU64::new(0),
        };
        (Arc::new(store), handles)
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

    /// Likewise, from any thread.
    pub fn visit<R>(&self, key: &str, visit: impl FnOnce(&Resource) -> R) -> Option<R> {
        self.probe(&mut self.own_handle(), key, visit)
    }

    /// Stores a response to a request. Returns how many resources went for it; None if it was purged
    /// since it was asked for, and is not stored.
    pub fn put(
        &self,
        handle: &mut Handle,
        key: &CacheKey,
        response: StoredResponse,
        request: &HeaderMap,
    ) -> Option<usize> {
        let variants_max = self.config.limits.variants_max;
        let mut is_purged = false;
        let gone = self.directory.change(handle, key.as_str().as_bytes(), |resource| {
            // Under the lock: a purge that is listed later finds the response in the directory.
            let Some(response) = response.purged(self.published.load().of(key.as_str())) else {
                is_purged = true;
                return Change::Keep;
            };
            match resource {
                Some(resource) => {
                    resource.put(response, request, variants_max);
                    Change::Keep
                }
                None => {
                    let mut resource = Resource::default();
                    resource.put(response, request, variants_max);
                    Change::Put(resource)
                }
            }
        });
        (!is_purged).then_some(gone.len())
    }

    /// Makes all responses of a key stale.
    pub fn invalidate(&self, handle: &mut Handle, key: &CacheKey) {
        self.directory.change(handle, key.as_str().as_bytes(), |resource| {
            if let Some(resource) = resource {
                resource.invalidate();
            }
            Change::Keep
        });
    }

    /// How much is stored.
    pub fn occupancy(&self) -> Occupancy {
        self.directory.occupancy()
    }
}

impl SharedStore {
    /// A view of the purges for one thread.
    pub fn purges_view(&self) -> PurgesView {
        Cache::new(Arc::clone(&self.published))
    }

    /// The purges now.
    pub fn purges(&self) -> Arc<Purges> {
        self.published.load_full()
    }

    /// Purges that were listed since the start.
    pub fn purge_count(&self) -> u64 {
        self.purges_listed.load(Ordering::Relaxed)
    }

    /// Responses that purges concerned.
    pub fn purged_count(&self) -> u64 {
        self.responses_purged.load(Ordering::Relaxed)
    }

    /// Purges. No look-up that begins afterwards, on any shard, is answered with what this concerns.
    /// Returns how many responses that is; None if they are still to be visited.
    ///
    /// # Errors
    /// If too many purges are under way.
    pub fn purge(&self, purge: &Purge) -> Result<Option<usize>, TooManyPurges> {
        self.change_purges(|purges| purges.list(purge.clone()))?;
        self.purges_listed.fetch_add(1, Ordering::Relaxed);
        let PurgeScope::Key(key) = &purge.scope else {
            self.sweep.notify_one();
            return Ok(None);
        };
        let key = key.as_str().as_bytes();
        let take = |resource: &mut Resource| resource.take(purge.effect);
        Ok(Some(self.change_resource(&mut self.own_handle(), key, take)))
    }

    /// Waits until purges are to be applied. For one task alone.
    pub async fn unswept(&self) -> Arc<Purges> {
        loop {
            let purges = self.purges();
            if purges.pending() > 0 {
                return purges;
            }
            self.sweep.notified().await;
        }
    }

    /// Applies purges to some entries, and returns the cursor of the next ones: see
    /// [`Directory::select`]. None once all are done.
    pub fn sweep(
        &self,
        handle: &mut Handle,
        purges: &Purges,
        cursor: usize,
        count: usize,
    ) -> Option<usize> {
        let has_pending =
            |key: &[u8], resource: &Resource| resource.has_pending(purges.of(text(key)));
        let (keys, next) = self.directory.select(handle, cursor, count, has_pending);
        for key in keys {
            let of_key = purges.of(text(&key));
            self.change_resource(handle, &key, |resource| resource.take_pending(of_key));
        }
        if next.is_none() {
            let swept = |latest: &mut Purges| {
                latest.applied(purges.newest());
                Ok(())
            };
            self.change_purges(swept).expect("it cannot fail");
        }
        next
    }

    fn own_handle(&self) -> MutexGuard<'_, Handle> {
        self.handle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change_resource(
        &self,
        handle: &mut Handle,
        key: &[u8],
        purge: impl FnOnce(&mut Resource) -> usize,
    ) -> usize {
        let mut count = 0;
        self.directory.change(handle, key, |resource| {
            let Some(resource) = resource else { return Change::Keep };
            count = purge(resource);
            if resource.responses().is_empty() { Change::Remove } else { Change::Keep }
        });
        self.responses_purged.fetch_add(count as u64, Ordering::Relaxed);
        count
    }

    fn change_purges(
        &self,
        change: impl FnOnce(&mut Purges) -> Result<(), TooManyPurges>,
    ) -> Result<(), TooManyPurges> {
        let mut purges = self.purges.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut purges)?;
        self.published.store(Arc::new(purges.clone()));
        Ok(())
    }
}

fn text(key: &[u8]) -> &str {
    str::from_utf8(key).expect("keys are text")
}

#[cfg(test)]
mod tests;
