//! The cache between clients and origins, over sockets.

mod bad_input;
mod collapsing;
mod config;
mod disk;
mod faults;
mod fixtures;
mod folder;
mod foreign;
mod hit_costs;
mod purging;
mod puts;
mod ranges;
mod semantics;
mod tls;

use std::alloc::System;

use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

/// Counts allocations, for the tests that run in a process of their own.
#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;
