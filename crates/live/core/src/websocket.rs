//! The server side of WebSocket (RFC 6455), without a socket: the handshake, and the frames that a
//! server writes.

mod close_code;
mod frame;
mod handshake;
#[cfg(test)]
mod tests;
mod writer;

pub use close_code::CloseCode;
pub use handshake::{UpgradeError, UpgradeHeaders, WEBSOCKET_VERSION};
pub use writer::{
    CLOSE_REASON_BYTES_MAX, ServerFrameHeader, write_binary, write_close, write_close_reply,
    write_ping, write_pong, write_text,
};
