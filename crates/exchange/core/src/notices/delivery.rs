//! Delivery of notices: queues, retries, and recovery after a restart.
//!
//! A pure state machine without sockets, clocks or disks. One thread owns it: it passes events in,
//! appends records to the log, makes calls, and steps again. Others write the same log; checkpoints
//! say from where a start must read.
//!
//! **Billing** notices (`burl`) are delivered at least once: a beacon is acknowledged, and its
//! notice first sent, after its record is durable. Notices owed are retried across failures and
//! restarts until the policy's horizon. A token is remembered until it expires: further calls are
//! acknowledged and send nothing. A DSP gets a notice twice if its answer was lost, or not recorded
//! before the process ended; the standard asks DSPs to be idempotent (7.8).
//!
//! **Win and loss** notices (`nurl`, `lurl`) are best effort: a few tries, dropped when too many
//! wait.
//!
//! **A failing DSP** costs others nothing: each DSP has its own lane and limits. After a few
//! failures in a row, one call at a time probes the DSP, at the standard's pace and then slower;
//! its other notices wait, possibly longer than 7.8 says.

mod beacons;
mod billing;
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
