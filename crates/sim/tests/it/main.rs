//! Simulations of the pure cores, and the mistakes that their checks must find.

#![expect(clippy::unwrap_used, reason = "a test may fail where it stands")]

mod budgets;
mod guard;
