//! Money, currencies, ratios and time as distinct types; beside them what every core needs: labels
//! of enumerations, numbers from a seed.
//!
//! Owns how a price is parsed, formatted, converted and rounded. Never uses floating point.

#![deny(clippy::float_arithmetic)]

mod amount;
mod currency;
mod decimal;
mod labelled;
mod money;
mod ratio;
mod split_mix;
mod tick;

pub use amount::{Amount, grouped};
pub use currency::Currency;
pub use decimal::{Decimal, DecimalError};
pub use money::{Cpm, Multiplier, Nanos, Offer, Ppm, Price, Rounding};
pub use ratio::Ratio;
pub use split_mix::SplitMix64;
pub use tick::Tick;
