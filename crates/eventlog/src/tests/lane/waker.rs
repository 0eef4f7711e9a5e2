//! No wake-up is lost under any memory order that the model allows.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};

use crate::lane::{AtomicWord, WakeThreshold};

impl AtomicWord for AtomicU64 {
    fn new(value: u64) -> Self {
        Self::new(value)
    }

    fn load(&self) -> u64 {
        self.load(Ordering::Relaxed)
    }

    fn store(&self, value: u64) {
        self.store(value, Ordering::Relaxed);
    }

    fn swap(&self, value: u64) -> u64 {
        self.swap(value, Ordering::Relaxed)
    }

    fn fence() {
        fence(Ordering::SeqCst);
    }
}

/// A shard pushes two records while the thread asks to be woken by the second byte and checks
/// again. Either the thread has seen both or the shard wakes it.
#[test]
fn the_thread_sees_or_is_woken() {
    loom::model(|| {
        let wake_at = Arc::new(WakeThreshold::<AtomicU64>::default());
        let handed_over = Arc::new(AtomicU64::new(0));
        let woken = Arc::new(AtomicBool::new(false));
        let shard = {
            let (wake_at, handed_over) = (Arc::clone(&wake_at), Arc::clone(&handed_over));
            let woken = Arc::clone(&woken);
            loom::thread::spawn(move || {
                for bytes in 1..=2 {
                    handed_over.store(bytes, Ordering::Release);
                    wake_at.reached(bytes, || {
                        let twice = woken.swap(true, Ordering::Relaxed);
                        assert!(!twice, "it is woken once");
                    });
                }
            })
        };
        wake_at.set(2);
        WakeThreshold::<AtomicU64>::fence();
        let seen = handed_over.load(Ordering::Acquire);
        shard.join().expect("it does not panic");
        assert!(seen == 2 || woken.load(Ordering::Relaxed), "{seen} seen, and nobody wakes");
    });
}
