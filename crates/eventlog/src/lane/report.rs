//! What an operator should know of the lanes.

use std::io;
use std::time::Duration;

use super::LaneKind;
use crate::writer::{CommitError, RemovedSegments, RetainError};

/// What an operator should know of a lane.
#[derive(Clone, Copy, Debug)]
pub enum LaneReport<'a> {
    /// The lane cannot be written. Reported once, however often it is retried.
    Failing(&'a CommitError),
    /// The lane is written again, after failing for this long.
    Healed(Duration),
    /// Old segments were removed.
    Removed(&'a RemovedSegments),
    /// Two records are more than [`CLOCK_STEP_MAX_MS`](crate::CLOCK_STEP_MAX_MS) apart: the clock
    /// stepped, or no records came. The gap adds to no age.
    ClockStep,
    /// Old segments could not be removed.
    RetainFailed(&'a RetainError),
    /// The lane ended without its seal: the next start cannot tell whether it is complete.
    SealFailed(&'a io::Error),
    /// The lane ended without its seal because of what was left to write.
    Unsealed(&'static str),
}

/// Receives reports on the log thread: it must neither block nor panic.
pub type LaneReporter = Box<dyn FnMut(LaneKind, LaneReport<'_>) + Send>;
