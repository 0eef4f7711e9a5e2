//! Sockets to DSPs: TLS, the bytes sent and received, and the wait for many of them at once.

pub(crate) mod connect;
pub(super) mod handshakes;
pub(crate) mod permit;
pub(crate) mod reactor;
pub(super) mod tls;
pub(crate) mod transport;
