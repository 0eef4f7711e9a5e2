//! How one answer leaves that does not leave whole and at once: its pieces, their pace, and how it
//! ends. Pure: it says what to send next, and when; the connection sends.

use std::time::Duration;

/// Bytes that a flow hands out at once.
const FLOW_BYTES: usize = 64 * 1024;

/// An answer to be performed.
#[derive(Debug)]
pub(super) struct Script {
    /// Sent first.
    pub(super) bytes: Vec<u8>,
    /// From request to first byte.
    pub(super) delay: Duration,
    /// How `bytes` leave; `None` is at once.
    pub(super) drip: Option<Drip>,
    /// Follows `bytes`.
    pub(super) flow: Option<Flow>,
    /// Follows the flow.
    pub(super) tail: &'static [u8],
    pub(super) end: End,
    /// How many of `bytes` have been handed out: none to begin with.
    pub(super) sent: usize,
}

/// Piece by piece.
#[derive(Clone, Copy, Debug)]
pub(super) struct Drip {
    /// The first piece; 0 makes it as long as the others.
    pub(super) first: usize,
    /// Each further piece.
    pub(super) bytes: usize,
    pub(super) every: Duration,
}

/// The same bytes over and over.
#[derive(Clone, Debug)]
pub(super) struct Flow {
    unit: Vec<u8>,
    /// Bytes still to come, which need not be a multiple of the unit; `None` is without end.
    left: Option<u64>,
}

/// What happens to the connection after the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The next request is read.
    Next,
    /// An orderly close.
    Close,
    /// RST.
    Reset,
    /// Nothing, ever.
    Hang,
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cue {
    /// Send what was handed out, then ask again.
    Send,
    /// The same, after a pause.
    SendThenWait(Duration),
    /// All is sent.
    End(End),
}

impl Script {
    /// `bytes` at once, and the next request.
    pub(super) const fn whole(bytes: Vec<u8>, delay: Duration) -> Self {
        Self { bytes, delay, drip: None, flow: None, tail: b"", end: End::Next, sent: 0 }
    }

    /// Appends what is to be sent next to `out`.
    pub(super) fn next(&mut self, out: &mut Vec<u8>) -> Cue {
        if self.sent < self.bytes.len() {
            let rest = &self.bytes[self.sent..];
            let Some(drip) = self.drip else {
                out.extend_from_slice(rest);
                self.sent = self.bytes.len();
                return Cue::Send;
            };
            let first = self.sent == 0 && drip.first > 0;
            let piece = rest.len().min(if first { drip.first } else { drip.bytes });
            out.extend_from_slice(&rest[..piece]);
            self.sent += piece;
            let more = self.sent < self.bytes.len();
            return if more { Cue::SendThenWait(drip.every) } else { Cue::Send };
        }
        if let Some(flow) = &mut self.flow {
            if flow.pour(out) {
                return Cue::Send;
            }
            self.flow = None;
        }
        if self.tail.is_empty() {
            return Cue::End(self.end);
        }
        out.extend_from_slice(std::mem::take(&mut self.tail));
        Cue::Send
    }
}

impl Flow {
    /// `unit` until `left` bytes have gone, or without end.
    pub(super) fn new(unit: &[u8], left: Option<u64>) -> Self {
        Self { unit: unit.repeat(FLOW_BYTES.div_ceil(unit.len())), left }
    }

    /// Whether there was anything left.
    fn pour(&mut self, out: &mut Vec<u8>) -> bool {
        let Some(left) = &mut self.left else {
            out.extend_from_slice(&self.unit);
            return true;
        };
        let count = usize::try_from(*left).unwrap_or(usize::MAX).min(self.unit.len());
        out.extend_from_slice(&self.unit[..count]);
        *left -= count as u64;
        count > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVERY: Duration = Duration::from_millis(3);

    fn performed(mut script: Script, cues: usize) -> Vec<(Vec<u8>, Cue)> {
        let mut all = Vec::new();
        for _ in 0..cues {
            let mut out = Vec::new();
            let cue = script.next(&mut out);
            all.push((out, cue));
        }
        all
    }

    #[test]
    fn a_whole_answer_is_one_piece() {
        let script = Script::whole(b"abc".to_vec(), EVERY);
        let want = [(b"abc".to_vec(), Cue::Send), (vec![], Cue::End(End::Next))];
        assert_eq!(performed(script, 2), want);
    }

    #[test]
    fn drops_are_as_large_as_asked_for_and_paused_between() {
        let pieces = |first: usize| {
            let drip = Some(Drip { first, bytes: 2, every: EVERY });
            let script = Script { drip, end: End::Reset, ..Script::whole(b"abcde".into(), EVERY) };
            performed(script, 4)
        };
        let wait = Cue::SendThenWait(EVERY);
        let text = |bytes: &[u8]| bytes.to_vec();
        let end = (vec![], Cue::End(End::Reset));
        let want = [(text(b"ab"), wait), (text(b"cd"), wait), (text(b"e"), Cue::Send), end.clone()];
        assert_eq!(pieces(0), want);
        let want = [(text(b"abcd"), wait), (text(b"e"), Cue::Send), end.clone(), end];
        assert_eq!(pieces(4), want);
    }

    #[test]
    fn a_flow_ends_at_its_length_and_the_tail_follows() {
        let flow = Some(Flow::new(b"xy", Some(FLOW_BYTES as u64 + 3)));
        let script = Script { flow, tail: b"z", ..Script::whole(b"a".to_vec(), EVERY) };
        let all = performed(script, 6);
        let lengths: Vec<_> = all.iter().map(|(bytes, _)| bytes.len()).collect();
        assert_eq!(lengths, [1, FLOW_BYTES, 3, 1, 0, 0]);
        assert_eq!((all[2].0.as_slice(), all[3].0.as_slice()), (&b"xyx"[..], &b"z"[..]));
        assert_eq!(all[4].1, Cue::End(End::Next));
        let endless = Script { flow: Some(Flow::new(b"xy", None)), ..Script::whole(vec![], EVERY) };
        assert!(performed(endless, 100).iter().all(|(_, cue)| *cue == Cue::Send));
    }
}
