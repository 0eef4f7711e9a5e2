//! Which requests a stored response answers (`Vary`: RFC 9111, section 4.1).

use http::header::{ACCEPT_CHARSET, ACCEPT_ENCODING, ACCEPT_LANGUAGE, VARY};
use http::{HeaderMap, HeaderName, HeaderValue};

/// The header fields of a request, in any form.
pub trait RequestFields {
    /// The lines of a field.
    fn lines(&self, name: &HeaderName) -> impl Iterator<Item = &[u8]>;
}

impl RequestFields for HeaderMap {
    fn lines(&self, name: &HeaderName) -> impl Iterator<Item = &[u8]> {
        self.get_all(name).iter().map(HeaderValue::as_bytes)
    }
}

/// The request's values of the header fields by which a response varies.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Variant {
    /// Ordered by name.
    fields: Box<[VariantField]>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct VariantField {
    name: HeaderName,
    /// None if the request has no such field.
    value: Option<Box<[u8]>>,
}

impl Variant {
    /// Builds the variant of a response to this request. None if the response matches no request:
    /// `Vary` is `*`, or has a malformed name.
    pub fn of(response: &HeaderMap, request: &HeaderMap) -> Option<Self> {
        let mut names = nominated_fields(response)?;
        names.sort_unstable_by(|one, other| one.as_str().cmp(other.as_str()));
        names.dedup();
        let field = |name: HeaderName| {
            let value = normal_value(request, &name);
            VariantField { name, value }
        };
        Some(Self { fields: names.into_iter().map(field).collect() })
    }

    /// Of the fields that [`Self::fields`] returned.
    pub fn from_fields(fields: Vec<(HeaderName, Option<Box<[u8]>>)>) -> Self {
        let fields = fields.into_iter().map(|(name, value)| VariantField { name, value });
        Self { fields: fields.collect() }
    }

    /// Whether it is the answer to every request.
    pub fn is_any(&self) -> bool {
        self.fields.is_empty()
    }

    /// The fields by name, with their values. None where the request had no such field.
    pub fn fields(&self) -> impl Iterator<Item = (&HeaderName, Option<&[u8]>)> {
        self.fields.iter().map(|field| (&field.name, field.value.as_deref()))
    }

    /// In memory, besides itself.
    pub fn bytes(&self) -> usize {
        let values = self.fields.iter().filter_map(|field| field.value.as_ref());
        size_of_val(&*self.fields) + values.map(|value| value.len()).sum::<usize>()
    }

    /// Whether a request selects it.
    pub fn matches(&self, request: &impl RequestFields) -> bool {
        self.fields.iter().all(|field| normal_value(request, &field.name) == field.value)
    }
}

/// The fields that `Vary` names. None if the response matches no other request: it is `*`, or has a
/// malformed name.
pub fn nominated_fields(response: &HeaderMap) -> Option<Vec<HeaderName>> {
    let mut names = Vec::new();
    for line in response.get_all(VARY) {
        for name in line.as_bytes().split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
            match name {
                b"" => (),
                b"*" => return None,
                name => names.push(HeaderName::from_bytes(name).ok()?),
            }
        }
    }
    Some(names)
}

/// Joins all lines of a field and normalises the value. None if the field is absent.
fn normal_value(request: &impl RequestFields, name: &HeaderName) -> Option<Box<[u8]>> {
    let mut lines = request.lines(name).peekable();
    lines.peek()?;
    if !is_list(name) {
        let lines: Vec<_> = lines.map(<[u8]>::trim_ascii).collect();
        return Some(lines.join(&b", "[..]).into());
    }
    let elements = lines.flat_map(|line| line.split(|byte| *byte == b','));
    let mut elements: Vec<Vec<u8>> = elements
        .map(|element| {
            let without_space = element.iter().filter(|byte| !matches!(byte, b' ' | b'\t'));
            without_space.map(u8::to_ascii_lowercase).collect()
        })
        .filter(|element: &Vec<u8>| !element.is_empty())
        .collect();
    if *name == ACCEPT_ENCODING {
        elements.sort_unstable();
    }
    Some(elements.join(&b","[..]).into())
}

/// Lists of tokens with weights, which case and spaces do not change. The order of codings says
/// nothing (RFC 9110, section 12.5.3); origins may prefer the first of the others.
fn is_list(name: &HeaderName) -> bool {
    [ACCEPT_ENCODING, ACCEPT_LANGUAGE, ACCEPT_CHARSET].contains(name)
}

#[cfg(test)]
mod tests;
