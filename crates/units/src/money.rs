//! Prices, costs and shares in integers.

use std::fmt;

use crate::currency::Currency;
use crate::decimal::{Decimal, DecimalError};

/// Direction of rounding. Bids round down and floors up, so that a seat never pays above its offer
/// nor a publisher sells below its floor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    /// Towards zero.
    Down,
    /// Away from zero.
    Up,
}

/// Price of 1000 impressions, in micros of a currency. At most [`Cpm::MAX`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cpm(u64);

impl Cpm {
    /// Nothing.
    pub const ZERO: Self = Self(0);

    /// A thousand million units: above any price in any currency in use.
    pub const MAX: Self = Self(1_000_000_000_000_000);

    /// `None` above [`Cpm::MAX`].
    pub const fn new(micros: u64) -> Option<Self> {
        if micros <= Self::MAX.0 { Some(Self(micros)) } else { None }
    }

    /// Micros of the currency per 1000 impressions.
    pub const fn micros(self) -> u64 {
        self.0
    }

    /// Parses a JSON number, rounded to micros.
    pub fn parse(text: &str, round: Rounding) -> Result<Self, DecimalError> {
        let (micros, dropped) = Decimal::parse(text)?.scaled(6).ok_or(DecimalError::TooLarge)?;
        let micros = match round {
            Rounding::Up if dropped => micros.checked_add(1).ok_or(DecimalError::TooLarge)?,
            _ => micros,
        };
        Self::new(micros).ok_or(DecimalError::TooLarge)
    }

    /// The cost of `multiplier` impressions, rounded down once. One impression costs exactly as
    /// many nanos as the price has micros. None if the cost does not fit (OpenRTB 2.6 section 7.9.4
    /// gives a worked example).
    pub fn cost(self, multiplier: Multiplier) -> Option<Nanos> {
        if multiplier == Multiplier::ONE {
            return Some(Nanos(self.0));
        }
        let nanos = u128::from(self.0) * u128::from(multiplier.0) / u128::from(Multiplier::ONE.0);
        u64::try_from(nanos).ok().map(Nanos)
    }

    /// The highest price at which `multiplier` impressions cost no more than `limit`.
    pub fn affordable(limit: Nanos, multiplier: Multiplier) -> Self {
        // The cost is rounded down, so it may be almost one nano higher.
        let parts = (u128::from(limit.0) + 1) * u128::from(Multiplier::ONE.0) - 1;
        let micros = u64::try_from(parts / u128::from(multiplier.0)).unwrap_or(u64::MAX);
        Self(micros.min(Self::MAX.0))
    }

    /// The sum, at most [`Cpm::MAX`].
    pub fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0).min(Self::MAX.0))
    }

    /// `self × seconds`, at most [`Cpm::MAX`].
    pub fn saturating_times(self, seconds: u32) -> Self {
        Self(self.0.saturating_mul(u64::from(seconds)).min(Self::MAX.0))
    }
}

impl fmt::Display for Cpm {
    /// Shortest exact decimal: `0.03`, `9.43`, `3`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_decimal(f, self.0, 6)
    }
}

/// `value / 10^places` without trailing zeros.
fn write_decimal(f: &mut fmt::Formatter<'_>, value: u64, places: u32) -> fmt::Result {
    let unit = 10u64.pow(places);
    let (whole, mut fraction) = (value / unit, value % unit);
    write!(f, "{whole}")?;
    if fraction == 0 {
        return Ok(());
    }
    let mut width = places as usize;
    while fraction.is_multiple_of(10) {
        fraction /= 10;
        width -= 1;
    }
    write!(f, ".{fraction:0width$}")
}

/// Money that changes hands: thousand-millionths of a currency unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Nanos(u64);

impl Nanos {
    /// Nothing.
    pub const ZERO: Self = Self(0);

    /// From a count of nanos.
    pub const fn new(nanos: u64) -> Self {
        Self(nanos)
    }

    /// The count.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The sum, or `None` when it does not fit.
    pub fn checked_add(self, other: Self) -> Option<Self> {
        self.0.checked_add(other.0).map(Self)
    }
}

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_decimal(f, self.0, 9)
    }
}

/// What a campaign offers for a request. The unit is part of the type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offer {
    /// The impression's value to the campaign: the pacer chooses the price, at most the value times
    /// the campaign's multiplier.
    Value(Cpm),
    /// The price: the campaign's strategy only chooses requests.
    Price(Cpm),
    /// The total cost: the campaign's strategy has no say.
    Cost(Nanos),
}

/// Number of impressions per display (`imp.qty.multiplier`), in millionths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Multiplier(u64);

impl Multiplier {
    /// One impression.
    pub const ONE: Self = Self(1_000_000);

    /// A million viewers of one display.
    pub const MAX: Self = Self(1_000_000_000_000);

    /// None for zero, or above [`Multiplier::MAX`].
    pub const fn new(millionths: u64) -> Option<Self> {
        if millionths == 0 || millionths > Self::MAX.0 { None } else { Some(Self(millionths)) }
    }

    /// Parses a JSON number above zero, rounded down to millionths.
    pub fn parse(text: &str) -> Result<Self, DecimalError> {
        let (millionths, _) = Decimal::parse(text)?.scaled(6).ok_or(DecimalError::TooLarge)?;
        match millionths {
            0 => Err(DecimalError::Malformed),
            n if n > Self::MAX.0 => Err(DecimalError::TooLarge),
            n => Ok(Self(n)),
        }
    }
}

impl fmt::Display for Multiplier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_decimal(f, self.0, 6)
    }
}

/// A share in parts per million, at most the whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ppm(u32);

impl Ppm {
    /// Nothing.
    pub const ZERO: Self = Self(0);

    /// The whole.
    pub const ONE: Self = Self(1_000_000);

    /// `None` above one million.
    pub const fn new(parts: u32) -> Option<Self> {
        if parts <= Self::ONE.0 { Some(Self(parts)) } else { None }
    }

    /// The count of parts.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// What is left of `price` after this share, rounded down: net from gross.
    pub fn taken_from(self, price: Cpm) -> Cpm {
        let left = u128::from(price.0) * u128::from(Self::ONE.0 - self.0);
        let micros = left / u128::from(Self::ONE.0);
        Cpm(u64::try_from(micros).expect("a share of a price is at most the price"))
    }

    /// The lowest price of which `net` is left after this share: gross from net. None if the share
    /// is the whole, or the result exceeds [`Cpm::MAX`].
    pub fn added_to(self, net: Cpm) -> Option<Cpm> {
        let left = u128::from(Self::ONE.0 - self.0);
        if left == 0 {
            return None;
        }
        let gross = (u128::from(net.0) * u128::from(Self::ONE.0)).div_ceil(left);
        u64::try_from(gross).ok().and_then(Cpm::new)
    }
}

impl fmt::Display for Ppm {
    /// As a percentage: `2.5%`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_decimal(f, u64::from(self.0), 4)?;
        f.write_str("%")
    }
}

/// A price and its currency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Price {
    /// Micros per 1000 impressions.
    pub amount: Cpm,
    /// Its currency.
    pub currency: Currency,
}

impl Price {
    /// Parses `0.50 USD`.
    pub fn parse(text: &str, round: Rounding) -> Option<Self> {
        let (amount, code) = text.trim().split_once(' ')?;
        let currency = Currency::parse(code.trim())?;
        Some(Self { amount: Cpm::parse(amount, round).ok()?, currency })
    }
}

impl fmt::Display for Price {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.amount, self.currency)
    }
}

#[cfg(test)]
mod tests;
