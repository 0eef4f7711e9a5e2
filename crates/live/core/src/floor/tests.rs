//! The floor between a log, a ledger and an exchange that are late, refuse, pause and crash.

mod random;
mod tables;
mod world;
