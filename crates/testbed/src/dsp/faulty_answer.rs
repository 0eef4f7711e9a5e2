//! The faulty answers of a DSP that misbehaves, made from its healthy answer. Pure in profile,
//! index and request, as `answer` is.

use std::io::Write as _;
use std::time::Duration;

use super::answer::{AnswerChoice, AnswerSummary, BidOutcome, Misstatements, SimulatedBidder};
use super::bid_fault::{BidFault, Garble};
use crate::draws::Draws;
use crate::scan;
use crate::server::faults::{JSON, Performed, spoilt};
use crate::server::http::{head, write_whole};
use crate::server::script::Flow;
use crate::server::{AnswerRemains, Misbehaviour, Script, ServerRequest, Spoilable};

#[cfg(test)]
mod tests;

impl SimulatedBidder {
    /// The faulty answer to a request. None if the behaviour spares this request, or it is not
    /// OpenRTB.
    pub(super) fn misbehave(
        &mut self,
        misbehaviour: &Misbehaviour<BidFault>,
        request: &ServerRequest<'_>,
    ) -> Option<(AnswerSummary, Script)> {
        let id = Self::id_of(request.body).ok()?;
        let (seed, choice) = (self.seed(), self.choose(id));
        let answered =
            AnswerSummary { outcome: BidOutcome::Spoilt, delay: choice.delay, late: choice.late };
        let mut answer = BidAnswer { bidder: self, request, id, choice, bids: 0, answered };
        let (script, remains) =
            misbehaviour
                .befall(seed, id, &mut answer, |answer, draws, fault| answer.spoil(fault, draws))?;
        let mut answered = answer.answered;
        match remains {
            AnswerRemains::Healthy => (),
            AnswerRemains::Late => (answered.delay, answered.late) = (script.delay, true),
            AnswerRemains::Content => answered.outcome = BidOutcome::Bids(answer.bids),
            AnswerRemains::Nothing => answered.outcome = BidOutcome::Spoilt,
        }
        Some((answered, script))
    }
}

/// An answer under construction.
struct BidAnswer<'a> {
    bidder: &'a mut SimulatedBidder,
    request: &'a ServerRequest<'a>,
    id: &'a [u8],
    choice: AnswerChoice,
    /// Number of bids in the latest content.
    bids: usize,
    /// The answer's entry in the counters.
    answered: AnswerSummary,
}

impl Spoilable for BidAnswer<'_> {
    fn healthy(&mut self) -> Script {
        let mut bytes = Vec::new();
        self.answered = self.bidder.answer(self.request.body, &mut bytes);
        Script::whole(bytes, self.answered.delay)
    }

    /// A response with bids, regardless of the profile's share.
    fn content(&mut self) -> Option<Vec<u8>> {
        self.bid(&Misstatements::NONE)
    }

    fn is_empty(&self) -> bool {
        let imps = scan::imps(self.request.body);
        self.choice.no_bid || imps.is_ok_and(|mut imps| imps.next().is_none())
    }

    fn accepts_gzip(&self) -> bool {
        self.request.accepts_gzip
    }

    fn delay(&self) -> Duration {
        self.choice.delay
    }

    fn origin(&self) -> &str {
        self.bidder.origin()
    }
}

impl BidAnswer<'_> {
    fn spoil(&mut self, fault: &BidFault, draws: &mut Draws) -> Option<Performed> {
        match fault {
            BidFault::Malformed { how } => self.malformed(*how, draws),
            BidFault::Huge { bytes } => Some(self.huge(*bytes)),
            BidFault::Deep { levels } => Some(self.deep(*levels)),
            BidFault::WrongId => self.lying(&Misstatements { id: b"not-", ..Misstatements::NONE }),
            BidFault::WrongImp => {
                self.lying(&Misstatements { imp: b"not-", ..Misstatements::NONE })
            }
            BidFault::WrongCurrency { code } => self
                .lying(&Misstatements { currency: Some(code.as_bytes()), ..Misstatements::NONE }),
        }
    }

    fn bid(&mut self, lies: &Misstatements<'_>) -> Option<Vec<u8>> {
        let (mut body, mut draws) = (Vec::new(), self.choice.draws.clone());
        let request = self.request.body;
        self.bids = self.bidder.write_response(request, lies, &mut draws, &mut body).ok()?;
        Some(body)
    }

    fn lying(&mut self, lies: &Misstatements<'_>) -> Option<Performed> {
        let (body, mut out) = (self.bid(lies)?, Vec::new());
        write_whole(&body, &mut out);
        Some(spoilt(self, out))
    }

    fn malformed(&mut self, how: Option<Garble>, draws: &mut Draws) -> Option<Performed> {
        let how = how.unwrap_or_else(|| *draws.pick(&Garble::ALL));
        let mut body = self.content()?;
        match how {
            Garble::Empty => body.clear(),
            Garble::Html => body = b"<!DOCTYPE html><title>Bad Gateway</title>".to_vec(),
            Garble::Truncated => body.truncate(1 + draws.below(body.len() - 1)),
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
        Some(spoilt(self, out))
    }

    /// A response with the right id and one extra member.
    fn with_member(&self, member: &[u8]) -> Vec<u8> {
        [b"{\"id\":\"", self.id, b"\",", member, b"}"].concat()
    }

    fn huge(&self, bytes: Option<u64>) -> Performed {
        let begin =
            [b"{\"id\":\"", self.id, b"\",\"cur\":\"USD\",\"ext\":{\"padding\":\""].concat();
        let end = b"\"}}";
        let Some(bytes) = bytes else {
            let mut out = head(200, &[JSON, ("transfer-encoding", "chunked")], None);
            write!(out, "{:x}\r\n", begin.len()).expect("a vector takes every write");
            out.extend_from_slice(&begin);
            out.extend_from_slice(b"\r\n");
            let chunk = [&b"400\r\n"[..], &[b'x'; 0x400], b"\r\n"].concat();
            let (script, remains) = spoilt(self, out);
            return (Script { flow: Some(Flow::new(&chunk, None)), ..script }, remains);
        };
        // If the length is below that of the beginning, the whole beginning is sent all the same.
        let padding = bytes.saturating_sub((begin.len() + end.len()) as u64);
        let mut out = head(200, &[JSON], None);
        out.truncate(out.len() - 2);
        let length = padding + (begin.len() + end.len()) as u64;
        write!(out, "content-length: {length}\r\n\r\n").expect("a vector takes every write");
        out.extend_from_slice(&begin);
        let (script, remains) = spoilt(self, out);
        let flow = Some(Flow::new(b"x", Some(padding)));
        (Script { flow, tail: end, ..script }, remains)
    }

    fn deep(&self, levels: usize) -> Performed {
        let mut body = [b"{\"id\":\"", self.id, b"\",\"ext\":"].concat();
        body.resize(body.len() + levels, b'[');
        body.resize(body.len() + levels, b']');
        body.push(b'}');
        let mut out = Vec::new();
        write_whole(&body, &mut out);
        spoilt(self, out)
    }
}
