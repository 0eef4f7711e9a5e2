//! The faulty answers of a server that misbehaves, made from its healthy answer. Pure in seed,
//! behaviour and request. Knows no socket; the reactor refuses connections, which bytes cannot
//! express.

mod gzip;

use std::time::Duration;

use super::behaviour::{ContentFault, Cut, DripFrom, ServerAct, ServerBehaviour};
use super::http::{head, write_chunks, write_whole};
use super::script::{Drip, Flow, Script, ScriptEnd};
use crate::draws::Draws;

/// Separates the draw of affected requests from the draws of answers.
const SEED: u64 = 0x5349_434b;

/// Longest answer that is not HTTP.
const GARBAGE_BYTES: usize = 512;

pub(crate) const JSON: (&str, &str) = ("content-type", "application/json");
const GZIP: [(&str, &str); 2] = [JSON, ("content-encoding", "gzip")];

/// A behaviour with its prepared data.
#[derive(Debug)]
pub struct Misbehaviour<F> {
    behaviour: ServerBehaviour<F>,
    bomb: Vec<u8>,
}

/// An answer that faults can spoil.
pub trait Spoilable {
    /// The complete healthy answer, which also counts as such.
    fn healthy(&mut self) -> Script;

    /// The content of an answer. None if the request cannot have one; it is then answered without a
    /// fault.
    fn content(&mut self) -> Option<Vec<u8>>;

    /// Whether the healthy answer has no content.
    fn is_empty(&self) -> bool;

    /// Whether the request accepts gzip.
    fn accepts_gzip(&self) -> bool;

    /// Delay of the first byte.
    fn delay(&self) -> Duration;

    /// The server's origin: `http://<address>`.
    fn origin(&self) -> &str;
}

/// How much of the answer a fault leaves usable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerRemains {
    /// The healthy answer.
    Healthy,
    /// The healthy answer, later.
    Late,
    /// Content.
    Content,
    /// Nothing usable.
    Nothing,
}

/// The script of an answer, and what remains of it.
pub type Performed = (Script, AnswerRemains);

impl<F: ContentFault> Misbehaviour<F> {
    /// None for a healthy behaviour.
    pub fn of(behaviour: &ServerBehaviour<F>) -> Option<Self> {
        if behaviour.is_healthy() {
            return None;
        }
        let bomb = match behaviour.act {
            ServerAct::GzipBomb { inflated } => gzip::bomb(inflated),
            _ => Vec::new(),
        };
        Some(Self { behaviour: behaviour.clone(), bomb })
    }

    /// Spoils the answer to the request `key` of the server `seed`; `spoil` applies faults of the
    /// content. None if the behaviour spares this request, which is then answered properly.
    pub fn befall<A: Spoilable>(
        &self,
        seed: u64,
        key: &[u8],
        answer: &mut A,
        spoil: impl FnOnce(&mut A, &mut Draws, &F) -> Option<Performed>,
    ) -> Option<Performed> {
        let draws = &mut Draws::keyed(seed ^ SEED, key);
        if !draws.happens(self.behaviour.share_ppm) {
            return None;
        }
        let performed = match &self.behaviour.act {
            ServerAct::Healthy | ServerAct::Refused => return None,
            ServerAct::Content(fault) => return spoil(answer, draws, fault),
            ServerAct::Status { code, body } => {
                let mut out = head(*code, &[("content-type", "text/plain")], Some(body.len()));
                out.extend_from_slice(body.as_bytes());
                spoilt(answer, out)
            }
            ServerAct::Hang => ended(answer, Vec::new(), ScriptEnd::Hang),
            ServerAct::Trickle { bytes, every, from } => {
                let (out, body_at) = whole(answer)?;
                let first = match from {
                    DripFrom::Head => 0,
                    DripFrom::Body => body_at,
                };
                let drip = Some(Drip { first, bytes: *bytes, every: *every });
                let script = Script { drip, ..Script::whole(out, answer.delay()) };
                (script, AnswerRemains::Content)
            }
            ServerAct::Close { at } => cut(answer, *at, ScriptEnd::Close)?,
            ServerAct::Reset { at } => cut(answer, *at, ScriptEnd::Reset)?,
            ServerAct::Garbage => {
                let out = garbage(draws);
                ended(answer, out, ScriptEnd::Close)
            }
            ServerAct::Late { by } => {
                (Script { delay: *by, ..answer.healthy() }, AnswerRemains::Late)
            }
            ServerAct::Gzip { always } => gzipped(answer, *always)?,
            ServerAct::GzipBomb { .. } => spoilt(answer, gzip_answer(&self.bomb)),
            ServerAct::BadGzip => {
                let zip = gzip::broken(&answer.content()?, draws);
                spoilt(answer, gzip_answer(&zip))
            }
            ServerAct::Chunked { bytes } => {
                let (body, mut out) = (answer.content()?, Vec::new());
                write_chunks(body.chunks(*bytes), &mut out);
                (Script::whole(out, answer.delay()), AnswerRemains::Content)
            }
            ServerAct::Redirect { code, to } => {
                let home = format!("{}/elsewhere", answer.origin());
                let to = to.as_deref().unwrap_or(&home);
                spoilt(answer, head(*code, &[("location", to)], Some(0)))
            }
            ServerAct::Interim { code, count } => interim(answer, *code, *count),
            ServerAct::Http2(fault) => {
                let script = Script { http2: Some(*fault), ..answer.healthy() };
                (script, AnswerRemains::Healthy)
            }
            ServerAct::Closing { announced } => closing(answer.healthy(), *announced),
        };
        Some(performed)
    }
}

/// Sends `bytes` instead of the answer.
pub fn spoilt(answer: &impl Spoilable, bytes: Vec<u8>) -> Performed {
    (Script::whole(bytes, answer.delay()), AnswerRemains::Nothing)
}

/// Sends `bytes` instead of the answer and ends the connection.
fn ended(answer: &impl Spoilable, bytes: Vec<u8>, end: ScriptEnd) -> Performed {
    (Script { end, ..Script::whole(bytes, answer.delay()) }, AnswerRemains::Nothing)
}

/// A complete answer with content, and the offset of its body.
fn whole(answer: &mut impl Spoilable) -> Option<(Vec<u8>, usize)> {
    let (body, mut out) = (answer.content()?, Vec::new());
    write_whole(&body, &mut out);
    let body_at = out.len() - body.len();
    Some((out, body_at))
}

fn cut(answer: &mut impl Spoilable, at: Cut, end: ScriptEnd) -> Option<Performed> {
    let (mut out, body_at) = whole(answer)?;
    out.truncate(match at {
        Cut::Before => 0,
        Cut::Head => body_at / 2,
        Cut::Body => body_at.midpoint(out.len()),
    });
    Some(ended(answer, out, end))
}

fn garbage(draws: &mut Draws) -> Vec<u8> {
    let count = 1 + draws.below(GARBAGE_BYTES);
    // No answer begins with a zero.
    let mut out = b"\0".to_vec();
    while out.len() < count {
        out.extend_from_slice(&draws.bits().to_le_bytes());
    }
    out.extend_from_slice(b"\r\n\r\n");
    out
}

fn gzip_answer(zip: &[u8]) -> Vec<u8> {
    [&head(200, &GZIP, Some(zip.len())), zip].concat()
}

fn gzipped(answer: &mut impl Spoilable, always: bool) -> Option<Performed> {
    if answer.is_empty() || !always && !answer.accepts_gzip() {
        return Some((answer.healthy(), AnswerRemains::Healthy));
    }
    let zip = gzip::gzipped(&answer.content()?);
    Some((Script::whole(gzip_answer(&zip), answer.delay()), AnswerRemains::Content))
}

fn interim(answer: &mut impl Spoilable, code: u16, count: Option<u32>) -> Performed {
    let one = format!("HTTP/1.1 {code} Wait\r\n\r\n");
    let Some(count) = count else {
        let (script, remains) = spoilt(answer, Vec::new());
        return (Script { flow: Some(Flow::new(one.as_bytes(), None)), ..script }, remains);
    };
    let script = answer.healthy();
    let mut bytes = one.repeat(count as usize).into_bytes();
    bytes.extend_from_slice(&script.bytes);
    (Script { bytes, ..script }, AnswerRemains::Healthy)
}

fn closing(mut script: Script, announced: bool) -> Performed {
    if announced {
        let line = script.bytes.iter().position(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        script.bytes.splice(line..line, *b"connection: close\r\n");
    }
    (Script { end: ScriptEnd::Close, ..script }, AnswerRemains::Healthy)
}
