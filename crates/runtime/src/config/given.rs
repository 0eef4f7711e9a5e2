//! A value as it was given, by the file or by a declaration, before it is read.
//!
//! It must not know forms or keys.

use std::ops::Range;

use toml::de::DeValue;

use super::presence::Written;

/// A value before it is read.
pub(super) enum Given<'a> {
    Text(&'a str),
    /// Saturates at the limits of `i128`, far beyond every range that is declared.
    Integer(i128),
    Boolean(bool),
    List(Vec<Element<'a>>),
    /// A float, a date or a table: no form is written so.
    Other,
}

/// An element of a list, and where the file has it.
pub(super) struct Element<'a> {
    pub(super) given: Given<'a>,
    pub(super) span: Range<usize>,
}

impl<'a> From<&'a DeValue<'a>> for Given<'a> {
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

impl From<Written> for Given<'static> {
    fn from(written: Written) -> Self {
        let element = |given| Element { given, span: 0..0 };
        match written {
            Written::Text(text) => Self::Text(text),
            Written::Integer(number) => Self::Integer(number.into()),
            Written::Boolean(value) => Self::Boolean(value),
            Written::Texts(texts) => {
                Self::List(texts.iter().map(|text| element(Self::Text(text))).collect())
            }
            Written::Integers(numbers) => Self::List(
                numbers.iter().map(|&number| element(Self::Integer(number.into()))).collect(),
            ),
            Written::Pairs(_) => Self::Other,
        }
    }
}

/// What is wrong with a value.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Wrong {
    /// Not the TOML type its form is written in.
    Type,
    /// The right type, but not a value of the form; holds the remedy.
    Value(String),
}

impl From<String> for Wrong {
    fn from(remedy: String) -> Self {
        Self::Value(remedy)
    }
}

/// Something wrong with a value, or with one element of a list.
pub(super) struct Fault {
    /// The element's index and place in the file; `None` for the value itself.
    pub(super) element: Option<(usize, Range<usize>)>,
    pub(super) wrong: Wrong,
}
