//! The control thread: one Tokio runtime for all that is looked after beside the shards, such as the
//! admin listener, signals, names of DSPs and rights to call them.
//!
//! Nothing on it blocks or takes longer than milliseconds: what may is a job of the
//! [`builder`](crate::builder), or is answered on one of a few threads of its own
//! ([`tokio::task::spawn_blocking`]). It must not know what it runs.

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

/// Most threads for what blocks.
pub(crate) const BLOCKING_MAX: usize = 6;

/// A handle to the thread, which ends with the last one.
#[derive(Clone, Debug)]
pub struct Control(Arc<ControlThread>);

#[derive(Debug)]
struct ControlThread {
    runtime: Handle,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Work on the thread. It goes on when this is dropped.
#[derive(Debug)]
pub struct ControlTask {
    abort: AbortHandle,
    /// Closed when the work has ended.
    ended: mpsc::Receiver<()>,
}

impl Control {
    /// Starts the thread.
    ///
    /// # Errors
    /// When the thread or its runtime cannot be set up.
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
                    // Nothing is ever sent: the sender is dropped.
                    let _stopped = runtime.block_on(stopped);
                    // What blocks must not hold up the end.
                    runtime.shutdown_background();
                }
                Err(error) => drop(ready.send(Err(error))),
            }
        })?;
        let died = |_| Err(io::Error::other("the control thread died"));
        let runtime = started.recv().unwrap_or_else(died)?;
        Ok(Self(Arc::new(ControlThread { runtime, stop: Some(stop), thread: Some(thread) })))
    }

    /// For what is to be made within a runtime, and used on the thread.
    pub fn enter(&self) -> EnterGuard<'_> {
        self.0.runtime.enter()
    }

    /// Catches a signal from now on.
    ///
    /// # Errors
    /// When its handler cannot be set up.
    pub fn signal(&self, kind: SignalKind) -> io::Result<Signal> {
        let _runtime = self.enter();
        signal(kind)
    }

    /// Makes a future on the thread, and runs it to its end.
    pub fn spawn<F: Future<Output = ()> + 'static>(
        &self,
        make: impl FnOnce() -> F + Send + 'static,
    ) -> ControlTask {
        let (ends, ended) = mpsc::channel::<()>();
        let task = self.0.runtime.spawn(async move {
            // Aborted, it aborts what it has begun.
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
    /// Ends the work where it waits, and returns once it is dropped.
    pub fn stop(self) {
        self.abort.abort();
        self.join();
    }

    /// Waits for its end.
    pub fn join(self) {
        // Nothing is ever sent.
        let _ended = self.ended.recv();
    }
}
