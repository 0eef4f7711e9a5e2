//! The record of declared keys, from which the default file, the schema and the reference are
//! written. It must not know how values are read.

pub(super) mod presence;
pub(super) mod render;
pub(super) mod schema;

use super::values::alternatives;
use super::values::quantity::{Bounds, Quantity};
use super::values::written::WrittenValue;

/// One declared key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyDoc {
    /// The key in its table.
    pub name: &'static str,
    /// Its purpose, in sentences.
    pub doc: &'static str,
    /// The kind of its value.
    pub role: Role,
}

/// The kind of a key's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// One value, or a list of values.
    Value {
        /// The form of the value.
        form: Form,
        /// Whether it must be given.
        need: Need,
        /// Its default, or an example if it has none.
        written: WrittenValue,
    },
    /// Arbitrary names and their texts; contains an example.
    Map(WrittenValue),
    /// Arbitrary names and their secrets; contains an example.
    Secrets(WrittenValue),
    /// A table, or several.
    Tables {
        /// How many tables.
        nesting: Nesting,
        /// The keys of each.
        keys: Vec<KeyDoc>,
    },
    /// A former key; contains its successor.
    Renamed(&'static str),
}

/// Whether a key must be given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// It has a default.
    Default,
    /// It may be absent, which has its own meaning.
    Optional,
    /// It must be given.
    Required,
}

/// How many tables a key has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nesting {
    /// One; if it is absent, all its keys have their defaults.
    Section,
    /// One whose presence enables a service; the default file has it.
    Service,
    /// At most one.
    Table,
    /// Any number, including zero.
    Tables,
}

/// The written form of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Form {
    /// Non-empty text; the key's documentation states further conditions.
    Text,
    /// `true` or `false`.
    Boolean,
    /// A number, with a unit unless it is an integer.
    Number(Bounds),
    /// `"0.50 USD"`.
    Price,
    /// `"USD"`.
    Currency,
    /// `"127.0.0.1:8080"`.
    SocketAddress,
    /// `"http://host:port/path"`.
    Url,
    /// One of these words.
    OneOf(Vec<&'static str>),
    /// A text that is never shown, or a reference to it: `"env:NAME"`, `"file:PATH"`.
    Secret,
    /// A list of texts.
    Texts,
    /// A list of whole numbers.
    Integers(Bounds),
}

impl Form {
    /// The form in words, as in "expected …".
    pub fn phrase(&self) -> String {
        match self {
            Self::Text => "text".to_owned(),
            Self::Boolean => "true or false".to_owned(),
            Self::Number(bounds) => match bounds.quantity {
                Quantity::Integer => "a whole number".to_owned(),
                Quantity::Duration => "a duration".to_owned(),
                Quantity::Bytes => "a size in bytes".to_owned(),
                Quantity::Ratio => "a share".to_owned(),
            },
            Self::Price => "a price with its currency".to_owned(),
            Self::Currency => "a currency".to_owned(),
            Self::SocketAddress => "an IP address and a port".to_owned(),
            Self::Url => "an http URL".to_owned(),
            Self::OneOf(names) => alternatives(names.iter().copied()),
            Self::Secret => "a secret".to_owned(),
            Self::Texts => "a list of strings".to_owned(),
            Self::Integers(_) => "a list of whole numbers".to_owned(),
        }
    }

    /// The form in words with its range, for documents.
    pub fn phrase_with_range(&self) -> String {
        match self {
            Self::Number(bounds) if bounds.is_stated() => format!("{}, {bounds}", self.phrase()),
            Self::Integers(bounds) if bounds.is_stated() => {
                format!("{}, each {bounds}", self.phrase())
            }
            _ => self.phrase(),
        }
    }

    /// The form of an element of a list.
    pub(super) fn element(&self) -> Self {
        match self {
            Self::Texts => Self::Text,
            Self::Integers(bounds) => Self::Number(*bounds),
            other => other.clone(),
        }
    }
}
