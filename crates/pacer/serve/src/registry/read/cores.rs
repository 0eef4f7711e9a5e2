//! Processes many items on several cores: hundreds of files are read when all campaigns change.

use std::num::NonZero;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, Builder};

/// Most threads: results are stored one by one, so that more threads help little.
const THREADS_MAX: usize = 4;

/// Runs `each` for all items, and returns the results in order. The calling thread works too, and
/// the others have its priority.
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
        // If no thread can be started, the existing ones do all.
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
mod tests;
