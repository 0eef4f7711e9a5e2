//! The JSON types of a request's fields (OpenRTB 2.6, section 3.2), checked once over its text.
//!
//! Fields that rules read are not in the table: their parser checks them. A field of the table that
//! has another type is removed from what goes out, or makes the request invalid where privacy or
//! money depends on it. What the standard does not name is passed on, whatever it is.

mod table;

use std::fmt;
use std::ops::Range;

use crate::invalid::{Invalid, Reason};
use crate::json::{DEPTH_MAX, described, too_deep};
use crate::members::string;
use crate::members::{nested_len, string_len, value_len};

use table::JsonType::{self, Edited, Ext, Number, Object, Objects, Text, Texts, Whole, Wholes};
use table::Member::{self, Any, Decisive, Optional, Private, Required};
use table::{EditedObject, Members, bid_request};

/// Most fields of a wrong type that one request may have.
pub const MISTYPED_MAX: usize = 256;

/// What is found on the way through a request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Survey {
    /// Spans to remove, commas included; sorted and disjoint.
    pub(crate) removals: Vec<Range<usize>>,
    /// Where members of a wrong type stand.
    pub(crate) mistyped: Vec<String>,
    /// Where `user` stands, unless it is absent or null.
    pub(crate) user: Option<Range<usize>>,
    /// Where `source` stands, unless it is absent or null.
    pub(crate) source: Option<Range<usize>>,
}

/// Goes through `body`, a JSON object.
pub(crate) fn survey(body: &str) -> Result<Survey, Invalid> {
    let mut walk = Walk {
        text: body,
        bytes: body.as_bytes(),
        at: 0,
        depth: 0,
        deepest: 0,
        found: Survey::default(),
    };
    walk.skip_space();
    walk.object(bid_request, 0, &Path::Root)?;
    if walk.deepest > DEPTH_MAX { Err(too_deep()) } else { Ok(walk.found) }
}

/// Where a value stands in the request.
#[derive(Clone, Copy)]
enum Path<'p> {
    Root,
    Member(&'p Path<'p>, &'p [u8]),
    Element(&'p Path<'p>, usize),
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Member(Self::Root, key) => f.write_str(&String::from_utf8_lossy(key)),
            Self::Member(of, key) => write!(f, "{of}.{}", String::from_utf8_lossy(key)),
            Self::Element(of, index) => write!(f, "{of}[{index}]"),
        }
    }
}

/// Goes through text that a parser has found to be JSON, of any depth.
struct Walk<'t> {
    text: &'t str,
    /// The same.
    bytes: &'t [u8],
    at: usize,
    /// Objects and arrays that are open.
    depth: usize,
    /// Greatest depth reached.
    deepest: usize,
    found: Survey,
}

impl<'t> Walk<'t> {
    /// Goes through an object; an error if it is not an object, or lacks required members.
    fn object(&mut self, table: Members, required: u8, path: &Path<'_>) -> Result<(), Invalid> {
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
                Decisive(json) => self.value(json, &Path::Member(path, key)).map(|()| true)?,
                Optional(json) | Required(_, json) => {
                    let (value, known) = (self.at, self.found.removals.len());
                    let depth = self.depth;
                    let misfit = self.value(json, &Path::Member(path, key)).err();
                    if misfit.is_some() {
                        // What was removed within it goes with it.
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
                // By bit and not by number: a key may stand twice.
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
            return Err(Invalid::at(Reason::WrongType, path.to_string(), problem));
        }
        Ok(())
    }

    /// Notes a member of a wrong type.
    #[cold]
    fn note(&mut self, misfit: Invalid) -> Result<(), Invalid> {
        self.found.mistyped.push(misfit.path);
        if self.found.mistyped.len() > MISTYPED_MAX {
            let problem = format!("more than {MISTYPED_MAX} fields of a wrong type");
            return Err(Invalid::at(Reason::TooMany, "", problem));
        }
        Ok(())
    }

    /// Removes the member from `start` on, which has just been read: with the comma before it, or,
    /// where nothing that is kept stands before it, with the one behind it.
    fn remove(&mut self, start: usize, has_kept: bool) {
        let mut end = self.at;
        if !has_kept {
            self.skip_space();
            end = if self.byte() == b',' { self.at + 1 } else { end };
        }
        self.found.removals.push(start..end);
    }

    /// Whether a value of the simplest types, which most are of, begins here.
    #[inline]
    fn is_scalar(&self, json: JsonType) -> bool {
        match json {
            Text => self.byte() == b'"',
            Ext => self.byte() == b'{',
            _ => false,
        }
    }

    /// Goes through a value, to behind it; an error if it is of another type.
    fn value(&mut self, json: JsonType, path: &Path<'_>) -> Result<(), Invalid> {
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
        path: &Path<'_>,
        each: impl Fn(&mut Self, &Path<'_>) -> Result<(), Invalid>,
    ) -> Result<(), Invalid> {
        self.open(b'[', "an array", path)?;
        let mut index = 0;
        while self.byte() != b']' {
            each(self, &Path::Element(path, index))?;
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
    fn open(&mut self, bracket: u8, expected: &str, path: &Path<'_>) -> Result<(), Invalid> {
        if self.byte() != bracket {
            let start = self.at;
            self.skip_value();
            return Err(self.misfit(start, expected, path));
        }
        self.at += 1;
        self.depth += 1;
        // The parser skips what it does not read without a limit; the tables describe objects within
        // their own kind, and each level is a call.
        if self.depth > DEPTH_MAX {
            return Err(too_deep());
        }
        self.skip_space();
        Ok(())
    }

    /// The next key, with what the table says of it; stops at its value.
    #[inline]
    fn key(&mut self, table: Members) -> (&'t [u8], Member) {
        let (bytes, start) = (self.bytes, self.at);
        self.at += string_len(&bytes[start..]);
        let key = &bytes[start + 1..(self.at - 1).max(start + 1)];
        self.skip_space();
        self.at += 1; // The colon.
        self.skip_space();
        match table(key) {
            // Behind an escape it may be one of the table all the same.
            Any if key.len() >= r"\u0061".len() && key.contains(&b'\\') => {
                let quoted = &self.text[start..start + key.len() + 2];
                (key, string(quoted).map_or(Any, |key| table(key.as_bytes())))
            }
            member => (key, member),
        }
    }

    /// A value that began at `start` and has been gone through is not what is expected.
    #[cold]
    fn misfit(&self, start: usize, expected: &str, path: &Path<'_>) -> Invalid {
        let problem = format!("{}, expected {expected}", described(&self.text[start..self.at]));
        Invalid::at(Reason::WrongType, path.to_string(), problem)
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
