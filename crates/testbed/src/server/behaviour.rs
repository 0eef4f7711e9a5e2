//! What a simulated server does with requests in place of answering as it should: the kinds, their
//! limits, and which requests they fall on. How the bytes come about is `faults`'s; when one
//! behaviour follows another is `schedule`'s.

use std::fmt::Debug;
use std::time::Duration;

use crate::draws::PPM;

/// Longest latency, lateness or pause that can be asked for.
pub const LATENCY_MAX: Duration = Duration::from_secs(60);

/// Most bytes that a compressed bomb inflates to.
pub const BOMB_BYTES_MAX: usize = 1024 * 1024 * 1024;

/// Most interim answers that can be asked for; without a number they never end.
pub const INTERIM_MAX: u32 = 100_000;

/// Longest body of [`ServerAct::Status`] that can be asked for, in bytes.
pub const STATUS_BODY_MAX: usize = 1024 * 1024;

/// What a server does, and to how many of its requests; the others are answered as they should be.
/// Which ones depends on seed and request, never on time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerBehaviour<F> {
    /// What it does.
    pub act: ServerAct<F>,
    /// Share of requests that it falls on, in parts per million.
    pub share_ppm: u32,
}

/// What only one service can get wrong: faults of its content.
pub trait ContentFault: Clone + Debug + PartialEq + Send + 'static {
    /// What is wrong with its options, if anything is.
    fn problem(&self) -> Option<&'static str>;
}

/// What a server does with one request. Unless stated otherwise, an answer takes the latency of a
/// healthy one; those that spoil an answer with content (trickle, close, reset, chunked, bad gzip)
/// have it even where the healthy answer would have none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerAct<F> {
    /// Answers as it should.
    Healthy,
    /// Answers with a status, and goes on.
    Status {
        /// 200 to 599.
        code: u16,
        /// As `text/plain`; empty for 204 and 304, which have none.
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
        /// Where the dripping begins.
        from: DripFrom,
    },
    /// Closes the connection in an orderly way before the answer is whole.
    Close {
        /// How far the answer comes.
        at: Cut,
    },
    /// Resets the connection (RST) before the answer is whole.
    Reset {
        /// How far the answer comes.
        at: Cut,
    },
    /// Sends bytes that are not HTTP, and closes.
    Garbage,
    /// Answers as it should, after this time.
    Late {
        /// From request to answer.
        by: Duration,
    },
    /// The port refuses connections, and those that were open are closed. Falls on all or none.
    Refused,
    /// Answers as it should, with the body gzipped.
    Gzip {
        /// Also when the request does not say `accept-encoding: gzip`.
        always: bool,
    },
    /// Answers 200 with a gzip of a thousandth of its inflated size, asked for or not.
    GzipBomb {
        /// Inflated size, in bytes.
        inflated: usize,
    },
    /// Answers in a gzip that is cut off, altered, or not one at all, as drawn by request.
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
        /// The location; `None` is another path of the server itself.
        to: Option<String>,
    },
    /// Sends interim answers before the healthy one.
    Interim {
        /// 100 to 199 without 101.
        code: u16,
        /// How many; `None` never ends, and the answer never comes.
        count: Option<u32>,
    },
    /// Answers as it should, then closes the connection.
    Closing {
        /// Whether the answer says `connection: close`.
        announced: bool,
    },
    /// A fault of the service's content.
    Content(F),
}

/// How far an answer comes before its connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// Not a byte of it.
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
    /// Every request is answered as it should.
    pub const HEALTHY: Self = Self { act: ServerAct::Healthy, share_ppm: PPM };

    /// What is wrong with this behaviour, if anything is.
    pub(crate) fn problem(&self) -> Option<&'static str> {
        if self.share_ppm > PPM {
            return Some("a share must not pass 1,000,000 parts per million");
        }
        if self.act == ServerAct::Refused && self.share_ppm != PPM {
            return Some("a port refuses all connections or none: its share must be 100%");
        }
        self.act.problem()
    }

    /// Whether it changes anything.
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
