//! Values of fields, whatever format they come in.

use std::borrow::Cow;
use std::cmp::Ordering;

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
    /// A text.
    Text(Box<str>),
    /// A list or an object.
    Json(Box<Value>),
}

impl RecordValue {
    /// The value of a text without types: a number if it is written as one.
    pub fn of_text(text: &str) -> Self {
        match number(text) {
            Some(QueryValue::Integer(number)) => Self::Integer(number),
            Some(QueryValue::Decimal(number)) => Self::Decimal(number),
            _ => Self::Text(text.into()),
        }
    }

    /// The value of a part of a list.
    pub fn of_json(value: &Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(value) => Self::Bool(*value),
            Value::Number(number) => match (number.as_i64(), number.as_u64(), number.as_f64()) {
                (Some(number), ..) => Self::Integer(number),
                (_, Some(number), _) => Self::Large(number),
                (.., number) => Self::Decimal(number.unwrap_or(f64::NAN)),
            },
            Value::String(text) => Self::Text((**text).into()),
            Value::Array(_) | Value::Object(_) => Self::Json(Box::new(value.clone())),
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
            Self::Text(text) => (**text).into(),
            Self::Json(value) => value.to_string().into(),
        }
    }

    /// Its value if it is a number, for comparisons.
    #[expect(clippy::cast_precision_loss, reason = "whole numbers are compared as such")]
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

    /// The order of values: numbers, then texts and booleans by their text, then what is not there.
    pub fn order(&self, other: &Self) -> Ordering {
        if let Some((one, other)) = self.integer().zip(other.integer()) {
            return one.cmp(&other);
        }
        match (self.number(), other.number()) {
            (Some(one), Some(other)) => one.total_cmp(&other),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => {
                let absent = |value: &Self| !value.is_present();
                absent(self).cmp(&absent(other)).then_with(|| self.text().cmp(&other.text()))
            }
        }
    }
}
