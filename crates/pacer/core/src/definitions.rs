//! What holds of definitions of accounts and campaigns by their text alone: how amounts and hours are
//! read, how one differs from another, what is held over a file, and which requests came before.
//!
//! Owns these rules. Where definitions come from, and where they are kept, is not known here.

pub mod amounts;
pub mod difference;
pub mod held;
pub mod hours;
pub mod keys;
