//! The caches that are compared.

use std::collections::{BTreeMap, HashMap, VecDeque};

use bravo::Handle;
use cache_core::store::directory::{Change, Directory, ENTRY_BYTES, Weigh};

use super::{Capacity, Policy};

/// An empty cache of a capacity.
type MakePolicy = fn(Capacity) -> Box<dyn Policy>;

/// The directory and other crates' caches, and two policies by themselves.
pub(super) const POLICIES: [(&str, MakePolicy); 6] = [
    ("directory", |capacity| {
        // Its entries' overhead is not the others'.
        let overhead = capacity.values * (ENTRY_BYTES + 8);
        let bytes = usize::try_from(capacity.bytes).expect("64 bits") + overhead;
        let (directory, mut handles) = Directory::new(bytes, [1, 2, 3, 4], 1);
        Box::new(OurDirectory { directory, handle: handles.remove(0) })
    }),
    ("s3-fifo", |capacity| Box::new(S3Fifo::new(capacity))),
    ("lru", |capacity| Box::new(Lru::new(capacity))),
    ("quick_cache", |Capacity { bytes, values }| {
        Box::new(QuickCache(quick_cache::sync::Cache::with_weighter(values, bytes, ByBytes)))
    }),
    ("moka", |capacity| {
        let weigh = |_: &u64, bytes: &u64| u32::try_from(*bytes).unwrap_or(u32::MAX);
        let cache = moka::sync::Cache::builder().max_capacity(capacity.bytes).weigher(weigh);
        Box::new(Moka(cache.build()))
    }),
    ("tinyufo", |Capacity { bytes, values }| {
        let kibibytes = usize::try_from(bytes >> 10).expect("64 bits");
        Box::new(TinyUfo(tinyufo::TinyUfo::new(kibibytes, values)))
    }),
];

struct Bytes(usize);

impl Weigh for Bytes {
    fn bytes(&self) -> usize {
        self.0
    }
}

struct OurDirectory {
    directory: Directory<Bytes>,
    handle: Handle,
}

impl Policy for OurDirectory {
    fn request(&mut self, key: u64, bytes: u64) -> bool {
        let key = key.to_be_bytes();
        let is_hit = self.directory.probe(&mut self.handle, &key, |_| ()).is_some();
        if !is_hit {
            let value = Bytes(usize::try_from(bytes).expect("64 bits"));
            self.directory.change(&mut self.handle, &key, |_| Change::Put(value));
        }
        is_hit
    }
}

#[derive(Clone)]
struct ByBytes;

impl quick_cache::Weighter<u64, u64> for ByBytes {
    fn weight(&self, _: &u64, bytes: &u64) -> u64 {
        *bytes
    }
}

struct QuickCache(quick_cache::sync::Cache<u64, u64, ByBytes>);

impl Policy for QuickCache {
    fn request(&mut self, key: u64, bytes: u64) -> bool {
        let is_hit = self.0.get(&key).is_some();
        if !is_hit {
            self.0.insert(key, bytes);
        }
        is_hit
    }
}

struct Moka(moka::sync::Cache<u64, u64>);

impl Policy for Moka {
    fn request(&mut self, key: u64, bytes: u64) -> bool {
        let is_hit = self.0.get(&key).is_some();
        if !is_hit {
            self.0.insert(key, bytes);
        }
        is_hit
    }
}

/// It weighs by 16 bits: in kibibytes.
struct TinyUfo(tinyufo::TinyUfo<u64, ()>);

impl Policy for TinyUfo {
    fn request(&mut self, key: u64, bytes: u64) -> bool {
        let is_hit = self.0.get(&key).is_some();
        if !is_hit {
            self.0.put(key, (), u16::try_from(bytes >> 10).unwrap_or(u16::MAX));
        }
        is_hit
    }
}

struct Lru {
    bytes_max: u64,
    bytes: u64,
    now: u64,
    /// When each was asked for last, and its size.
    entries: HashMap<u64, (u64, u64)>,
    by_time: BTreeMap<u64, u64>,
}

impl Lru {
    fn new(capacity: Capacity) -> Self {
        let (entries, by_time) = (HashMap::new(), BTreeMap::new());
        Self { bytes_max: capacity.bytes, bytes: 0, now: 0, entries, by_time }
    }
}

impl Policy for Lru {
    fn request(&mut self, key: u64, bytes: u64) -> bool {
        self.now += 1;
        self.by_time.insert(self.now, key);
        if let Some((before, _)) = self.entries.insert(key, (self.now, bytes)) {
            self.by_time.remove(&before);
            return true;
        }
        self.bytes += bytes;
        while self.bytes > self.bytes_max {
            let (_, oldest) = self.by_time.pop_first().expect("what has bytes is listed");
            self.bytes -= self.entries.remove(&oldest).expect("what is listed is there").1;
        }
        false
    }
}

/// S3-FIFO as published (SOSP 2023): a tenth for newcomers, ghosts for as many as are there, counts
/// to 3, promoted from 2.
struct S3Fifo {
    bytes_max: u64,
    bytes: [u64; 2],
    /// Newcomers, and the others; oldest first.
    queues: [VecDeque<u64>; 2],
    entries: HashMap<u64, Counted>,
    ghosts: VecDeque<u64>,
    ghosts_by_key: HashMap<u64, usize>,
}

struct Counted {
    visits: u8,
    bytes: u64,
}

impl S3Fifo {
    fn new(capacity: Capacity) -> Self {
        Self {
            bytes_max: capacity.bytes,
            bytes: [0; 2],
            queues: Default::default(),
            entries: HashMap::new(),
            ghosts: VecDeque::new(),
            ghosts_by_key: HashMap::new(),
        }
    }

    fn push(&mut self, queue: usize, key: u64) {
        self.bytes[queue] += self.entries[&key].bytes;
        self.queues[queue].push_back(key);
    }

    fn evict_one(&mut self) {
        let is_newcomers = self.bytes[0] > self.bytes_max / 10 || self.queues[1].is_empty();
        let queue = usize::from(!is_newcomers);
        let key = self.queues[queue].pop_front().expect("what has bytes is listed");
        let entry = self.entries.get_mut(&key).expect("what is listed is there");
        self.bytes[queue] -= entry.bytes;
        match (queue, entry.visits) {
            (0, 0 | 1) => {
                self.entries.remove(&key);
                self.remember(key);
            }
            (0, _) => {
                entry.visits = 0;
                self.push(1, key);
            }
            (_, 0) => drop(self.entries.remove(&key)),
            (_, visits) => {
                entry.visits = visits - 1;
                self.push(1, key);
            }
        }
    }

    fn remember(&mut self, key: u64) {
        self.ghosts.push_back(key);
        *self.ghosts_by_key.entry(key).or_default() += 1;
        while self.ghosts.len() > self.entries.len() {
            let oldest = self.ghosts.pop_front().expect("it is not empty");
            let count = self.ghosts_by_key.get_mut(&oldest).expect("ghosts are listed");
            *count -= 1;
            if *count == 0 {
                self.ghosts_by_key.remove(&oldest);
            }
        }
    }
}

impl Policy for S3Fifo {
    fn request(&mut self, key: u64, bytes: u64) -> bool {
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.visits = (entry.visits + 1).min(3);
            return true;
        }
        self.entries.insert(key, Counted { visits: 0, bytes });
        self.push(usize::from(self.ghosts_by_key.contains_key(&key)), key);
        while self.bytes.iter().sum::<u64>() > self.bytes_max {
            self.evict_one();
        }
        false
    }
}
