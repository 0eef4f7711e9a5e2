//! The server side of WebSocket (RFC 6455), without a socket: the handshake.

mod handshake;
#[cfg(test)]
mod tests;

pub use handshake::{UpgradeError, UpgradeHeaders, WEBSOCKET_VERSION};
