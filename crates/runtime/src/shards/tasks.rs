//! Tasks that die alone: a panic in one ends that task, is counted, and nothing else notices.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tracing::error;

use super::ShardCounters;
use crate::metrics::Padded;

/// Starts tasks on the shard it came from; clones are handles to the same shard.
#[derive(Clone, Debug)]
pub struct Tasks(Rc<TaskTally>);

/// What a shard has to finish before it has drained.
#[derive(Debug)]
struct TaskTally {
    counters: Arc<Padded<ShardCounters>>,
    /// Isolated tasks and open connections.
    unfinished: Cell<u64>,
    /// Notified when nothing is unfinished.
    idle: Notify,
}

impl Tasks {
    pub(super) fn new(counters: Arc<Padded<ShardCounters>>) -> Self {
        Self(Rc::new(TaskTally { counters, unfinished: Cell::new(0), idle: Notify::new() }))
    }

    /// Runs a task that may panic without harm to others: Tokio catches the panic at the edge of
    /// the task, dropping all it held, and it is counted and logged. A drain waits for the task;
    /// work that never ends belongs in [`tokio::task::spawn_local`].
    ///
    /// # Panics
    ///
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

    /// Something that a drain waits for until it is dropped.
    pub(super) fn unfinished(&self) -> Unfinished {
        self.0.unfinished.set(self.0.unfinished.get() + 1);
        Unfinished(self.clone())
    }

    /// Waits until nothing is unfinished.
    pub(super) async fn finished(&self) {
        while self.0.unfinished.get() != 0 {
            self.0.idle.notified().await;
        }
    }
}

/// Something that a drain waits for.
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

/// Lives in a task and is dropped with it: while unwinding if the task panicked.
struct PanicWatch(Unfinished);

impl Drop for PanicWatch {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.0.counters().panicked.increment();
            error!("a task panicked and was ended; the shard goes on");
        }
    }
}
