//! What a connection shares with its thread, whatever its version of HTTP: buffers, the responder,
//! and what the reactor does next.

use std::time::Duration;

use super::request::PartialRequest;
use crate::server::options::ServedVersions;

/// The thread's read buffer: a request that fits is answered without a copy.
const READ_BYTES: usize = 64 * 1024;

/// Bytes discarded after a refusal, so that the close does not reset the refusal away.
pub(super) const DRAIN_BYTES: usize = 4 * 1024 * 1024;

/// How long a refused peer may keep the connection open.
pub(super) const DRAIN_TIME: Duration = Duration::from_secs(1);

/// What the reactor does next for a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConnectionStep {
    /// Nothing more until the socket is ready.
    Idle,
    /// Ring stream 0 after this long.
    Alarm(Duration),
    /// Advance the connection at the end of the turn.
    Gather,
    /// Finished: drop it.
    Close,
}

/// An alarm for one stream of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StreamAlarm {
    pub(super) stream: u32,
    pub(super) after: Duration,
}

/// The thread's state that a connection borrows for one call.
pub(super) struct ThreadContext<'a, R> {
    pub(super) responder: &'a mut R,
    pub(super) buffers: &'a mut Buffers,
    pub(super) body_bytes_max: usize,
    pub(super) versions: ServedVersions,
}

/// Buffers of a thread, shared by its connections.
pub(super) struct Buffers {
    pub(super) input: Box<[u8]>,
    pub(super) output: Vec<u8>,
    /// Alarms that the connection asks for.
    pub(super) alarms: Vec<StreamAlarm>,
    /// Requests to be used again.
    pub(super) requests: Vec<PartialRequest>,
}

impl Buffers {
    pub(super) fn new() -> Self {
        Self {
            input: vec![0; READ_BYTES].into_boxed_slice(),
            output: Vec::new(),
            alarms: Vec::new(),
            requests: Vec::new(),
        }
    }
}
