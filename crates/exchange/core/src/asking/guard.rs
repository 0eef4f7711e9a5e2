//! Protection of DSPs and of ourselves: calls per second, calls in flight, and a breaker that
//! throttles failing DSPs. Owns the rights to call and their division among shards. Must not know
//! clocks, threads, rings or DSPs: time is a [`units::Tick`] argument.
//!
//! A [`Governor`], one per DSP and process, leases rights; a [`ShardGuard`], one per DSP and shard,
//! uses what it was granted and refuses the rest. Every [`STEP`] a shard sends a [`GuardReport`]
//! and the governor answers with a [`CallGrant`]. All counts in them are cumulative, so messages
//! that are lost, repeated or reordered neither lose nor mint rights.
//!
//! **Rate.** A token is debited before it is granted: level + outstanding ≤ burst, where
//! outstanding = granted − consumed − returned, as reported. In *any* window of length T at most
//! `burst + qps × T` calls leave the process. Unused tokens go to other shards.
//!
//! **In flight.** The permits granted, including those in use, never exceed the cap. A shard
//! returns only free permits.
//!
//! **Breaker.** See [`BreakerLimits`]. The throttled allowance is leased as tokens of its own, with
//! the same conservation.
//!
//! The same types, without breaker, limit a publisher's calls per second
//! ([`GuardLimits::of_rate`]).

mod breaker;
mod bucket;
mod governor;
mod lease;
mod limits;
mod message;
mod shard;
mod share;
mod window;

pub use governor::{BreakerState, Governor, GuardStatus};
pub use limits::{BreakerLimits, CallRate, GuardLimits};
pub use message::{CallGrant, EpochCounts, GuardMode, GuardReport, STEP};
pub use shard::{BreakerTrial, CallHealth, CallPermit, GuardRefusal, ShardGuard};
