//! An answer sent at its own pace: its pieces, their pauses, and its end. Pure: says what to send
//! next and when; the connection sends.

use std::time::Duration;

use super::behaviour::Http2Fault;

/// Bytes that a flow yields at once.
const FLOW_BYTES: usize = 64 * 1024;

/// An answer with its own pace.
#[derive(Debug)]
pub struct Script {
    /// Sent first.
    pub(crate) bytes: Vec<u8>,
    /// Delay of the first byte.
    pub(crate) delay: Duration,
    /// The pace of `bytes`. None sends them at once.
    pub(crate) drip: Option<Drip>,
    /// Follows `bytes`.
    pub(crate) flow: Option<Flow>,
    /// Follows the flow.
    pub(crate) tail: &'static [u8],
    pub(crate) end: ScriptEnd,
    /// What HTTP/2 does with `bytes`, a whole answer. None sends them as they are.
    pub(crate) http2: Option<Http2Fault>,
    /// Number of `bytes` already yielded.
    pub(crate) sent: usize,
}

/// Piece by piece.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Drip {
    /// Length of the first piece; 0 makes it as long as the others.
    pub(crate) first: usize,
    /// Length of each further piece.
    pub(crate) bytes: usize,
    pub(crate) every: Duration,
}

/// The same bytes, repeated.
#[derive(Clone, Debug)]
pub(crate) struct Flow {
    unit: Vec<u8>,
    /// Bytes still to come, not necessarily a multiple of the unit. None is endless.
    left: Option<u64>,
}

/// What happens to the connection after the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScriptEnd {
    /// The next request is read.
    Next,
    /// A clean close.
    Close,
    /// RST.
    Reset,
    /// The connection stays open without another byte.
    Hang,
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScriptStep {
    /// Send what was yielded, then ask again.
    Send,
    /// Send what was yielded, then ask again after a pause.
    SendThenWait(Duration),
    /// All is sent.
    End(ScriptEnd),
}

impl Script {
    /// All `bytes` after `delay`, then the next request.
    pub const fn whole(bytes: Vec<u8>, delay: Duration) -> Self {
        let (drip, flow, tail, end) = (None, None, &[], ScriptEnd::Next);
        Self { bytes, delay, drip, flow, tail, end, http2: None, sent: 0 }
    }

    /// Appends the next bytes to `out`.
    pub(crate) fn next(&mut self, out: &mut Vec<u8>) -> ScriptStep {
        if self.sent < self.bytes.len() {
            let rest = &self.bytes[self.sent..];
            let Some(drip) = self.drip else {
                out.extend_from_slice(rest);
                self.sent = self.bytes.len();
                return ScriptStep::Send;
            };
            let first = self.sent == 0 && drip.first > 0;
            let piece = rest.len().min(if first { drip.first } else { drip.bytes });
            out.extend_from_slice(&rest[..piece]);
            self.sent += piece;
            let more = self.sent < self.bytes.len();
            return if more { ScriptStep::SendThenWait(drip.every) } else { ScriptStep::Send };
        }
        if let Some(flow) = &mut self.flow {
            if flow.pour(out) {
                return ScriptStep::Send;
            }
            self.flow = None;
        }
        if self.tail.is_empty() {
            return ScriptStep::End(self.end);
        }
        out.extend_from_slice(std::mem::take(&mut self.tail));
        ScriptStep::Send
    }
}

impl Flow {
    /// Repeats `unit` for `left` bytes, or endlessly.
    pub(crate) fn new(unit: &[u8], left: Option<u64>) -> Self {
        Self { unit: unit.repeat(FLOW_BYTES.div_ceil(unit.len())), left }
    }

    /// Returns whether anything was left.
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
mod tests;
