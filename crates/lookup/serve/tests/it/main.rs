//! Look-ups over HTTP, of simulated providers.

mod answers;
mod bad_input;
mod caching;
mod das;
mod faults;
mod fixtures;
mod limits;
mod memory;
mod postgres;
mod restart;

use std::alloc::System;

use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

/// Counts allocations, for the test that runs in a process of its own.
#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;
