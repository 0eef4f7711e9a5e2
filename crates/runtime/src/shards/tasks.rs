//! Tasks that die alone: a panic ends its task, is counted, and affects nothing else.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tracing::error;

use super::metrics::ShardCounters;
use crate::metrics::Padded;

/// Starts tasks on its shard. Clones refer to the same shard.
#[derive(Clone, Debug)]
pub struct Tasks(Rc<TaskTally>);

#[derive(Debug)]
struct TaskTally {
    counters: Arc<Padded<ShardCounters>>,
    /// Isolated tasks and open connections.
    unfinished: Cell<u64>,
    idle: Notify,
}

impl Tasks {
    pub(super) fn new(counters: Arc<Padded<ShardCounters>>) -> Self {
        Self(Rc::new(TaskTally { counters, unfinished: Cell::new(0), idle: Notify::new() }))
    }

    /// Runs a task whose panic harms no other: Tokio catches the panic and drops the task; it is
    /// counted and logged. A drain waits for the task; endless work belongs in
    /// [`tokio::task::spawn_local`].
    ///
    /// # Panics
    /// Outside of a shard's runtime.
    pub fn spawn_isolated<T: 'static>(
        &self,
        task: impl Future<Output = T> + 'static,
    ) -> JoinHandle<T> {
        let watch = PanicWatch(self.unfinished());
        tokio::task::spawn_local(async move {
            let _watch = watch;
            task.await
        })
    }

    pub(super) fn counters(&self) -> &ShardCounters {
        &self.0.counters
    }

    pub(super) fn unfinished(&self) -> Unfinished {
        self.0.unfinished.set(self.0.unfinished.get() + 1);
        Unfinished(self.clone())
    }

    pub(super) async fn finished(&self) {
        while self.0.unfinished.get() != 0 {
            self.0.idle.notified().await;
        }
    }
}

/// Something that a drain waits for until it is dropped.
#[derive(Debug)]
pub(super) struct Unfinished(pub(super) Tasks);

impl Drop for Unfinished {
    fn drop(&mut self) {
        let left = self.0.0.unfinished.get() - 1;
        self.0.0.unfinished.set(left);
        if left == 0 {
            self.0.0.idle.notify_one();
        }
    }
}

/// Dropped with its task: during unwinding if the task panicked.
struct PanicWatch(Unfinished);

impl Drop for PanicWatch {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.0.counters().panicked.increment();
            error!("a task panicked and was ended; the shard goes on");
        }
    }
}
