//! Notices on the wire: calls to DSPs' URLs, and the beacons that set them off.

mod client;
mod network;
mod wire;
