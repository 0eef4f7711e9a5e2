//! The store under several threads, and the rules beside another implementation.

#![expect(clippy::unwrap_used, reason = "a test may fail where it stands")]

mod differential;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;

use bravo::Handle;
use cache_core::store::directory::{Change, Directory, ENTRY_BYTES, Occupancy, Weigh};

/// A value that says what it is of.
#[derive(Clone, Copy, Debug)]
struct Stamp {
    key: u16,
    version: u64,
}

impl Weigh for Stamp {
    fn bytes(&self) -> usize {
        50
    }
}

fn key_of(key: u16) -> [u8; 2] {
    key.to_be_bytes()
}

/// Removes all, from the first entry to the last. Returns how many there were.
fn clear(directory: &Directory<Stamp>, handle: &mut Handle) -> usize {
    let (mut count, mut cursor) = (0, Some(0));
    while let Some(at) = cursor {
        let (keys, next) = directory.select(handle, at, 100, |_, _, _| true);
        for key in keys {
            count += directory.change(handle, &key, |_| Change::Remove).len();
        }
        cursor = next;
    }
    count
}

/// Threads that put, change, remove and select while others look up: every value is of its key, none
/// is older than what its thread has seen or removed, and the books are right in the end.
#[test]
fn threads_see_no_value_of_another_key_and_none_twice_removed() {
    const KEYS: u16 = 64;
    // Miri takes a thousand times as long.
    const CHANGES: u32 = if cfg!(miri) { 150 } else { 30_000 };
    let bytes_max = 40 * (ENTRY_BYTES + 52);
    let (directory, mut handles) = Directory::<Stamp>::new(bytes_max, [1, 2, 3, 4], 5);
    let directory = &directory;
    let is_over = &AtomicBool::new(false);
    // Raised before a value is put: no version above it is ever seen.
    let versions = &AtomicU64::new(0);
    let probing = handles.split_off(3);
    thread::scope(|scope| {
        for mut handle in probing {
            scope.spawn(move || {
                let mut seen = [0; KEYS as usize];
                while !is_over.load(Relaxed) {
                    for key in 0..KEYS {
                        let found = directory.probe(&mut handle, &key_of(key), |stamp| *stamp);
                        if let Some(stamp) = found {
                            assert_eq!(stamp.key, key);
                            assert!(stamp.version >= seen[usize::from(key)], "{stamp:?}");
                            seen[usize::from(key)] = stamp.version;
                        }
                    }
                }
            });
        }
        let changing: Vec<_> = (1_u32..)
            .zip(handles)
            .map(|(seed, mut handle)| {
                scope.spawn(move || {
                    let mut random = seed;
                    for _ in 0..CHANGES {
                        random ^= random << 13;
                        random ^= random >> 17;
                        random ^= random << 5;
                        let key = u16::try_from(random >> 8 & 63).expect("six bits");
                        let gone = match random % 16 {
                            0 => {
                                let is_wanted = |at: &[u8], _: &Stamp, _| at == key_of(key);
                                let (keys, _) = directory.select(&mut handle, 0, 8, is_wanted);
                                let mut remove =
                                    |key| directory.change(&mut handle, key, |_| Change::Remove);
                                keys.iter().flat_map(|key| remove(key)).collect()
                            }
                            1 | 2 => {
                                directory.change(&mut handle, &key_of(key), |_| Change::Remove)
                            }
                            // Versions of a key rise, since one change happens at a time.
                            _ => directory.change(&mut handle, &key_of(key), |_| {
                                let version = versions.fetch_add(1, Relaxed);
                                Change::Put(Stamp { key, version })
                            }),
                        };
                        assert!(gone.iter().all(|stamp| stamp.version < versions.load(Relaxed)));
                    }
                    handle
                })
            })
            .collect();
        let mut handles: Vec<_> =
            changing.into_iter().map(|thread| thread.join().expect("no panic")).collect();
        is_over.store(true, Relaxed);
        let left = clear(directory, &mut handles[0]);
        assert!((1..=40).contains(&left), "{left}");
        assert_eq!(directory.occupancy(), Occupancy { entries: 0, bytes: 0 });
    });
}
