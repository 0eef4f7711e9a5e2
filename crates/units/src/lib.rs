//! Money, currencies, ratios and time as types that cannot be mixed up.
//!
//! Owns how a price is read, written, converted and rounded. Knows nothing of auctions, sockets
//! or clocks, and never computes with floating point.

#![deny(clippy::float_arithmetic)]

mod amount;
mod currency;
mod decimal;
mod money;
mod ratio;
mod tick;

pub use amount::{Amount, grouped};
pub use currency::Currency;
pub use decimal::{Decimal, DecimalError};
pub use money::{Cpm, Multiplier, Nanos, Ppm, Price, Round};
pub use ratio::Ratio;
pub use tick::Tick;
