//! Simulations of the pure cores.

#![expect(clippy::unwrap_used, reason = "a test may fail where it stands")]

mod budgets;
mod guard;
