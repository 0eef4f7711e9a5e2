//! Numbers with a unit (`"250ms"`, `"64KiB"`, `"2.5%"`), exact integers, and their ranges. It must
//! not know keys, files or floating point.

use std::fmt;
use std::ops::{Bound, RangeBounds};

use units::{Decimal, DecimalError};

use crate::config::toml_text::excerpt;
use crate::config::values::given::{GivenValue, WrongValue};

/// The quantity that a number measures, which determines its units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// A whole number, without a unit.
    Integer,
    /// Microseconds, written `"250us"`, `"5ms"`, `"2s"`, `"1m"` or `"1h"`.
    Duration,
    /// Bytes, written `"512B"`, `"64KiB"`, `"1MiB"` or `"1GiB"`.
    Bytes,
    /// Parts per million, written `"2.5%"` or `"25000ppm"`.
    Ratio,
}

impl Quantity {
    /// Units and their sizes, smallest first.
    fn units(self) -> &'static [(&'static str, u64)] {
        match self {
            Self::Integer => &[],
            Self::Duration => &[
                ("us", 1),
                ("ms", 1000),
                ("s", 1_000_000),
                ("m", 60_000_000),
                ("h", 3_600_000_000),
            ],
            Self::Bytes => &[("B", 1), ("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)],
            Self::Ratio => &[("ppm", 1), ("%", 10_000)],
        }
    }

    /// The unit to suggest if one is missing.
    fn usual_unit(self) -> &'static str {
        match self {
            Self::Integer => "",
            Self::Duration => "ms",
            Self::Bytes => "KiB",
            Self::Ratio => "%",
        }
    }

    pub(in crate::config) fn unit_names(self) -> Vec<&'static str> {
        self.units().iter().map(|(unit, _)| *unit).collect()
    }

    /// Formats an amount in its largest whole unit; ratios in percent if two decimals suffice.
    pub fn write(self, amount: u64) -> String {
        if self == Self::Ratio && amount.is_multiple_of(100) {
            let (whole, hundredths) = (amount / 10_000, amount % 10_000 / 100);
            let decimals = format!("{whole}.{hundredths:02}");
            return format!("{}%", decimals.trim_end_matches('0').trim_end_matches('.'));
        }
        let fitting = |&&(_, worth): &&(&str, u64)| amount.is_multiple_of(worth);
        let largest = if amount == 0 { None } else { self.units().iter().rev().find(fitting) };
        match largest.or(self.units().first()) {
            Some((unit, worth)) => format!("{}{unit}", amount / worth),
            None => amount.to_string(),
        }
    }

    /// An amount in the smallest unit. None if the value is not valid.
    pub(in crate::config) fn amount(self, given: &GivenValue<'_>) -> Option<u64> {
        self.read(given).ok()
    }

    fn read(self, given: &GivenValue<'_>) -> Result<u64, WrongValue> {
        match (self, given) {
            (_, GivenValue::Integer(..0)) => {
                Err(WrongValue::Value("must not be negative".to_owned()))
            }
            (Self::Integer, &GivenValue::Integer(number)) => {
                u64::try_from(number).map_err(|_| WrongValue::Value("is too large".to_owned()))
            }
            (Self::Integer, _) => Err(WrongValue::Type),
            (_, GivenValue::Integer(number)) => Err(self.lacks_unit(&number.to_string()).into()),
            (_, GivenValue::Text(text)) => Ok(self.read_text(text)?),
            _ => Err(WrongValue::Type),
        }
    }

    fn lacks_unit(self, number: &str) -> String {
        let number = excerpt(number);
        format!("needs a unit, for example \"{number}{}\"", self.usual_unit())
    }

    fn read_text(self, text: &str) -> Result<u64, String> {
        if text.starts_with('-') {
            return Err("must not be negative".to_owned());
        }
        let numeric = |byte: u8| byte.is_ascii_digit() || byte == b'.';
        let end = text.bytes().position(|byte| !numeric(byte)).unwrap_or(text.len());
        let (number, unit) = text.split_at(end);
        let unit = unit.trim_start_matches(' ');
        let amount = match Decimal::parse(number) {
            Ok(_) if unit.is_empty() => return Err(self.lacks_unit(number)),
            Ok(decimal) => decimal,
            Err(DecimalError::TooLarge) => return Err("is too large".to_owned()),
            Err(_) => {
                let example = format!("\"10{}\"", self.usual_unit());
                return Err(format!("needs a number and a unit, for example {example}"));
            }
        };
        let Some((_, worth)) = self.units().iter().find(|(known, _)| *known == unit) else {
            let known = self.unit_names().join(", ");
            return Err(format!("unknown unit `{}`, known are {known}", excerpt(unit)));
        };
        let (millionths, dropped) = amount.scaled(6).ok_or_else(|| "is too large".to_owned())?;
        let product = u128::from(millionths) * u128::from(*worth);
        if dropped || !product.is_multiple_of(1_000_000) {
            return Err(format!("is finer than 1{}", self.units()[0].0));
        }
        u64::try_from(product / 1_000_000).map_err(|_| "is too large".to_owned())
    }
}

/// An inclusive range of values, in the quantity's smallest unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The quantity measured.
    pub quantity: Quantity,
    /// Smallest value, 0 if none is stated.
    pub min: u64,
    /// Largest value. None if there is no limit.
    pub max: Option<u64>,
}

impl Bounds {
    /// `range` in the smallest unit of `quantity`; `count` converts an end.
    pub(in crate::config) fn of<T>(
        quantity: Quantity,
        range: &impl RangeBounds<T>,
        count: impl Fn(&T) -> u64,
    ) -> Self {
        let min = match range.start_bound() {
            Bound::Included(start) => count(start),
            Bound::Excluded(start) => count(start).saturating_add(1),
            Bound::Unbounded => 0,
        };
        let max = match range.end_bound() {
            Bound::Included(end) => Some(count(end)),
            Bound::Excluded(end) => Some(count(end).saturating_sub(1)),
            Bound::Unbounded => None,
        };
        Self { quantity, min, max }
    }

    /// Whether the range is narrower than the quantity's own.
    pub(in crate::config) fn is_stated(&self) -> bool {
        self.min != 0 || self.max.is_some()
    }

    /// Lowers the upper end to `max`, the limit of the target type.
    pub(in crate::config) fn at_most(self, max: u64) -> Self {
        if max == u64::MAX {
            return self;
        }
        Self { max: Some(self.max.map_or(max, |own| own.min(max))), ..self }
    }

    pub(in crate::config) fn read(&self, given: &GivenValue<'_>) -> Result<u64, WrongValue> {
        let amount = self.quantity.read(given)?;
        let within = self.min <= amount && self.max.is_none_or(|max| amount <= max);
        if within { Ok(amount) } else { Err(format!("must be {self}").into()) }
    }
}

impl fmt::Display for Bounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let min = self.quantity.write(self.min);
        match self.max.map(|max| self.quantity.write(max)) {
            Some(max) if max == min => write!(f, "{min}"),
            Some(max) if self.min == 0 => write!(f, "at most {max}"),
            Some(max) => write!(f, "from {min} to {max}"),
            None => write!(f, "at least {min}"),
        }
    }
}

/// An unsigned integer type that a getter can return.
pub trait WholeNumber: Copy + TryFrom<u64> {
    /// The largest value of the type.
    const MAX: u64;

    /// The value as a `u64`.
    fn count(self) -> u64;
}

macro_rules! whole {
    ($($integer:ty),*) => {$(
        impl WholeNumber for $integer {
            const MAX: u64 = <$integer>::MAX as u64;

            fn count(self) -> u64 {
                self as u64
            }
        }
    )*};
}

whole!(u8, u16, u32, u64, usize);

const _: () = assert!(size_of::<usize>() == size_of::<u64>(), "lengths and u64 are one");
