//! The cost of funnels, pacing and a shard, in bytes and allocations.

mod funnel_memory;
mod pacing_memory;
mod shard_allocations;

use std::alloc::System;

use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

/// Counts allocations, for the tests that run in a process of their own.
#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;
