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
use std::sync::mpsc::{Receiver, Sender, SyncSender, TrySendError, channel, sync_channel};
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{Notify, watch};
use tracing::{info, warn};

use crate::config::{Loaded, Problems, Section, Sources, load_tracked};
use crate::shutdown::Shutdown;

/// Why a configuration is read anew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// SIGHUP came.
    Signal,
    /// An operator asked, by a [`ReloadBell`].
    Asked,
    /// This file, or what this pattern matches, changed, and settled.
    Changed(PathBuf),
}

/// A configuration that was read anew.
#[derive(Debug)]
pub struct Reloaded<T> {
    /// Why it was read.
    pub trigger: Trigger,
    /// What it is, or what is wrong with it.
    pub outcome: Result<Loaded<T>, Problems>,
}

/// What is watched.
#[derive(Clone, Debug)]
struct Watched {
    /// As they were when they were read.
    sources: Sources,
    /// How often they are looked at; zero for never.
    interval: Duration,
}

/// Waits for reasons to read the configuration anew.
#[derive(Debug)]
pub struct Reload {
    watched: watch::Sender<Watched>,
    triggers: Receiver<Trigger>,
    bell: ReloadBell,
}

/// Asks for the configuration to be read anew; clones ask the same [`Reload`].
#[derive(Clone, Debug)]
pub struct ReloadBell(Arc<Notify>);

impl ReloadBell {
    /// Asks, without waiting for it. Asked often before it is read, it is read once.
    pub fn ring(&self) {
        self.0.notify_one();
    }
}

impl Reload {
    /// Follows SIGHUP, and looks every `interval` at what the configuration was read from, from
    /// a thread of its own that lives until `shutdown` begins. An `interval` of zero leaves files
    /// alone. Returns once the signal is caught.
    ///
    /// # Errors
    ///
    /// When the thread, its runtime or the signal handler cannot be set up.
    pub fn start(sources: Sources, interval: Duration, shutdown: &Shutdown) -> io::Result<Self> {
        let (watched, following) = watch::channel(Watched { sources, interval });
        // One pending reason is enough: whoever takes it reads all that has changed until then.
        let (sender, triggers) = sync_channel(1);
        let (ready, installed) = channel();
        let shutdown = shutdown.clone();
        let bell = ReloadBell(Arc::default());
        let asked = Arc::clone(&bell.0);
        std::thread::Builder::new().name("reload".to_owned()).spawn(move || {
            match Builder::new_current_thread().enable_all().build() {
                Ok(runtime) => {
                    runtime.block_on(follow((following, &asked), &sender, &shutdown, &ready));
                }
                // The receiver waits for exactly one message.
                Err(error) => drop(ready.send(Err(error))),
            }
        })?;
        installed.recv().unwrap_or_else(|_| Err(io::Error::other("the reload thread died")))?;
        Ok(Self { watched, triggers, bell })
    }

    /// By which others ask for the configuration to be read anew.
    pub fn bell(&self) -> ReloadBell {
        self.bell.clone()
    }

    /// Watches these sources from now on: what they are not any more is a change.
    pub fn watch(&self, sources: Sources, interval: Duration) {
        self.watched.send_replace(Watched { sources, interval });
    }

    /// Waits for the next reason; `None` once the process drains.
    pub fn wait(&self) -> Option<Trigger> {
        self.triggers.recv().ok()
    }

    /// Waits for the next reason, and [`load`](Self::load)s. `None` once the process drains.
    pub fn next_load<T>(
        &self,
        path: &Path,
        read: impl Fn(&mut Section<'_>) -> T,
        interval: impl Fn(&T) -> Duration,
    ) -> Option<Reloaded<T>> {
        let trigger = self.wait()?;
        Some(self.load(trigger, path, read, interval))
    }

    /// Reads the file at `path` by `read`, and watches what was read, whether or not it is good;
    /// `interval` says how often, of a good one. Of a bad one all problems are logged, and the old
    /// configuration is to stay.
    pub fn load<T>(
        &self,
        trigger: Trigger,
        path: &Path,
        read: impl Fn(&mut Section<'_>) -> T,
        interval: impl Fn(&T) -> Duration,
    ) -> Reloaded<T> {
        match &trigger {
            Trigger::Signal => info!("SIGHUP: reading the configuration anew"),
            Trigger::Asked => info!("an operator asks: reading the configuration anew"),
            Trigger::Changed(path) => {
                info!("{} changed: reading the configuration anew", path.display());
            }
        }
        let (outcome, sources) = load_tracked(path, read);
        let interval = match &outcome {
            Ok(loaded) => interval(&loaded.value),
            Err(problems) => {
                log_problems(problems);
                self.watched.borrow().interval
            }
        };
        self.watch(sources, interval);
        Reloaded { trigger, outcome }
    }
}

/// Logs all that is wrong with a configuration that was to replace the one in force.
pub fn log_problems(problems: &Problems) {
    let (count, file) = (problems.count(), problems.file());
    warn!(problems = count, "{file} is refused, the old configuration stays in force");
    for problem in problems.iter() {
        warn!("{file}: {problem}");
    }
}

async fn follow(
    (mut watched, asked): (watch::Receiver<Watched>, &Notify),
    triggers: &SyncSender<Trigger>,
    shutdown: &Shutdown,
    ready: &Sender<io::Result<()>>,
) {
    let mut hangup = match signal(SignalKind::hangup()) {
        Ok(hangup) => hangup,
        Err(error) => return drop(ready.send(Err(error))),
    };
    drop(ready.send(Ok(())));
    tokio::select! {
        () = watch_all(&mut watched, (&mut hangup, asked), triggers) => (),
        _ = shutdown.started() => (),
    }
}

/// Passes reasons on, until nobody takes them.
async fn watch_all(
    watched: &mut watch::Receiver<Watched>,
    (hangup, asked): (&mut Signal, &Notify),
    triggers: &SyncSender<Trigger>,
) {
    let mut current = watched.borrow_and_update().clone();
    let mut settling = Settling::new(current.sources);
    loop {
        let trigger = tokio::select! {
            changed = watched.changed() => {
                if changed.is_err() {
                    return;
                }
                current = watched.borrow_and_update().clone();
                settling = Settling::new(current.sources);
                continue;
            }
            caught = hangup.recv() => match caught {
                Some(()) => Trigger::Signal,
                None => return,
            },
            () = asked.notified() => Trigger::Asked,
            () = tokio::time::sleep(current.interval), if !current.interval.is_zero() => {
                match settling.look(Sources::now) {
                    Some(path) => Trigger::Changed(path),
                    None => continue,
                }
            }
        };
        if matches!(triggers.try_send(trigger), Err(TrySendError::Disconnected(_))) {
            return;
        }
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
