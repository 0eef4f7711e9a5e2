//! The server side of WebSocket (RFC 6455), without a socket: the handshake, the frames that a
//! server writes, and the messages that it reads.
//!
//! Owns what a frame looks like and when a client breaks the protocol. It must not know sockets,
//! times, or what messages mean. Absent: extensions (compression is never agreed on), subprotocols,
//! and the client's side.
//!
//! **Invariant:** a reader holds no memory on the heap between messages, and never more than the
//! longest message that it accepts, however the client cuts or declares its frames.

mod close_code;
mod event;
mod frame;
mod handshake;
mod message;
mod reader;
#[cfg(test)]
mod tests;
mod violation;
mod writer;

pub use close_code::CloseCode;
pub use event::WebSocketEvent;
pub use handshake::{UpgradeError, UpgradeHeaders, WEBSOCKET_VERSION};
pub use reader::WebSocketReader;
pub use violation::{FRAGMENTS_MAX, WebSocketViolation};
pub use writer::{
    CLOSE_REASON_BYTES_MAX, ServerFrameHeader, server_payloads, write_binary, write_close,
    write_close_reply, write_ping, write_pong, write_text,
};
