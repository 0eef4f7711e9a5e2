//! Error codes, and what ends a connection.

use std::fmt;

/// An error code of RST_STREAM or GOAWAY (RFC 9113, section 7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Http2ErrorCode(pub u32);

impl Http2ErrorCode {
    /// No error.
    pub const NO_ERROR: Self = Self(0x0);
    /// The protocol is violated in a way that has no code of its own.
    pub const PROTOCOL_ERROR: Self = Self(0x1);
    /// An error of the endpoint itself.
    pub const INTERNAL_ERROR: Self = Self(0x2);
    /// A window is exceeded, or overflows.
    pub const FLOW_CONTROL_ERROR: Self = Self(0x3);
    /// A frame for a stream that has ended.
    pub const STREAM_CLOSED: Self = Self(0x5);
    /// A frame of a wrong size.
    pub const FRAME_SIZE_ERROR: Self = Self(0x6);
    /// The stream was refused before any processing, so it can be repeated.
    pub const REFUSED_STREAM: Self = Self(0x7);
    /// The stream is no longer needed.
    pub const CANCEL: Self = Self(0x8);
    /// A header block cannot be decoded.
    pub const COMPRESSION_ERROR: Self = Self(0x9);
    /// The peer's behaviour costs too much.
    pub const ENHANCE_YOUR_CALM: Self = Self(0xb);

    /// The name in RFC 9113. None if the code is unknown.
    pub const fn name(self) -> Option<&'static str> {
        Some(match self.0 {
            0x0 => "NO_ERROR",
            0x1 => "PROTOCOL_ERROR",
            0x2 => "INTERNAL_ERROR",
            0x3 => "FLOW_CONTROL_ERROR",
            0x4 => "SETTINGS_TIMEOUT",
            0x5 => "STREAM_CLOSED",
            0x6 => "FRAME_SIZE_ERROR",
            0x7 => "REFUSED_STREAM",
            0x8 => "CANCEL",
            0x9 => "COMPRESSION_ERROR",
            0xa => "CONNECT_ERROR",
            0xb => "ENHANCE_YOUR_CALM",
            0xc => "INADEQUATE_SECURITY",
            0xd => "HTTP_1_1_REQUIRED",
            _ => return None,
        })
    }
}

impl fmt::Display for Http2ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "error code {}", self.0),
        }
    }
}

/// A connection error (RFC 9113, section 5.4.1): the peer is at fault, and the connection must
/// close.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{problem} ({code})")]
pub struct Http2Error {
    /// The code for GOAWAY.
    pub code: Http2ErrorCode,
    /// What the peer did.
    pub problem: &'static str,
}

impl Http2Error {
    pub(crate) const fn new(code: Http2ErrorCode, problem: &'static str) -> Self {
        Self { code, problem }
    }

    pub(crate) const fn protocol(problem: &'static str) -> Self {
        Self::new(Http2ErrorCode::PROTOCOL_ERROR, problem)
    }
}
