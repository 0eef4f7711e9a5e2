//! The log among real processes and file systems: killed at any moment, and on a disk that fills.

mod full;
mod killed;
mod log;
