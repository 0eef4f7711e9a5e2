//! The codec against the RFC's examples, hostile clients, and a naive decoder.

mod autobahn;
mod client;
mod frames;
mod handshake;
mod properties;
mod violations;
