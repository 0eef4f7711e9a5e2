//! A part of the directory, under one lock: a table from keys to entries.

use std::sync::atomic::{AtomicU8, Ordering};

use hashbrown::HashTable;

use crate::store::sieve::NodeId;

/// The entries whose keys' hashes select this shard.
#[derive(Debug)]
pub struct Shard<V> {
    table: HashTable<Slot<V>>,
}

/// The table moves these when it grows; entries stay where they are.
#[derive(Debug)]
struct Slot<V> {
    hash: u64,
    entry: Box<Entry<V>>,
}

/// A value, with its key in full.
#[derive(Debug)]
pub(super) struct Entry<V> {
    pub(super) node: NodeId,
    marks: AtomicU8,
    pub(super) key: Box<[u8]>,
    pub(super) value: V,
}

/// It was visited since the hand came by.
const VISITED: u8 = 1;
/// It was visited since it was put.
const REUSED: u8 = 2;

impl<V> Entry<V> {
    pub(super) fn new(node: NodeId, key: &[u8], value: V) -> Box<Self> {
        Box::new(Self { node, marks: AtomicU8::new(0), key: key.into(), value })
    }

    /// Writes only what is not written yet: the line stays in the caches of all who read it.
    #[inline]
    pub(super) fn mark_visited(&self) {
        if self.marks.load(Ordering::Relaxed) & VISITED == 0 {
            self.marks.store(VISITED | REUSED, Ordering::Relaxed);
        }
    }

    /// Returns whether it was marked.
    pub(super) fn unmark_visited(&self) -> bool {
        self.marks.fetch_and(!VISITED, Ordering::Relaxed) & VISITED != 0
    }

    pub(super) fn is_reused(&self) -> bool {
        self.marks.load(Ordering::Relaxed) & REUSED != 0
    }
}

impl<V> Default for Shard<V> {
    fn default() -> Self {
        Self { table: HashTable::new() }
    }
}

impl<V> Shard<V> {
    #[inline]
    pub(super) fn find(&self, hash: u64, key: &[u8]) -> Option<&Entry<V>> {
        let slot = self.table.find(hash, |slot| slot.hash == hash && *slot.entry.key == *key)?;
        Some(&slot.entry)
    }

    pub(super) fn find_mut(&mut self, hash: u64, key: &[u8]) -> Option<&mut Entry<V>> {
        let is_it = |slot: &Slot<V>| slot.hash == hash && *slot.entry.key == *key;
        Some(&mut self.table.find_mut(hash, is_it)?.entry)
    }

    /// The entry that the list knows by this node.
    pub(super) fn at(&self, hash: u64, node: NodeId) -> Option<&Entry<V>> {
        Some(&self.table.find(hash, |slot| slot.entry.node == node)?.entry)
    }

    /// The caller has found no entry of the same key.
    pub(super) fn insert(&mut self, hash: u64, entry: Box<Entry<V>>) {
        self.table.insert_unique(hash, Slot { hash, entry }, |slot| slot.hash);
    }

    /// Returns the value that was removed.
    pub(super) fn remove(&mut self, hash: u64, node: NodeId) -> Option<V> {
        let found = self.table.find_entry(hash, |slot| slot.entry.node == node).ok()?;
        let (slot, _) = found.remove();
        Some(slot.entry.value)
    }
}
