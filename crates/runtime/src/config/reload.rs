//! When a configuration is reread: at SIGHUP, on an operator's request, and when a file changes.
//!
//! Files are polled, not subscribed to: that works on every file system, through symbolic links and
//! mounts, and no lost notification hides a change. A change counts only once two polls in a row
//! agree, so that a folder being written is left alone until it settles. This module must not know
//! what the configuration is for, nor how it is applied.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::signal::unix::{Signal, SignalKind};
use tracing::{info, warn};

use crate::builder::{Builder, Job, JobHandle};
use crate::config::{ConfigProblems, Loaded, Section, Sources, load_tracked};
use crate::control::Control;
use crate::shutdown::Shutdown;

/// Why files are reread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// SIGHUP.
    Signal,
    /// An operator asked, through a [`ReloadHandle`].
    Requested,
    /// This file, or the matches of this pattern, changed and settled.
    Changed(PathBuf),
    /// The last reading asked for another; see [`WatchedFiles::retry_after`].
    Retry,
}

/// The files to watch.
#[derive(Clone, Debug)]
pub struct WatchedFiles {
    /// Their state when read: a different state is a change.
    pub sources: Sources,
    /// Interval between polls; zero to disable them.
    pub interval: Duration,
    /// When to reread them even without a change. None if not needed.
    pub retry_after: Option<Duration>,
}

/// SIGHUP, which no longer ends the process: the control thread catches it.
#[derive(Debug)]
pub struct Hangup {
    signal: Signal,
    control: Control,
}

impl Hangup {
    /// Catches it from now on.
    ///
    /// # Errors
    /// If its handler cannot be set up.
    pub fn catch(control: &Control) -> io::Result<Self> {
        Ok(Self { signal: control.signal(SignalKind::hangup())?, control: control.clone() })
    }
}

/// Watched files, polled by a job of the builder until this is dropped.
#[derive(Debug)]
pub struct Reload {
    _job: Job,
    handle: ReloadHandle,
}

/// Requests a reload. Clones refer to the same files.
#[derive(Clone, Debug)]
pub struct ReloadHandle {
    pending: Arc<PendingTriggers>,
    job: JobHandle,
}

#[derive(Debug, Default)]
struct PendingTriggers {
    by_signal: AtomicBool,
    by_operator: AtomicBool,
}

impl ReloadHandle {
    /// Requests a reload without waiting for it. Several requests before a reload cause one.
    pub fn request(&self) {
        self.pending.by_operator.store(true, Ordering::Release);
        self.job.run_soon();
    }
}

impl Reload {
    /// Calls `read` for every trigger until `shutdown` begins.
    pub fn start(
        builder: &Builder,
        hangup: Hangup,
        watched: WatchedFiles,
        shutdown: &Shutdown,
        mut read: impl FnMut(Trigger) -> WatchedFiles + Send + 'static,
    ) -> Self {
        let pending = Arc::<PendingTriggers>::default();
        let (own, shutdown) = (Arc::clone(&pending), shutdown.clone());
        let mut following = FileWatch::new(watched);
        let job = builder.add("reload", move || {
            if shutdown.is_started() {
                return None;
            }
            if let Some(trigger) = following.trigger(&own) {
                following = FileWatch::new(read(trigger));
            }
            following.next_poll()
        });
        job.run_soon();
        let handle = ReloadHandle { pending, job: job.handle() };
        let on_hangup = handle.clone();
        let Hangup { mut signal, control } = hangup;
        control.spawn(move || async move {
            while signal.recv().await.is_some() {
                on_hangup.pending.by_signal.store(true, Ordering::Release);
                on_hangup.job.run_soon();
            }
        });
        Self { _job: job, handle }
    }

    /// Requests reloads.
    pub fn handle(&self) -> ReloadHandle {
        self.handle.clone()
    }
}

/// Rereads the configuration at `path`; returns also the files to watch, even on failure. It logs
/// all problems of a bad configuration, which must not replace the old one.
pub fn load<T>(
    trigger: &Trigger,
    path: &Path,
    read: impl Fn(&mut Section<'_>) -> T,
) -> (Result<Loaded<T>, ConfigProblems>, Sources) {
    match trigger {
        Trigger::Signal => info!("SIGHUP: reading the configuration anew"),
        Trigger::Requested => info!("an operator asks: reading the configuration anew"),
        Trigger::Changed(path) => {
            info!("{} changed: reading the configuration anew", path.display());
        }
        Trigger::Retry => (),
    }
    let (outcome, sources) = load_tracked(path, read);
    if let Err(problems) = &outcome {
        log_problems(problems);
    }
    (outcome, sources)
}

fn log_problems(problems: &ConfigProblems) {
    let (count, file) = (problems.count(), problems.file());
    warn!(problems = count, "{file} is refused, the old configuration stays in force");
    for problem in problems.iter() {
        warn!("{file}: {problem}");
    }
}

#[derive(Debug)]
struct FileWatch {
    settling: Settling,
    interval: Duration,
    retry_at: Option<Instant>,
}

impl FileWatch {
    fn new(WatchedFiles { sources, interval, retry_after }: WatchedFiles) -> Self {
        let retry_at = retry_after.map(|delay| Instant::now() + delay);
        Self { settling: Settling::new(sources), interval, retry_at }
    }

    /// Why to reread the files now. None if there is no reason.
    fn trigger(&mut self, pending: &PendingTriggers) -> Option<Trigger> {
        if pending.by_signal.swap(false, Ordering::Acquire) {
            return Some(Trigger::Signal);
        }
        if pending.by_operator.swap(false, Ordering::Acquire) {
            return Some(Trigger::Requested);
        }
        if self.retry_at.is_some_and(|at| at <= Instant::now()) {
            return Some(Trigger::Retry);
        }
        if self.interval.is_zero() {
            return None;
        }
        self.settling.poll(Sources::now).map(Trigger::Changed)
    }

    fn next_poll(&self) -> Option<Duration> {
        let retry = self.retry_at.map(|at| at.saturating_duration_since(Instant::now()));
        let poll = (!self.interval.is_zero()).then_some(self.interval);
        retry.into_iter().chain(poll).min()
    }
}

/// Separates settled changes from ongoing ones.
#[derive(Debug)]
struct Settling {
    /// The state in force, or last reported as changed.
    known: Sources,
    seen: Sources,
}

impl Settling {
    fn new(known: Sources) -> Self {
        Self { seen: known.clone(), known }
    }

    /// Polls with `now`; returns, once, a change that has been stable since the previous poll.
    fn poll(&mut self, now: impl Fn(&Sources) -> Sources) -> Option<PathBuf> {
        let now = now(&self.known);
        let settled = now == self.seen;
        self.seen = now;
        if !settled {
            return None;
        }
        let changed = self.seen.difference(&self.known)?;
        self.known = self.seen.clone();
        Some(changed)
    }
}

#[cfg(test)]
mod tests;
