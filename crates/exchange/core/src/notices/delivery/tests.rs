//! Delivery by table, and simulated with failing disks and DSPs.

mod billing;
pub(crate) mod fixtures;
mod records;
mod settling;
mod shared_log;
mod sharing;
mod simulation;
