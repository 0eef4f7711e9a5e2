//! The keys that are asked for most: the space-saving algorithm (Metwally, Agrawal and El Abbadi,
//! "Efficient Computation of Frequent and Top-k Elements in Data Streams", ICDT 2005).

use std::collections::BTreeMap;

/// How many keys are counted at a time.
const COUNTED_MAX: usize = 256;

/// After so many requests all counts are halved: what was hot an hour ago gives way.
const HALVED_AFTER: u64 = 1 << 16;

/// Counts keys in a sample of requests, in bounded memory.
#[derive(Clone, Debug, Default)]
pub struct HotKeys {
    counts: BTreeMap<Box<str>, KeyCount>,
    requests: u64,
}

/// How often a key was met.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyCount {
    /// At most so often.
    pub requests: u64,
    /// What may be of another key: it was met at least `requests` less this.
    pub error: u64,
}

impl HotKeys {
    /// Counts a request, for so many that are not counted.
    pub fn count(&mut self, key: &str, weight: u64) {
        self.requests += weight;
        if let Some(count) = self.counts.get_mut(key) {
            count.requests += weight;
        } else {
            let error = if self.counts.len() < COUNTED_MAX { 0 } else { self.remove_rarest() };
            self.counts.insert(key.into(), KeyCount { requests: error + weight, error });
        }
        if self.requests >= HALVED_AFTER {
            self.halve();
        }
    }

    /// All requests, of whatever keys.
    pub const fn requests(&self) -> u64 {
        self.requests
    }

    /// The keys that are counted.
    pub fn iter(&self) -> impl Iterator<Item = (&str, KeyCount)> {
        self.counts.iter().map(|(key, count)| (&**key, *count))
    }

    /// Returns its count.
    fn remove_rarest(&mut self) -> u64 {
        let rarest = self.counts.iter().min_by_key(|(_, count)| count.requests);
        let Some((key, count)) = rarest.map(|(key, count)| (key.clone(), *count)) else { return 0 };
        self.counts.remove(&key);
        count.requests
    }

    fn halve(&mut self) {
        self.requests /= 2;
        self.counts.retain(|_, count| {
            count.requests /= 2;
            count.error /= 2;
            count.requests > 0
        });
    }
}

#[cfg(test)]
mod tests;
