//! What an operator should know of the lanes.

use std::io;
use std::time::Duration;

use super::LaneKind;
use crate::writer::{CommitError, Removed, RetainError};

/// What an operator should know.
#[derive(Debug)]
pub enum Report<'a> {
    /// The lane is not written any more; it is told once, however often it is tried.
    Failing {
        /// Which.
        lane: LaneKind,
        /// Why.
        error: &'a CommitError,
    },
    /// The lane is written again.
    Healed {
        /// Which.
        lane: LaneKind,
        /// How long it was not.
        after: Duration,
    },
    /// Old segments are gone.
    Removed {
        /// Of which lane.
        lane: LaneKind,
        /// Which.
        removed: &'a Removed,
    },
    /// More than [`CLOCK_STEP_MAX_MS`](crate::CLOCK_STEP_MAX_MS) lie between two records: the clock
    /// stepped, or nothing came. That time counts towards no age.
    ClockStep {
        /// Of which lane.
        lane: LaneKind,
    },
    /// Old segments are still there.
    RetainFailed {
        /// Of which lane.
        lane: LaneKind,
        /// Why.
        error: &'a RetainError,
    },
    /// The lane ended without its seal: the next start cannot tell whether all of it is there.
    SealFailed {
        /// Of which lane.
        lane: LaneKind,
        /// Why.
        error: &'a io::Error,
    },
    /// The lane ended without its seal, for something was left to write.
    Unsealed {
        /// Which.
        lane: LaneKind,
        /// What was left.
        reason: &'static str,
    },
}

/// Who is told, on the log thread: it must neither wait nor panic.
pub type Reporter = Box<dyn FnMut(Report<'_>) + Send>;
