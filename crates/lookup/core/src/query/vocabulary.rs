//! The keys and attributes that queries may name.

use std::collections::{BTreeMap, BTreeSet};

/// Keys that conditions may name whatever the providers are.
pub(super) const SPECIAL_KEYS: [&str; 3] = [DATE, SYSTEM, INSTANCE];

/// Words behind the key of a condition, besides `=`.
pub(super) const OPERATORS: [&str; 3] = ["in", "between", "last"];

/// The key whose values are times.
pub const DATE: &str = "date";
pub(super) const SYSTEM: &str = "system";
pub(super) const INSTANCE: &str = "instance";

/// Whether this can be the name of an attribute.
pub fn is_name(word: &str) -> bool {
    word.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Whether this can be the name of a key. Words of the language cannot.
pub fn is_key_name(word: &str) -> bool {
    is_name(word) && !SPECIAL_KEYS.contains(&word) && !is_operator(word)
}

/// Whether this is an operator, perhaps in capitals.
pub(super) fn is_operator(word: &str) -> bool {
    OPERATORS.iter().any(|operator| operator.eq_ignore_ascii_case(word))
}

/// The keys that queries may name, with their attributes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Vocabulary {
    /// None: every name is a key.
    keys: Option<BTreeMap<String, KeyAttributes>>,
}

/// The attributes of a key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyAttributes {
    /// Those that are known.
    pub known: BTreeSet<String>,
    /// Whether there may be others.
    pub has_others: bool,
}

impl Vocabulary {
    /// Every name is a key and may have any attribute.
    pub const fn open() -> Self {
        Self { keys: None }
    }

    /// These keys, with their attributes.
    pub const fn of(keys: BTreeMap<String, KeyAttributes>) -> Self {
        Self { keys: Some(keys) }
    }

    /// Whether this is a key.
    pub fn has_key(&self, name: &str) -> bool {
        self.keys.as_ref().is_none_or(|keys| keys.contains_key(name))
    }

    /// Whether a key may have an attribute.
    pub fn has_attribute(&self, key: &str, attribute: &str) -> bool {
        self.keys.as_ref().is_none_or(|keys| {
            let of_key = keys.get(key);
            of_key.is_some_and(|of| of.has_others || of.known.contains(attribute))
        })
    }

    /// All keys.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.keys.iter().flat_map(BTreeMap::keys).map(String::as_str)
    }

    /// The attributes of a key.
    pub fn attributes(&self, key: &str) -> impl Iterator<Item = &str> {
        let of_key = self.keys.iter().filter_map(move |keys| keys.get(key));
        of_key.flat_map(|of| &of.known).map(String::as_str)
    }
}
