//! Options of a load on a pacer.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use units::Ppm;

/// One run.
#[derive(Clone, Debug)]
pub struct PacerLoadOptions {
    /// The pacer's address.
    pub address: SocketAddr,
    /// Id of the client.
    pub client: String,
    /// Its secret.
    pub secret: String,
    /// Connections.
    pub connections: usize,
    /// Batches in flight on each connection.
    pub depth: usize,
    /// Bid requests of a batch.
    pub batch: usize,
    /// Candidates of a request.
    pub candidates: u8,
    /// Share of requests whose minimum price allows a bid.
    pub biddable: Ppm,
    /// Share of authorised bids that win.
    pub won: Ppm,
    /// Share of the others that are reported as lost; the rest expire.
    pub lost: Ppm,
    /// Open loop: bid requests per second. None keeps `depth` batches in flight.
    pub rate: Option<u64>,
    /// Time for each batch at the server.
    pub deadline: Duration,
    /// Unmeasured load before the run.
    pub warm_up: Duration,
    /// Length of the run.
    pub duration: Duration,
    /// Seed of the requests.
    pub seed: u64,
    /// Core for the generating thread. None leaves it to the scheduler.
    pub core: Option<usize>,
}

/// Why a load did not run to its end.
#[derive(Debug, thiserror::Error)]
pub enum PacerLoadError {
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
    /// There is no pacer, or it went away.
    #[error("{address}: {source}")]
    Connection {
        /// The pacer's address.
        address: SocketAddr,
        /// What the socket said.
        source: io::Error,
    },
    /// The pacer ended a connection.
    #[error("the pacer closed a connection: {0}")]
    Closed(String),
    /// A reply does not fit what was asked.
    #[error("a wrong reply: {0}")]
    Reply(String),
    /// The client may not name any campaign.
    #[error("the client has no campaigns: define some for its accounts")]
    NoCampaigns,
}

impl PacerLoadOptions {
    pub(super) fn check(&self) -> Result<(), PacerLoadError> {
        let problem = match self {
            Self { connections: 0, .. } => "at least one connection",
            Self { depth: 0, .. } => "at least one batch in flight",
            Self { batch: 0 | 4097.., .. } => "1 to 4096 requests in a batch",
            Self { candidates: 0, .. } => "at least one candidate",
            Self { rate: Some(0), .. } => "at least one request per second",
            Self { duration: Duration::ZERO, .. } => "a duration above zero",
            _ => return Ok(()),
        };
        Err(PacerLoadError::Options(problem))
    }
}
