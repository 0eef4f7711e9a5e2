//! The ledger's thread and its channels. `pacer_core` decides what is granted.

pub(crate) mod digest;
pub(crate) mod feed;
pub(crate) mod handle;
pub(crate) mod hold_port;
pub(crate) mod rings;
pub(crate) mod snapshot_writer;
pub(crate) mod start;
pub(crate) mod states;
pub(crate) mod status;
pub(crate) mod turn;
pub(crate) mod zones;
