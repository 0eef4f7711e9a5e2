//! Those who listen: what each has asked for, and how it is told, over WebSocket or as server-sent
//! events.

mod client;
pub(crate) mod socket;
pub(crate) mod stream;
mod subscription;
