//! The dynamic table of a decoder (RFC 7541, section 2.3.2), in one buffer, so that an entry costs
//! no allocation.

use std::collections::VecDeque;
use std::ops::Range;

use super::ENTRY_OVERHEAD;

#[derive(Debug)]
pub(super) struct DynamicTable {
    /// Names and values of the entries, oldest first, after some that were evicted.
    bytes: Vec<u8>,
    /// Bytes removed from the front of `bytes` since the start.
    removed: usize,
    /// Oldest first.
    entries: VecDeque<EntrySpan>,
    size: usize,
    size_max: usize,
}

/// Where an entry is, counted from the first byte ever appended.
#[derive(Clone, Copy, Debug)]
struct EntrySpan {
    start: usize,
    name_length: usize,
    value_length: usize,
}

impl EntrySpan {
    const fn size(self) -> usize {
        self.name_length + self.value_length + ENTRY_OVERHEAD
    }
}

/// The name of a new entry.
#[derive(Clone, Copy, Debug)]
pub(super) enum EntryName<'n> {
    Literal(&'n [u8]),
    /// As that of an entry of this table; 0 is the newest.
    Same(usize),
}

impl DynamicTable {
    pub(super) const fn new(size_max: usize) -> Self {
        let entries = VecDeque::new();
        Self { bytes: Vec::new(), removed: 0, entries, size: 0, size_max }
    }

    /// Name and value; 0 is the newest entry.
    pub(super) fn get(&self, index: usize) -> Option<(&[u8], &[u8])> {
        let (name, value) = self.ranges(index)?;
        Some((&self.bytes[name], &self.bytes[value]))
    }

    fn ranges(&self, index: usize) -> Option<(Range<usize>, Range<usize>)> {
        let place = self.entries.len().checked_sub(index + 1)?;
        let entry = self.entries[place];
        let start = entry.start - self.removed;
        let middle = start + entry.name_length;
        Some((start..middle, middle..middle + entry.value_length))
    }

    /// Adds an entry, and evicts old ones for it (section 4.4). One that is too large empties the
    /// table.
    ///
    /// # Panics
    /// If the name is that of an entry that does not exist.
    pub(super) fn insert(&mut self, name: EntryName<'_>, value: &[u8]) {
        let start = self.removed + self.bytes.len();
        let name_length = match name {
            EntryName::Literal(name) => {
                self.bytes.extend_from_slice(name);
                name.len()
            }
            EntryName::Same(index) => {
                let (name, _) = self.ranges(index).expect("the caller has read the entry");
                let length = name.len();
                self.bytes.extend_from_within(name);
                length
            }
        };
        self.bytes.extend_from_slice(value);
        let entry = EntrySpan { start, name_length, value_length: value.len() };
        self.size += entry.size();
        self.entries.push_back(entry);
        self.evict();
    }

    /// Sets the largest size, and evicts what exceeds it.
    pub(super) fn resize(&mut self, size_max: usize) {
        self.size_max = size_max;
        self.evict();
    }

    fn evict(&mut self) {
        while self.size > self.size_max {
            let Some(entry) = self.entries.pop_front() else { break };
            self.size -= entry.size();
        }
        let end = self.removed + self.bytes.len();
        let first = self.entries.front().map_or(end, |entry| entry.start);
        // Moving the rest costs at most what was evicted since the last time.
        if first - self.removed >= self.size_max {
            self.bytes.drain(..first - self.removed);
            self.removed = first;
        }
    }
}
