//! The pacer's wire protocol, sans I/O: frames of fixed little-endian layout, as
//! `docs/pacer-protocol.md` specifies them byte by byte.
//!
//! Owns what a frame contains and when it is malformed. It must not know sockets, budgets, or what a
//! token means.
//!
//! A frame is its head, the fixed part of its kind, `count` entries of `block_len` bytes, and a
//! tail. Lengths in the head allow receivers to skip fields that they do not know.
//!
//! **Invariant:** nothing of a malformed frame is ever read: lengths, counts and checksum are
//! verified before an entry is.

mod catalogue;
mod codes;
mod decode;
mod encode;
mod frame;
mod greeting;
mod layout;
#[cfg(test)]
mod tests;

pub use catalogue::{CatalogueChange, CatalogueRow, CatalogueWriter};
pub use codes::{DecisionCode, ProtocolError, SettlementCode, SettlementOutcome};
pub use decode::{BatchFrame, BatchRequest, DecisionsFrame, Entries, SettleFrame, SettledFrame};
pub use encode::{
    BatchItem, DecisionsWriter, SettledWriter, decisions_bytes_max, write_batch, write_error,
    write_heartbeat, write_settle,
};
pub use frame::{FrameError, FrameHead, FrameKind, HEAD_BYTES, MAGIC, RawFrame, VERSION};
pub use greeting::{Hello, Welcome, write_hello, write_welcome};
pub use layout::{
    BidRequestEntry, CandidateEntry, DecisionEntry, HeartbeatFields, IMPRESSION, SettlementEntry,
    TOKEN_BYTES, WelcomeFields,
};
pub use units::Offer;
