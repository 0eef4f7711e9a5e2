//! Delivery of notices: queues, retries, and recovery after a restart.
//!
//! A pure state machine without sockets, clocks or disks. One thread owns it: it passes events in,
//! appends the records to the log, makes the calls, and steps again. Others write the same log;
//! checkpoints in it say from where a start has to read.
//!
//! **Billing** (`burl`) is delivered at least once: a beacon is acknowledged, and its notice first
//! sent, only after its record is durable; what is owed is retried over failures and restarts
//! until the policy's horizon. A token is remembered until it expires: further calls of its beacon
//! are acknowledged and send nothing. A DSP gets a notice twice if its answer was lost, or if the
//! process ended before it recorded the answer: the standard asks DSPs to be idempotent (7.8).
//!
//! **Win and loss** notices (`nurl`, `lurl`) are best effort: a few tries, shed when too many wait.
//!
//! **A failing DSP** costs the others nothing: each DSP has its own lane with its own limits. After a
//! few failures in a row, one call at a time probes the DSP at the standard's pace and then slower,
//! while its other notices wait. A notice may then be tried later than 7.8 says.

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
