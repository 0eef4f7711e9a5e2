//! Which resources are worth a place on disk: those that are asked for again. Most are not, and
//! writing them wears out the disk and evicts others.

use std::sync::{Mutex, PoisonError};

use crate::index::KeyHash;

/// Bits of a generation: at its end, one key in 200 is taken for one that was seen.
const BITS: usize = 1 << 22;

/// Keys of a generation.
const KEYS_MAX: usize = BITS / 16;

/// Bits that a key sets.
const BITS_OF_KEY: u32 = 3;

/// When a resource is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskAdmission {
    /// When it is fetched.
    First,
    /// When its key is fetched again, or is asked for again while it is in memory.
    Repeated,
}

/// The keys of the last fetches, by two Bloom filters: the older one is cleared once the other is full.
#[derive(Debug)]
pub(crate) struct SeenKeys(Mutex<Generations>);

#[derive(Debug)]
struct Generations {
    current: Box<[u64]>,
    keys: usize,
    previous: Box<[u64]>,
}

impl SeenKeys {
    pub(crate) fn new() -> Self {
        let bits = || vec![0; BITS / 64].into();
        Self(Mutex::new(Generations { current: bits(), keys: 0, previous: bits() }))
    }

    /// Remembers a key. Returns whether it was among the last ones.
    pub(crate) fn see(&self, hash: KeyHash) -> bool {
        let mut generations = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Generations { current, keys, previous } = &mut *generations;
        let was_in_previous = bits_of(hash).all(|(word, bit)| previous[word] & bit != 0);
        let mut was_in_current = true;
        for (word, bit) in bits_of(hash) {
            was_in_current &= current[word] & bit != 0;
            current[word] |= bit;
        }
        *keys += usize::from(!was_in_current);
        if *keys >= KEYS_MAX {
            std::mem::swap(current, previous);
            current.fill(0);
            *keys = 0;
        }
        was_in_current || was_in_previous
    }
}

/// Words and bits in them.
fn bits_of(hash: KeyHash) -> impl Iterator<Item = (usize, u64)> {
    (0..BITS_OF_KEY).map(move |at| {
        let position = usize::try_from((hash.0 >> (at * 21)) % BITS as u64).expect("it is small");
        (position / 64, 1 << (position % 64))
    })
}

#[cfg(test)]
mod tests;
