//! API overrides of a definition in a file, and merge patches.

use serde_json::{Map, Value, json};

/// Overrides by the API: old and new value by key, `null` if absent. None without overrides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileOverrides(Option<Box<Map<String, Value>>>);

impl FileOverrides {
    /// Overrides keys of the file's definition.
    pub fn set(&mut self, given: &Map<String, Value>, changes: &Map<String, Value>) {
        for (key, is) in changes {
            let was = given.get(key).cloned().unwrap_or_default();
            let held = self.0.get_or_insert_default();
            if *is == was {
                held.remove(key);
            } else {
                held.insert(key.clone(), json!({ "is": is, "was": was }));
            }
        }
        self.0.take_if(|held| held.is_empty());
    }

    /// From the result of [`members`](Self::members).
    pub fn of(held: Map<String, Value>) -> Self {
        Self((!held.is_empty()).then(|| Box::new(held)))
    }

    fn iter(&self) -> impl Iterator<Item = (&String, &Value)> {
        self.0.iter().flat_map(|held| held.iter())
    }

    /// The overrides of keys that the new file has not changed.
    #[must_use]
    pub fn over(&self, given: &Map<String, Value>) -> Self {
        let stands =
            |key: &str, held: &Value| held["was"] == given.get(key).cloned().unwrap_or_default();
        let kept = self.iter().filter(|(key, held)| stands(key, held));
        Self::of(kept.map(|(key, held)| (key.clone(), held.clone())).collect())
    }

    /// Whether there are no overrides.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// The overridden keys.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.iter().map(|(key, _)| key.as_str())
    }

    /// Old and new value by key.
    pub fn members(&self) -> Map<String, Value> {
        self.0.as_deref().cloned().unwrap_or_default()
    }

    /// The overrides as a merge patch of the file's definition.
    pub fn patch(&self) -> Map<String, Value> {
        self.iter().map(|(key, held)| (key.clone(), held["is"].clone())).collect()
    }
}

/// Applies a merge patch (RFC 7396): members replace those of the same name, `null` removes them.
pub fn merge(target: &mut Map<String, Value>, patch: &Map<String, Value>) {
    for (name, value) in patch {
        match value {
            Value::Null => drop(target.remove(name)),
            Value::Object(inner) => {
                let slot = target.entry(name).or_insert_with(|| Map::new().into());
                if !slot.is_object() {
                    *slot = Map::new().into();
                }
                if let Value::Object(members) = slot {
                    merge(members, inner);
                }
            }
            other => drop(target.insert(name.clone(), other.clone())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of RFC 7396, appendix A, that are objects.
    #[test]
    fn merge_patches() {
        let check = |target: Value, patch: Value, want: Value| {
            let mut merged = target.as_object().expect("an object").clone();
            merge(&mut merged, patch.as_object().expect("an object"));
            assert_eq!(Value::from(merged), want, "{target} {patch}");
        };
        check(json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"}));
        check(json!({"a": "b"}), json!({"b": "c"}), json!({"a": "b", "b": "c"}));
        check(json!({"a": "b"}), json!({"a": null}), json!({}));
        check(json!({"a": "b", "b": "c"}), json!({"a": null}), json!({"b": "c"}));
        check(json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"}));
        check(json!({"a": "c"}), json!({"a": ["b"]}), json!({"a": ["b"]}));
        check(
            json!({"a": {"b": "c"}}),
            json!({"a": {"b": "d", "c": null}}),
            json!({"a": {"b": "d"}}),
        );
        check(json!({"a": 1}), json!({"a": {"b": 1, "c": null}}), json!({"a": {"b": 1}}));
    }
}
