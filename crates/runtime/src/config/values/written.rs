//! Literals of declarations, written as TOML and JSON.

use crate::config::toml_text::quoted;

/// A literal of a declaration: a default or an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WrittenValue {
    /// Text, in TOML a string.
    Text(&'static str),
    /// A whole number.
    Integer(u64),
    /// `true` or `false`.
    Boolean(bool),
    /// A list of texts.
    Texts(&'static [&'static str]),
    /// A list of whole numbers.
    Integers(&'static [u64]),
    /// Names and their texts, in TOML an inline table.
    Pairs(&'static [(&'static str, &'static str)]),
}

impl WrittenValue {
    /// The value as TOML, on one line.
    pub fn to_toml(self) -> String {
        match self {
            Self::Text(text) => quoted(text),
            Self::Integer(number) => number.to_string(),
            Self::Boolean(value) => value.to_string(),
            Self::Texts(texts) => format!("[{}]", listed(texts.iter().map(|text| quoted(text)))),
            Self::Integers(numbers) => format!("[{}]", listed(numbers.iter().map(u64::to_string))),
            Self::Pairs([]) => "{}".to_owned(),
            Self::Pairs(pairs) => {
                let pair =
                    |(name, value): &(&str, &str)| format!("{} = {}", quoted(name), quoted(value));
                format!("{{ {} }}", listed(pairs.iter().map(pair)))
            }
        }
    }

    /// The value as JSON.
    pub fn to_json(self) -> serde_json::Value {
        match self {
            Self::Text(text) => text.into(),
            Self::Integer(number) => number.into(),
            Self::Boolean(value) => value.into(),
            Self::Texts(texts) => texts.into(),
            Self::Integers(numbers) => numbers.into(),
            Self::Pairs(pairs) => pairs.iter().map(|&(name, value)| (name, value)).collect(),
        }
    }
}

fn listed(items: impl Iterator<Item = String>) -> String {
    items.collect::<Vec<_>>().join(", ")
}
