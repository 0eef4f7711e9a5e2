//! Look-ups of keys that are all there, in the cache's directory and in other caches.
//!
//! Each value says its length; a look-up reads one word of it, or copies it while it is protected,
//! or behind an `Arc` where the cache hands out nothing else.

use std::hint::black_box;
use std::sync::Arc;

use anyhow::Result;
use bravo::Locks;
use cache_core::store::directory::{Change, Directory, Shard, Weigh};
use cache_core::store::read_mostly::ReadMostly;
use clap::Args;
use serde_json::json;

use crate::Say;
use crate::loops::{Kind, LoopOptions, Shared, Work};
use testbed::draws::{Draws, Zipf};

/// Like a URL of a creative.
const KEY_BYTES: usize = 75;
const SEEDS: [u64; 4] = [1, 2, 3, 4];
/// Nothing is evicted.
const BYTES_MAX: usize = 1 << 40;
/// Keys that a thread looks up, again and again.
const DRAWN: usize = 1 << 14;

#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    loops: LoopOptions,
    /// How many keys there are, drawn by Zipf's law; 1 for one hot key.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 10_000])]
    keys: Vec<usize>,
    /// Bytes that each look-up copies; 0 looks at one word.
    #[arg(long, value_delimiter = ',', default_values_t = [0, 1024])]
    bytes: Vec<usize>,
}

pub fn run(options: &Options, say: Say<'_>) -> Result<()> {
    for &keys in &options.keys {
        for &bytes in &options.bytes {
            let work = Work { bytes, reads_per_write: 0 };
            let label = json!({ "keys": keys, "bytes": bytes });
            let content = Content::new(keys.max(1), bytes.max(8));
            options.loops.measure(&KINDS, &content, (work, &label), say)?;
        }
    }
    Ok(())
}

/// What every cache contains, and what is looked up.
struct Content {
    keys: Vec<Box<[u8]>>,
    zipf: Zipf,
    bytes: usize,
}

impl Content {
    fn new(keys: usize, bytes: usize) -> Self {
        let key = |number: usize| {
            let text = format!("cdn.example\tGET\t/creatives/{number:012}");
            format!("{text:x<KEY_BYTES$}").into_bytes().into()
        };
        Self { keys: (0..keys).map(key).collect(), zipf: Zipf::new(keys), bytes }
    }

    /// As each thread looks them up, in an order of its own.
    fn drawn(&self, seed: usize) -> Vec<Box<[u8]>> {
        let mut random = Draws::seeded(seed as u64);
        let draw = |_| self.keys[self.zipf.draw(&mut random)].clone();
        (0..DRAWN.min(self.keys.len() * 8)).map(draw).collect()
    }
}

const KINDS: [Kind<Content>; 7] = [
    ("directory", directory::<Locks<Shard<Value>>>),
    ("directory-parking_lot", directory::<ParkingLot<Shard<Value>>>),
    ("quick_cache", |threads, content| {
        let cache = quick_cache::sync::Cache::new(content.keys.len() * 2);
        fill(content, |key, value| cache.insert(key, Arc::new(value)));
        shared(threads, content, cache, |cache, key, copy| {
            read(&cache.get(key).expect("it is there"), copy);
        })
    }),
    ("moka", |threads, content| {
        let cache = moka::sync::Cache::new(content.keys.len() as u64 * 2);
        fill(content, |key, value| cache.insert(key, Arc::new(value)));
        shared(threads, content, cache, |cache, key, copy| {
            read(&cache.get(key).expect("it is there"), copy);
        })
    }),
    ("tinyufo", |threads, content| {
        let cache = tinyufo::TinyUfo::new(content.keys.len() * 2, content.keys.len() * 2);
        fill(content, |key, value| drop(cache.put(key, Arc::new(value), 1)));
        shared(threads, content, cache, |cache, key, copy| {
            read(&cache.get(key).expect("it is there"), copy);
        })
    }),
    ("papaya", |threads, content| {
        let map = papaya::HashMap::new();
        fill(content, |key, value| {
            map.pin().insert(key, value);
        });
        shared(threads, content, map, |map, key, copy| {
            read(map.pin().get(key).expect("it is there"), copy);
        })
    }),
    // Without any thread but one.
    ("std-map", |threads, content| {
        let mut map = std::collections::HashMap::new();
        fill(content, |key, value| drop(map.insert(key, value)));
        shared(threads, content, map, |map, key, copy| {
            read(map.get(key).expect("it is there"), copy);
        })
    }),
];

/// Content of a fixed length.
struct Value(Box<[u8]>);

impl Weigh for Value {
    fn bytes(&self) -> usize {
        self.0.len()
    }
}

fn read(value: &Value, copy: &mut [u8]) {
    let value = black_box(&value.0);
    if value.len() > 8 {
        copy.copy_from_slice(value);
        black_box(copy);
    } else {
        black_box(value[0]);
    }
}

fn fill(content: &Content, mut put: impl FnMut(Box<[u8]>, Value)) {
    for key in &content.keys {
        put(key.clone(), Value(vec![0; content.bytes].into()));
    }
}

fn directory<L>(threads: usize, content: &Content) -> Vec<Box<dyn Shared>>
where
    L: ReadMostly<Shard<Value>> + Send + Sync + 'static,
    L::Handle: Send + 'static,
{
    let (directory, mut handles) = Directory::<Value, L>::new(BYTES_MAX, SEEDS, threads);
    fill(content, |key, value| {
        let evicted = directory.change(&mut handles[0], &key, |_| Change::Put(value));
        assert!(evicted.is_empty(), "all keys have room");
    });
    let directory = Arc::new(directory);
    let one = |(seed, mut handle)| {
        let directory = Arc::clone(&directory);
        looking_up(content.drawn(seed), move |key, copy| {
            directory.probe(&mut handle, key, |value| read(value, copy)).expect("it is there");
        })
    };
    handles.into_iter().enumerate().map(one).collect()
}

/// A cache whose threads need nothing of their own.
fn shared<C: Send + Sync + 'static>(
    threads: usize,
    content: &Content,
    cache: C,
    look_up: fn(&C, &Box<[u8]>, &mut [u8]),
) -> Vec<Box<dyn Shared>> {
    let cache = Arc::new(cache);
    let one = |seed| {
        let cache = Arc::clone(&cache);
        looking_up(content.drawn(seed), move |key, copy| look_up(&cache, key, copy))
    };
    (0..threads).map(one).collect()
}

fn looking_up(
    keys: Vec<Box<[u8]>>,
    look_up: impl FnMut(&Box<[u8]>, &mut [u8]) + Send + 'static,
) -> Box<dyn Shared> {
    Box::new(LookingUp { keys, next: 0, look_up })
}

struct LookingUp<F> {
    keys: Vec<Box<[u8]>>,
    next: usize,
    look_up: F,
}

impl<F: FnMut(&Box<[u8]>, &mut [u8]) + Send> Shared for LookingUp<F> {
    fn read(&mut self, times: u64, copy: &mut [u8]) {
        for _ in 0..times {
            (self.look_up)(&self.keys[self.next], copy);
            self.next = (self.next + 1) % self.keys.len();
        }
    }

    fn write(&mut self) {}
}

/// The directory's locks, each of them an ordinary one.
struct ParkingLot<T>(Vec<parking_lot::RwLock<T>>);

impl<T> ReadMostly<T> for ParkingLot<T> {
    type Handle = ();

    fn new(values: impl IntoIterator<Item = T>, threads: usize) -> (Self, Vec<()>) {
        (Self(values.into_iter().map(parking_lot::RwLock::new).collect()), vec![(); threads])
    }

    fn read<R>(&self, (): &mut (), at: usize, visit: impl FnOnce(&T) -> R) -> R {
        visit(&self.0[at].read())
    }

    fn write<R>(&self, (): &mut (), at: usize, visit: impl FnOnce(&mut T) -> R) -> R {
        visit(&mut self.0[at].write())
    }
}
