//! When a configuration is read anew: at SIGHUP, when an operator asks, and when a file that it was
//! read from changes.
//!
//! Files are looked at, not subscribed to: that works on every file system, through symbolic
//! links and mounts, and notices what a notification lost. A change counts only once two looks in
//! a row agree, so that a folder in the middle of being written is left alone until it settles.
//!
//! It must not know what the configuration is for, nor what is done with a new one.

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

/// Why files are read anew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// SIGHUP came.
    Signal,
    /// An operator asked, by a [`ReloadBell`].
    Asked,
    /// This file, or what this pattern matches, changed, and settled.
    Changed(PathBuf),
    /// The last reading asked for another; see [`FollowedFiles::again`].
    Again,
}

/// What is watched from now on.
#[derive(Clone, Debug)]
pub struct FollowedFiles {
    /// As they were when they were read: what they are not any more is a change.
    pub sources: Sources,
    /// How often they are looked at; zero for never.
    pub interval: Duration,
    /// When to read them again, whether or not they change. None if that is not needed.
    pub again: Option<Duration>,
}

/// SIGHUP, which no longer ends the process.
#[derive(Debug)]
pub struct Hangup(Signal);

impl Hangup {
    /// Catches it from now on.
    ///
    /// # Errors
    /// When its handler cannot be set up.
    pub fn catch(control: &Control) -> io::Result<Self> {
        control.signal(SignalKind::hangup()).map(Self)
    }
}

/// Files that are followed, by a job of the builder. Dropped, they are not any more.
#[derive(Debug)]
pub struct Reload {
    _job: Job,
    bell: ReloadBell,
}

/// Asks for files to be read anew; clones ask for the same.
#[derive(Clone, Debug)]
pub struct ReloadBell {
    asked: Arc<PendingTriggers>,
    job: JobHandle,
}

/// Reasons that have come and are not acted on yet.
#[derive(Debug, Default)]
struct PendingTriggers {
    by_signal: AtomicBool,
    by_operator: AtomicBool,
}

impl ReloadBell {
    /// Asks, without waiting for it. Asked often before they are read, they are read once.
    pub fn ring(&self) {
        self.asked.by_operator.store(true, Ordering::Release);
        self.job.run_soon();
    }
}

impl Reload {
    /// Has `read` read the files anew for every reason there is, until `shutdown` begins: at each
    /// `hangup`, when an operator asks, and when they have changed.
    pub fn start(
        (control, builder): (&Control, &Builder),
        Hangup(mut hangup): Hangup,
        watched: FollowedFiles,
        shutdown: &Shutdown,
        mut read: impl FnMut(Trigger) -> FollowedFiles + Send + 'static,
    ) -> Self {
        let asked = Arc::<PendingTriggers>::default();
        let (own, shutdown) = (Arc::clone(&asked), shutdown.clone());
        let mut following = FileWatch::new(watched);
        let job = builder.add("reload", move || {
            if shutdown.is_started() {
                return None;
            }
            if let Some(trigger) = following.trigger(&own) {
                following = FileWatch::new(read(trigger));
            }
            following.next_look()
        });
        job.run_soon();
        let bell = ReloadBell { asked, job: job.handle() };
        let hung_up = bell.clone();
        control.spawn(move || async move {
            while hangup.recv().await.is_some() {
                hung_up.asked.by_signal.store(true, Ordering::Release);
                hung_up.job.run_soon();
            }
        });
        Self { _job: job, bell }
    }

    /// By which others ask for the files to be read anew.
    pub fn bell(&self) -> ReloadBell {
        self.bell.clone()
    }
}

/// Reads the configuration at `path` anew by `read`, with what is to be watched now, whether or not it
/// is good. Of a bad one all problems are logged, and the old configuration is to stay.
pub fn load<T>(
    trigger: &Trigger,
    path: &Path,
    read: impl Fn(&mut Section<'_>) -> T,
) -> (Result<Loaded<T>, ConfigProblems>, Sources) {
    match trigger {
        Trigger::Signal => info!("SIGHUP: reading the configuration anew"),
        Trigger::Asked => info!("an operator asks: reading the configuration anew"),
        Trigger::Changed(path) => {
            info!("{} changed: reading the configuration anew", path.display());
        }
        Trigger::Again => (),
    }
    let (outcome, sources) = load_tracked(path, read);
    if let Err(problems) = &outcome {
        log_problems(problems);
    }
    (outcome, sources)
}

/// Logs all that is wrong with a configuration that was to replace the one in force.
fn log_problems(problems: &ConfigProblems) {
    let (count, file) = (problems.count(), problems.file());
    warn!(problems = count, "{file} is refused, the old configuration stays in force");
    for problem in problems.iter() {
        warn!("{file}: {problem}");
    }
}

/// Sources between two readings.
#[derive(Debug)]
struct FileWatch {
    settling: Settling,
    interval: Duration,
    again_at: Option<Instant>,
}

impl FileWatch {
    fn new(FollowedFiles { sources, interval, again }: FollowedFiles) -> Self {
        let again_at = again.map(|again| Instant::now() + again);
        Self { settling: Settling::new(sources), interval, again_at }
    }

    /// Why they are to be read now. None if there is no reason.
    fn trigger(&mut self, asked: &PendingTriggers) -> Option<Trigger> {
        if asked.by_signal.swap(false, Ordering::Acquire) {
            return Some(Trigger::Signal);
        }
        if asked.by_operator.swap(false, Ordering::Acquire) {
            return Some(Trigger::Asked);
        }
        if self.again_at.is_some_and(|at| at <= Instant::now()) {
            return Some(Trigger::Again);
        }
        if self.interval.is_zero() {
            return None;
        }
        self.settling.look(Sources::now).map(Trigger::Changed)
    }

    fn next_look(&self) -> Option<Duration> {
        let again = self.again_at.map(|at| at.saturating_duration_since(Instant::now()));
        let look = (!self.interval.is_zero()).then_some(self.interval);
        again.into_iter().chain(look).min()
    }
}

/// Tells a change that has settled from one that goes on.
#[derive(Debug)]
struct Settling {
    /// The state that is in force, or for which reading anew was asked.
    known: Sources,
    /// What the last look saw.
    seen: Sources,
}

impl Settling {
    fn new(known: Sources) -> Self {
        Self { seen: known.clone(), known }
    }

    /// Looks again by `now`; returns what has changed and has not gone on changing since the
    /// look before, once.
    fn look(&mut self, now: impl Fn(&Sources) -> Sources) -> Option<PathBuf> {
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
