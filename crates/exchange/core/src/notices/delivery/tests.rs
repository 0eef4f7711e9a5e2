//! Delivery by table, and under a disk and DSPs that fail.

mod billing;
pub(crate) mod fixtures;
mod records;
mod settling;
mod shared_log;
mod sharing;
mod simulation;
