//! The cache between clients and origins, over sockets.

mod bad_input;
mod collapsing;
mod fixtures;
mod semantics;
