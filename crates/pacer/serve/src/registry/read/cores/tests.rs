//! Items are done once each, in order, on any number of threads.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Barrier;

use super::*;

#[test]
fn all_is_done_once_and_comes_in_order() {
    for threads in [1, 2, 3, 200] {
        for count in [0, 1, 2, 100] {
            let items: Vec<usize> = (0..count).collect();
            let calls = AtomicUsize::new(0);
            let done = with_threads(threads, &items, |item| {
                calls.fetch_add(1, Ordering::Relaxed);
                item * 2
            });
            assert_eq!(done, items.iter().map(|item| item * 2).collect::<Vec<_>>());
            assert_eq!(calls.into_inner(), count, "{threads} threads");
        }
    }
}

#[test]
fn threads_work_at_once() {
    let both = Barrier::new(2);
    let done = with_threads(2, &[1, 2], |item| {
        both.wait();
        *item
    });
    assert_eq!(done, [1, 2]);
}

#[test]
fn a_panic_of_another_thread_is_the_caller_s() {
    let both = Barrier::new(2);
    let caller = thread::current().id();
    let ended = catch_unwind(AssertUnwindSafe(|| {
        with_threads(2, &[1, 2], |_| {
            both.wait();
            assert_eq!(thread::current().id(), caller, "planted");
        })
    }));
    assert!(ended.is_err());
}
