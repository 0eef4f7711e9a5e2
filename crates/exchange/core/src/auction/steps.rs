//! Counts an auction's work on untrusted input. A step is about one comparison of short texts.

use std::cell::Cell;

/// Steps after which a shard serves other auctions: about a millisecond.
pub const STEPS_MAX: u64 = 50_000;

/// Bytes searched or read per step.
const BYTES: usize = 32;

/// Bytes of a non-ASCII name converted per step.
const IDN_BYTES: usize = 1;

#[derive(Debug, Default)]
pub(crate) struct Steps(Cell<u64>);

impl Steps {
    pub(crate) fn get(&self) -> u64 {
        self.0.get()
    }

    pub(crate) fn add(&self, steps: usize) {
        self.0.set(self.0.get() + steps as u64);
    }

    pub(crate) fn add_bytes(&self, bytes: usize) {
        self.add(1 + bytes / BYTES);
    }

    pub(crate) fn add_text(&self, text: &str) {
        let is_plain = text.is_ascii();
        self.add(1 + text.len() / if is_plain { BYTES } else { IDN_BYTES });
    }

    pub(crate) fn add_sort(&self, length: usize) {
        // Sorted data is contiguous, and most comparisons end at once.
        self.add(length.saturating_mul(depth(length)) / 4);
    }

    pub(crate) fn add_search(&self, length: usize) {
        // Most comparisons end at once.
        self.add(1 + depth(length) / 2);
    }
}

const fn depth(length: usize) -> usize {
    1 + (usize::BITS - length.leading_zeros()) as usize
}
