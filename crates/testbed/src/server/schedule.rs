//! The schedule of a server's behaviours: pure in the time since the start. Knows neither what
//! behaviours do nor any clock.

use std::time::Duration;

use super::behaviour::{ContentFault, ServerBehaviour};

/// Most phases of one schedule.
pub const PHASES_MAX: usize = 1000;

/// Consecutive behaviours from the start on. Empty means healthy throughout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerSchedule<F> {
    /// In order.
    pub phases: Vec<ServerPhase<F>>,
    /// Whether it restarts after the last phase; otherwise the last one stays.
    pub repeat: bool,
}

/// A behaviour for a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerPhase<F> {
    /// Its length. None, only for the last phase, means until the end.
    pub lasts: Option<Duration>,
    /// The server's behaviour meanwhile.
    pub behaviour: ServerBehaviour<F>,
}

impl<F> Default for ServerSchedule<F> {
    /// Healthy throughout.
    fn default() -> Self {
        Self { phases: Vec::new(), repeat: false }
    }
}

impl<F: ContentFault> ServerSchedule<F> {
    /// One behaviour throughout.
    pub fn always(behaviour: impl Into<ServerBehaviour<F>>) -> Self {
        let behaviour = behaviour.into();
        Self { phases: vec![ServerPhase { lasts: None, behaviour }], repeat: false }
    }

    /// Behaviours for a time each; the last one stays.
    pub fn steps<const N: usize>(steps: [(Duration, ServerBehaviour<F>); N]) -> Self {
        let phase = |(lasts, behaviour)| ServerPhase { lasts: Some(lasts), behaviour };
        Self { phases: steps.map(phase).into(), repeat: false }
    }

    /// The problem of this schedule. None if it is valid.
    pub(crate) fn problem(&self) -> Option<&'static str> {
        let (last, others) = self.phases.split_last()?;
        if self.phases.len() > PHASES_MAX {
            Some("a schedule has at most 1000 phases")
        } else if self.phases.iter().any(|phase| phase.lasts.is_some_and(|time| time.is_zero())) {
            Some("a phase must last longer than nothing")
        } else if others.iter().any(|phase| phase.lasts.is_none()) {
            Some("only the last phase may be without an end")
        } else if self.repeat && last.lasts.is_none() {
            Some("a schedule that repeats needs an end of its last phase")
        } else {
            self.phases.iter().find_map(|phase| phase.behaviour.problem())
        }
    }

    /// The behaviour at `elapsed` since the start, and the start of the next one.
    pub(super) fn at(&self, elapsed: Duration) -> (&ServerBehaviour<F>, Option<Duration>) {
        let mut begins = Duration::ZERO;
        if self.repeat {
            let round: Duration = self.phases.iter().filter_map(|phase| phase.lasts).sum();
            let rounds = elapsed.as_nanos().checked_div(round.as_nanos()).unwrap_or(0);
            begins = round.saturating_mul(u32::try_from(rounds).unwrap_or(u32::MAX));
        }
        for (index, phase) in self.phases.iter().enumerate() {
            let stays = !self.repeat && index + 1 == self.phases.len();
            let ends = phase.lasts.filter(|_| !stays).map(|lasts| begins.saturating_add(lasts));
            match ends {
                Some(ends) if ends <= elapsed => begins = ends,
                ends => return (&phase.behaviour, ends),
            }
        }
        (const { &ServerBehaviour::HEALTHY }, None)
    }
}

#[cfg(test)]
mod tests;
