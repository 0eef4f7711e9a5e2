//! The faults of a simulated server: kinds, limits, and the requests that they affect. `faults`
//! writes the bytes; `schedule` says when one behaviour follows another.

mod http2_fault;

use std::fmt::Debug;
use std::time::Duration;

use crate::draws::PPM;

pub use http2_fault::{FLOOD_MAX, FloodFrame, Http2Fault};

/// Longest latency, delay or pause.
pub const LATENCY_MAX: Duration = Duration::from_secs(60);

/// Largest inflated size of a compressed bomb, in bytes.
pub const BOMB_BYTES_MAX: usize = 1024 * 1024 * 1024;

/// Most interim answers, unless they never end.
pub const INTERIM_MAX: u32 = 100_000;

/// Longest body of [`ServerAct::Status`], in bytes.
pub const STATUS_BODY_MAX: usize = 1024 * 1024;

/// What a server does, and for what share of its requests; all others are answered properly. The
/// affected requests depend on seed and request, never on time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerBehaviour<F> {
    /// What it does.
    pub act: ServerAct<F>,
    /// Share of affected requests, in parts per million.
    pub share_ppm: u32,
}

/// Faults of one service's content.
pub trait ContentFault: Clone + Debug + PartialEq + Send + 'static {
    /// The problem of its options. None if they are valid.
    fn problem(&self) -> Option<&'static str>;
}

/// What a server does with one request. Unless stated otherwise, an answer has the latency of a
/// healthy one. Acts that need content (trickle, close, reset, chunked, bad gzip) have it even if
/// the healthy answer has none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerAct<F> {
    /// Answers properly.
    Healthy,
    /// Answers with a status, and keeps the connection.
    Status {
        /// 200 to 599.
        code: u16,
        /// As `text/plain`; empty for 204 and 304, which have no body.
        body: String,
    },
    /// Reads the request and never answers; the connection stays until the peer closes it.
    Hang,
    /// Sends an answer with content piece by piece.
    Trickle {
        /// Bytes of each piece.
        bytes: usize,
        /// Pause between pieces, at least 1 ms.
        every: Duration,
        /// Where the trickle begins.
        from: DripFrom,
    },
    /// Closes the connection cleanly before the answer is complete.
    Close {
        /// How much of the answer is sent.
        at: Cut,
    },
    /// Resets the connection (RST) before the answer is complete.
    Reset {
        /// How much of the answer is sent.
        at: Cut,
    },
    /// Sends bytes that are not HTTP, and closes.
    Garbage,
    /// Answers properly, but after this time.
    Late {
        /// From request to answer.
        by: Duration,
    },
    /// Refuses new connections and closes the open ones. Affects all requests or none.
    Refused,
    /// Answers properly, with the body gzipped.
    Gzip {
        /// Also if the request does not say `accept-encoding: gzip`.
        always: bool,
    },
    /// Answers 200 with a gzip of a thousandth of its inflated size, even if the request does not
    /// accept it.
    GzipBomb {
        /// Inflated size, in bytes.
        inflated: usize,
    },
    /// Answers with a gzip that is truncated, altered, or no gzip at all, drawn per request.
    BadGzip,
    /// Answers in chunks.
    Chunked {
        /// Bytes of each chunk.
        bytes: usize,
    },
    /// Answers with a redirect.
    Redirect {
        /// 300 to 399.
        code: u16,
        /// The location. None is another path of the same server.
        to: Option<String>,
    },
    /// Sends interim answers before the healthy one.
    Interim {
        /// 100 to 199 without 101.
        code: u16,
        /// Number of interim answers. None never ends, and no final answer comes.
        count: Option<u32>,
    },
    /// Answers properly, then closes the connection.
    Closing {
        /// Whether the answer says `connection: close`.
        announced: bool,
    },
    /// Does what only HTTP/2 can express. Over HTTP/1.1 it answers properly.
    Http2(Http2Fault),
    /// A fault of the service's content.
    Content(F),
}

/// How much of an answer is sent before its connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// Nothing.
    Before,
    /// Half of the head.
    Head,
    /// The head and half of the body.
    Body,
}

/// Where a trickle begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DripFrom {
    /// With the first byte.
    Head,
    /// With the body; the head comes whole.
    Body,
}

impl<F: ContentFault> ServerBehaviour<F> {
    /// Every request is answered properly.
    pub const HEALTHY: Self = Self { act: ServerAct::Healthy, share_ppm: PPM };

    /// The problem of this behaviour. None if it is valid.
    pub(crate) fn problem(&self) -> Option<&'static str> {
        if self.share_ppm > PPM {
            return Some("a share must not pass 1,000,000 parts per million");
        }
        if self.act == ServerAct::Refused && self.share_ppm != PPM {
            return Some("a port refuses all connections or none: its share must be 100%");
        }
        self.act.problem()
    }

    /// Whether it changes nothing.
    pub(crate) fn is_healthy(&self) -> bool {
        self.act == ServerAct::Healthy || self.share_ppm == 0
    }
}

impl<F> From<ServerAct<F>> for ServerBehaviour<F> {
    /// On every request.
    fn from(act: ServerAct<F>) -> Self {
        Self { act, share_ppm: PPM }
    }
}

impl<F: ContentFault> ServerAct<F> {
    fn problem(&self) -> Option<&'static str> {
        let when = |wrong: bool, problem| wrong.then_some(problem);
        match self {
            Self::Status { code, body } => {
                let bare = matches!(code, 204 | 304);
                when(!(200..=599).contains(code), "a status must be 200 to 599")
                    .or(when(body.len() > STATUS_BODY_MAX, "a status' body must not pass 1 MiB"))
                    .or(when(bare && !body.is_empty(), "204 and 304 have no body"))
            }
            Self::Trickle { bytes, every, .. } => when(*bytes == 0, "a piece needs a byte")
                .or(when(*every < Duration::from_millis(1), "pieces come at least 1 ms apart"))
                .or(when(*every > LATENCY_MAX, "pieces come at most 60 s apart")),
            Self::Late { by } => when(by.is_zero(), "late answers need a time above zero")
                .or(when(*by > LATENCY_MAX, "no answer may take longer than 60 s")),
            Self::GzipBomb { inflated } => {
                when(*inflated > BOMB_BYTES_MAX, "a bomb inflates to at most 1 GiB")
            }
            Self::Chunked { bytes } => when(*bytes == 0, "a chunk needs a byte"),
            Self::Redirect { code, to } => {
                let plain = |to: &String| to.bytes().all(|byte| byte.is_ascii_graphic());
                when(!(300..=399).contains(code), "a redirect must be 300 to 399")
                    .or(when(!to.as_ref().is_none_or(plain), "a location must be visible ASCII"))
            }
            Self::Interim { code, count } => {
                let fits = (100..=199).contains(code) && *code != 101;
                when(!fits, "an interim status must be 100 to 199 without 101").or(when(
                    count.is_some_and(|count| count > INTERIM_MAX),
                    "at most 100,000 interim answers, or no number and no end",
                ))
            }
            Self::Http2(fault) => fault.problem(),
            Self::Content(fault) => fault.problem(),
            Self::Healthy
            | Self::Hang
            | Self::Close { .. }
            | Self::Reset { .. }
            | Self::Garbage
            | Self::Refused
            | Self::Gzip { .. }
            | Self::BadGzip
            | Self::Closing { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests;
