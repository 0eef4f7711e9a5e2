//! Where the resources are, by the hashes of their keys. Locks are held for as long as a table is
//! looked at, never while anything is read or written.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

const SHARDS: usize = 64;

/// The hash of a key. Keys are compared where a resource is read: of two with one hash, the later one
/// is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct KeyHash(pub u64);

impl KeyHash {
    pub(crate) fn of(key: &str) -> Self {
        let hash = blake3::hash(key.as_bytes());
        let (first, _) = hash.as_bytes().split_first_chunk().expect("it is longer");
        Self(u64::from_le_bytes(*first))
    }
}

/// Where a resource's record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Location {
    pub segment: u32,
    pub offset: u32,
    /// Of payload.
    pub bytes: u32,
}

/// A resource that is to be written, apart from others of the same key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket(u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum IndexPlace {
    Pending(Ticket),
    Written(Location),
}

#[derive(Debug)]
struct IndexShard {
    places: HashMap<KeyHash, IndexPlace, ahash::RandomState>,
    tickets: u64,
    /// How many places are announced.
    pending: usize,
}

impl IndexShard {
    /// Sets the place of a key, or removes it. Returns the place before.
    fn set(&mut self, hash: KeyHash, place: Option<IndexPlace>) -> Option<IndexPlace> {
        let is_pending = |place: &IndexPlace| matches!(place, IndexPlace::Pending(_));
        self.pending += usize::from(place.as_ref().is_some_and(is_pending));
        let before = match place {
            Some(place) => self.places.insert(hash, place),
            None => self.places.remove(&hash),
        };
        self.pending -= usize::from(before.as_ref().is_some_and(is_pending));
        before
    }
}

/// The index.
#[derive(Debug)]
pub(crate) struct DiskIndex {
    shards: [Mutex<IndexShard>; SHARDS],
}

/// What was forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Forgotten {
    Nothing,
    /// It is not written yet, and will not count.
    Pending,
    /// The log must say that it is void.
    Written,
}

impl DiskIndex {
    pub(crate) fn new() -> Self {
        let shard = || {
            Mutex::new(IndexShard {
                places: HashMap::with_hasher(hasher()),
                tickets: 0,
                pending: 0,
            })
        };
        Self { shards: std::array::from_fn(|_| shard()) }
    }

    /// Where a resource is. None if it is not on disk, or not yet.
    pub(crate) fn find(&self, hash: KeyHash) -> Option<Location> {
        match self.shard(hash).places.get(&hash) {
            Some(IndexPlace::Written(location)) => Some(*location),
            _ => None,
        }
    }

    /// Whether a resource is on disk or will be.
    pub(crate) fn contains(&self, hash: KeyHash) -> bool {
        self.shard(hash).places.contains_key(&hash)
    }

    /// A resource is to be written, in place of what was known.
    pub(crate) fn announce(&self, hash: KeyHash) -> Ticket {
        let mut shard = self.shard(hash);
        shard.tickets += 1;
        let ticket = Ticket(shard.tickets);
        shard.set(hash, Some(IndexPlace::Pending(ticket)));
        ticket
    }

    /// Whether an announced resource is still wanted.
    pub(crate) fn awaits(&self, hash: KeyHash, ticket: Ticket) -> bool {
        self.shard(hash).places.get(&hash) == Some(&IndexPlace::Pending(ticket))
    }

    /// The announced resource is written. Returns false if it was forgotten or announced anew since:
    /// the log must then say that it is void.
    pub(crate) fn written(&self, hash: KeyHash, ticket: Ticket, location: Location) -> bool {
        let mut shard = self.shard(hash);
        let is_awaited = shard.places.get(&hash) == Some(&IndexPlace::Pending(ticket));
        if is_awaited {
            shard.set(hash, Some(IndexPlace::Written(location)));
        }
        is_awaited
    }

    /// The announced resource is not written after all.
    pub(crate) fn withdraw(&self, hash: KeyHash, ticket: Ticket) {
        let mut shard = self.shard(hash);
        if shard.places.get(&hash) == Some(&IndexPlace::Pending(ticket)) {
            shard.set(hash, None);
        }
    }

    /// What is known of a key does not count any more.
    pub(crate) fn forget(&self, hash: KeyHash) -> Forgotten {
        match self.shard(hash).set(hash, None) {
            None => Forgotten::Nothing,
            Some(IndexPlace::Pending(_)) => Forgotten::Pending,
            Some(IndexPlace::Written(_)) => Forgotten::Written,
        }
    }

    /// Likewise, if it is still at this location: the log must then say that it is void. Returns
    /// whether it was.
    pub(crate) fn forget_at(&self, hash: KeyHash, location: Location) -> bool {
        let mut shard = self.shard(hash);
        let is_it = shard.places.get(&hash) == Some(&IndexPlace::Written(location));
        if is_it {
            shard.set(hash, None);
        }
        is_it
    }

    /// A record that was found in the log. Later ones count.
    pub(crate) fn recovered(&self, hash: KeyHash, location: Location) {
        self.shard(hash).set(hash, Some(IndexPlace::Written(location)));
    }

    /// Forgets what is in segments before this one.
    pub(crate) fn evict_before(&self, segment: u32) {
        for shard in &self.shards {
            let mut shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            shard.places.retain(|_, place| match place {
                IndexPlace::Written(location) => location.segment >= segment,
                IndexPlace::Pending(_) => true,
            });
        }
    }

    /// How many resources are on disk.
    pub(crate) fn entries(&self) -> usize {
        let written = |shard: &Mutex<IndexShard>| {
            let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            shard.places.len() - shard.pending
        };
        self.shards.iter().map(written).sum()
    }

    fn shard(&self, hash: KeyHash) -> MutexGuard<'_, IndexShard> {
        // Other bits than those by which a table places its entries.
        let shard = &self.shards[usize::from(hash.0.to_be_bytes()[3]) % SHARDS];
        shard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The keys are hashes already.
fn hasher() -> ahash::RandomState {
    ahash::RandomState::with_seeds(1, 2, 3, 4)
}

#[cfg(test)]
mod tests;
