//! The log with real processes and file systems: killed at any moment, and on a disk that fills up.

mod full;
mod killed;
mod log;
