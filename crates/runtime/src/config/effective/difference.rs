//! The differences between two configurations in force, key by key. It must not show a secret, nor
//! know any service's keys, except that a table's `id` identifies it.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::config::effective::{Effective, EffectiveKey};
use crate::config::toml_text::{joined, toml_key};

/// A key or table that differs between two configurations, with JSON values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "Difference")]
pub struct SettingDifference {
    change: KeyChange,
    /// Dotted key, as in `dsp["acme"].url`; tables without an `id` are counted from 0.
    pub key: String,
    /// Absent if the key was removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    new: Option<Value>,
    /// Absent if the key is new.
    #[serde(skip_serializing_if = "Option::is_none")]
    old: Option<Value>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
enum KeyChange {
    Added,
    Removed,
    Changed,
}

/// `+ key = value`, `- key = value` or `~ key = old -> new`; tables without a value.
impl fmt::Display for SettingDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { change, key, new, old } = self;
        let sign = match change {
            KeyChange::Added => '+',
            KeyChange::Removed => '-',
            KeyChange::Changed => '~',
        };
        write!(f, "{sign} {key}")?;
        match (old, new) {
            (None, None) => Ok(()),
            (None, Some(value)) | (Some(value), None) => write!(f, " = {value}"),
            (Some(old), Some(new)) if old == new => write!(f, " = {new} (changed)"),
            (Some(old), Some(new)) => write!(f, " = {old} -> {new}"),
        }
    }
}

impl Effective {
    /// Differences of `new`, in the order of the declarations. A table that only one side has is
    /// followed by the keys that its files give. Tables are matched by `id`, in any order, or else
    /// by position. Values are masked as in [`to_json`](Self::to_json).
    pub fn differences(&self, new: &Self) -> Vec<SettingDifference> {
        let mut found = Vec::new();
        compare(&mut found, "", &self.root, &new.root);
        found
    }
}

fn compare(found: &mut Vec<SettingDifference>, path: &str, old: &EffectiveKey, new: &EffectiveKey) {
    match (old, new) {
        _ if old == new => (),
        (EffectiveKey::Table(old), EffectiveKey::Table(new)) => {
            // Both sides declare the same keys; the names of a map may differ.
            let gone = old.iter().filter(|(name, _)| find(new, name).is_none());
            for (name, setting) in gone {
                one_side(found, &joined(path, &toml_key(name)), setting, KeyChange::Removed);
            }
            for (name, new) in new {
                let path = joined(path, &toml_key(name));
                compare(found, &path, find(old, name).unwrap_or(&EffectiveKey::Absent), new);
            }
        }
        (EffectiveKey::Tables(old), EffectiveKey::Tables(new)) => match (ids(old), ids(new)) {
            (Some(old_ids), Some(new_ids)) => {
                let old: Vec<_> = old_ids.into_iter().zip(old).collect();
                let new: Vec<_> = new_ids.into_iter().zip(new).collect();
                compare_tables(found, |id| format!("{path}[{id}]"), &old, &new);
            }
            _ => {
                let old: Vec<_> = old.iter().enumerate().collect();
                let new: Vec<_> = new.iter().enumerate().collect();
                compare_tables(found, |index| format!("{path}[{index}]"), &old, &new);
            }
        },
        (old, EffectiveKey::Absent) => one_side(found, path, old, KeyChange::Removed),
        (EffectiveKey::Absent, new) => one_side(found, path, new, KeyChange::Added),
        (old, new) => {
            // Equal values are no difference, even if only one is written down.
            let is_equal = match (old, new) {
                (
                    EffectiveKey::Value { value: old, .. },
                    EffectiveKey::Value { value: new, .. },
                ) => old == new,
                (EffectiveKey::Url { url: old, .. }, EffectiveKey::Url { url: new, .. }) => {
                    old == new
                }
                _ => false,
            };
            if let (Some(old_value), Some(new_value), false) = (old.shown(), new.shown(), is_equal)
            {
                let (change, key) = (KeyChange::Changed, path.to_owned());
                let (new, old) = (Some(new_value), Some(old_value));
                found.push(SettingDifference { change, key, new, old });
            }
        }
    }
}

type KeyedSettings<'s, K> = [(K, &'s EffectiveKey)];

fn compare_tables<K: Ord>(
    found: &mut Vec<SettingDifference>,
    path: impl Fn(&K) -> String,
    old: &KeyedSettings<'_, K>,
    new: &KeyedSettings<'_, K>,
) {
    let new_keys: BTreeSet<_> = new.iter().map(|(key, _)| key).collect();
    for (key, setting) in old.iter().filter(|(key, _)| !new_keys.contains(key)) {
        one_side(found, &path(key), setting, KeyChange::Removed);
    }
    let old: BTreeMap<_, _> = old.iter().map(|(key, setting)| (key, *setting)).collect();
    for (key, setting) in new {
        let old = old.get(key).copied().unwrap_or(&EffectiveKey::Absent);
        compare(found, &path(key), old, setting);
    }
}

/// Reports what only one side has: a value, or a table and its given keys.
fn one_side(
    found: &mut Vec<SettingDifference>,
    path: &str,
    setting: &EffectiveKey,
    change: KeyChange,
) {
    let is_new = change == KeyChange::Added;
    let (new, old) = if is_new { (setting.shown(), None) } else { (None, setting.shown()) };
    if !matches!(setting, EffectiveKey::Absent | EffectiveKey::Tables(_)) {
        found.push(SettingDifference { change, key: path.to_owned(), new, old });
    }
    match setting {
        EffectiveKey::Table(keys) => {
            for (name, setting) in keys.iter().filter(|(_, setting)| is_given(setting)) {
                one_side(found, &joined(path, &toml_key(name)), setting, change);
            }
        }
        EffectiveKey::Tables(tables) => {
            for (index, setting) in tables.iter().enumerate() {
                let key = id(setting).unwrap_or_else(|| index.to_string());
                one_side(found, &format!("{path}[{key}]"), setting, change);
            }
        }
        _ => (),
    }
}

/// Whether a file gives it or any key in it.
fn is_given(setting: &EffectiveKey) -> bool {
    match setting {
        EffectiveKey::Absent => false,
        EffectiveKey::Value { given, .. } | EffectiveKey::Url { given, .. } => *given,
        EffectiveKey::Secret(_) => true,
        EffectiveKey::Table(keys) => keys.iter().any(|(_, setting)| is_given(setting)),
        EffectiveKey::Tables(tables) => !tables.is_empty(),
    }
}

fn find<'s>(keys: &'s [(Cow<'static, str>, EffectiveKey)], name: &str) -> Option<&'s EffectiveKey> {
    keys.iter().find(|(other, _)| other == name).map(|(_, setting)| setting)
}

fn id(setting: &EffectiveKey) -> Option<String> {
    let EffectiveKey::Table(keys) = setting else { return None };
    match find(keys, "id") {
        Some(EffectiveKey::Value { value: id @ Value::String(_), .. }) => Some(id.to_string()),
        _ => None,
    }
}

/// The `id`s of all tables. None if one is missing or repeated.
fn ids(tables: &[EffectiveKey]) -> Option<Vec<String>> {
    let ids: Vec<_> = tables.iter().map(id).collect::<Option<_>>()?;
    let distinct = ids.iter().collect::<BTreeSet<_>>().len();
    (distinct == ids.len()).then_some(ids)
}
