//! The directory: values by key, in shards of one lock each, up to a number of bytes in all.
//!
//! A look-up takes the lock of one shard for reading and writes at most the mark that the entry was
//! visited. Changes come one at a time: they have the list of eviction, then shard after shard.

mod shard;

use std::sync::{Mutex, MutexGuard, PoisonError};

use ahash::RandomState;
use bravo::Locks;

use super::read_mostly::ReadMostly;
use super::sieve::{NodeId, Sieve};
use shard::Entry;
pub use shard::Shard;

/// A power of two.
pub const SHARDS: usize = 64;

/// What an entry occupies besides its key and its value: its node, its slot at a load of three
/// quarters, the entry itself and the two allocations' overhead.
pub const ENTRY_BYTES: usize = 160;

/// How many visited entries the hand passes over before it evicts one all the same: a change takes
/// bounded time although everything was visited.
const PASSES_MAX: usize = 256;

/// What a value occupies in memory.
pub trait Weigh {
    /// In bytes, without the directory's own overhead.
    fn bytes(&self) -> usize;
}

/// Values by key. Threads use it with a handle of their own.
#[derive(Debug)]
pub struct Directory<V, L = Locks<Shard<V>>> {
    shards: L,
    /// Taken before any shard's lock by what changes the directory.
    sieve: Mutex<Sieve>,
    hasher: RandomState,
    bytes_max: usize,
    values: std::marker::PhantomData<V>,
}

/// What becomes of an entry that is looked at for a change.
#[derive(Debug)]
pub enum Change<V> {
    /// It stays, as it was changed in place; or there is still none.
    Keep,
    /// It has this value from now on.
    Put(V),
    /// It is removed.
    Remove,
}

/// What the directory contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Occupancy {
    /// How many keys.
    pub entries: usize,
    /// Keys, values and overhead.
    pub bytes: usize,
}

impl<V: Weigh, L: ReadMostly<Shard<V>>> Directory<V, L> {
    /// An empty directory of at most so many bytes, with handles for this many threads. Seeds come
    /// from a random source: clients who know them can choose keys that collide.
    pub fn new(bytes_max: usize, seeds: [u64; 4], threads: usize) -> (Self, Vec<L::Handle>) {
        let (shards, handles) = L::new((0..SHARDS).map(|_| Shard::default()), threads);
        let [one, two, three, four] = seeds;
        let directory = Self {
            shards,
            sieve: Mutex::default(),
            hasher: RandomState::with_seeds(one, two, three, four),
            bytes_max,
            values: std::marker::PhantomData,
        };
        (directory, handles)
    }

    /// Visits the value of a key, under the lock for reading. None if the key has no value.
    #[inline]
    pub fn probe<R>(
        &self,
        handle: &mut L::Handle,
        key: &[u8],
        visit: impl FnOnce(&V) -> R,
    ) -> Option<R> {
        let hash = self.hasher.hash_one(key);
        self.shards.read(handle, shard_of(hash), |shard| {
            let entry = shard.find(hash, key)?;
            entry.mark_visited();
            Some(visit(&entry.value))
        })
    }

    /// Changes the entry of a key, alone: nobody sees it half changed. Returns what is no longer
    /// contained: the value that was replaced or removed, and those evicted for it. A value beyond
    /// the directory's size is returned too.
    pub fn change(
        &self,
        handle: &mut L::Handle,
        key: &[u8],
        change: impl FnOnce(Option<&mut V>) -> Change<V>,
    ) -> Vec<V> {
        let hash = self.hasher.hash_one(key);
        let mut gone = Vec::new();
        let mut sieve = self.sieve();
        self.shards.write(handle, shard_of(hash), |shard| {
            let entry = shard.find_mut(hash, key);
            let change = change(entry.map(|entry| &mut entry.value));
            self.apply(shard, &mut sieve, Changed { hash, key, change }, &mut gone);
        });
        self.evict(handle, &mut sieve, &mut gone);
        gone
    }

    /// Visits every entry, so many nodes of the list per call, and returns the keys of those of which
    /// `is_wanted` says yes: from key, value, and whether it was asked for since it was put. The cursor
    /// begins at 0; the second result is that of the next call, None if this was the last. What is put
    /// meanwhile may be missed.
    pub fn select(
        &self,
        handle: &mut L::Handle,
        cursor: usize,
        count: usize,
        mut is_wanted: impl FnMut(&[u8], &V, bool) -> bool,
    ) -> (Vec<Box<[u8]>>, Option<usize>) {
        let mut wanted = Vec::new();
        let end = cursor.saturating_add(count);
        for at in cursor..end {
            // Others may change the directory between two entries.
            let sieve = self.sieve();
            if at >= sieve.nodes() {
                return (wanted, None);
            }
            let Some((id, node)) = sieve.node_at(at) else { continue };
            self.shards.read(handle, shard_of(node.hash), |shard| {
                let entry = shard.at(node.hash, id);
                let is_wanted =
                    |entry: &&Entry<V>| is_wanted(&entry.key, &entry.value, entry.is_reused());
                let found = entry.filter(is_wanted);
                wanted.extend(found.map(|entry| entry.key.clone()));
            });
        }
        (wanted, Some(end))
    }

    /// How much it contains.
    pub fn occupancy(&self) -> Occupancy {
        let sieve = self.sieve();
        Occupancy { entries: sieve.entries(), bytes: sieve.bytes() }
    }
}

impl<V: Weigh, L: ReadMostly<Shard<V>>> Directory<V, L> {
    /// Puts what a change decided into the shard and the list.
    fn apply(
        &self,
        shard: &mut Shard<V>,
        sieve: &mut Sieve,
        Changed { hash, key, change }: Changed<'_, V>,
        gone: &mut Vec<V>,
    ) {
        let bytes = |value: &V| key.len() + value.bytes() + ENTRY_BYTES;
        match (change, shard.find_mut(hash, key)) {
            (Change::Keep | Change::Remove, None) => (),
            (Change::Keep, Some(entry)) => sieve.set_bytes(entry.node, bytes(&entry.value)),
            (Change::Put(value), entry) if bytes(&value) > self.bytes_max => {
                gone.push(value);
                if let Some(node) = entry.map(|entry| entry.node) {
                    sieve.remove(node);
                    gone.extend(shard.remove(hash, node));
                }
            }
            (Change::Put(value), Some(entry)) => {
                sieve.set_bytes(entry.node, bytes(&value));
                gone.push(std::mem::replace(&mut entry.value, value));
            }
            (Change::Put(value), None) => {
                let node = sieve.insert(hash, bytes(&value));
                shard.insert(hash, Entry::new(node, key, value));
            }
            (Change::Remove, Some(entry)) => {
                let node = entry.node;
                sieve.remove(node);
                gone.extend(shard.remove(hash, node));
            }
        }
    }

    /// Evicts until the directory is within its size.
    fn evict(&self, handle: &mut L::Handle, sieve: &mut Sieve, gone: &mut Vec<V>) {
        let mut passes = 0;
        while sieve.bytes() > self.bytes_max
            && let Some((id, hash)) = sieve.at_hand()
        {
            let is_visited = self.shards.read(handle, shard_of(hash), |shard| {
                shard.at(hash, id).is_some_and(Entry::unmark_visited)
            });
            if is_visited && passes < PASSES_MAX {
                passes += 1;
                sieve.pass_over();
            } else {
                passes = 0;
                gone.extend(self.remove(handle, sieve, id));
            }
        }
    }

    fn remove(&self, handle: &mut L::Handle, sieve: &mut Sieve, id: NodeId) -> Option<V> {
        let hash = sieve.remove(id).hash;
        self.shards.write(handle, shard_of(hash), |shard| shard.remove(hash, id))
    }

    fn sieve(&self) -> MutexGuard<'_, Sieve> {
        self.sieve.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A change that is decided, and the key that it is of.
struct Changed<'k, V> {
    hash: u64,
    key: &'k [u8],
    change: Change<V>,
}

/// Other bits than those by which the shard's table places an entry.
const fn shard_of(hash: u64) -> usize {
    (hash >> 40) as usize % SHARDS
}

#[cfg(test)]
mod tests;
