//! Every order of a few threads' reads and writes that the memory model allows.

use std::sync::atomic::{AtomicUsize as Count, Ordering::Relaxed};

use loom::model::Builder;
use loom::thread;

use super::*;

/// Two words that every writer changes alike.
#[derive(Clone, Copy, Default)]
struct Pair(u32, u32);

impl Pair {
    fn sum(&self) -> u32 {
        assert_eq!(self.0, self.1, "no reader sees half of a write");
        self.0
    }

    fn raise(&mut self) {
        self.0 += 1;
        self.1 = self.0;
    }
}

fn model(preemptions: usize, test: impl Fn() + Send + Sync + 'static) {
    let mut model = Builder::new();
    model.preemption_bound = Some(preemptions);
    model.check(test);
}

fn is_biased<T>(locks: &Locks<T>, at: usize) -> bool {
    locks.locks[at].is_biased.0.load(Relaxed)
}

/// Lets the next read by the lock beneath give the bias.
fn end_inhibition<T>(locks: &Locks<T>) {
    for lock in &locks.locks {
        lock.beneath.0.inhibited.store(0, Relaxed);
    }
}

#[test]
fn readers_see_whole_writes_in_order() {
    static BY_BIAS: Count = Count::new(0);
    static BENEATH: Count = Count::new(0);
    model(2, || {
        let (locks, mut handles) = Locks::new([Pair::default()], 3);
        let locks = Arc::new(locks);
        let mut writer = handles.pop().expect("three handles");
        let readers: Vec<_> = handles
            .into_iter()
            .map(|mut handle| {
                let locks = Arc::clone(&locks);
                thread::spawn(move || {
                    let mut seen = 0;
                    for _ in 0..2 {
                        let slots = Arc::clone(&handle.slots);
                        let slot = handle.at;
                        let sum = locks.read(&mut handle, 0, |pair| {
                            let by_bias = slots[slot].0.load(Relaxed) == 0;
                            if by_bias { &BY_BIAS } else { &BENEATH }.fetch_add(1, Relaxed);
                            pair.sum()
                        });
                        assert!(seen <= sum, "{sum} after {seen}");
                        seen = sum;
                    }
                })
            })
            .collect();
        for _ in 0..2 {
            locks.write(&mut writer, 0, Pair::raise);
            end_inhibition(&locks);
        }
        for reader in readers {
            reader.join().expect("it does not panic");
        }
        assert_eq!(locks.read(&mut writer, 0, Pair::sum), 2);
    });
    assert!(BY_BIAS.load(Relaxed) > 0 && BENEATH.load(Relaxed) > 0, "both ways were modelled");
}

/// A writer that waits for the end of a read may find the slot in use for another lock.
#[test]
fn a_slot_is_used_for_several_locks() {
    model(4, || {
        let (locks, mut handles) = Locks::new([Pair::default(); 2], 2);
        let locks = Arc::new(locks);
        let mut writer = handles.pop().expect("two handles");
        let mut reader = handles.pop().expect("two handles");
        let reading = {
            let locks = Arc::clone(&locks);
            thread::spawn(move || {
                locks.read(&mut reader, 0, Pair::sum);
                locks.read(&mut reader, 1, Pair::sum);
            })
        };
        locks.write(&mut writer, 0, Pair::raise);
        reading.join().expect("it does not panic");
    });
}

#[test]
fn writers_exclude_each_other() {
    model(3, || {
        let (locks, handles) = Locks::new([Pair::default()], 2);
        let locks = Arc::new(locks);
        let writers = handles.into_iter().map(|mut handle| {
            let locks = Arc::clone(&locks);
            thread::spawn(move || {
                locks.write(&mut handle, 0, Pair::raise);
                end_inhibition(&locks);
                locks.read(&mut handle, 0, Pair::sum)
            })
        });
        let sums: Vec<_> =
            writers.collect::<Vec<_>>().into_iter().map(|writer| writer.join().unwrap()).collect();
        assert!(sums.contains(&2), "{sums:?}");
    });
}

#[test]
fn the_bias_returns_after_enough_reads_beneath() {
    loom::model(|| {
        let (locks, mut handles) = Locks::new([Pair::default(); 2], 2);
        let handle = &mut handles[0];
        assert!(is_biased(&locks, 0));
        locks.write(handle, 0, Pair::raise);
        assert!(is_biased(&locks, 1), "the other lock's");
        // One for each slot, and the one that gives it.
        for _ in 0..3 {
            assert!(!is_biased(&locks, 0));
            locks.read(handle, 0, |_| ());
        }
        assert!(is_biased(&locks, 0));
    });
}
