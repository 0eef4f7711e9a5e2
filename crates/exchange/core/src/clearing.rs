//! Clearing: who wins, at which price, and what that is in each currency.

pub(crate) mod clear;
pub(crate) mod pricing;
