//! Work on many items, on several cores: hundreds of files are read when all campaigns change.
//!
//! Owns how many threads work, and in which order comes what they did. Knows no item.

use std::num::NonZero;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, Builder};

/// Most threads that work at once: what is read is kept one after the other, so that more help little.
const THREADS_MAX: usize = 4;

/// Does `each` for all items, and gives what came of them, in their order. The calling thread works too,
/// and others with its priority.
pub(super) fn in_order<T: Sync, U: Send>(items: &[T], each: impl Fn(&T) -> U + Sync) -> Vec<U> {
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    with_threads(cores.min(THREADS_MAX), items, each)
}

fn with_threads<T: Sync, U: Send>(
    threads: usize,
    items: &[T],
    each: impl Fn(&T) -> U + Sync,
) -> Vec<U> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(index) else { return done };
            done.push((index, each(item)));
        }
    };
    let mut done = thread::scope(|scope| {
        // Where no more threads can be started, those that are there do all.
        let start = |_| Builder::new().name("campaigns".to_owned()).spawn_scoped(scope, work).ok();
        let others: Vec<_> = (1..threads.min(items.len())).filter_map(start).collect();
        let mut done = work();
        for other in others {
            done.extend(other.join().unwrap_or_else(|panic| resume_unwind(panic)));
        }
        done
    });
    done.sort_unstable_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, it)| it).collect()
}

#[cfg(test)]
mod tests {
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

    /// Each of two waits until the other is there.
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
}
