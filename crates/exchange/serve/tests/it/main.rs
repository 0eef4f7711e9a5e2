//! The exchange on real sockets: all kinds of callers on one side, scripted DSPs on the other.

mod answers;
mod bad_input;
mod browser;
mod budgets;
mod callers;
mod ceilings;
mod cuts;
mod deadline;
mod direct;
mod fixtures;
mod fleet;
mod guards;
mod hostile;
mod life_cycle;
mod limits;
mod misbehaviour;
mod multiplexed;
mod notices;
mod outbound;
mod overload;
mod reconnect;
mod record;
mod reload;
mod reuse;
mod sold;
mod strangers;
mod tls;
mod traces;

use std::alloc::System;

use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

/// Counts allocations, for the tests that run in a process of their own.
#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;
