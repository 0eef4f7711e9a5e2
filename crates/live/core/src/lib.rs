//! The rules of the live floor: how WebSocket frames are read and written, which messages a
//! subscriber gets, and how a lot is sold.
//!
//! Must not know sockets, clocks or threads: bytes, times and seeds are arguments.

pub mod feed;
pub mod floor;
pub mod lots;
pub mod ports;
pub mod protocol;
pub mod rights;
pub mod topic;
pub mod websocket;
