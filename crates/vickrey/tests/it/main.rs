//! The program as users see it, budgets end to end, and the documents and rules of the repository.

#![expect(clippy::unwrap_used, reason = "a test may fail where it stands")]

mod budgets;
mod cache;
mod campaign;
mod campaign_files;
mod cli;
mod definitions;
mod docs;
mod enrichment;
mod explain;
mod live;
mod log;
mod lookup;
mod operations;
mod own_record;
mod pacer;
mod program;
mod readme;
mod reload_allocations;
mod simulate;
mod simulate_recorded;
mod tidy;

use std::alloc::System;

use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

/// Counts allocations, for the tests that run in a process of their own.
#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;
