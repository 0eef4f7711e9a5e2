//! What a server can do wrong only over HTTP/2.

use std::time::Duration;

use super::LATENCY_MAX;

/// Most frames of a flood.
pub const FLOOD_MAX: u32 = 100_000;

/// Largest DATA frame of an endless answer, in bytes.
const PIECE_MAX: usize = 16 * 1024;

/// What a server does wrong over HTTP/2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Http2Fault {
    /// Resets the stream instead of answering it.
    Reset {
        /// The error code of RST_STREAM.
        code: u32,
    },
    /// Sends this many frames at once, then the answer.
    Flood {
        /// Their type.
        frames: FloodFrame,
        /// How many.
        times: u32,
    },
    /// Answers with a head of 16 KiB that decodes to 48 MB: a field of 4,000 bytes, and 12,000
    /// references to it.
    HpackBomb,
    /// Sets the window of streams to 0 and answers. It stays 0.
    ZeroWindow,
    /// Makes the connection's window overflow, then answers.
    WindowOverflow,
    /// Sends a head, and a body in small frames that never ends.
    Endless {
        /// Bytes of each frame.
        bytes: usize,
        /// Pause between frames, at least 1 ms.
        every: Duration,
    },
    /// Ends the answer with trailers, unless its body must wait for a window.
    Trailers,
    /// Sends GOAWAY in the middle of the answer, and closes once all streams have ended.
    GoAway,
    /// Sends DATA for a stream that was never opened, then answers.
    UnknownStream,
}

/// The frames of a flood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FloodFrame {
    /// SETTINGS without settings. The client must reply to each.
    Settings,
    /// PING. The client must reply to each.
    Ping,
    /// Empty CONTINUATION frames within the answer's head.
    Continuation,
}

impl Http2Fault {
    /// The problem of its options. None if they are valid.
    pub(super) fn problem(&self) -> Option<&'static str> {
        let when = |wrong: bool, problem| wrong.then_some(problem);
        match self {
            Self::Flood { times, .. } => {
                when(*times > FLOOD_MAX, "a flood has at most 100,000 frames")
            }
            Self::Endless { bytes, every } => {
                when(!(1..=PIECE_MAX).contains(bytes), "a frame of data has 1 byte to 16 KiB")
                    .or(when(*every < Duration::from_millis(1), "frames come at least 1 ms apart"))
                    .or(when(*every > LATENCY_MAX, "frames come at most 60 s apart"))
            }
            Self::Reset { .. }
            | Self::HpackBomb
            | Self::ZeroWindow
            | Self::WindowOverflow
            | Self::Trailers
            | Self::GoAway
            | Self::UnknownStream => None,
        }
    }
}
