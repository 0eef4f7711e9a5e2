//! Seeded simulation of the pure cores under faults: the same steps as in production, with a
//! network, a clock and other sides that are numbers drawn from a seed. For tests only.

#[cfg(feature = "budgets")]
pub mod budgets;
pub mod guard;
