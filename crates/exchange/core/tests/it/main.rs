//! What campaigns, their bids and a record cost, in bytes and allocations.

mod catalogue_memory;
mod direct;
mod record;

use std::alloc::System;

use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

/// Counts what is allocated, for the tests that run in a process of their own.
#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;
