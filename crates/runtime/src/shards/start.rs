//! Starts threads that report to the starter that they run, or why they do not. It must not know what
//! they run.

use std::io;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

/// Why the shards do not start. `accept` ends on those that had started.
#[derive(Debug, thiserror::Error)]
pub enum ShardsStartError {
    /// A thread does not start.
    #[error("cannot start thread {name}: {cause}")]
    Thread {
        /// The thread's name.
        name: String,
        /// The kernel's error.
        cause: io::Error,
    },
    /// A shard cannot be bound to its core.
    #[error("cannot run on core {core}: {cause}; choose one that this process may use")]
    Pin {
        /// The core's number.
        core: usize,
        /// The kernel's error.
        cause: io::Error,
    },
    /// A runtime, or its registration of a listener, fails.
    #[error("cannot set up the runtime of thread {name}: {cause}")]
    Runtime {
        /// The thread's name.
        name: String,
        /// The kernel's error.
        cause: io::Error,
    },
}

/// Reports to the starter that a thread runs, or why it does not.
pub(super) type Ready = mpsc::Sender<Result<(), ShardsStartError>>;

pub(super) fn spawn_ready(
    name: String,
    run: impl FnOnce(&Ready) + Send + 'static,
) -> Result<JoinHandle<()>, ShardsStartError> {
    let (ready, outcome) = mpsc::channel();
    let thread = thread::Builder::new()
        .name(name.clone())
        .spawn(move || run(&ready))
        .map_err(|cause| ShardsStartError::Thread { name: name.clone(), cause })?;
    let died = |_| {
        let cause = io::Error::other("it panicked while starting");
        Err(ShardsStartError::Thread { name, cause })
    };
    outcome.recv().unwrap_or_else(died).map(|()| thread)
}
