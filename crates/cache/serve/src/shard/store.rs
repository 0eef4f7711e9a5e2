//! What all shards share: the responses in memory, the fetches under way, the purges, and the rules.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::{ArcSwap, Cache};
use bravo::Handle;
use cache_core::key::CacheKey;
use cache_core::store::directory::{Change, Directory, Occupancy};
use cache_core::store::purges::{Purge, PurgeNumber, PurgeScope, Purges, TooManyPurges};
use cache_core::store::response::{Resource, StoredResponse};
use cache_disk::{DiskTier, LoadedResource, PurgeReceipt, UnrecordedPurge};
use hyper::HeaderMap;
use tokio::sync::Notify;

use crate::config::CacheConfig;
use crate::fill::Fills;
use crate::origin::health::OriginsHealth;
use crate::shard::loads::Loads;

/// Begins the keys of values, which are no URIs, and of which none is fetched.
pub(crate) const VALUE_SCHEME: &str = "put:";

/// A thread's view of the purges, which costs it one load while they do not change.
pub(crate) type PurgesView = Cache<Arc<ArcSwap<Purges>>, Arc<Purges>>;

/// Why a purge does not count, or may not count for long.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PurgeError {
    /// It does not count.
    #[error(transparent)]
    TooMany(#[from] TooManyPurges),
    /// It counts, until the process ends.
    #[error(transparent)]
    Unrecorded(#[from] UnrecordedPurge),
}

/// The store, as all shards share it.
#[derive(Debug)]
pub(crate) struct SharedStore {
    pub config: CacheConfig,
    pub fills: Arc<Fills>,
    /// Of the routes' origins.
    pub health: Arc<OriginsHealth>,
    /// Reads of the disk that are under way.
    pub loads: Arc<Loads>,
    /// The store behind the memory. None without `[cache.disk]`.
    pub disk: Option<DiskTier>,
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
    pub fn new(
        config: CacheConfig,
        disk: Option<DiskTier>,
        threads: usize,
    ) -> (Arc<Self>, Vec<Handle>) {
        let seeds = std::array::from_fn(|_| rand::random());
        let (directory, mut handles) = Directory::new(config.limits.memory, seeds, threads + 1);
        let handle = Mutex::new(handles.pop().expect("there is one more than threads"));
        let fills = Arc::new(Fills::new(config.limits.fetching_max));
        let purges = Purges::after(disk.as_ref().map(DiskTier::newest_purge).unwrap_or_default());
        let store = Self {
            health: Arc::new(OriginsHealth::new(&config.routes)),
            config,
            fills,
            loads: Arc::default(),
            disk,
            directory,
            handle,
            published: Arc::new(ArcSwap::from_pointee(purges.clone())),
            purges: Mutex::new(purges),
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
        let is_admitted = self.disk.as_ref().is_some_and(|disk| {
            let is_value = key.as_str().starts_with(VALUE_SCHEME);
            if is_value { disk.admits_all() } else { disk.admits(key.as_str()) }
        });
        let variants_max = self.config.limits.variants_max;
        let mut is_purged = false;
        let gone = self.directory.change(handle, key.as_str().as_bytes(), |resource| {
            // Under the lock: a purge that is listed later finds the response in the directory.
            let Some(response) = response.purged(self.published.load().of(key.as_str())) else {
                is_purged = true;
                return Change::Keep;
            };
            self.forget_on_disk(key.as_str());
            let mut new = Resource::default();
            let is_new = resource.is_none();
            let resource = resource.unwrap_or(&mut new);
            resource.put(response, request, variants_max);
            if is_admitted {
                self.write_to_disk(key.as_str(), resource);
            }
            if is_new { Change::Put(new) } else { Change::Keep }
        });
        (!is_purged).then_some(gone.len())
    }

    /// Stores a value, from any thread.
    pub fn put_value(&self, key: &CacheKey, value: StoredResponse) {
        self.put(&mut self.own_handle(), key, value, &HeaderMap::new());
    }

    /// Makes all responses of a key stale.
    pub fn invalidate(&self, handle: &mut Handle, key: &CacheKey) {
        self.directory.change(handle, key.as_str().as_bytes(), |resource| {
            self.forget_on_disk(key.as_str());
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
    /// Returns how many responses that is; None if they are still to be visited. Waits for the disk, if
    /// there is one: never use it on a shard.
    ///
    /// # Errors
    /// Too many purges are under way; or the purge counts, but is not on disk.
    pub fn purge(&self, purge: &Purge) -> Result<Option<usize>, PurgeError> {
        let mut receipt = None;
        let mut list = || {
            self.change_purges(|purges| {
                purges.list(purge.clone())?;
                receipt = self.record(purges.newest(), purge);
                Ok(())
            })
        };
        let mut responses = None;
        if let PurgeScope::Key(key) = &purge.scope {
            let mut listed = Ok(());
            let take = |resource: Option<&mut Resource>| {
                // Under the key's lock: what is stored, read or written later has this number.
                if purge.is_hard_of_key() {
                    self.forget_on_disk(key.as_str());
                }
                listed = list();
                resource.map_or(0, |resource| resource.take(purge.effect))
            };
            let bytes = key.as_str().as_bytes();
            responses = Some(self.change_resource(&mut self.own_handle(), bytes, take));
            listed?;
        } else {
            list()?;
            self.sweep.notify_one();
        }
        self.purges_listed.fetch_add(1, Ordering::Relaxed);
        receipt.map_or(Ok(()), PurgeReceipt::wait)?;
        Ok(responses)
    }

    /// None if there is no disk.
    fn record(&self, number: PurgeNumber, purge: &Purge) -> Option<PurgeReceipt> {
        let disk = self.disk.as_ref()?;
        Some(disk.purge(number, Arc::new(purge.clone())))
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
            |key: &[u8], resource: &Resource, _| resource.has_pending(purges.of(text(key)));
        let (keys, next) = self.directory.select(handle, cursor, count, has_pending);
        for key in keys {
            let of_key = purges.of(text(&key));
            self.change_resource(handle, &key, |resource| {
                resource.map_or(0, |resource| resource.take_pending(of_key))
            });
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

    /// Whether the disk has a resource, or will have it.
    pub fn is_on_disk(&self, key: &str) -> bool {
        self.disk.as_ref().is_some_and(|disk| disk.contains(key))
    }

    /// Puts a resource that was read from the disk into memory, unless memory has the key already or the
    /// resource was replaced, removed or purged since. Visits the one that memory has then, or none;
    /// returns too how many resources were evicted for it.
    pub fn take_over<R>(
        &self,
        handle: &mut Handle,
        key: &str,
        loaded: LoadedResource,
        visit: impl FnOnce(&Resource) -> R,
    ) -> (Option<R>, usize) {
        let mut visited = None;
        let gone = self.directory.change(handle, key.as_bytes(), |resource| {
            if let Some(resource) = resource {
                visited = Some(visit(resource));
                return Change::Keep;
            }
            let loaded = self.disk.as_ref().and_then(|disk| disk.current(key, loaded));
            let purges = self.published.load();
            let purges = purges.of(key);
            let effect = |names: &_, through| purges.effect_since(Some(names), through);
            match loaded.and_then(|resource| resource.purged(purges.newest(), effect)) {
                Some(resource) => {
                    // At once: it may be evicted at once.
                    visited = Some(visit(&resource));
                    Change::Put(resource)
                }
                None => Change::Keep,
            }
        });
        (visited, gone.len())
    }

    /// Writes some entries to the disk that are not there and were asked for again, and returns the
    /// cursor of the next ones: see [`Directory::select`]. None once all are done.
    pub fn write_reused(&self, handle: &mut Handle, cursor: usize, count: usize) -> Option<usize> {
        let disk = self.disk.as_ref()?;
        let is_wanted = |key: &[u8], resource: &Resource, is_reused| {
            is_reused && disk.has_room(resource) && !disk.contains(text(key))
        };
        let (keys, next) = self.directory.select(handle, cursor, count, is_wanted);
        for key in keys {
            let key = text(&key);
            // Its changes wait meanwhile, and make void what is written.
            self.directory.probe(handle, key.as_bytes(), |resource| {
                if !disk.contains(key) {
                    self.write_to_disk(key, resource);
                }
            });
        }
        next
    }

    /// Writes all of them, and ends the disk.
    pub fn close_disk(&self) {
        let Some(disk) = &self.disk else { return };
        let mut cursor = Some(0);
        while let Some(at) = cursor {
            cursor = self.write_reused(&mut self.own_handle(), at, 1);
            if disk.is_pressed() {
                disk.drain();
            }
        }
        disk.close();
    }

    /// Called under the lock of the key's entry.
    fn write_to_disk(&self, key: &str, resource: &Resource) {
        let Some(disk) = &self.disk else { return };
        let purges = self.published.load();
        let purges = purges.of(key);
        let effect = |names: &_, through| purges.effect_on(names, through);
        if let Some(resource) = resource.clone().purged(purges.newest(), effect) {
            disk.write(key, resource);
        }
    }

    /// Removes a key from the disk.
    fn forget_on_disk(&self, key: &str) {
        if let Some(disk) = &self.disk {
            disk.forget(key);
        }
    }

    fn own_handle(&self) -> MutexGuard<'_, Handle> {
        self.handle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change_resource(
        &self,
        handle: &mut Handle,
        key: &[u8],
        purge: impl FnOnce(Option<&mut Resource>) -> usize,
    ) -> usize {
        let mut count = 0;
        self.directory.change(handle, key, |mut resource| {
            count = purge(resource.as_deref_mut());
            let is_empty = resource.is_some_and(|resource| resource.responses().is_empty());
            if is_empty { Change::Remove } else { Change::Keep }
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
