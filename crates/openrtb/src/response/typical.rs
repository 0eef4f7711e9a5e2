//! One pass over a bid response as nearly all DSPs write it. What is unusual, or wrong, is left to the
//! general parser: it decides, and says what is wrong.
//!
//! **Invariant:** whatever is read here, the general parser reads alike; a property test and a fuzz
//! target compare them. It costs less because it looks at each byte once, compares keys where they stand, and
//! leaves markup alone.

use super::bid::{BID_LIST_MAX, Bid, BidResponse, SeatBid};
use crate::json::Text;
use crate::members::{escaped_string_len, plain_len};

/// Deepest nesting of values that are skipped, such as `ext`.
const DEPTH_MAX: usize = 16;

/// Reads a response. None if it is unusual.
pub(super) fn read(text: &str) -> Option<BidResponse<'_, Bid<'_>>> {
    let mut cursor = TypicalCursor { text, bytes: text.as_bytes(), at: 0 };
    let response = cursor.response()?;
    cursor.skip_space();
    (cursor.at == text.len()).then_some(response)
}

/// Where the pass is. Every method returns None where the text is unusual.
struct TypicalCursor<'t> {
    text: &'t str,
    bytes: &'t [u8],
    at: usize,
}

/// The known keys of an object that have come: one that comes twice is unusual.
#[derive(Default)]
struct KeysSeen(u32);

impl KeysSeen {
    fn mark(&mut self, key: u32) -> Option<()> {
        let is_new = self.0 & 1 << key == 0;
        self.0 |= 1 << key;
        is_new.then_some(())
    }
}

/// A member of a bid, by what its value must be.
enum BidMember<'b, 't> {
    Text(&'b mut Option<Text<'t>>),
    TextUnlessEmpty(&'b mut Option<Text<'t>>),
    Texts(&'b mut Option<Vec<Text<'t>>>),
    Whole(&'b mut Option<u32>),
    WholeUnlessZero(&'b mut Option<u32>),
    Wholes(&'b mut Option<Vec<u32>>),
    /// Any value.
    Raw(&'b mut Option<&'t str>),
}

impl<'t> TypicalCursor<'t> {
    fn response(&mut self) -> Option<BidResponse<'t, Bid<'t>>> {
        let mut response =
            BidResponse { id: None, seatbid: None, bidid: None, cur: None, nbr: None };
        let mut seen = KeysSeen::default();
        self.object(|cursor, key| {
            match key {
                "id" => {
                    seen.mark(0)?;
                    response.id = Some(cursor.text()?);
                }
                "seatbid" => {
                    seen.mark(1)?;
                    response.seatbid = Some(cursor.list(usize::MAX, Self::seatbid)?);
                }
                "bidid" => {
                    seen.mark(2)?;
                    response.bidid = Some(cursor.text()?);
                }
                "cur" => {
                    seen.mark(3)?;
                    response.cur = cursor.text_unless_empty()?;
                }
                "nbr" => {
                    seen.mark(4)?;
                    response.nbr = Some(cursor.number()?);
                }
                _ => {
                    cursor.value(0)?;
                }
            }
            Some(())
        })?;
        Some(response)
    }

    fn seatbid(&mut self) -> Option<SeatBid<'t, Bid<'t>>> {
        let (mut bids, mut seat, mut group) = (None, None, None);
        let mut seen = KeysSeen::default();
        self.object(|cursor, key| {
            match key {
                "bid" => {
                    seen.mark(0)?;
                    bids = Some(cursor.list(usize::MAX, Self::bid)?);
                }
                "seat" => {
                    seen.mark(1)?;
                    seat = cursor.text_unless_empty()?;
                }
                "group" => {
                    seen.mark(2)?;
                    group = Some(u8::try_from(cursor.whole()?).ok()?);
                }
                _ => {
                    cursor.value(0)?;
                }
            }
            Some(())
        })?;
        Some(SeatBid { bid: bids?, seat, group })
    }

    fn bid(&mut self) -> Option<Bid<'t>> {
        let (mut bid, mut seen) = (Bid::default(), KeysSeen::default());
        self.object(|cursor, key| cursor.member(key, &mut bid, &mut seen))?;
        Some(bid)
    }

    /// Reads the value of a bid's member.
    fn member(&mut self, key: &str, bid: &mut Bid<'t>, seen: &mut KeysSeen) -> Option<()> {
        use BidMember::{Raw, Text, TextUnlessEmpty, Texts, Whole, WholeUnlessZero, Wholes};
        let (place, member) = match key {
            "id" => (0, Text(&mut bid.id)),
            "impid" => (1, Text(&mut bid.impid)),
            "price" => (2, Raw(&mut bid.price)),
            "adm" => (3, Raw(&mut bid.adm)),
            "nurl" => (4, Raw(&mut bid.nurl)),
            "burl" => (5, Raw(&mut bid.burl)),
            "lurl" => (6, Raw(&mut bid.lurl)),
            "cid" => (7, Raw(&mut bid.cid)),
            "crid" => (8, Text(&mut bid.crid)),
            "adomain" => (9, Texts(&mut bid.adomain)),
            "cat" => (10, Texts(&mut bid.cat)),
            "attr" => (11, Wholes(&mut bid.attr)),
            "w" => (12, Whole(&mut bid.w)),
            "h" => (13, Whole(&mut bid.h)),
            "mtype" => (14, Whole(&mut bid.mtype)),
            "dealid" => (15, TextUnlessEmpty(&mut bid.dealid)),
            "bundle" => (16, TextUnlessEmpty(&mut bid.bundle)),
            "adid" => (17, TextUnlessEmpty(&mut bid.adid)),
            "language" => (18, TextUnlessEmpty(&mut bid.language)),
            "langb" => (19, TextUnlessEmpty(&mut bid.langb)),
            "cattax" => (20, Whole(&mut bid.cattax)),
            "wratio" => (21, Whole(&mut bid.wratio)),
            "hratio" => (22, Whole(&mut bid.hratio)),
            "dur" => (23, WholeUnlessZero(&mut bid.dur)),
            "protocol" => (24, WholeUnlessZero(&mut bid.protocol)),
            "apis" => (25, Wholes(&mut bid.apis)),
            "api" => (26, Whole(&mut bid.api)),
            _ => return self.value(0).map(|_| ()),
        };
        seen.mark(place)?;
        match member {
            Text(text) => *text = Some(self.text()?),
            TextUnlessEmpty(text) => *text = self.text_unless_empty()?,
            Texts(texts) => *texts = Some(self.list(BID_LIST_MAX, Self::text)?),
            Whole(whole) => *whole = Some(self.whole()?),
            WholeUnlessZero(whole) => *whole = Some(self.whole()?).filter(|whole| *whole != 0),
            Wholes(wholes) => *wholes = Some(self.list(BID_LIST_MAX, Self::whole)?),
            Raw(raw) => *raw = Some(self.value(0)?).filter(|raw| *raw != "null"),
        }
        Some(())
    }

    /// Reads an object; `member` reads the value after each key.
    fn object(&mut self, mut member: impl FnMut(&mut Self, &'t str) -> Option<()>) -> Option<()> {
        self.take(b'{')?;
        if self.take(b'}').is_some() {
            return Some(());
        }
        loop {
            let key = self.plain_string()?;
            self.take(b':')?;
            self.skip_space();
            member(self, key)?;
            if self.take(b',').is_none() {
                return self.take(b'}');
            }
        }
    }

    /// Reads an array of at most `most` elements.
    fn list<T>(
        &mut self,
        most: usize,
        mut element: impl FnMut(&mut Self) -> Option<T>,
    ) -> Option<Vec<T>> {
        self.take(b'[')?;
        if self.take(b']').is_some() {
            return Some(Vec::new());
        }
        // Most have one.
        let mut elements = Vec::with_capacity(1);
        loop {
            self.skip_space();
            elements.push(element(self)?);
            if elements.len() > most {
                return None;
            }
            if self.take(b',').is_none() {
                return self.take(b']').map(|()| elements);
            }
        }
    }

    /// Skips any value, which is nested `depth` deep, and returns its text.
    fn value(&mut self, depth: usize) -> Option<&'t str> {
        let start = self.at;
        match self.bytes.get(start)? {
            b'"' => return self.quoted(),
            b'-' | b'0'..=b'9' => return self.number(),
            b'{' | b'[' if depth >= DEPTH_MAX => return None,
            b'{' => self.object(|cursor, _| cursor.value(depth + 1).map(|_| ()))?,
            b'[' => {
                self.list(usize::MAX, |cursor| cursor.value(depth + 1).map(|_| ()))?;
            }
            _ => {
                let rest = &self.bytes[start..];
                let literals = [&b"null"[..], b"true", b"false"];
                let literal = literals.into_iter().find(|literal| rest.starts_with(literal))?;
                self.at += literal.len();
            }
        }
        Some(&self.text[start..self.at])
    }

    fn text(&mut self) -> Option<Text<'t>> {
        self.plain_string().map(Text::from)
    }

    fn text_unless_empty(&mut self) -> Option<Option<Text<'t>>> {
        let text = self.plain_string()?;
        Some((!text.is_empty()).then(|| Text::from(text)))
    }

    /// Reads a string without escapes; returns what is between its quotes.
    fn plain_string(&mut self) -> Option<&'t str> {
        self.take(b'"')?;
        let start = self.at;
        let end = start + plain_len(&self.bytes[start..]);
        self.at = end;
        self.take_now(b'"')?;
        Some(&self.text[start..end])
    }

    /// Reads any string; returns it with its quotes.
    fn quoted(&mut self) -> Option<&'t str> {
        let start = self.at;
        let rest = &self.bytes[start..];
        let quoted = &rest[..escaped_string_len(rest)];
        // Without its quotes: an unfinished string has one at most.
        let inside = quoted.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
        if inside.iter().fold(false, |found, byte| found | (*byte < 0x20)) {
            return None;
        }
        let mut escapes = memchr::memchr_iter(b'\\', inside);
        while let Some(at) = escapes.next() {
            match inside.get(at + 1)? {
                b'\\' => {
                    escapes.next();
                }
                b'"' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => (),
                b'u' => {
                    let digits = inside.get(at + 2..at + 6)?;
                    digits.iter().all(u8::is_ascii_hexdigit).then_some(())?;
                }
                _ => return None,
            }
        }
        self.at += quoted.len();
        Some(&self.text[start..self.at])
    }

    /// Reads a number (RFC 8259, section 6); returns its text.
    fn number(&mut self) -> Option<&'t str> {
        let start = self.at;
        let _ = self.take_now(b'-');
        if self.take_now(b'0').is_none() {
            self.digits()?;
        }
        if self.take_now(b'.').is_some() {
            self.digits()?;
        }
        if self.take_now(b'e').or_else(|| self.take_now(b'E')).is_some() {
            let _ = self.take_now(b'+').or_else(|| self.take_now(b'-'));
            self.digits()?;
        }
        Some(&self.text[start..self.at])
    }

    fn digits(&mut self) -> Option<()> {
        let count = self.bytes[self.at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.at += count;
        (count > 0).then_some(())
    }

    /// Reads a number of at most nine digits, and no others.
    fn whole(&mut self) -> Option<u32> {
        let number = self.number()?;
        let is_whole = number.len() < 10 && number.bytes().all(|byte| byte.is_ascii_digit());
        is_whole.then(|| number.parse().ok()).flatten()
    }

    /// Takes this byte after white space.
    fn take(&mut self, byte: u8) -> Option<()> {
        self.skip_space();
        self.take_now(byte)
    }

    fn take_now(&mut self, byte: u8) -> Option<()> {
        (self.bytes.get(self.at) == Some(&byte)).then(|| self.at += 1)
    }

    fn skip_space(&mut self) {
        while let Some(b' ' | b'\n' | b'\t' | b'\r') = self.bytes.get(self.at) {
            self.at += 1;
        }
    }
}

#[cfg(test)]
mod tests;
