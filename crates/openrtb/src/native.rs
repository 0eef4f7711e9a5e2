//! Native markup (OpenRTB Native Ads 1.0 to 1.2): adds impression trackers, and yields its strings.

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

use crate::json::Text;
use crate::json::{DEPTH_MAX, deeper_than};
use crate::members::{escaped, members, string};

/// Adds `url` to the impression trackers of native markup, JSON with or without the outer `native`.
/// None if it is not such JSON.
///
/// Version 1.2 has `eventtrackers` (event 1, impression; method 1, image), earlier ones
/// `imptrackers`. Markup without an older `ver` that has only `imptrackers` gets the URL there too:
/// a renderer may read only one list, and it must be the bidder's.
pub fn add_tracker(text: &str, url: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len() + url.len() + 64);
    write_with_tracker(text, url, true, &mut out)?;
    Some(out)
}

fn write_with_tracker(text: &str, url: &str, is_root: bool, out: &mut String) -> Option<()> {
    let members = members(text)?;
    let inner = if is_root { value_of(&members, "native")? } else { None };
    if let Some(inner) = inner {
        return write_members(&members, "native", out, |out| {
            write_with_tracker(inner, url, false, out)
        });
    }
    let version = value_of(&members, "ver")?;
    let (event, imp) = (value_of(&members, "eventtrackers")?, value_of(&members, "imptrackers")?);
    let url = escaped(url);
    let (key, list, tracker) = if is_older(version)? || (event.is_none() && imp.is_some()) {
        ("imptrackers", imp, format!("\"{url}\""))
    } else {
        let tracker = format!("{{\"event\":1,\"method\":1,\"url\":\"{url}\"}}");
        ("eventtrackers", event, tracker)
    };
    write_members(&members, key, out, |out| append(list, &tracker, out))
}

/// Calls `each` with every string of native markup: the key of the object that contains it, its own
/// key, and the string. Array elements have the key of the array. Returns whether `text` is JSON.
pub fn native_strings(text: &str, each: &mut dyn FnMut(&str, &str, &str)) -> bool {
    if deeper_than(text.as_bytes(), DEPTH_MAX) {
        return false;
    }
    let mut json = serde_json::Deserializer::from_str(text);
    let strings = Strings { parent: "", key: "", each };
    strings.deserialize(&mut json).is_ok() && json.end().is_ok()
}

/// Calls `each` with every string, also under duplicate keys, since parsers differ in which of them
/// they read.
struct Strings<'s> {
    parent: &'s str,
    key: &'s str,
    each: &'s mut dyn FnMut(&str, &str, &str),
}

impl<'de> DeserializeSeed<'de> for Strings<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strings<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON")
    }

    fn visit_str<E>(self, text: &str) -> Result<(), E> {
        (self.each)(self.parent, self.key, text);
        Ok(())
    }

    fn visit_seq<S: SeqAccess<'de>>(self, mut seq: S) -> Result<(), S::Error> {
        let Self { parent, key, each } = self;
        while seq.next_element_seed(Strings { parent, key, each: &mut *each })?.is_some() {}
        Ok(())
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<(), M::Error> {
        while let Some(key) = map.next_key::<Text<'de>>()? {
            map.next_value_seed(Strings { parent: self.key, key: &key, each: &mut *self.each })?;
        }
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }
}

/// The value of `key`, unless it is null. None if the key is duplicate, since parsers differ in
/// which of them they read.
fn value_of<'a>(members: &[(Text<'_>, &'a str)], key: &str) -> Option<Option<&'a str>> {
    let mut found = members.iter().filter(|(name, _)| **name == *key).map(|(_, value)| *value);
    match (found.next(), found.next()) {
        (value, None) => Some(value.filter(|value| *value != "null")),
        _ => None,
    }
}

/// Whether `ver`, a JSON string or number, is before 1.2.
fn is_older(ver: Option<&str>) -> Option<bool> {
    let Some(ver) = ver else { return Some(false) };
    let version = if ver.starts_with('"') { string(ver)? } else { Cow::Borrowed(ver) };
    Some(matches!(&*version, "1" | "1.0" | "1.1"))
}

/// Writes the object with another value of `key`, moved to its end.
fn write_members(
    members: &[(Text<'_>, &str)],
    key: &str,
    out: &mut String,
    write_value: impl FnOnce(&mut String) -> Option<()>,
) -> Option<()> {
    out.push('{');
    for (name, value) in members.iter().filter(|(name, _)| **name != *key) {
        out.extend(["\"", &escaped(name), "\":", value, ","]);
    }
    out.extend(["\"", key, "\":"]);
    write_value(out)?;
    out.push('}');
    Some(())
}

/// Writes the array `list`, or a new one, with `element` added.
fn append(list: Option<&str>, element: &str, out: &mut String) -> Option<()> {
    let inside = list.unwrap_or("[]").strip_prefix('[')?.strip_suffix(']')?;
    let comma = if inside.trim_ascii().is_empty() { "" } else { "," };
    out.extend(["[", inside, comma, element, "]"]);
    Some(())
}
