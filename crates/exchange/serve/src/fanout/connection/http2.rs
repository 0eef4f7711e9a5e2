//! HTTP/2 on one connection: many calls at a time, sent together once per turn of the shard.

use std::time::Duration;

use exchange_core::record::CallOutcome;
use http2::{
    Http2Client, Http2ClientOptions, Http2Error, Http2ErrorCode, RequestHead, StreamCall,
    StreamEnd, StreamRefusal,
};
use tokio::time::Instant;

use super::call::ConnectionCallEnd;
use crate::fanout::answer::Coding;

/// Streams that may be reset at once, and per second. nghttp2's servers take 1,000 and 33 per second
/// for an attack (CVE-2023-44487), and others count less; the rest is drained.
const RESETS_BURST: u32 = 100;
const RESET_INTERVAL: Duration = Duration::from_millis(50);

/// The protocol's state; `C` is a call.
pub(super) struct Http2<C> {
    client: Http2Client<C>,
    resets: ResetAllowance,
    /// When the DSP last sent anything.
    pub(super) read_at: Instant,
}

/// Streams that may be reset now.
struct ResetAllowance {
    left: u32,
    earned_until: Instant,
}

impl ResetAllowance {
    fn take(&mut self, now: Instant) -> bool {
        while self.left < RESETS_BURST && self.earned_until + RESET_INTERVAL <= now {
            self.left += 1;
            self.earned_until += RESET_INTERVAL;
        }
        if self.left == RESETS_BURST {
            self.earned_until = now;
        }
        let left = self.left.checked_sub(1);
        self.left = left.unwrap_or(0);
        left.is_some()
    }
}

impl<C: StreamCall> Http2<C> {
    pub(super) fn new(head: &RequestHead, options: Http2ClientOptions, now: Instant) -> Self {
        let resets = ResetAllowance { left: RESETS_BURST, earned_until: now };
        Self { client: Http2Client::new(head, options), resets, read_at: now }
    }

    pub(super) fn room(&self, length: usize) -> Result<(), StreamRefusal> {
        self.client.room(length)
    }

    pub(super) fn is_going_away(&self) -> bool {
        self.client.is_going_away()
    }

    pub(super) fn calls_len(&self) -> usize {
        self.client.streams_len()
    }

    /// The oldest call.
    pub(super) fn oldest(&self) -> Option<&C> {
        self.client.calls().next().map(|(_, call)| call)
    }

    /// Adds a call to the output.
    ///
    /// # Errors
    /// There is no room.
    pub(super) fn begin(&mut self, call: C, body: &[u8]) -> Result<(), C> {
        let begun = self.client.request(call, body.len(), std::iter::once(body));
        begun.map(drop).map_err(|(call, _)| call)
    }

    /// Resets the oldest streams, as long as their calls are given up.
    pub(super) fn reset_oldest(&mut self, now: Instant, is_given_up: impl Fn(&C) -> bool) {
        loop {
            let oldest = self.client.calls().next().filter(|(_, call)| is_given_up(call));
            let oldest = oldest.map(|(stream, _)| stream);
            let Some(stream) = oldest.filter(|_| self.resets.take(now)) else { return };
            self.client.cancel(stream);
        }
    }

    /// Resets all streams whose calls are given up, as long as the DSP does not take it for an
    /// attack.
    pub(super) fn reset_all(&mut self, now: Instant, is_given_up: impl Fn(&C) -> bool) {
        let calls = self.client.calls().filter(|(_, call)| is_given_up(call));
        let given_up: Vec<_> = calls.map(|(stream, _)| stream).collect();
        for stream in given_up {
            if !self.resets.take(now) {
                return;
            }
            self.client.cancel(stream);
        }
    }

    pub(super) fn output(&self) -> &[u8] {
        self.client.output()
    }

    pub(super) fn mark_sent(&mut self) {
        self.client.mark_sent();
    }

    /// Handles bytes from the DSP.
    ///
    /// # Errors
    /// The DSP violates the protocol: the connection must be closed, and its calls have ended.
    pub(super) fn on_bytes(
        &mut self,
        bytes: &[u8],
        now: Instant,
        on_end: &mut impl FnMut(C, ConnectionCallEnd<'_>),
        coding: impl Fn(&C) -> Coding,
    ) -> Result<(), Http2Error> {
        self.read_at = now;
        let mut on_stream_end = |call: C, end: StreamEnd<'_>| {
            let coding = coding(&call);
            with_call_end(end, coding, |end| on_end(call, end));
        };
        let received = self.client.receive(bytes, &mut on_stream_end);
        if let Err(error) = &received {
            // What was not sent may be repeated; the other calls fail for this reason.
            self.client.end(error.code, |call, end| match end {
                StreamEnd::Unprocessed => on_end(call, UNSEEN),
                _ => on_end(
                    call,
                    ConnectionCallEnd::Failed { outcome: CallOutcome::Malformed, error },
                ),
            });
        }
        received
    }

    /// Ends all calls with their connection.
    pub(super) fn on_end(&mut self, on_end: &mut impl FnMut(C, ConnectionCallEnd<'_>)) {
        self.client.end(Http2ErrorCode::NO_ERROR, |call, end| match end {
            StreamEnd::Unprocessed => on_end(call, UNSEEN),
            StreamEnd::Lost { has_begun: true } => {
                let error = &"the connection ended within the answer";
                on_end(call, ConnectionCallEnd::Failed { outcome: CallOutcome::Malformed, error });
            }
            _ => {
                let error = "the connection ended before the answer began";
                on_end(call, ConnectionCallEnd::Lost { error });
            }
        });
    }
}

const UNSEEN: ConnectionCallEnd<'static> =
    ConnectionCallEnd::Unseen { error: "the DSP did not process the call" };

/// Passes what a stream's end means for its call.
fn with_call_end(end: StreamEnd<'_>, coding: Coding, pass: impl FnOnce(ConnectionCallEnd<'_>)) {
    let failed = |outcome, error| ConnectionCallEnd::Failed { outcome, error };
    match end {
        StreamEnd::Response { status, body } => {
            pass(ConnectionCallEnd::Answer { status, coding, body });
        }
        StreamEnd::Unprocessed => pass(UNSEEN),
        StreamEnd::Reset(code) => {
            let error = format_args!("the DSP resets the stream: {code}");
            pass(failed(CallOutcome::Reset, &error));
        }
        StreamEnd::Lost { .. } => unreachable!("the connection has not ended"),
        StreamEnd::Malformed(problem) => {
            let error = format_args!("the answer is malformed: {problem}");
            pass(failed(CallOutcome::Malformed, &error));
        }
        StreamEnd::HeadTooLarge => {
            pass(failed(CallOutcome::TooLarge, &"the answer's head is too large"));
        }
        StreamEnd::BodyTooLarge => {
            pass(failed(CallOutcome::TooLarge, &"the answer's body is too large"));
        }
        StreamEnd::Trickle => pass(failed(CallOutcome::Trickle, &"the answer trickles in")),
    }
}
