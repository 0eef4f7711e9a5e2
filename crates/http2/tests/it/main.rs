//! The core against the `h2` crate.

mod cuts;
mod h2_server;
