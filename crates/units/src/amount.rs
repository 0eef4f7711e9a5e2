//! Formats amounts and counts for people: `12,400.50 USD`. Digits may be dropped.

use std::fmt;

use crate::currency::Currency;
use crate::money::{Cpm, Nanos};

/// Least number of significant digits.
const SIGNIFICANT: usize = 4;
/// Digits of [`Nanos`] after the point.
const PLACES: usize = 9;

/// Currencies whose minor unit is not a hundredth, with its digits (ISO 4217).
const MINOR_DIGITS: [(&str, usize); 24] = [
    ("BIF", 0),
    ("CLP", 0),
    ("DJF", 0),
    ("GNF", 0),
    ("ISK", 0),
    ("JPY", 0),
    ("KMF", 0),
    ("KRW", 0),
    ("PYG", 0),
    ("RWF", 0),
    ("UGX", 0),
    ("UYI", 0),
    ("VND", 0),
    ("VUV", 0),
    ("XAF", 0),
    ("XOF", 0),
    ("XPF", 0),
    ("BHD", 3),
    ("IQD", 3),
    ("JOD", 3),
    ("KWD", 3),
    ("LYD", 3),
    ("OMR", 3),
    ("TND", 3),
];

/// Money with the digits of its currency and thousands separated. Small amounts have more digits,
/// up to four significant ones; the rest is dropped, so that a remainder is never shown as spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Amount {
    /// How much.
    pub nanos: Nanos,
    /// Of this.
    pub currency: Currency,
}

impl Amount {
    /// So much of this currency.
    pub const fn new(nanos: Nanos, currency: Currency) -> Self {
        Self { nanos, currency }
    }

    /// The price of 1000 impressions.
    pub const fn of_thousand(price: Cpm, currency: Currency) -> Self {
        Self { nanos: Nanos::new(price.micros().saturating_mul(1000)), currency }
    }

    /// Formats two amounts for comparison: with all digits if they differ but would look the same.
    pub fn compared(self, other: Self) -> [String; 2] {
        let shown = [self, other].map(|it| it.to_string());
        match shown[0] == shown[1] && self != other {
            true => [self, other].map(|it| format!("{} {}", it.figures_to(PLACES), it.currency)),
            false => shown,
        }
    }

    /// Without the currency, for a column that names it.
    pub fn figures(self) -> String {
        let (whole, digits) = self.parts();
        self.figures_to(match whole {
            0 => digits.find(|digit| digit != '0').unwrap_or(0) + SIGNIFICANT,
            _ => SIGNIFICANT.saturating_sub(whole.to_string().len()),
        })
    }

    /// The whole units, and the digits of the fraction.
    fn parts(self) -> (u64, String) {
        let unit = 10u64.pow(9);
        let fraction = self.nanos.get() % unit;
        (self.nanos.get() / unit, format!("{fraction:0PLACES$}"))
    }

    /// With this many digits after the point, or those of its currency; trailing zeros are dropped.
    fn figures_to(self, places: usize) -> String {
        let known = MINOR_DIGITS.iter().find(|(code, _)| *code == self.currency.code());
        let minor = known.map_or(2, |(_, digits)| *digits);
        let (whole, digits) = self.parts();
        let shown = &digits[..places.clamp(minor, PLACES)];
        let kept = shown.trim_end_matches('0').len().max(minor);
        match kept {
            0 => grouped(whole),
            _ => format!("{}.{}", grouped(whole), &shown[..kept]),
        }
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.figures(), self.currency)
    }
}

/// A count with its thousands apart: `12,400`.
pub fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3 + 1);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_that_are_compared_are_told_apart() {
        let check = |one: u64, other: u64, want: [&str; 2]| {
            let usd = |nanos| Amount::new(Nanos::new(nanos), Currency::USD);
            assert_eq!(usd(one).compared(usd(other)), want.map(|it| format!("{it} USD")));
        };
        check(100_000_000_000, 100_004_000_000, ["100.00", "100.004"]);
        check(100_000_000_001, 100_000_000_000, ["100.000000001", "100.00"]);
        check(1_000_000_000, 1_500_000_000, ["1.00", "1.50"]);
        check(100_004_000_000, 100_004_000_000, ["100.00", "100.00"]);
    }

    #[test]
    fn amounts_are_written_as_people_do() {
        let check = |nanos: u64, code: &str, want: &str| {
            let amount = Amount::new(Nanos::new(nanos), Currency::parse(code).unwrap());
            assert_eq!(amount.to_string(), format!("{want} {code}"), "{nanos}");
        };
        check(0, "USD", "0.00");
        check(1_000_000_000, "USD", "1.00");
        check(1_500_000_000, "EUR", "1.50");
        check(2_555_000_000, "USD", "2.555");
        check(12_400_500_000_000, "USD", "12,400.50");
        check(1_234_567_000_000_000, "USD", "1,234,567.00");
        check(99_999_000_000, "USD", "99.99");
        check(100_004_900_000, "USD", "100.00");
        check(58_333_333, "USD", "0.05833");
        check(420_000, "USD", "0.00042");
        check(1, "USD", "0.000000001");
        check(12_345, "USD", "0.00001234");
        check(150_000_000_000, "JPY", "150");
        check(1_234_500_000_000, "JPY", "1,234");
        check(12_500_000_000, "JPY", "12.5");
        check(1_500_000_000, "KWD", "1.500");
        check(u64::MAX, "USD", "18,446,744,073.70");
        let thousand = Amount::of_thousand(Cpm::new(2_500_000).unwrap(), Currency::USD);
        assert_eq!(thousand.to_string(), "2.50 USD");
    }

    #[test]
    fn thousands_are_apart() {
        for (count, want) in
            [(0, "0"), (999, "999"), (1000, "1,000"), (12_345, "12,345"), (1_000_000, "1,000,000")]
        {
            assert_eq!(grouped(count), want);
        }
    }
}
