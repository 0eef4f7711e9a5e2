//! What accounts and campaigns may spend, and how much of it is used.
//!
//! Owns definitions, the sums of what is in use of each limit, and what each limit leaves. Knows no
//! lease, no shard and no store.

pub(super) mod definition;
pub(super) mod level;
pub(super) mod tally;
