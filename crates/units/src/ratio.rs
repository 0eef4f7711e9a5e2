//! Exact conversion ratios between currencies.

#[cfg(test)]
mod tests;

use crate::decimal::Decimal;
use crate::money::{Cpm, Rounding};

/// Largest term of a ratio: multiplied by a price it still fits 128 bits.
const TERM_MAX: u128 = 1 << 76;

const _: () = assert!(
    (Cpm::MAX.micros() as u128).leading_zeros() + TERM_MAX.leading_zeros() >= 128,
    "a price times a term fits 128 bits"
);

/// A positive fraction in lowest terms, both terms at most 2^76.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ratio {
    numerator: u128,
    denominator: u128,
}

impl Ratio {
    /// One to one.
    pub const ONE: Self = Self { numerator: 1, denominator: 1 };

    /// Parses a decimal number such as the rate `0.9143`. None if it is zero, malformed or outside
    /// `10^-15 ..= 10^15`.
    pub fn parse(text: &str) -> Option<Self> {
        let (numerator, denominator) = Decimal::parse(text).ok()?.fraction()?;
        Self::reduced(numerator, denominator)
    }

    /// `self / other`: from the unit that `self` prices to the unit that `other` prices. None if a
    /// term exceeds 2^76, which rates of 11 digits never reach.
    pub fn over(self, other: Self) -> Option<Self> {
        let numerator = self.numerator.checked_mul(other.denominator)?;
        let denominator = self.denominator.checked_mul(other.numerator)?;
        Self::reduced(numerator, denominator)
    }

    /// The inverse, which always exists because a ratio is positive.
    pub const fn inverse(self) -> Self {
        Self { numerator: self.denominator, denominator: self.numerator }
    }

    /// `price × self`, rounded; None above [`Cpm::MAX`].
    ///
    /// Rounding down and then back up through [`Ratio::inverse`] never exceeds the start: `⌈⌊x·r⌋ /
    /// r⌉ ≤ x` for whole `x`.
    pub fn convert(self, price: Cpm, round: Rounding) -> Option<Cpm> {
        let product = u128::from(price.micros()) * self.numerator;
        let value = match round {
            Rounding::Down => product / self.denominator,
            Rounding::Up => product.div_ceil(self.denominator),
        };
        u64::try_from(value).ok().and_then(Cpm::new)
    }

    fn reduced(numerator: u128, denominator: u128) -> Option<Self> {
        if numerator == 0 || denominator == 0 {
            return None;
        }
        let divisor = gcd(numerator, denominator);
        let ratio = Self { numerator: numerator / divisor, denominator: denominator / divisor };
        (ratio.numerator <= TERM_MAX && ratio.denominator <= TERM_MAX).then_some(ratio)
    }
}

const fn gcd(mut a: u128, mut b: u128) -> u128 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
