//! The fetches under way by key, and who leads them.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use cache_core::fields::dates::UnixSeconds;
use cache_core::key::CacheKey;
use cache_core::store::purges::{KeyPurges, PurgeNumber};

use super::{FailedFetch, Fill, FillOutcome, FillReader};
use crate::origin::OriginError;

const SHARDS: usize = 16;

/// Keys whose answers were not shared, at most so many; others take their places.
const UNSHARED_SLOTS: usize = 4096;

/// For so long a key that was not shared makes nobody wait.
const UNSHARED_S: u64 = 10;

/// The fetches of all shards.
#[derive(Debug)]
pub(crate) struct Fills {
    under_way: [Mutex<HashMap<CacheKey, Arc<Fill>>>; SHARDS],
    /// Keys not to wait for: the upper half of the hash, and when that ends.
    unshared: Box<[AtomicU64]>,
    hasher: RandomState,
    /// Of all bodies under way.
    bytes: AtomicUsize,
    bytes_max: usize,
}

/// The part of a request in a fetch.
#[derive(Debug)]
pub(crate) enum FillPlace {
    /// It makes the fetch.
    Leads(Lead, FillReader),
    /// Another makes it.
    Waits(FillReader),
    /// The last answers to this key were not shared: it fetches for itself.
    Alone,
}

impl Fills {
    pub fn new(bytes_max: usize) -> Self {
        Self {
            under_way: Default::default(),
            unshared: (0..UNSHARED_SLOTS).map(|_| AtomicU64::new(0)).collect(),
            hasher: RandomState::new(),
            bytes: AtomicUsize::new(0),
            bytes_max,
        }
    }

    /// Takes part in the fetch of a key, unless it was purged since: then in another.
    pub fn join(
        self: &Arc<Self>,
        key: &CacheKey,
        purges: KeyPurges<'_>,
        now: UnixSeconds,
    ) -> FillPlace {
        if self.is_unshared(key, now) {
            return FillPlace::Alone;
        }
        let mut shard = self.shard(key);
        if let Some(fill) = shard.get(key).filter(|fill| !fill.is_purged(purges)) {
            // While a fill is listed, its beginning is there.
            return FillPlace::Waits(fill.reader());
        }
        let fill = Fill::new(purges.newest());
        shard.insert(key.clone(), Arc::clone(&fill));
        let (fills, key, reader) = (Arc::clone(self), key.clone(), fill.reader());
        FillPlace::Leads(Lead { fills, key, fill, bytes: 0, is_listed: true }, reader)
    }

    /// Bytes of bodies under way.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    fn shard(&self, key: &CacheKey) -> MutexGuard<'_, HashMap<CacheKey, Arc<Fill>>> {
        let at = usize::try_from(self.hasher.hash_one(key) % SHARDS as u64).expect("it is small");
        self.under_way[at].lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unshared_slot(&self, key: &CacheKey) -> (&AtomicU64, u64) {
        let hash = self.hasher.hash_one(key);
        let at = usize::try_from(hash % UNSHARED_SLOTS as u64).expect("it is small");
        (&self.unshared[at], hash & !u64::from(u32::MAX))
    }

    fn is_unshared(&self, key: &CacheKey, now: UnixSeconds) -> bool {
        let (slot, hash) = self.unshared_slot(key);
        let known = slot.load(Ordering::Relaxed);
        known & !u64::from(u32::MAX) == hash && now.0 < known & u64::from(u32::MAX)
    }

    fn set_unshared(&self, key: &CacheKey, now: UnixSeconds) {
        let (slot, hash) = self.unshared_slot(key);
        slot.store(hash | (now.0 + UNSHARED_S) & u64::from(u32::MAX), Ordering::Relaxed);
    }
}

/// The right to fetch a key, alone. If it is dropped before the end, those who wait are told that
/// there is no answer.
#[derive(Debug)]
pub(crate) struct Lead {
    fills: Arc<Fills>,
    key: CacheKey,
    fill: Arc<Fill>,
    bytes: usize,
    is_listed: bool,
}

impl Lead {
    /// What is fetched.
    pub const fn key(&self) -> &CacheKey {
        &self.key
    }

    /// The newest purge when the fetch began.
    pub fn purged_through(&self) -> PurgeNumber {
        self.fill.purged_through
    }

    /// Whether a body of this length fits beside the others that are under way.
    pub fn has_room(&self, length: u64) -> bool {
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        self.fills.bytes().saturating_add(length) <= self.fills.bytes_max
    }

    /// Says what the head tells. The body follows only where the answer is shared.
    pub fn decide(&self, outcome: FillOutcome) {
        self.fill.decide(outcome);
    }

    /// The answer is not shared, and those of the next seconds are not waited for.
    pub fn decide_unshared(&self, now: UnixSeconds) {
        self.fills.set_unshared(&self.key, now);
        self.fill.decide(FillOutcome::NotShared);
    }

    /// Hands a piece of the body to the readers.
    pub fn append(&mut self, piece: Bytes) {
        self.bytes += piece.len();
        self.fills.bytes.fetch_add(piece.len(), Ordering::Relaxed);
        self.fill.append(piece);
    }

    /// The body does not fit: it is passed on to those who read it now, and not kept. Returns once
    /// they can take more; false if nobody reads any more.
    pub async fn pass_on(&mut self) -> bool {
        self.unlist();
        self.fill.pass();
        let Some(left) = self.fill.room().await else { return false };
        // What all have read is not in memory any more.
        self.fills.bytes.fetch_sub(self.bytes - left, Ordering::Relaxed);
        self.bytes = left;
        true
    }

    /// All pieces so far.
    pub fn body(&self) -> Vec<Bytes> {
        self.fill.body()
    }

    /// Ends the body.
    pub fn finish(mut self, end: Result<(), OriginError>) {
        // Those who ask again at once must not join it.
        self.unlist();
        self.fill.finish(end);
    }

    /// From now on the next request of the key fetches anew.
    fn unlist(&mut self) {
        if std::mem::take(&mut self.is_listed) {
            let mut shard = self.fills.shard(&self.key);
            // Another may have taken its place after a purge.
            if shard.get(&self.key).is_some_and(|fill| Arc::ptr_eq(fill, &self.fill)) {
                shard.remove(&self.key);
            }
        }
    }
}

impl Drop for Lead {
    fn drop(&mut self) {
        self.unlist();
        self.fills.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        let error = OriginError::Abandoned;
        self.fill.decide(FillOutcome::Failed(FailedFetch { error, stored: None }));
        self.fill.finish(Err(OriginError::Abandoned));
    }
}
