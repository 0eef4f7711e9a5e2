//! The HTTP client and server that all services share: reads within limits, drains, and the same
//! code for HTTP/1.1 and HTTP/2.
//!
//! It must not know threads, configuration, or what is served. The fan-out to DSPs has its own
//! client.

pub mod address;
pub mod body;
pub mod client;
pub mod dns;
pub mod framing;
pub mod gzip;
pub mod head;
pub mod interim;
pub mod plain;
pub mod query;
pub mod server;
pub mod tls;
