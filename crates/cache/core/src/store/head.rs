//! The header fields of a stored response, so kept that a hit counts no reference that another
//! thread counts: names are constants of the process, values are copied.

use std::collections::BTreeSet;
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
    /// Values, and the names that are not constants, one after the other.
    text: Box<[u8]>,
}

#[derive(Clone, Debug)]
struct StoredField {
    /// None if it is in the text, before the value.
    name: Option<HeaderName>,
    name_bytes: u16,
    value_bytes: u32,
}

impl StoredHead {
    /// Copies header fields.
    pub fn new(headers: &HeaderMap) -> Self {
        let mut text = Vec::new();
        let field = |(name, value): (&HeaderName, &HeaderValue)| {
            let constant = constant_name(name);
            let name_bytes = if constant.is_some() { "" } else { name.as_str() };
            text.extend_from_slice(name_bytes.as_bytes());
            text.extend_from_slice(value.as_bytes());
            StoredField {
                name: constant,
                name_bytes: u16::try_from(name_bytes.len()).expect("http limits names to 64 KiB"),
                value_bytes: u32::try_from(value.len()).expect("heads are limited"),
            }
        };
        let fields = headers.iter().map(field).collect();
        Self { fields, text: text.into() }
    }

    /// In memory.
    pub fn bytes(&self) -> usize {
        self.text.len() + size_of_val(&*self.fields)
    }

    /// Appends what [`Self::headers`] needs.
    pub fn copy_to(&self, copy: &mut BytesMut) {
        copy.extend_from_slice(&self.text);
    }

    /// The fields whose names `wanted` says yes to, with values that are slices of the copy.
    pub fn headers(&self, copy: &Bytes, wanted: impl Fn(&HeaderName) -> bool) -> HeaderMap {
        let mut headers = HeaderMap::with_capacity(self.fields.len() + ADDED_MAX);
        let mut at = 0;
        for field in &self.fields {
            let name_end = at + usize::from(field.name_bytes);
            let end = name_end + field.value_bytes as usize;
            let name = match &field.name {
                Some(name) => name.clone(),
                None => HeaderName::from_bytes(&copy[at..name_end]).expect("it was a name"),
            };
            if wanted(&name) {
                let value = HeaderValue::from_maybe_shared(copy.slice(name_end..end));
                headers.append(name, value.expect("it was a value"));
            }
            at = end;
        }
        headers
    }

    /// All fields, as a copy.
    pub fn to_headers(&self) -> HeaderMap {
        self.headers(&Bytes::copy_from_slice(&self.text), |_| true)
    }

    /// A field's first value. None if it is absent.
    pub fn first(&self, name: &HeaderName) -> Option<&[u8]> {
        let mut at = 0;
        for field in &self.fields {
            let name_end = at + usize::from(field.name_bytes);
            let end = name_end + field.value_bytes as usize;
            let is_it = match &field.name {
                Some(constant) => constant == name,
                None => self.text[at..name_end] == *name.as_str().as_bytes(),
            };
            if is_it {
                return Some(&self.text[name_end..end]);
            }
            at = end;
        }
        None
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
