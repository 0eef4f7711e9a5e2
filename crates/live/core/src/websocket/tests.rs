//! The codec against the RFC's examples and hostile clients.

mod frames;
mod handshake;
