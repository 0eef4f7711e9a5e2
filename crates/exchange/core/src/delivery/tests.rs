//! Delivery by table, and under a disk and DSPs that fail.

mod billing;
mod fixtures;
mod records;
mod shared_log;
mod sharing;
mod simulation;
