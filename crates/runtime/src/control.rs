//! The control thread: one Tokio runtime for work besides the shards, such as the admin listener,
//! signals, DNS and call limits of DSPs.
//!
//! Nothing on it blocks or takes longer than milliseconds. Slow work is a job of the
//! [`builder`](crate::builder) or runs on one of a few blocking threads
//! ([`tokio::task::spawn_blocking`]). The thread must not know what it runs.

#[cfg(test)]
mod tests;

use std::io;
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};

use tokio::runtime::{Builder, EnterGuard, Handle, LocalOptions};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;
use tokio::task::{AbortHandle, JoinSet};
use tracing::error;

pub(crate) const BLOCKING_MAX: usize = 6;

/// A handle to the thread, which ends with the last handle.
#[derive(Clone, Debug)]
pub struct Control(Arc<ControlThread>);

#[derive(Debug)]
struct ControlThread {
    runtime: Handle,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// A task on the thread. Dropping this does not stop it.
#[derive(Debug)]
pub struct ControlTask {
    abort: AbortHandle,
    ended: mpsc::Receiver<()>,
}

impl Control {
    /// Starts the thread.
    ///
    /// # Errors
    /// If the thread or its runtime cannot be set up.
    pub fn start() -> io::Result<Self> {
        let (ready, started) = mpsc::channel();
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = thread::Builder::new().name("control".to_owned()).spawn(move || {
            let runtime = Builder::new_current_thread()
                .enable_all()
                .thread_name("control-answer")
                .max_blocking_threads(BLOCKING_MAX)
                .build_local(LocalOptions::default());
            // The starter waits for exactly one message.
            match runtime {
                Ok(runtime) => {
                    drop(ready.send(Ok(runtime.handle().clone())));
                    // Ends when the sender is dropped; nothing is ever sent.
                    let _stopped = runtime.block_on(stopped);
                    // Blocking work must not delay the end.
                    runtime.shutdown_background();
                }
                Err(error) => drop(ready.send(Err(error))),
            }
        })?;
        let died = |_| Err(io::Error::other("the control thread died"));
        let runtime = started.recv().unwrap_or_else(died)?;
        Ok(Self(Arc::new(ControlThread { runtime, stop: Some(stop), thread: Some(thread) })))
    }

    /// Enters the runtime, to create values that belong to it.
    pub fn enter(&self) -> EnterGuard<'_> {
        self.0.runtime.enter()
    }

    /// Catches a signal from now on.
    ///
    /// # Errors
    /// If its handler cannot be set up.
    pub fn signal(&self, kind: SignalKind) -> io::Result<Signal> {
        let _runtime = self.enter();
        signal(kind)
    }

    /// Creates a future on the thread and runs it to its end.
    pub fn spawn<F: Future<Output = ()> + 'static>(
        &self,
        make: impl FnOnce() -> F + Send + 'static,
    ) -> ControlTask {
        let (ends, ended) = mpsc::channel::<()>();
        let task = self.0.runtime.spawn(async move {
            // Aborting the set aborts the task within it.
            let mut tasks = JoinSet::new();
            tasks.spawn_local(async move {
                let _ends = ends;
                make().await;
            });
            if tasks.join_next().await.is_some_and(|ended| ended.is_err()) {
                error!("work on the control thread panicked: it does not go on");
            }
        });
        ControlTask { abort: task.abort_handle(), ended }
    }
}

impl Drop for ControlThread {
    fn drop(&mut self) {
        drop(self.stop.take());
        let thread = self.thread.take().expect("it is joined once, here");
        if thread.thread().id() != thread::current().id() && thread.join().is_err() {
            error!("the control thread had panicked");
        }
    }
}

impl ControlTask {
    /// Cancels the task at its next await, and returns once it is dropped.
    pub fn stop(self) {
        self.abort.abort();
        self.join();
    }

    /// Waits for the task to end.
    pub fn join(self) {
        let _ended = self.ended.recv();
    }
}
