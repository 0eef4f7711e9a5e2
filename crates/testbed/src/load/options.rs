//! Options of a load and its measurement, and their validation.

use std::fmt;
use std::io;
use std::time::Duration;

use serde::Serialize;

/// The kind of load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LoadMode {
    /// Calls leave at a constant rate, regardless of the target.
    Open {
        /// Calls per second, at least 1.
        rate_per_s: u32,
    },
    /// A call leaves when an earlier one has ended.
    Closed {
        /// Connections, each with one call at a time; at least 1.
        in_flight: usize,
    },
}

impl fmt::Display for LoadMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open { rate_per_s } => write!(f, "open loop, {rate_per_s}/s"),
            Self::Closed { in_flight } => write!(f, "closed loop, {in_flight} in flight"),
        }
    }
}

/// The length of a run, without its warm-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadLength {
    /// After this long.
    For(Duration),
    /// After this many calls.
    Count(u64),
}

/// Connections of an open loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadConnections {
    /// Opened if a call is due and none is idle; the most recently used goes first.
    AsNeeded {
        /// Most at once, at least 1.
        max: usize,
    },
    /// This many, at least 1, opened before the first call and used in turn.
    Fixed(usize),
}

/// One run.
#[derive(Clone, Debug)]
pub struct LoadOptions {
    /// The kind of load.
    pub mode: LoadMode,
    /// Unmeasured load of the same kind before the run.
    pub warm_up: Duration,
    /// When the run ends.
    pub length: LoadLength,
    /// Longest time from sending a call to its answer; also how long a call of an open loop may
    /// wait for a free connection.
    pub timeout: Duration,
    /// Deadline for the target: answers after it are counted and measured.
    pub tmax: Option<Duration>,
    /// Connections of an open loop; a closed loop has one for each call in flight.
    pub connections: LoadConnections,
    /// Core for the generating thread. None leaves it to the scheduler.
    pub core: Option<usize>,
}

impl Default for LoadOptions {
    /// Ten seconds of closed loop with 32 calls in flight, after one second of warm-up.
    fn default() -> Self {
        Self {
            mode: LoadMode::Closed { in_flight: 32 },
            warm_up: Duration::from_secs(1),
            length: LoadLength::For(Duration::from_secs(10)),
            timeout: Duration::from_secs(2),
            tmax: None,
            connections: LoadConnections::AsNeeded { max: 1024 },
            core: None,
        }
    }
}

/// Why a run did not start. Failures of the target during a run are counted instead.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The options make no sense.
    #[error("a load needs {0}")]
    Options(&'static str),
    /// The thread cannot be placed on its core.
    #[error("cannot run on core {core}: {source}")]
    Core {
        /// The requested core.
        core: usize,
        /// The system's error.
        source: io::Error,
    },
    /// The system refused a thread, a timer or a poll.
    #[error("cannot generate load: {0}")]
    System(#[from] io::Error),
}

impl LoadOptions {
    pub(super) fn check(&self) -> Result<(), LoadError> {
        let problem = match self.mode {
            LoadMode::Open { rate_per_s: 0 } => "at least one request per second",
            LoadMode::Closed { in_flight: 0 } => "at least one request in flight",
            LoadMode::Open { .. }
                if matches!(
                    self.connections,
                    LoadConnections::AsNeeded { max: 0 } | LoadConnections::Fixed(0)
                ) =>
            {
                "at least one connection"
            }
            _ if self.timeout.is_zero() => "a timeout above zero",
            _ if matches!(self.length, LoadLength::For(Duration::ZERO) | LoadLength::Count(0)) => {
                "a length above zero"
            }
            _ => return Ok(()),
        };
        Err(LoadError::Options(problem))
    }
}
