//! How a process ends: it drains until a deadline. The first SIGINT or SIGTERM begins the drain, a
//! second one ends it at once. This module must not know what is drained.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::signal::unix::SignalKind;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};
use tracing::{info, warn};

use crate::control::Control;

/// Longest drain; a longer setting means no limit.
const DRAIN_MAX: Duration = Duration::from_secs(7 * 24 * 3600);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ShutdownPhase {
    Running,
    Draining { deadline: Instant },
    Ended,
}

/// The shutdown of the process. Clones share it.
#[derive(Clone, Debug)]
pub struct Shutdown {
    phase: Arc<watch::Sender<ShutdownPhase>>,
    drain: Duration,
}

impl Shutdown {
    /// A running process that will drain for at most `drain`, capped at a week.
    pub fn new(drain: Duration) -> Self {
        let drain = drain.min(DRAIN_MAX);
        Self { phase: Arc::new(watch::Sender::new(ShutdownPhase::Running)), drain }
    }

    /// Begins the drain; a second call ends it at once.
    pub fn begin(&self) {
        self.phase.send_modify(|phase| {
            *phase = match phase {
                ShutdownPhase::Running => {
                    ShutdownPhase::Draining { deadline: Instant::now() + self.drain }
                }
                ShutdownPhase::Draining { .. } | ShutdownPhase::Ended => ShutdownPhase::Ended,
            }
        });
    }

    /// Ends the process without a drain.
    pub fn end(&self) {
        self.phase.send_modify(|phase| *phase = ShutdownPhase::Ended);
    }

    /// Whether the drain has begun.
    pub fn is_started(&self) -> bool {
        *self.phase.borrow() != ShutdownPhase::Running
    }

    /// When the drain ends. None if it has not begun.
    pub fn deadline(&self) -> Option<Instant> {
        deadline_of(*self.phase.borrow())
    }

    /// Waits until the drain begins, and returns its deadline.
    pub async fn started(&self) -> Instant {
        let mut phases = self.phase.subscribe();
        let phase = phases.wait_for(|phase| *phase != ShutdownPhase::Running).await;
        let phase = *phase.expect("the sender is held by this handle");
        deadline_of(phase).expect("the drain has begun")
    }

    /// Waits until the drain is over, by deadline or by [`Self::end`].
    pub async fn ended(&self) {
        let deadline = self.started().await;
        let mut phases = self.phase.subscribe();
        let ended = phases.wait_for(|phase| *phase == ShutdownPhase::Ended);
        // Both outcomes mean the end.
        let _ = timeout_at(deadline, ended).await;
    }

    /// Begins the drain at the first SIGINT or SIGTERM and ends it at the second, as long as
    /// `control` runs. Returns once the handlers are set up.
    ///
    /// # Errors
    /// If the signal handlers cannot be set up.
    pub fn on_signals(&self, control: &Control) -> io::Result<()> {
        let mut interrupt = control.signal(SignalKind::interrupt())?;
        let mut terminate = control.signal(SignalKind::terminate())?;
        let shutdown = self.clone();
        control.spawn(move || async move {
            loop {
                tokio::select! {
                    _ = interrupt.recv() => (),
                    _ = terminate.recv() => (),
                }
                if shutdown.is_started() {
                    warn!("second signal: the drain ends; what is in memory is still written");
                } else {
                    info!(limit = ?shutdown.drain, "draining; a second signal ends the drain");
                }
                shutdown.begin();
            }
        });
        Ok(())
    }
}

fn deadline_of(phase: ShutdownPhase) -> Option<Instant> {
    match phase {
        ShutdownPhase::Running => None,
        ShutdownPhase::Draining { deadline } => Some(deadline),
        ShutdownPhase::Ended => Some(Instant::now()),
    }
}

#[cfg(test)]
mod tests;
