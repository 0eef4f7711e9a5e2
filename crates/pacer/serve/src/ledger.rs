//! The thread of the ledger: its start and end, its turns, and how others reach it.
//!
//! Owns which messages wait and for how long. What is granted is decided by `pacer_core`.

pub(crate) mod digest;
pub(crate) mod feed;
pub(crate) mod handle;
pub(crate) mod keeper;
pub(crate) mod rings;
pub(crate) mod start;
pub(crate) mod states;
pub(crate) mod status;
pub(crate) mod turn;
pub(crate) mod zones;
