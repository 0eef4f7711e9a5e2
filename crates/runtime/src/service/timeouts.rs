//! The time that a listener of HTTP gives its clients: keys that services share.

use std::time::Duration;

use crate::config::{Section, ms, secs};
use crate::shards::ConnectionTimeouts;

/// How long a listener waits for its clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientTimeouts {
    /// For requests.
    pub connection: ConnectionTimeouts,
    /// For a client that does not read.
    pub write: Duration,
}

impl ClientTimeouts {
    /// Declares and reads the keys, within the service's table. `idle` says what an idle connection
    /// is.
    pub fn read(s: &mut Section<'_>, idle: &'static str) -> Self {
        let idle = s.duration("idle_timeout", "60s", secs(1)..=secs(86_400), idle);
        let head = s.duration(
            "head_timeout",
            "10s",
            ms(100)..=secs(600),
            "Maximum time for the head of a request, and for the TLS handshake.",
        );
        let write = s.duration(
            "write_timeout",
            "30s",
            secs(1)..=secs(3_600),
            "A connection whose client acknowledges nothing for this long is closed by the kernel.",
        );
        Self { connection: ConnectionTimeouts { idle, head }, write }
    }
}
