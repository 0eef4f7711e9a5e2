//! HTTP as every service of the platform speaks it: requests are read within limits, a connection
//! is drained, HTTP/1.1 and HTTP/2 are served by the same code.
//!
//! It must not know threads, configuration, or what is served. The fan-out to DSPs has a client of
//! its own.

pub mod address;
pub mod body;
pub mod client;
pub mod dns;
pub mod head;
pub mod server;
pub mod tls;
