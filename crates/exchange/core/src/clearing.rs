//! Clearing: winners, their prices, and conversion of prices.

pub(crate) mod clear;
pub(crate) mod pricing;
