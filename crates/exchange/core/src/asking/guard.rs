//! Protection of DSPs from us and of us from them: calls per second, calls in flight, and a
//! breaker that throttles who fails. Owns the rights to call, and who may use them.
//!
//! Rights are leased. A [`Governor`], one per DSP and process, holds them; a [`ShardGuard`], one
//! per DSP and shard, uses what it was granted, in plain integers, and refuses the rest. Every
//! [`STEP`] a shard sends a [`GuardReport`] and the governor answers with a [`CallGrant`]. All counts in
//! them are cumulative, so messages that are lost, repeated or overtaken lose and mint nothing.
//!
//! **Rate.** A token is debited before it is granted: level + outstanding ≤ burst, where
//! outstanding = granted − consumed − returned as far as reported. Over *any* window of length T
//! at most `burst + qps × T` calls leave the process. Tokens that a shard does not use go back
//! and to others.
//!
//! **In flight.** The permits granted, those in use included, never exceed the cap. A shard gives
//! back only permits that are free.
//!
//! **Breaker.** See [`BreakerLimits`]. The throttled allowance is leased as tokens of its own, with
//! the same conservation.
//!
//! A publisher's calls per second are limited by the same types, without breaker
//! ([`GuardLimits::of_rate`]).
//!
//! It must not know clocks, threads, rings or DSPs: time is a [`units::Tick`] that is passed in.

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
pub use shard::{CallPermit, CallTrial, CallVerdict, GuardRefusal, ShardGuard};
