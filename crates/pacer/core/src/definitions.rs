//! Rules of the text of definitions: amounts, hours, differences, overrides, idempotency keys.
//!
//! Knows neither where definitions come from nor where they are stored.

pub mod amounts;
pub mod difference;
pub mod hours;
pub mod keys;
pub mod overrides;
