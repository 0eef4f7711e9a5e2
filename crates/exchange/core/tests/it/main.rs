//! The cost of campaigns, their bids and a record, in bytes and allocations.

mod catalogue_memory;
mod direct;
mod enrichment;
mod record;

use std::alloc::System;

use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

/// Counts allocations, for the tests that run in a process of their own.
#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;
