//! Seeded simulations of the pure cores under faults: production code with a simulated network,
//! clock and peers, all drawn from a seed. For tests only.

#[cfg(feature = "budgets")]
pub mod budgets;
pub mod guard;
