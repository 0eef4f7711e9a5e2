//! Checks the JSON types of a request's fields (OpenRTB 2.6, section 3.2) in one pass over its
//! text.
//!
//! The table lacks fields that rules read: their parser checks them. A field of the wrong type is
//! removed from outbound requests, or makes the request invalid if privacy or money depends on it.
//! Unknown fields are passed on.

mod table;

use std::fmt;
use std::ops::Range;

use crate::invalid::{InvalidReason, InvalidRequest};
use crate::json::{DEPTH_MAX, described, too_deep};
use crate::members::string;
use crate::members::{nested_len, string_len, value_len};

use table::JsonType::{self, Edited, Ext, Number, Object, Objects, Text, Texts, Whole, Wholes};
use table::Member::{self, Any, Decisive, Optional, Private, Required};
use table::{EditedObject, MemberTable, bid_request};

/// Most fields of a wrong type in one request.
pub const MISTYPED_MAX: usize = 256;

/// Result of the scan.
#[derive(Clone, Debug, Default)]
pub(crate) struct FieldScan {
    /// Spans to remove, commas included; sorted and disjoint.
    pub(crate) removals: Vec<Range<usize>>,
    /// Paths of members with a wrong type.
    pub(crate) mistyped: Vec<String>,
    /// Span of `user`, unless it is absent or null.
    pub(crate) user: Option<Range<usize>>,
    /// Span of `source`, unless it is absent or null.
    pub(crate) source: Option<Range<usize>>,
}

/// Scans `body`, a JSON object.
pub(crate) fn scan_fields(body: &str) -> Result<FieldScan, InvalidRequest> {
    let mut walk = FieldWalk {
        text: body,
        bytes: body.as_bytes(),
        at: 0,
        depth: 0,
        deepest: 0,
        found: FieldScan::default(),
    };
    walk.skip_space();
    walk.object(bid_request, 0, &FieldPath::Root)?;
    if walk.deepest > DEPTH_MAX { Err(too_deep()) } else { Ok(walk.found) }
}

/// Path of a value in the request.
#[derive(Clone, Copy)]
enum FieldPath<'p> {
    Root,
    Member(&'p FieldPath<'p>, &'p [u8]),
    Element(&'p FieldPath<'p>, usize),
}

impl fmt::Display for FieldPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Member(Self::Root, key) => f.write_str(&String::from_utf8_lossy(key)),
            Self::Member(of, key) => write!(f, "{of}.{}", String::from_utf8_lossy(key)),
            Self::Element(of, index) => write!(f, "{of}[{index}]"),
        }
    }
}

/// Walks text that a parser has accepted as JSON, of any depth.
struct FieldWalk<'t> {
    text: &'t str,
    /// The same bytes.
    bytes: &'t [u8],
    at: usize,
    /// Number of open objects and arrays.
    depth: usize,
    /// Greatest depth so far.
    deepest: usize,
    found: FieldScan,
}

impl<'t> FieldWalk<'t> {
    /// Walks an object. Fails if it is not one, or lacks required members.
    fn object(
        &mut self,
        table: MemberTable,
        required: u8,
        path: &FieldPath<'_>,
    ) -> Result<(), InvalidRequest> {
        self.open(b'{', "an object", path)?;
        let (mut required_left, mut has_kept) = (required, false);
        let mut comma = self.at;
        while self.byte() != b'}' {
            let mut start = self.at;
            if self.byte() == b',' {
                comma = start;
                self.at += 1;
                self.skip_space();
                start = self.at;
            }
            let (key, member) = self.key(table);
            let is_kept = match member {
                Optional(json) if self.is_scalar(json) => self.skip_value() > 0,
                Any => self.skip_value() > 0,
                Private => self.skip_value() == 0,
                Decisive(json) => self.value(json, &FieldPath::Member(path, key)).map(|()| true)?,
                Optional(json) | Required(_, json) => {
                    let (value, known) = (self.at, self.found.removals.len());
                    let depth = self.depth;
                    let misfit = self.value(json, &FieldPath::Member(path, key)).err();
                    if misfit.is_some() {
                        // Removals within it are dropped with it.
                        self.found.removals.truncate(known);
                        (self.at, self.depth) = (value, depth);
                        self.skip_value();
                    }
                    let is_kept = misfit.is_none();
                    misfit.map_or(Ok(()), |misfit| self.note(misfit))?;
                    is_kept
                }
            };
            if is_kept {
                has_kept = true;
                // Bits and not a count, because a key may occur twice.
                required_left &= if let Required(bit, _) = member { !bit } else { !0 };
            } else {
                self.remove(if has_kept { comma } else { start }, has_kept);
            }
            self.skip_space();
        }
        self.at += 1;
        self.depth -= 1;
        if required_left != 0 {
            let problem = "lacks a required field";
            return Err(InvalidRequest::at(InvalidReason::WrongType, path.to_string(), problem));
        }
        Ok(())
    }

    /// Records a member of a wrong type.
    #[cold]
    fn note(&mut self, misfit: InvalidRequest) -> Result<(), InvalidRequest> {
        self.found.mistyped.push(misfit.path);
        if self.found.mistyped.len() > MISTYPED_MAX {
            let problem = format!("more than {MISTYPED_MAX} fields of a wrong type");
            return Err(InvalidRequest::at(InvalidReason::TooMany, "", problem));
        }
        Ok(())
    }

    /// Removes the member just read, which began at `start`, with the comma before it, or the one
    /// after it if no kept member precedes.
    fn remove(&mut self, start: usize, has_kept: bool) {
        let mut end = self.at;
        if !has_kept {
            self.skip_space();
            end = if self.byte() == b',' { self.at + 1 } else { end };
        }
        self.found.removals.push(start..end);
    }

    /// Whether a value of the most common types begins here.
    #[inline]
    fn is_scalar(&self, json: JsonType) -> bool {
        match json {
            Text => self.byte() == b'"',
            Ext => self.byte() == b'{',
            _ => false,
        }
    }

    /// Walks a value. Fails if it is of another type.
    fn value(&mut self, json: JsonType, path: &FieldPath<'_>) -> Result<(), InvalidRequest> {
        let (start, first) = (self.at, self.byte());
        if first == b'n' {
            self.at += "null".len();
            return Ok(());
        }
        let is_number = first.is_ascii_digit() || first == b'-';
        let (fits, expected) = match json {
            Text => (first == b'"', "a string"),
            Ext => (first == b'{', "an object"),
            Number => (is_number, "a number"),
            Whole => (is_number, "a whole number"),
            Object(table) => return self.object(table, 0, path),
            Edited(table, object) => {
                self.object(table, 0, path)?;
                let span = match object {
                    EditedObject::User => &mut self.found.user,
                    EditedObject::Source => &mut self.found.source,
                };
                *span = Some(start..self.at);
                return Ok(());
            }
            Objects(table, required) => {
                return self.list(path, |walk, path| walk.object(table, required, path));
            }
            Texts => return self.list(path, |walk, path| walk.value(Text, path)),
            Wholes => return self.list(path, |walk, path| walk.value(Whole, path)),
        };
        self.skip_value();
        if fits && (!matches!(json, Whole) || is_whole(&self.bytes[start..self.at])) {
            return Ok(());
        }
        Err(self.misfit(start, expected, path))
    }

    fn list(
        &mut self,
        path: &FieldPath<'_>,
        each: impl Fn(&mut Self, &FieldPath<'_>) -> Result<(), InvalidRequest>,
    ) -> Result<(), InvalidRequest> {
        self.open(b'[', "an array", path)?;
        let mut index = 0;
        while self.byte() != b']' {
            each(self, &FieldPath::Element(path, index))?;
            index += 1;
            self.skip_space();
            if self.byte() == b',' {
                self.at += 1;
                self.skip_space();
            }
        }
        self.at += 1;
        self.depth -= 1;
        Ok(())
    }

    #[inline]
    fn open(
        &mut self,
        bracket: u8,
        expected: &str,
        path: &FieldPath<'_>,
    ) -> Result<(), InvalidRequest> {
        if self.byte() != bracket {
            let start = self.at;
            self.skip_value();
            return Err(self.misfit(start, expected, path));
        }
        self.at += 1;
        self.depth += 1;
        // The parser skips unread values without a depth limit, but here each level is a call.
        if self.depth > DEPTH_MAX {
            return Err(too_deep());
        }
        self.skip_space();
        Ok(())
    }

    /// Reads the next key and its entry in the table; stops at the value.
    #[inline]
    fn key(&mut self, table: MemberTable) -> (&'t [u8], Member) {
        let (bytes, start) = (self.bytes, self.at);
        self.at += string_len(&bytes[start..]);
        let key = &bytes[start + 1..(self.at - 1).max(start + 1)];
        self.skip_space();
        self.at += 1; // The colon.
        self.skip_space();
        match table(key) {
            // With escapes it may still be a key of the table.
            Any if key.len() >= r"\u0061".len() && key.contains(&b'\\') => {
                let quoted = &self.text[start..start + key.len() + 2];
                (key, string(quoted).map_or(Any, |key| table(key.as_bytes())))
            }
            member => (key, member),
        }
    }

    /// The error for a value that began at `start` and has the wrong type.
    #[cold]
    fn misfit(&self, start: usize, expected: &str, path: &FieldPath<'_>) -> InvalidRequest {
        let problem = format!("{}, expected {expected}", described(&self.text[start..self.at]));
        InvalidRequest::at(InvalidReason::WrongType, path.to_string(), problem)
    }

    /// Skips the value and returns its length.
    #[inline]
    fn skip_value(&mut self) -> usize {
        let rest = &self.bytes[self.at..];
        let length = match self.byte() {
            b'{' | b'[' => {
                let (length, deepest) = nested_len(rest);
                self.deepest = self.deepest.max(self.depth + deepest);
                length
            }
            _ => value_len(rest),
        };
        self.at += length;
        length
    }

    #[inline]
    fn skip_space(&mut self) {
        while self.bytes.get(self.at).is_some_and(u8::is_ascii_whitespace) {
            self.at += 1;
        }
    }

    /// The next byte, or `}` at the end of the text.
    #[inline]
    fn byte(&self) -> u8 {
        self.bytes.get(self.at).copied().unwrap_or(b'}')
    }
}

/// Whether a number has no fraction.
#[inline]
fn is_whole(number: &[u8]) -> bool {
    let is_plain = |byte: &u8| byte.is_ascii_digit() || *byte == b'-';
    number.iter().all(is_plain) || {
        let number = std::str::from_utf8(number).ok().and_then(|number| number.parse().ok());
        number.is_some_and(|number: f64| number.fract() == 0.0)
    }
}

#[cfg(test)]
mod tests;
