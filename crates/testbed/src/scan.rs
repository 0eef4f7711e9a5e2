//! Extracts what a simulated DSP needs from an OpenRTB request without parsing it: one forward pass
//! that borrows from the body, allocates nothing and stops at the last byte it needs. Owns only the
//! lexing of JSON; does not decide bids.
//!
//! It scans and does not validate. In skipped values it checks only that strings end and brackets
//! balance, and it ignores everything after the impressions. Keys are compared as written, so an
//! escaped spelling of a key is another key.

use memchr::memchr2;

#[cfg(test)]
mod tests;

/// The bytes are not JSON that this scanner can follow, or lack a required member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MalformedRequest;

/// The first format of an impression, in the order of the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AdFormat {
    Banner,
    Video,
    Audio,
    Native,
}

/// The parts of an impression that a bid needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ImpView<'a> {
    /// As written between the quotes, including escapes: echoed, it means the same.
    pub(crate) id: &'a [u8],
    pub(crate) format: AdFormat,
    /// Pixels; 0 if the impression does not say.
    pub(crate) width: u32,
    pub(crate) height: u32,
    /// Micros CPM in the floor's currency; 0 if absent.
    pub(crate) floor_micros: u64,
    /// Whether its markup may load only over HTTPS.
    pub(crate) is_secure: bool,
    deals: Cursor<'a>,
}

/// A deal offered with an impression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DealView<'a> {
    pub(crate) id: &'a [u8],
    /// Micros CPM. None falls back to the impression's floor.
    pub(crate) floor_micros: Option<u64>,
}

/// The impressions of a request, read on demand.
#[derive(Clone, Debug)]
pub(crate) struct Imps<'a> {
    cursor: Cursor<'a>,
    failed: bool,
}

/// The range of the top-level `id` in `body`, without its quotes.
pub(crate) fn request_id(body: &[u8]) -> Result<std::ops::Range<usize>, MalformedRequest> {
    let mut cursor = Cursor::new(body);
    cursor.find_member(b"id")?;
    let id = cursor.string()?;
    let end = cursor.at - 1;
    Ok(end - id.len()..end)
}

/// The impressions of the request `body`, which must have some.
pub(crate) fn imps(body: &[u8]) -> Result<Imps<'_>, MalformedRequest> {
    let mut cursor = Cursor::new(body);
    cursor.find_member(b"imp")?;
    cursor.enter(b'[')?;
    Ok(Imps { cursor, failed: false })
}

impl<'a> Iterator for Imps<'a> {
    type Item = Result<ImpView<'a>, MalformedRequest>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let read = match self.cursor.next_element() {
            Ok(true) => ImpView::read(&mut self.cursor),
            Ok(false) => return None,
            Err(malformed) => Err(malformed),
        };
        self.failed = read.is_err();
        Some(read)
    }
}

impl<'a> ImpView<'a> {
    fn read(cursor: &mut Cursor<'a>) -> Result<Self, MalformedRequest> {
        let (mut id, mut format, mut size, mut floor_micros) = (None, None, (0, 0), 0);
        let mut is_secure = false;
        let mut deals = Cursor::new(b"]");
        cursor.enter(b'{')?;
        while let Some(key) = cursor.next_key()? {
            let offered = match key {
                b"banner" => AdFormat::Banner,
                b"video" => AdFormat::Video,
                b"audio" => AdFormat::Audio,
                b"native" => AdFormat::Native,
                b"id" => {
                    id = Some(cursor.string()?);
                    continue;
                }
                b"bidfloor" => {
                    floor_micros = cursor.micros()?;
                    continue;
                }
                b"secure" => {
                    is_secure = cursor.micros()? == 1_000_000;
                    continue;
                }
                b"pmp" => {
                    deals = cursor.deals()?.unwrap_or(deals);
                    continue;
                }
                _ => {
                    cursor.skip()?;
                    continue;
                }
            };
            let offered_size = cursor.size()?;
            if format.is_none() {
                (format, size) = (Some(offered), offered_size);
            }
        }
        let (width, height) = size;
        let (id, format) = (id.ok_or(MalformedRequest)?, format.ok_or(MalformedRequest)?);
        Ok(Self { id, format, width, height, floor_micros, is_secure, deals })
    }

    /// The deals offered, in order, up to the first unreadable one.
    pub(crate) fn deals(&self) -> impl Iterator<Item = DealView<'a>> + use<'a> {
        let mut cursor = self.deals.clone();
        std::iter::from_fn(move || {
            if !cursor.next_element().ok()? {
                return None;
            }
            cursor.deal().ok()
        })
    }
}

/// A position in JSON text.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// The next byte that is not white space, not yet consumed.
    fn peek(&mut self) -> Result<u8, MalformedRequest> {
        while let Some(&byte) = self.bytes.get(self.at) {
            if !matches!(byte, b' ' | b'\t' | b'\n' | b'\r') {
                return Ok(byte);
            }
            self.at += 1;
        }
        Err(MalformedRequest)
    }

    /// Consumes `opening` (a bracket) or fails.
    fn enter(&mut self, opening: u8) -> Result<(), MalformedRequest> {
        if self.peek()? != opening {
            return Err(MalformedRequest);
        }
        self.at += 1;
        Ok(())
    }

    /// Inside an object: returns the next key, with the cursor at its value. None consumes the `}`.
    fn next_key(&mut self) -> Result<Option<&'a [u8]>, MalformedRequest> {
        if self.peek()? == b',' {
            self.at += 1;
        }
        if self.peek()? == b'}' {
            self.at += 1;
            return Ok(None);
        }
        let key = self.string()?;
        self.enter(b':')?;
        Ok(Some(key))
    }

    /// Inside an array: whether another element follows. False consumes the `]`.
    fn next_element(&mut self) -> Result<bool, MalformedRequest> {
        if self.peek()? == b',' {
            self.at += 1;
        }
        if self.peek()? == b']' {
            self.at += 1;
            return Ok(false);
        }
        Ok(true)
    }

    /// Enters the object here and stops at the value of `wanted`.
    fn find_member(&mut self, wanted: &[u8]) -> Result<(), MalformedRequest> {
        self.enter(b'{')?;
        while let Some(key) = self.next_key()? {
            if key == wanted {
                return Ok(());
            }
            self.skip()?;
        }
        Err(MalformedRequest)
    }

    /// A string without its quotes, escapes as written.
    fn string(&mut self) -> Result<&'a [u8], MalformedRequest> {
        self.enter(b'"')?;
        let start = self.at;
        loop {
            let rest = self.bytes.get(self.at..).ok_or(MalformedRequest)?;
            let stop = self.at + memchr2(b'"', b'\\', rest).ok_or(MalformedRequest)?;
            if self.bytes[stop] == b'"' {
                self.at = stop + 1;
                return Ok(&self.bytes[start..stop]);
            }
            self.at = stop + 2; // The escaped byte is never the end.
        }
    }

    /// Skips one value of any kind, counting depth and never recursing.
    fn skip(&mut self) -> Result<(), MalformedRequest> {
        let mut depth = 0_usize;
        loop {
            match self.peek()? {
                b'"' => drop(self.string()?),
                b'{' | b'[' => {
                    depth += 1;
                    self.at += 1;
                }
                b'}' | b']' => {
                    depth = depth.checked_sub(1).ok_or(MalformedRequest)?;
                    self.at += 1;
                }
                b',' | b':' if depth == 0 => return Err(MalformedRequest),
                b',' | b':' => self.at += 1,
                _ => drop(self.scalar()),
            }
            if depth == 0 {
                return Ok(());
            }
        }
    }

    /// A number or a literal: everything up to the next delimiter.
    fn scalar(&mut self) -> &'a [u8] {
        let rest = &self.bytes[self.at..];
        let length = rest.iter().position(|byte| b",:]}[{\" \t\r\n".contains(byte));
        let (scalar, _) = rest.split_at(length.unwrap_or(rest.len()));
        self.at += scalar.len();
        scalar
    }

    /// A price in micros; 0 for a value of another kind, which is skipped.
    fn micros(&mut self) -> Result<u64, MalformedRequest> {
        match self.peek()? {
            b'0'..=b'9' => Ok(micros_of(self.scalar()).unwrap_or(0)),
            _ => self.skip().map(|()| 0),
        }
    }

    /// A size in pixels; 0 unless it is a small whole number.
    fn pixels(&mut self) -> Result<u32, MalformedRequest> {
        match self.peek()? {
            b'0'..=b'9' => {
                let digits = std::str::from_utf8(self.scalar()).map_err(|_| MalformedRequest)?;
                Ok(digits.parse().unwrap_or(0))
            }
            _ => self.skip().map(|()| 0),
        }
    }

    /// Consumes a format object: its own `w` and `h`, or those of its first `format`.
    fn size(&mut self) -> Result<(u32, u32), MalformedRequest> {
        let (mut own, mut listed) = ((0, 0), (0, 0));
        self.enter(b'{')?;
        while let Some(key) = self.next_key()? {
            match key {
                b"w" => own.0 = self.pixels()?,
                b"h" => own.1 = self.pixels()?,
                b"format" => listed = self.first_format()?,
                _ => self.skip()?,
            }
        }
        // A banner accepts what `format` lists; its `w` and `h` are hints (2.6, 3.2.6).
        Ok(if listed == (0, 0) { own } else { listed })
    }

    fn first_format(&mut self) -> Result<(u32, u32), MalformedRequest> {
        let mut first = None;
        self.enter(b'[')?;
        while self.next_element()? {
            match first {
                None => first = Some(self.size()?),
                Some(_) => self.skip()?,
            }
        }
        Ok(first.unwrap_or((0, 0)))
    }

    /// Consumes a `pmp` object. Returns a cursor inside its deals, if it has any.
    fn deals(&mut self) -> Result<Option<Self>, MalformedRequest> {
        let mut deals = None;
        self.enter(b'{')?;
        while let Some(key) = self.next_key()? {
            if key == b"deals" && self.peek()? == b'[' {
                deals = Some(Self { bytes: self.bytes, at: self.at + 1 });
            }
            self.skip()?;
        }
        Ok(deals)
    }

    fn deal(&mut self) -> Result<DealView<'a>, MalformedRequest> {
        let (mut id, mut floor_micros) = (None, None);
        self.enter(b'{')?;
        while let Some(key) = self.next_key()? {
            match key {
                b"id" => id = Some(self.string()?),
                b"bidfloor" => floor_micros = Some(self.micros()?),
                _ => self.skip()?,
            }
        }
        Ok(DealView { id: id.ok_or(MalformedRequest)?, floor_micros })
    }
}

/// Decimal text such as `1.25` in micros, truncated after six digits. None for anything else,
/// including exponents, or if it does not fit.
pub(crate) fn micros_of(decimal: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(decimal).ok()?;
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if whole.is_empty() || !whole.bytes().chain(fraction.bytes()).all(|b| b.is_ascii_digit()) {
        return None;
    }
    let mut micros = whole.parse::<u64>().ok()?.checked_mul(1_000_000)?;
    let mut unit = 100_000;
    for digit in fraction.bytes().take(6) {
        micros = micros.checked_add(u64::from(digit - b'0') * unit)?;
        unit /= 10;
    }
    Some(micros)
}
