//! Options of a load on a live floor.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

/// One run.
#[derive(Clone, Debug)]
pub struct LiveLoadOptions {
    /// The live floor's address.
    pub address: SocketAddr,
    /// The token. None if the server trusts this machine.
    pub token: Option<String>,
    /// The declared topic that is published to and subscribed to.
    pub topic: String,
    /// What happens to those who read slowly: `strict` or `conflate`.
    pub policy: String,
    /// Subscribers that read everything at once.
    pub subscribers: usize,
    /// Subscribers that never read.
    pub stalled: usize,
    /// Subscribers that read 4 KiB ten times a second.
    pub slow: usize,
    /// Subscribers that disconnect about once a second, and resume.
    pub reconnecting: usize,
    /// Connections that publish. 0 if somebody else does.
    pub publishers: usize,
    /// Messages per second, of all publishers together.
    pub rate: u32,
    /// Length of a message's body, in bytes.
    pub bytes: usize,
    /// Unmeasured load before the run.
    pub warm_up: Duration,
    /// Length of the run.
    pub duration: Duration,
    /// Seed of what happens at random.
    pub seed: u64,
    /// Core for the generating thread. None leaves it to the scheduler.
    pub core: Option<usize>,
    /// The server's process on this machine, whose processor time and memory are reported.
    pub server: Option<u32>,
}

/// Shortest body: its fields.
pub(super) const BODY_BYTES_MIN: usize = 64;

/// Why a load did not run to its end.
#[derive(Debug, thiserror::Error)]
pub enum LiveLoadError {
    /// The options make no sense.
    #[error("a load needs {0}")]
    Options(&'static str),
    /// The generating thread cannot be placed on its core.
    #[error("cannot run on core {core}: {source}")]
    Core {
        /// The requested core.
        core: usize,
        /// The system's error.
        source: io::Error,
    },
    /// There is no live floor, or it refuses a client.
    #[error("no live floor at {address}: {reason}")]
    Refused {
        /// The address.
        address: SocketAddr,
        /// What went wrong.
        reason: String,
    },
    /// The system refuses a thread or a timer.
    #[error(transparent)]
    System(#[from] io::Error),
}

impl LiveLoadOptions {
    pub(super) fn check(&self) -> Result<(), LiveLoadError> {
        let missing = [
            (self.everybody() == 0, "at least one subscriber"),
            (self.publishers > 0 && self.rate == 0, "a rate above 0"),
            (self.bytes < BODY_BYTES_MIN, "bodies of at least 64 bytes"),
            (self.duration.is_zero(), "a duration"),
        ];
        match missing.into_iter().find(|(is_missing, _)| *is_missing) {
            Some((_, what)) => Err(LiveLoadError::Options(what)),
            None => Ok(()),
        }
    }

    /// Number of subscribers.
    pub(super) fn everybody(&self) -> usize {
        self.subscribers + self.stalled + self.slow + self.reconnecting
    }
}
