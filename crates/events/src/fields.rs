//! Numbers of the fields of each message.

include!(concat!(env!("OUT_DIR"), "/numbers.rs"));
