//! The core against the `h2` crate.

mod h2_server;
