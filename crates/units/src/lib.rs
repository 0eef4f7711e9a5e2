//! Money, currencies, ratios and time as types that cannot be mixed up, and what every crate of rules needs
//! beside them: labels of enumerations, numbers by a seed.
//!
//! Owns how a price is read, written, converted and rounded. Knows nothing of auctions, sockets
//! or clocks, and never computes with floating point.

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
pub use money::{Cpm, Multiplier, Nanos, Ppm, Price, Round};
pub use ratio::Ratio;
pub use split_mix::SplitMix64;
pub use tick::Tick;
