//! The ways to share one value between threads that read it and some that replace it.

use std::hint::black_box;
use std::sync::Arc;

use arc_swap::ArcSwap;
use bravo::{Handle, Locks};
use crossbeam_utils::sync::ShardedLock;

use crate::loops::{Kind, Shared};

/// The kinds by name. `-arc`: each read clones an `Arc` under the lock and copies after it.
pub const KINDS: [Kind<usize>; 10] = [
    ("none", |threads, &bytes| shared(threads, Bare(new_value(0, bytes)))),
    ("std", |threads, &bytes| shared(threads, Std(std::sync::RwLock::new(new_value(0, bytes))))),
    ("std-arc", |threads, &bytes| {
        shared(threads, StdArc(std::sync::RwLock::new(new_value(0, bytes).into())))
    }),
    ("parking_lot", |threads, &bytes| {
        shared(threads, ParkingLot(parking_lot::RwLock::new(new_value(0, bytes))))
    }),
    ("sharded", |threads, &bytes| shared(threads, Sharded(ShardedLock::new(new_value(0, bytes))))),
    ("bravo", |threads, &bytes| biased(threads, new_value(0, bytes))),
    ("bravo-arc", |threads, &bytes| biased(threads, Arc::<[u8]>::from(new_value(0, bytes)))),
    ("arc-swap", |threads, &bytes| {
        shared(threads, Swapped(ArcSwap::from_pointee(new_value(0, bytes))))
    }),
    ("arc-swap-arc", |threads, &bytes| {
        shared(threads, SwappedArc(ArcSwap::from_pointee(new_value(0, bytes))))
    }),
    ("papaya", |threads, &bytes| {
        let map = papaya::HashMap::new();
        map.pin().insert(KEY, new_value(0, bytes));
        shared(threads, Papaya(map))
    }),
];

/// The only key of the map.
const KEY: u64 = 7;

type Value = Box<[u8]>;

fn new_value(fill: u8, bytes: usize) -> Value {
    vec![fill; bytes].into()
}

/// A kind whose threads need nothing of their own.
trait OneValue: Send + Sync + 'static {
    fn read_once(&self, copy: &mut [u8]);
    /// Replaces the value by what this makes of it.
    fn replace(&self, next: &dyn Fn(&[u8]) -> Value);
}

fn shared(threads: usize, kind: impl OneValue) -> Vec<Box<dyn Shared>> {
    let kind = Arc::new(kind);
    (0..threads).map(|_| -> Box<dyn Shared> { Box::new(SharedHot(Arc::clone(&kind))) }).collect()
}

struct SharedHot<S>(Arc<S>);

impl<S: OneValue> Shared for SharedHot<S> {
    fn read(&mut self, times: u64, copy: &mut [u8]) {
        for _ in 0..times {
            self.0.read_once(copy);
        }
    }

    fn write(&mut self) {
        self.0.replace(&next_of);
    }
}

fn next_of(value: &[u8]) -> Value {
    new_value(value[0].wrapping_add(1), value.len())
}

/// A copy that the compiler may not leave out.
#[inline]
fn copy_from(value: &[u8], copy: &mut [u8]) {
    let value = black_box(value);
    if value.len() > 8 {
        copy.copy_from_slice(value);
        black_box(copy);
    } else {
        black_box(value[0]);
    }
}

struct Bare(Value);

impl OneValue for Bare {
    fn read_once(&self, copy: &mut [u8]) {
        copy_from(&self.0, copy);
    }

    fn replace(&self, _: &dyn Fn(&[u8]) -> Value) {}
}

struct Std(std::sync::RwLock<Value>);

impl OneValue for Std {
    fn read_once(&self, copy: &mut [u8]) {
        copy_from(&self.0.read().expect("no panic"), copy);
    }

    fn replace(&self, next: &dyn Fn(&[u8]) -> Value) {
        let mut value = self.0.write().expect("no panic");
        *value = next(&value);
    }
}

struct StdArc(std::sync::RwLock<Arc<[u8]>>);

impl OneValue for StdArc {
    fn read_once(&self, copy: &mut [u8]) {
        let value = Arc::clone(&self.0.read().expect("no panic"));
        copy_from(&value, copy);
    }

    fn replace(&self, next: &dyn Fn(&[u8]) -> Value) {
        let mut value = self.0.write().expect("no panic");
        *value = next(&value).into();
    }
}

struct ParkingLot(parking_lot::RwLock<Value>);

impl OneValue for ParkingLot {
    fn read_once(&self, copy: &mut [u8]) {
        copy_from(&self.0.read(), copy);
    }

    fn replace(&self, next: &dyn Fn(&[u8]) -> Value) {
        let mut value = self.0.write();
        *value = next(&value);
    }
}

struct Sharded(ShardedLock<Value>);

impl OneValue for Sharded {
    fn read_once(&self, copy: &mut [u8]) {
        copy_from(&self.0.read().expect("no panic"), copy);
    }

    fn replace(&self, next: &dyn Fn(&[u8]) -> Value) {
        let mut value = self.0.write().expect("no panic");
        *value = next(&value);
    }
}

struct Swapped(ArcSwap<Value>);

impl OneValue for Swapped {
    fn read_once(&self, copy: &mut [u8]) {
        copy_from(&self.0.load(), copy);
    }

    fn replace(&self, next: &dyn Fn(&[u8]) -> Value) {
        self.0.store(Arc::new(next(&self.0.load())));
    }
}

struct SwappedArc(ArcSwap<Value>);

impl OneValue for SwappedArc {
    fn read_once(&self, copy: &mut [u8]) {
        copy_from(&self.0.load_full(), copy);
    }

    fn replace(&self, next: &dyn Fn(&[u8]) -> Value) {
        self.0.store(Arc::new(next(&self.0.load())));
    }
}

struct Papaya(papaya::HashMap<u64, Value>);

impl OneValue for Papaya {
    fn read_once(&self, copy: &mut [u8]) {
        let map = self.0.pin();
        copy_from(map.get(&KEY).expect("it is never removed"), copy);
    }

    fn replace(&self, next: &dyn Fn(&[u8]) -> Value) {
        self.0.pin().update(KEY, |value| next(value));
    }
}

/// A value under the lock that is biased to readers.
trait Biased: Send + Sync + 'static {
    fn copy_to(locks: &Locks<Self>, handle: &mut Handle, copy: &mut [u8])
    where
        Self: Sized;
    fn next(&self) -> Self;
}

impl Biased for Value {
    fn copy_to(locks: &Locks<Self>, handle: &mut Handle, copy: &mut [u8]) {
        locks.read(handle, 0, |value| copy_from(value, copy));
    }

    fn next(&self) -> Self {
        next_of(self)
    }
}

impl Biased for Arc<[u8]> {
    fn copy_to(locks: &Locks<Self>, handle: &mut Handle, copy: &mut [u8]) {
        copy_from(&locks.read(handle, 0, Self::clone), copy);
    }

    fn next(&self) -> Self {
        next_of(self).into()
    }
}

fn biased<T: Biased>(threads: usize, value: T) -> Vec<Box<dyn Shared>> {
    let (locks, handles) = Locks::new([value], threads);
    let locks = Arc::new(locks);
    let hot =
        |handle| -> Box<dyn Shared> { Box::new(BiasedHot { locks: Arc::clone(&locks), handle }) };
    handles.into_iter().map(hot).collect()
}

struct BiasedHot<T> {
    locks: Arc<Locks<T>>,
    handle: Handle,
}

impl<T: Biased> Shared for BiasedHot<T> {
    fn read(&mut self, times: u64, copy: &mut [u8]) {
        for _ in 0..times {
            T::copy_to(&self.locks, &mut self.handle, copy);
        }
    }

    fn write(&mut self) {
        self.locks.write(&mut self.handle, 0, |value| *value = value.next());
    }
}
