//! Values of fields, whatever format they come in.

use std::borrow::Cow;
use std::cmp::Ordering;

use compact_str::CompactString;
use serde_json::{Number, Value};

use crate::query::{QueryValue, number};

/// The value of a field.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum RecordValue {
    /// The record does not have it.
    #[default]
    Absent,
    /// JSON's null.
    Null,
    /// True or false.
    Bool(bool),
    /// A whole number.
    Integer(i64),
    /// A whole number above those.
    Large(u64),
    /// Any other number.
    Decimal(f64),
    /// A text. Short ones need no memory of their own.
    Text(CompactString),
    /// A list or an object.
    Json(Box<Value>),
}

impl RecordValue {
    /// The value of a text without types: a number if it is written as one.
    pub fn of_text(text: &str) -> Self {
        match number(text) {
            Some(QueryValue::Integer(number)) => Self::Integer(number),
            Some(QueryValue::Decimal(number)) => Self::of_double(number),
            _ => Self::Text(text.into()),
        }
    }

    /// The value of a part of a list.
    pub fn of_json(value: &Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(value) => Self::Bool(*value),
            Value::Number(number) => match (number.as_i64(), number.as_u64()) {
                (Some(number), _) => Self::Integer(number),
                (_, Some(number)) => Self::Large(number),
                (None, None) => Self::of_double(number.as_f64().unwrap_or_default()),
            },
            Value::String(text) => Self::Text((**text).into()),
            Value::Array(_) | Value::Object(_) => Self::Json(Box::new(value.clone())),
        }
    }

    /// About how many bytes of memory it takes.
    pub fn bytes(&self) -> usize {
        size_of::<Self>()
            + match self {
                Self::Text(text) if text.is_heap_allocated() => text.capacity(),
                Self::Json(value) => bytes_of(value),
                _ => 0,
            }
    }

    /// A number that is not whole, or was not written so. There is one zero.
    pub fn of_double(number: f64) -> Self {
        Self::Decimal(if number == 0.0 { 0.0 } else { number })
    }

    /// As a number, if it is a text that is written as one: some providers have no types.
    pub fn typed(&self) -> Cow<'_, Self> {
        match self {
            Self::Text(text) => match Self::of_text(text) {
                Self::Text(_) => Cow::Borrowed(self),
                number => Cow::Owned(number),
            },
            _ => Cow::Borrowed(self),
        }
    }

    /// Whether the record has it.
    pub const fn is_present(&self) -> bool {
        !matches!(self, Self::Absent | Self::Null)
    }

    /// Its value as JSON.
    pub fn to_json(&self) -> Value {
        match self {
            Self::Absent | Self::Null => Value::Null,
            Self::Bool(value) => Value::Bool(*value),
            Self::Integer(number) => Value::Number((*number).into()),
            Self::Large(number) => Value::Number((*number).into()),
            Self::Decimal(number) => Number::from_f64(*number).map_or(Value::Null, Value::Number),
            Self::Text(text) => Value::String(text.to_string()),
            Self::Json(value) => (**value).clone(),
        }
    }

    /// Its text, as tables show it. The same for `1` and `"1"`.
    pub fn text(&self) -> Cow<'_, str> {
        match self {
            Self::Absent | Self::Null => "".into(),
            Self::Bool(value) => if *value { "true" } else { "false" }.into(),
            Self::Integer(number) => number.to_string().into(),
            Self::Large(number) => number.to_string().into(),
            Self::Decimal(number) => number.to_string().into(),
            Self::Text(text) => text.as_str().into(),
            Self::Json(value) => value.to_string().into(),
        }
    }

    /// Its value if it is a number; of a whole one, the nearest double.
    #[expect(clippy::cast_precision_loss, reason = "the nearest double is what is asked for")]
    pub const fn number(&self) -> Option<f64> {
        match self {
            Self::Integer(number) => Some(*number as f64),
            Self::Large(number) => Some(*number as f64),
            Self::Decimal(number) => Some(*number),
            _ => None,
        }
    }

    /// Its value if it is a whole number.
    pub const fn integer(&self) -> Option<i128> {
        match self {
            Self::Integer(number) => Some(*number as i128),
            Self::Large(number) => Some(*number as i128),
            _ => None,
        }
    }

    /// The order of values: numbers, exactly; then texts and other values by their text; then what is
    /// not there. It is total.
    pub fn order(&self, other: &Self) -> Ordering {
        let rank = |value: &Self| match value {
            Self::Integer(_) | Self::Large(_) | Self::Decimal(_) => 0,
            Self::Bool(_) | Self::Text(_) | Self::Json(_) => 1,
            Self::Absent | Self::Null => 2,
        };
        rank(self).cmp(&rank(other)).then_with(|| match (self, other) {
            (Self::Decimal(one), Self::Decimal(other)) => one.total_cmp(other),
            (Self::Decimal(one), whole) => whole_and_double(whole, *one).reverse(),
            (whole, Self::Decimal(other)) => whole_and_double(whole, *other),
            _ => match self.integer().zip(other.integer()) {
                Some((one, other)) => one.cmp(&other),
                None => self.text().cmp(&other.text()),
            },
        })
    }
}

/// The order of a whole number and a double, without rounding.
#[expect(clippy::cast_possible_truncation, reason = "a double within the bounds of whole numbers")]
fn whole_and_double(whole: &RecordValue, double: f64) -> Ordering {
    /// Beyond all whole numbers that values have.
    const BOUND: f64 = 1e30;
    let whole = whole.integer().unwrap_or_default();
    if double.is_nan() || BOUND < double {
        return Ordering::Less;
    }
    if double < -BOUND {
        return Ordering::Greater;
    }
    whole.cmp(&(double.trunc() as i128)).then_with(|| match double.fract() {
        fraction if fraction > 0.0 => Ordering::Less,
        fraction if fraction < 0.0 => Ordering::Greater,
        _ => Ordering::Equal,
    })
}

/// About how many bytes a part of a list takes.
fn bytes_of(value: &Value) -> usize {
    size_of::<Value>()
        + match value {
            Value::String(text) => text.len(),
            Value::Array(items) => items.iter().map(bytes_of).sum(),
            Value::Object(members) => {
                let name = |name: &String| size_of::<String>() + name.len();
                members.iter().map(|(of, value)| name(of) + bytes_of(value)).sum()
            }
            _ => 0,
        }
}

#[cfg(test)]
mod tests;
