//! HTTP/2 (RFC 9113), sans I/O: frames, header compression (RFC 7541), and the client's side of a
//! connection that carries many short calls at a time.
//!
//! Owns what is on the wire, and the state of each stream. It must not know sockets, clocks,
//! auctions, or when to open another connection.
//!
//! A request is sent at once and as a whole, or not at all: there is no queue in here, so no request
//! waits for another one's window.
//!
//! **Invariant:** whatever the server sends, the memory of a connection is bounded: by the windows
//! granted for bodies, by [`HEAD_BYTES_MAX`] for a head, and by one frame of input.

mod client;
mod error;
pub mod frame;
pub mod hpack;

pub use client::{
    HEAD_BYTES_MAX, HEAD_FIELDS_MAX, Http2Client, Http2ClientOptions, INTERIM_MAX, RequestHead,
    StreamCall, StreamEnd, StreamRefusal,
};
pub use error::{Http2Error, Http2ErrorCode};
