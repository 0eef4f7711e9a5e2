//! Simulations of the pure cores, and the planted bugs that their checks must catch.

#![expect(clippy::unwrap_used, reason = "a test may fail where it stands")]

mod budgets;
mod guard;
