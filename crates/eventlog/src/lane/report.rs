//! What an operator should know of the lanes.

use std::io;
use std::time::Duration;

use super::LaneKind;
use crate::writer::{CommitError, RemovedSegments, RetainError};

/// What an operator should know of a lane.
#[derive(Debug)]
pub enum LaneReport<'a> {
    /// The lane cannot be written. Reported once, however often it is retried.
    Failing {
        /// The lane.
        lane: LaneKind,
        /// The cause.
        error: &'a CommitError,
    },
    /// The lane is written again.
    Healed {
        /// The lane.
        lane: LaneKind,
        /// How long it failed.
        after: Duration,
    },
    /// Old segments were removed.
    Removed {
        /// The lane.
        lane: LaneKind,
        /// What was removed.
        removed: &'a RemovedSegments,
    },
    /// Two records are more than [`CLOCK_STEP_MAX_MS`](crate::CLOCK_STEP_MAX_MS) apart: the clock
    /// stepped, or no records came. The gap adds to no age.
    ClockStep {
        /// The lane.
        lane: LaneKind,
    },
    /// Old segments could not be removed.
    RetainFailed {
        /// The lane.
        lane: LaneKind,
        /// The cause.
        error: &'a RetainError,
    },
    /// The lane ended without its seal: the next start cannot tell whether it is complete.
    SealFailed {
        /// The lane.
        lane: LaneKind,
        /// The cause.
        error: &'a io::Error,
    },
    /// The lane ended without its seal because something was left to write.
    Unsealed {
        /// The lane.
        lane: LaneKind,
        /// What was left.
        reason: &'static str,
    },
}

/// Receives reports on the log thread: it must neither block nor panic.
pub type LaneReporter = Box<dyn FnMut(LaneReport<'_>) + Send>;
