//! Locks on real threads.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use bravo::Locks;

/// Writes of each writer, over all locks. Miri takes a thousand times as long.
const WRITES: usize = if cfg!(miri) { 100 } else { 20_000 };
const LOCKS: usize = 4;

/// Readers and writers on more threads than cores, whose locks are all contended.
#[test]
fn no_reader_sees_half_of_a_write() {
    let (locks, mut handles) = Locks::new([[0_u64; 2]; LOCKS], 6);
    let writers = handles.split_off(4);
    let locks = &locks;
    let is_writing = &AtomicBool::new(true);
    thread::scope(|scope| {
        for mut handle in handles {
            scope.spawn(move || {
                let mut seen = [0; LOCKS];
                while is_writing.load(Ordering::Relaxed) {
                    for (at, seen) in seen.iter_mut().enumerate() {
                        locks.read(&mut handle, at, |[one, other]| {
                            assert_eq!(one, other);
                            assert!(*seen <= *one, "{one} after {seen}");
                            *seen = *one;
                        });
                    }
                }
            });
        }
        let write = |mut handle| {
            for write in 0..WRITES {
                locks.write(&mut handle, write % LOCKS, |[one, other]| {
                    *one += 1;
                    *other += 1;
                });
            }
        };
        let writers: Vec<_> =
            writers.into_iter().map(|handle| scope.spawn(move || write(handle))).collect();
        for writer in writers {
            writer.join().unwrap();
        }
        is_writing.store(false, Ordering::Relaxed);
    });
}

#[test]
fn a_reader_that_panics_leaves() {
    let (locks, mut handles) = Locks::new([0], 2);
    let [reader, writer] = &mut handles[..] else { panic!("two handles") };
    let read = catch_unwind(AssertUnwindSafe(|| locks.read(reader, 0, |_| panic!("planned"))));
    assert!(read.is_err());
    // It would wait for ever.
    locks.write(writer, 0, |value| *value = 1);
    let write = catch_unwind(AssertUnwindSafe(|| locks.write(writer, 0, |_| panic!("planned"))));
    assert!(write.is_err());
    assert_eq!(locks.read(reader, 0, |value| *value), 1);
}

#[test]
#[should_panic(expected = "a handle is used with its own locks")]
fn handles_of_other_locks_are_refused() {
    let (locks, _) = Locks::new([0], 1);
    let (_, mut handles) = Locks::new([0], 1);
    locks.read(&mut handles[0], 0, |_| ());
}
