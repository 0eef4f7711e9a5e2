//! An unparsed value, from a file or a declaration. It must not know forms or keys.

use std::ops::Range;

use toml::de::DeValue;

use crate::config::values::written::WrittenValue;

pub(in crate::config) enum GivenValue<'a> {
    Text(&'a str),
    /// Saturates at the limits of `i128`, far beyond every declared range.
    Integer(i128),
    Boolean(bool),
    List(Vec<Element<'a>>),
    /// A float, a date or a table: no form accepts these.
    Other,
}

pub(in crate::config) struct Element<'a> {
    pub(in crate::config) given: GivenValue<'a>,
    pub(in crate::config) span: Range<usize>,
}

impl<'a> From<&'a DeValue<'a>> for GivenValue<'a> {
    fn from(value: &'a DeValue<'a>) -> Self {
        match value {
            DeValue::String(text) => Self::Text(text),
            DeValue::Boolean(value) => Self::Boolean(*value),
            DeValue::Integer(number) => {
                let negative = number.as_str().starts_with('-');
                let beyond = if negative { i128::MIN } else { i128::MAX };
                let parsed = i128::from_str_radix(number.as_str(), number.radix());
                Self::Integer(parsed.unwrap_or(beyond))
            }
            DeValue::Array(array) => Self::List(
                array
                    .iter()
                    .map(|item| Element { given: item.get_ref().into(), span: item.span() })
                    .collect(),
            ),
            DeValue::Float(_) | DeValue::Datetime(_) | DeValue::Table(_) => Self::Other,
        }
    }
}

impl From<WrittenValue> for GivenValue<'static> {
    fn from(written: WrittenValue) -> Self {
        let element = |given| Element { given, span: 0..0 };
        match written {
            WrittenValue::Text(text) => Self::Text(text),
            WrittenValue::Integer(number) => Self::Integer(number.into()),
            WrittenValue::Boolean(value) => Self::Boolean(value),
            WrittenValue::Texts(texts) => {
                Self::List(texts.iter().map(|text| element(Self::Text(text))).collect())
            }
            WrittenValue::Integers(numbers) => Self::List(
                numbers.iter().map(|&number| element(Self::Integer(number.into()))).collect(),
            ),
            WrittenValue::Pairs(_) => Self::Other,
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(in crate::config) enum WrongValue {
    /// Not the TOML type of its form.
    Type,
    /// The right type, but an invalid value; contains the remedy.
    Value(String),
}

impl From<String> for WrongValue {
    fn from(remedy: String) -> Self {
        Self::Value(remedy)
    }
}

pub(in crate::config) struct GivenFault {
    /// The element's index and place. None if the problem is the value's own.
    pub(in crate::config) element: Option<(usize, Range<usize>)>,
    pub(in crate::config) wrong: WrongValue,
}
