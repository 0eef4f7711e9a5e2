//! The header fields of a stored response, so kept that a hit counts no reference that another
//! thread counts: names are constants of the process, values are copied.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue};

/// Names that become constants, and their greatest length; others are copied at each hit. Origins
/// choose names, so both are bounded.
const NAMES_MAX: usize = 1024;
const NAME_BYTES_MAX: usize = 64;

/// Header fields in their order.
#[derive(Clone, Debug, Default)]
pub struct StoredHead {
    fields: Box<[StoredField]>,
    /// As they go over HTTP/1.1: `name: value`, each with its line break.
    lines: Box<[u8]>,
}

#[derive(Clone, Debug)]
struct StoredField {
    /// None if its name is copied.
    constant: Option<HeaderName>,
    name_bytes: u16,
    value_bytes: u32,
}

/// Between name and value.
const COLON: &[u8] = b": ";
const LINE_BREAK: &[u8] = b"\r\n";

/// A field and where it is in the lines.
struct PlacedField<'f> {
    field: &'f StoredField,
    name: Range<usize>,
    value: Range<usize>,
}

impl StoredHead {
    /// Copies header fields.
    pub fn new(headers: &HeaderMap) -> Self {
        let mut lines = Vec::new();
        let field = |(name, value): (&HeaderName, &HeaderValue)| {
            for part in [name.as_str().as_bytes(), COLON, value.as_bytes(), LINE_BREAK] {
                lines.extend_from_slice(part);
            }
            StoredField {
                constant: constant_name(name),
                name_bytes: u16::try_from(name.as_str().len()).expect("http limits names"),
                value_bytes: u32::try_from(value.len()).expect("heads are limited"),
            }
        };
        let fields = headers.iter().map(field).collect();
        Self { fields, lines: lines.into() }
    }

    /// In memory.
    pub fn bytes(&self) -> usize {
        self.lines.len() + size_of_val(&*self.fields)
    }

    /// Appends its lines, as they go over HTTP/1.1, of which [`Self::headers`] makes fields.
    pub fn copy_to(&self, copy: &mut BytesMut) {
        copy.extend_from_slice(&self.lines);
    }

    /// The fields whose names `wanted` says yes to, with values that are slices of the copy.
    pub fn headers(&self, copy: &Bytes, wanted: impl Fn(&HeaderName) -> bool) -> HeaderMap {
        let mut headers = HeaderMap::with_capacity(self.fields.len() + ADDED_MAX);
        for PlacedField { field, name, value } in self.placed() {
            let name = match &field.constant {
                Some(constant) => constant.clone(),
                None => HeaderName::from_bytes(&copy[name]).expect("it was a name"),
            };
            if wanted(&name) {
                let value = HeaderValue::from_maybe_shared(copy.slice(value));
                headers.append(name, value.expect("it was a value"));
            }
        }
        headers
    }

    /// All fields, as a copy.
    pub fn to_headers(&self) -> HeaderMap {
        self.headers(&Bytes::copy_from_slice(&self.lines), |_| true)
    }

    /// A field's first value. None if it is absent.
    pub fn first(&self, name: &HeaderName) -> Option<&[u8]> {
        let is_it = |placed: &PlacedField<'_>| match &placed.field.constant {
            Some(constant) => constant == name,
            None => self.lines[placed.name.clone()] == *name.as_str().as_bytes(),
        };
        self.placed().find(is_it).map(|placed| &self.lines[placed.value])
    }

    fn placed(&self) -> impl Iterator<Item = PlacedField<'_>> {
        let mut at = 0;
        self.fields.iter().map(move |field| {
            let name = at..at + usize::from(field.name_bytes);
            let start = name.end + COLON.len();
            let value = start..start + field.value_bytes as usize;
            at = value.end + LINE_BREAK.len();
            PlacedField { field, name, value }
        })
    }
}

/// Fields that a hit adds: `age`, `cache-status`, `via`, `content-length`, `content-range`.
const ADDED_MAX: usize = 5;

/// The name as a constant, whose clones count nothing. None if there are too many, or it is long.
fn constant_name(name: &HeaderName) -> Option<HeaderName> {
    static NAMES: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(constant) = names.get(name.as_str()) {
        return Some(HeaderName::from_static(constant));
    }
    if names.len() >= NAMES_MAX || name.as_str().len() > NAME_BYTES_MAX {
        return None;
    }
    let constant = Box::leak(name.as_str().to_owned().into_boxed_str());
    names.insert(constant);
    Some(HeaderName::from_static(constant))
}
