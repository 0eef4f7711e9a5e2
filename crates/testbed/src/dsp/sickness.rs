//! How a DSP in a sick phase answers one bid request: the answer it would have given, spoilt. Pure
//! in profile, place and request, as `answer` is. Knows no socket; what cannot be said in bytes,
//! a refused connection, is the reactor's.

use std::io::Write as _;
use std::time::Duration;

use super::answer::{Answered, Bidder, Choice, Lies, Outcome, write_chunks, write_whole};
use super::behaviour::{Act, Behaviour, Cut, DripFrom, Garble};
use super::gzip;
use super::http::{NO_CONTENT, Request};
use super::script::{Drip, End, Flow, Script};
use crate::draws::Draws;
use crate::scan::Malformed;

#[cfg(test)]
mod tests;

/// Parts the draw of who is sick from the draws of what is answered.
const SICK: u64 = 0x5349_434b;

/// Most bytes that are drawn for an answer that is no HTTP.
const GARBAGE_BYTES: usize = 512;

/// What a DSP is sick with, and what is prepared for it once.
#[derive(Debug)]
pub(super) struct Sickness {
    behaviour: Behaviour,
    bomb: Vec<u8>,
}

impl Sickness {
    /// `None` if the behaviour changes nothing.
    pub(super) fn of(behaviour: &Behaviour) -> Option<Self> {
        if behaviour.is_healthy() {
            return None;
        }
        let bomb = match behaviour.act {
            Act::GzipBomb { inflated } => gzip::bomb(inflated),
            _ => Vec::new(),
        };
        Some(Self { behaviour: behaviour.clone(), bomb })
    }

    pub(super) fn is_refusal(&self) -> bool {
        self.behaviour.act == Act::Refused
    }
}

impl Bidder {
    /// What a sick DSP makes of the request; `None` if this one is answered as any other, for it
    /// is spared or no OpenRTB request.
    pub(super) fn misbehave(
        &mut self,
        sickness: &Sickness,
        request: &Request<'_>,
    ) -> Option<(Answered, Script)> {
        let id = Self::id_of(request.body).ok()?;
        let mut draws = Draws::keyed(self.seed() ^ SICK, id);
        if !draws.happens(sickness.behaviour.share_ppm) {
            return None;
        }
        let choice = self.choose(id);
        let performance = Performance { bidder: self, request, id, choice, draws };
        performance.act(sickness).ok()
    }
}

/// One answer in the making.
struct Performance<'a> {
    bidder: &'a mut Bidder,
    request: &'a Request<'a>,
    id: &'a [u8],
    choice: Choice,
    draws: Draws,
}

type Performed = Result<(Answered, Script), Malformed>;

impl Performance<'_> {
    fn act(mut self, sickness: &Sickness) -> Performed {
        match &sickness.behaviour.act {
            Act::Healthy | Act::Refused => Err(Malformed),
            Act::Status { code, body } => {
                let mut out = head(*code, &[("content-type", "text/plain")], Some(body.len()));
                out.extend_from_slice(body.as_bytes());
                Ok(self.spoilt(out, End::Next))
            }
            Act::Hang => Ok(self.spoilt(Vec::new(), End::Hang)),
            Act::Trickle { bytes, every, from } => self.trickle(*bytes, *every, *from),
            Act::Close { at } => self.cut(*at, End::Close),
            Act::Reset { at } => self.cut(*at, End::Reset),
            Act::Garbage => Ok(self.garbage()),
            Act::Malformed { how } => self.malformed(*how),
            Act::Huge { bytes } => Ok(self.huge(*bytes)),
            Act::Deep { levels } => Ok(self.deep(*levels)),
            Act::WrongId => self.lying(&Lies { id: b"not-", ..Lies::NONE }),
            Act::WrongImp => self.lying(&Lies { imp: b"not-", ..Lies::NONE }),
            Act::WrongCurrency { code } => {
                self.lying(&Lies { currency: Some(code.as_bytes()), ..Lies::NONE })
            }
            Act::Late { by } => {
                let (answered, script) = self.honest()?;
                let answered = Answered { delay: *by, late: true, ..answered };
                Ok((answered, Script { delay: *by, ..script }))
            }
            Act::Gzip { always } => self.gzip(*always),
            Act::GzipBomb { .. } => {
                let mut out = head(200, &GZIP, Some(sickness.bomb.len()));
                out.extend_from_slice(&sickness.bomb);
                Ok(self.spoilt(out, End::Next))
            }
            Act::BadGzip => {
                let (body, _) = self.bid(&Lies::NONE)?;
                let zip = gzip::broken(&body, &mut self.draws);
                let mut out = head(200, &GZIP, Some(zip.len()));
                out.extend_from_slice(&zip);
                Ok(self.spoilt(out, End::Next))
            }
            Act::Chunked { bytes } => {
                let (body, bids) = self.bid(&Lies::NONE)?;
                let mut out = Vec::new();
                write_chunks(body.chunks(*bytes), &mut out);
                Ok(self.sent(out, bids))
            }
            Act::Redirect { code, to } => {
                let home = format!("{}/elsewhere", self.bidder.origin());
                let to = to.as_deref().unwrap_or(&home);
                let out = head(*code, &[("location", to)], Some(0));
                Ok(self.spoilt(out, End::Next))
            }
            Act::Interim { code, count } => self.interim(*code, *count),
            Act::Closing { announced } => self.closing(*announced),
        }
    }

    /// An answer that is worth nothing to the exchange.
    fn spoilt(&self, bytes: Vec<u8>, end: End) -> (Answered, Script) {
        let delay = self.choice.delay;
        let answered = Answered { outcome: Outcome::Spoilt, delay, late: self.choice.late };
        (answered, Script { end, ..Script::whole(bytes, delay) })
    }

    /// An answer with bids that can be read.
    fn sent(&self, bytes: Vec<u8>, bids: usize) -> (Answered, Script) {
        let delay = self.choice.delay;
        let answered = Answered { outcome: Outcome::Bids(bids), delay, late: self.choice.late };
        (answered, Script::whole(bytes, delay))
    }

    /// The answer of the profile.
    fn honest(&mut self) -> Performed {
        let mut bytes = Vec::new();
        let answered = self.bidder.answer(self.request.body, &mut bytes);
        Ok((answered, Script::whole(bytes, answered.delay)))
    }

    /// A response with bids, whatever the profile's share of them; none only where the request
    /// has no impression.
    fn bid(&mut self, lies: &Lies<'_>) -> Result<(Vec<u8>, usize), Malformed> {
        let (mut body, mut draws) = (Vec::new(), self.choice.draws.clone());
        let bids = self.bidder.write_response(
            (self.request.body, self.id),
            lies,
            &mut draws,
            &mut body,
        )?;
        Ok((body, bids))
    }

    /// A whole answer with bids, and where its body begins.
    fn whole_bid(&mut self, lies: &Lies<'_>) -> Result<(Vec<u8>, usize, usize), Malformed> {
        let (body, bids) = self.bid(lies)?;
        let mut out = Vec::new();
        write_whole(&body, &mut out);
        let body_at = out.len() - body.len();
        Ok((out, body_at, bids))
    }

    fn lying(&mut self, lies: &Lies<'_>) -> Performed {
        let (out, _, _) = self.whole_bid(lies)?;
        Ok(self.spoilt(out, End::Next))
    }

    fn trickle(&mut self, bytes: usize, every: Duration, from: DripFrom) -> Performed {
        let (out, body_at, bids) = self.whole_bid(&Lies::NONE)?;
        let first = match from {
            DripFrom::Head => 0,
            DripFrom::Body => body_at,
        };
        let (answered, script) = self.sent(out, bids);
        Ok((answered, Script { drip: Some(Drip { first, bytes, every }), ..script }))
    }

    fn cut(&mut self, at: Cut, end: End) -> Performed {
        let (mut out, body_at, _) = self.whole_bid(&Lies::NONE)?;
        out.truncate(match at {
            Cut::Before => 0,
            Cut::Head => body_at / 2,
            Cut::Body => body_at.midpoint(out.len()),
        });
        Ok(self.spoilt(out, end))
    }

    fn garbage(&mut self) -> (Answered, Script) {
        let count = 1 + self.draws.below(GARBAGE_BYTES);
        // No answer begins with a line break and a zero.
        let mut out = b"\0".to_vec();
        while out.len() < count {
            out.extend_from_slice(&self.draws.bits().to_le_bytes());
        }
        out.extend_from_slice(b"\r\n\r\n");
        self.spoilt(out, End::Close)
    }

    fn malformed(&mut self, how: Option<Garble>) -> Performed {
        let how = how.unwrap_or_else(|| *self.draws.pick(&Garble::ALL));
        let (mut body, _) = self.bid(&Lies::NONE)?;
        match how {
            Garble::Empty => body.clear(),
            Garble::Html => body = b"<!DOCTYPE html><title>Bad Gateway</title>".to_vec(),
            Garble::Truncated => body.truncate(1 + self.draws.below(body.len() - 1)),
            Garble::Trailing => body.extend_from_slice(b"}]garbage"),
            Garble::Encoding => body = self.with_member(b"\"bidid\":\"\xff\xfe\xc0\x80\""),
            Garble::Types => {
                body = self.with_member(b"\"seatbid\":{\"bid\":\"none\",\"seat\":[7]}");
            }
            Garble::Number => {
                body = self.with_member(
                    b"\"seatbid\":[{\"bid\":[{\"id\":\"1\",\"impid\":\"1\",\"price\":NaN}]}]",
                );
            }
            Garble::Escape => body = self.with_member(b"\"bidid\":\"\\x41\""),
        }
        let mut out = Vec::new();
        write_whole(&body, &mut out);
        Ok(self.spoilt(out, End::Next))
    }

    /// A response with the right id and one more member.
    fn with_member(&self, member: &[u8]) -> Vec<u8> {
        [b"{\"id\":\"", self.id, b"\",", member, b"}"].concat()
    }

    fn huge(&self, bytes: Option<u64>) -> (Answered, Script) {
        let begin =
            [b"{\"id\":\"", self.id, b"\",\"cur\":\"USD\",\"ext\":{\"padding\":\""].concat();
        let end = b"\"}}";
        let Some(bytes) = bytes else {
            let mut out = head(200, &[JSON, ("transfer-encoding", "chunked")], None);
            write!(out, "{:x}\r\n", begin.len()).expect("a vector takes every write");
            out.extend_from_slice(&begin);
            out.extend_from_slice(b"\r\n");
            let chunk = [&b"400\r\n"[..], &[b'x'; 0x400], b"\r\n"].concat();
            let (answered, script) = self.spoilt(out, End::Next);
            return (answered, Script { flow: Some(Flow::new(&chunk, None)), ..script });
        };
        // A length below that of the beginning is not huge; the beginning is sent all the same.
        let padding = bytes.saturating_sub((begin.len() + end.len()) as u64);
        let mut out = head(200, &[JSON], None);
        out.truncate(out.len() - 2);
        let length = padding + (begin.len() + end.len()) as u64;
        write!(out, "content-length: {length}\r\n\r\n").expect("a vector takes every write");
        out.extend_from_slice(&begin);
        let (answered, script) = self.spoilt(out, End::Next);
        let flow = Some(Flow::new(b"x", Some(padding)));
        (answered, Script { flow, tail: end, ..script })
    }

    fn deep(&self, levels: usize) -> (Answered, Script) {
        let mut body = [b"{\"id\":\"", self.id, b"\",\"ext\":"].concat();
        body.resize(body.len() + levels, b'[');
        body.resize(body.len() + levels, b']');
        body.push(b'}');
        let mut out = Vec::new();
        write_whole(&body, &mut out);
        self.spoilt(out, End::Next)
    }

    fn gzip(&mut self, always: bool) -> Performed {
        if !always && !self.request.accepts_gzip {
            return self.honest();
        }
        let (body, bids) = match self.choice.no_bid {
            true => (Vec::new(), 0),
            false => self.bid(&Lies::NONE)?,
        };
        let mut out = Vec::new();
        if bids == 0 {
            out.extend_from_slice(NO_CONTENT);
            let (answered, script) = self.sent(out, bids);
            return Ok((Answered { outcome: Outcome::NoBid, ..answered }, script));
        }
        let zip = gzip::gzipped(&body);
        out = head(200, &GZIP, Some(zip.len()));
        out.extend_from_slice(&zip);
        Ok(self.sent(out, bids))
    }

    fn interim(&mut self, code: u16, count: Option<u32>) -> Performed {
        let one = format!("HTTP/1.1 {code} Wait\r\n\r\n");
        let (answered, script) = self.honest()?;
        let Some(count) = count else {
            let (answered, script) = self.spoilt(Vec::new(), End::Next);
            return Ok((
                answered,
                Script { flow: Some(Flow::new(one.as_bytes(), None)), ..script },
            ));
        };
        let mut bytes = one.repeat(count as usize).into_bytes();
        bytes.extend_from_slice(&script.bytes);
        Ok((answered, Script { bytes, ..script }))
    }

    fn closing(&mut self, announced: bool) -> Performed {
        let (answered, mut script) = self.honest()?;
        if announced {
            let line = script.bytes.iter().position(|&byte| byte == b'\n').map_or(0, |at| at + 1);
            script.bytes.splice(line..line, *b"connection: close\r\n");
        }
        Ok((answered, Script { end: End::Close, ..script }))
    }
}

const JSON: (&str, &str) = ("content-type", "application/json");
const GZIP: [(&str, &str); 2] = [JSON, ("content-encoding", "gzip")];

/// The head of an answer. 204 and 304 go without a length.
pub(super) fn head(code: u16, fields: &[(&str, &str)], length: Option<usize>) -> Vec<u8> {
    let mut out = format!("HTTP/1.1 {code} Status\r\n");
    let bare = matches!(code, 204 | 304);
    for (name, value) in fields.iter().filter(|_| !bare) {
        out.extend([name, ": ", value, "\r\n"]);
    }
    if let Some(length) = length.filter(|_| !bare) {
        out.push_str(&format!("content-length: {length}\r\n"));
    }
    out.push_str("\r\n");
    out.into_bytes()
}
