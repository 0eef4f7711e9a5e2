//! Simulated servers and the load generator on real sockets.

mod fleet;
mod hammer;
mod load;
mod origin;
mod server;
