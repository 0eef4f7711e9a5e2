//! Delivery of notices: what is owed to whom, when it is tried, and what survives a restart.
//!
//! A core that steps: no socket, clock or disk. Its owner, one thread, hands it what happened, hands
//! over what it wants in the log, makes the calls it asks for, and comes back. The log is one that
//! others write too; a checkpoint in it says now and then from where a start has to read.
//!
//! **Billing** (`burl`) is delivered at least once: a beacon is acknowledged, and its notice first
//! sent, only after its record is durable; what is owed is retried over failures and restarts
//! until the policy's horizon. A token is remembered until it expires: called again, its beacon
//! is acknowledged as before and nothing is sent. A DSP sees a notice twice where its answer was
//! lost, or where we ended between its answer and the record of it: the standard asks it to be
//! idempotent (7.8).
//!
//! **Win and loss** notices (`nurl`, `lurl`) are best effort: a few tries, shed when too many wait.
//!
//! **A DSP that fails** costs the others nothing: each has its lane, calls at a time, and room of
//! its own; after a few failures in a row one call at a time probes it, at the standard's pace and
//! then slower, and its other notices wait. A notice may therefore be tried later than the pace of
//! 7.8 would have it, while the probe stands for it.

mod beacons;
mod billing;
mod bug;
mod event;
mod journal;
mod lanes;
mod notice;
mod policy;
mod replay;
mod scheduler;
#[cfg(test)]
mod tests;
mod tickets;

pub use event::{
    Attempt, Beacon, BeaconRefusal, BestEffort, DeliveryCounters, DeliveryTime, Effect, Event,
    GiveUpReason, JournalTicket, SendOutcome,
};
pub use journal::{JournalDecodeError, JournalRecord, NoticeEnd};
pub use lanes::LaneView;
pub use notice::{
    DSP_BYTES_MAX, ForwardedDevice, HEADER_BYTES_MAX, Notice, NoticeError, URL_BYTES_MAX,
};
pub use policy::DeliveryPolicy;
pub use replay::JournalReplay;
pub use scheduler::Delivery;
pub use tickets::TicketQueue;
