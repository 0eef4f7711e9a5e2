//! Sockets to DSPs: TLS, the bytes sent and received, and the wait for many of them at once.

pub(super) mod connect;
pub(super) mod handshakes;
mod permit;
pub(super) mod reactor;
pub(super) mod tls;
pub(super) mod transport;
