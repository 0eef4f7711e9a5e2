//! The cache between clients and origins, over sockets.

mod bad_input;
mod collapsing;
mod config;
mod faults;
mod fixtures;
mod purging;
mod semantics;
