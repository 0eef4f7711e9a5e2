//! Limits of a connection.

/// Limits of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Http2ClientOptions {
    /// Largest body of a response, at most 1 GiB.
    pub body_bytes_max: usize,
    /// Most streams at a time, whatever the server allows.
    pub streams_max: usize,
    /// Most DATA frames of a response with few bytes each.
    pub small_frames_max: u32,
}
