//! Values that clients store, as Prebid Cache takes them: the body of a POST, with types and lifetimes;
//! all of them or none.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::fields::dates::Seconds;

/// Most letters of a client's text in a refusal.
const QUOTED_MAX: usize = 40;

/// Limits on what one request stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PutLimits {
    /// Most values.
    pub count_max: usize,
    /// Most bytes of a value with its type's name, as Prebid Cache counts.
    pub value_max: usize,
    /// The lifetime of a value that asks for more, or does not say.
    pub ttl_max: Seconds,
}

/// A value to store.
#[derive(Debug, PartialEq, Eq)]
pub struct PutValue {
    /// Its media type.
    pub content_type: &'static str,
    /// For how long it is kept.
    pub ttl: Seconds,
    /// JSON as it was written, or the text of XML.
    pub content: Vec<u8>,
}

/// Why nothing is stored, in the words of Prebid Cache where it has some.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PutRefusal {
    /// The body has another form.
    #[error(
        "the body is not {{\"puts\": [{{\"type\": …, \"value\": …}}]}}: line {line}, column {column}"
    )]
    NotPuts {
        /// Where it is wrong, from 1.
        line: usize,
        /// Likewise.
        column: usize,
    },
    /// More values than this.
    #[error("More keys than allowed: {0}")]
    TooMany(usize),
    /// There is no value.
    #[error("Missing value.")]
    MissingValue,
    /// The lifetime is negative.
    #[error("ttlseconds must not be negative {0}.")]
    NegativeTtl(i64),
    /// XML is no text in JSON.
    #[error("XML messages must have a String value. Found {0}")]
    NotText(String),
    /// The type is neither.
    #[error("Type must be one of [\"json\", \"xml\"]. Found '{0}'")]
    UnknownType(String),
    /// A value is too large.
    #[error("POST /cache element {at} exceeded max size: Payload size {bytes} exceeded max {max}")]
    TooLarge {
        /// Its place.
        at: usize,
        /// Of it and its type's name.
        bytes: usize,
        /// Most of them.
        max: usize,
    },
}

#[derive(Deserialize)]
struct PutsBody<'b> {
    #[serde(borrow)]
    puts: Option<Vec<PutBody<'b>>>,
}

#[derive(Deserialize)]
struct PutBody<'b> {
    #[serde(borrow)]
    r#type: Option<Cow<'b, str>>,
    ttlseconds: Option<i64>,
    /// None if it is absent; null is a value.
    #[serde(borrow, default, deserialize_with = "present")]
    value: Option<&'b RawValue>,
}

fn present<'d, D: Deserializer<'d>>(deserializer: D) -> Result<Option<&'d RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

/// The values of a body: `{"puts": [{"type": "xml", "ttlseconds": 60, "value": "…"}]}`.
///
/// # Errors
/// The first value that is wrong refuses all.
pub fn parse_puts(body: &[u8], limits: PutLimits) -> Result<Vec<PutValue>, PutRefusal> {
    let body: PutsBody<'_> = serde_json::from_slice(body).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        PutRefusal::NotPuts { line, column }
    })?;
    let puts = body.puts.unwrap_or_default();
    if puts.len() > limits.count_max {
        return Err(PutRefusal::TooMany(limits.count_max));
    }
    puts.iter().enumerate().map(|(at, put)| value_of(at, put, limits)).collect()
}

fn value_of(at: usize, put: &PutBody<'_>, limits: PutLimits) -> Result<PutValue, PutRefusal> {
    let text = put.value.ok_or(PutRefusal::MissingValue)?.get();
    let asked = put.ttlseconds.unwrap_or(0);
    let asked = u64::try_from(asked).map_err(|_| PutRefusal::NegativeTtl(asked))?;
    let name = put.r#type.as_deref().unwrap_or_default();
    let (content_type, content) = match name {
        "json" => ("application/json", text.as_bytes().to_vec()),
        "xml" => {
            let text = serde_json::from_str::<String>(text);
            let text =
                text.map_err(|_| PutRefusal::NotText(quoted(put.value.map_or("", RawValue::get))))?;
            ("application/xml", text.into_bytes())
        }
        other => return Err(PutRefusal::UnknownType(quoted(other))),
    };
    let (bytes, max) = (name.len() + content.len(), limits.value_max);
    if bytes > max {
        return Err(PutRefusal::TooLarge { at, bytes, max });
    }
    let ttl = if asked == 0 { limits.ttl_max } else { Seconds(asked).min(limits.ttl_max) };
    Ok(PutValue { content_type, ttl, content })
}

/// A client's text, cut and without control characters.
fn quoted(text: &str) -> String {
    text.chars()
        .map(|letter| if letter.is_control() { ' ' } else { letter })
        .take(QUOTED_MAX)
        .collect()
}

#[cfg(test)]
mod tests;
