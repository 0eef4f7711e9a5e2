//! The builder: one thread at the lowest priority for work that no request waits for, such as
//! building a generation, reading campaign files, or writing state to disk.
//!
//! Its jobs run one at a time, the longest due first. It must not know what they do; a job may wait
//! for other threads, but never for another job.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tracing::{error, warn};

/// Runs a job once; returns the delay to its next run. None if it runs only on request.
type JobRun = Box<dyn FnMut() -> Option<Duration> + Send>;

/// A handle to the thread, which ends with the last handle and its last [`Job`].
#[derive(Clone, Debug)]
pub struct Builder(Arc<BuilderThread>);

#[derive(Debug)]
struct BuilderThread {
    queue: Arc<Queue>,
    thread: Option<JoinHandle<()>>,
}

/// Recurring work. Its drop removes the job and waits for the current run, unless within a job.
#[derive(Debug)]
pub struct Job {
    handle: JobHandle,
    builder: Builder,
}

/// Requests runs of a job. Clones refer to the same job.
#[derive(Clone, Debug)]
pub struct JobHandle {
    queue: Arc<Queue>,
    id: u64,
}

#[derive(Debug, Default)]
struct Queue {
    jobs: Mutex<Jobs>,
    /// Notified when a job is due or has run, and at the end.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Jobs {
    by_id: BTreeMap<u64, JobEntry>,
    added: u64,
    running: Option<u64>,
    is_ended: bool,
}

struct JobEntry {
    name: &'static str,
    due_at: Option<Instant>,
    /// None while it runs.
    run: Option<JobRun>,
}

impl std::fmt::Debug for JobEntry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct(self.name).field("due_at", &self.due_at).finish_non_exhaustive()
    }
}

impl Builder {
    /// Starts the thread.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub fn start() -> io::Result<Self> {
        let queue = Arc::<Queue>::default();
        let own = Arc::clone(&queue);
        let thread = thread::Builder::new().name("builder".to_owned()).spawn(move || {
            if let Err(error) = crate::process::lower_priority() {
                warn!(%error, "the builder keeps its normal priority and may delay requests");
            }
            own.work();
        })?;
        Ok(Self(Arc::new(BuilderThread { queue, thread: Some(thread) })))
    }

    /// Adds a job, which runs first on request, then as `run` says. A panic removes only this job.
    pub fn add(
        &self,
        name: &'static str,
        run: impl FnMut() -> Option<Duration> + Send + 'static,
    ) -> Job {
        let queue = Arc::clone(&self.0.queue);
        let mut jobs = queue.lock();
        let id = jobs.added;
        jobs.added += 1;
        jobs.by_id.insert(id, JobEntry { name, due_at: None, run: Some(Box::new(run)) });
        drop(jobs);
        Job { handle: JobHandle { queue, id }, builder: self.clone() }
    }

    fn is_this_thread(&self) -> bool {
        let id = self.0.thread.as_ref().map(|thread| thread.thread().id());
        id == Some(thread::current().id())
    }
}

impl Drop for BuilderThread {
    fn drop(&mut self) {
        self.queue.lock().is_ended = true;
        self.queue.changed.notify_all();
        let thread = self.thread.take().expect("it is joined once, here");
        // A job may own the last handle.
        if thread.thread().id() != thread::current().id() && thread.join().is_err() {
            error!("the builder had panicked");
        }
    }
}

impl Job {
    /// See [`JobHandle::run_soon`].
    pub fn run_soon(&self) {
        self.handle.run_soon();
    }

    /// A handle that requests runs.
    pub fn handle(&self) -> JobHandle {
        self.handle.clone()
    }

    /// Waits until the job is not due, and removes it.
    pub fn finish(self) {
        self.wait_while(|entry| entry.due_at.is_some() || entry.run.is_none());
    }

    fn wait_while(&self, holds: impl Fn(&JobEntry) -> bool) {
        let JobHandle { queue, id } = &self.handle;
        let is_on = |jobs: &mut Jobs| jobs.by_id.get(id).is_some_and(&holds);
        let jobs = queue.changed.wait_while(queue.lock(), is_on);
        drop(jobs.unwrap_or_else(PoisonError::into_inner));
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        let JobHandle { queue, id } = &self.handle;
        let entry = queue.lock().by_id.remove(id);
        // Dropped without the lock: it may own other jobs.
        drop(entry);
        if !self.builder.is_this_thread() {
            let is_running = |jobs: &mut Jobs| jobs.running == Some(*id);
            drop(queue.changed.wait_while(queue.lock(), is_running));
        }
    }
}

impl JobHandle {
    /// Runs the job once after those already due. A request during a run causes another run.
    pub fn run_soon(&self) {
        let now = Instant::now();
        if let Some(entry) = self.queue.lock().by_id.get_mut(&self.id) {
            entry.due_at = Some(entry.due_at.map_or(now, |due_at| due_at.min(now)));
        }
        self.queue.changed.notify_all();
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Jobs> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        while let Some((id, mut run)) = self.next() {
            let ran = catch_unwind(AssertUnwindSafe(&mut run));
            let mut jobs = self.lock();
            let job = jobs.by_id.get_mut(&id);
            // Dropped without the lock: it may own other jobs.
            let ended = match (ran, job) {
                (Ok(next), Some(entry)) => {
                    let next_at = next.map(|after| Instant::now() + after);
                    entry.due_at = entry.due_at.into_iter().chain(next_at).min();
                    entry.run = Some(run);
                    None
                }
                (Err(_), Some(entry)) => {
                    error!(job = entry.name, "a job of the builder panicked: it runs no more");
                    jobs.by_id.remove(&id);
                    Some(run)
                }
                (_, None) => Some(run),
            };
            drop(jobs);
            drop(ended);
            self.lock().running = None;
            self.changed.notify_all();
        }
    }

    /// Waits for the next due job and takes it. None at the end.
    fn next(&self) -> Option<(u64, JobRun)> {
        let mut jobs = self.lock();
        loop {
            if jobs.is_ended {
                return None;
            }
            let dues = jobs.by_id.iter().filter_map(|(id, entry)| Some((entry.due_at?, *id)));
            let Some((due_at, id)) = dues.min() else {
                jobs = self.changed.wait(jobs).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let left = due_at.saturating_duration_since(Instant::now());
            if !left.is_zero() {
                let waited = self.changed.wait_timeout(jobs, left);
                jobs = waited.unwrap_or_else(PoisonError::into_inner).0;
                continue;
            }
            jobs.running = Some(id);
            let entry = jobs.by_id.get_mut(&id).expect("it was found a moment ago");
            entry.due_at = None;
            let run = entry.run.take().expect("no other job runs");
            return Some((id, run));
        }
    }
}
