//! HTTP/2 on one connection: many calls at a time, sent together once per turn of the shard.

use std::time::Duration;

use exchange_core::record::CallOutcome;
use http2::{
    Http2Client, Http2ClientOptions, Http2Error, Http2ErrorCode, RequestHead, StreamCall,
    StreamEnd, StreamRefusal,
};
use tokio::time::Instant;

use super::call::ConnectionCallEnd;
use crate::fanout::answer::AnswerFields;

/// Streams that may be reset at once, and per second. nghttp2's servers take 1,000 and 33 per second
/// for an attack (CVE-2023-44487), and others count less; the rest is drained.
const RESETS_BURST: u32 = 100;
const RESET_INTERVAL: Duration = Duration::from_millis(50);

/// The protocol's state; `C` is a call.
pub(super) struct Http2<C> {
    client: Http2Client<CallStream<C>>,
    resets: ResetAllowance,
    /// When the server last sent anything.
    pub(super) read_at: Instant,
}

/// A call, and what has come of the head of its answer.
struct CallStream<C> {
    call: C,
    status: Option<u16>,
    fields: AnswerFields,
}

impl<C> StreamCall for CallStream<C> {
    fn on_field(&mut self, name: &[u8], value: &[u8]) {
        self.fields.add(name, value);
    }

    fn on_status(&mut self, status: u16) {
        self.status = Some(status);
    }
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

impl<C> Http2<C> {
    pub(super) fn new(head: &RequestHead, options: Http2ClientOptions, now: Instant) -> Self {
        let resets = ResetAllowance { left: RESETS_BURST, earned_until: now };
        Self { client: Http2Client::new(head, options), resets, read_at: now }
    }

    pub(super) fn room(&self, length: usize) -> Result<(), StreamRefusal> {
        self.client.room(length)
    }

    pub(super) fn capacity(&self) -> usize {
        self.client.capacity()
    }

    pub(super) fn is_going_away(&self) -> bool {
        self.client.is_going_away()
    }

    pub(super) fn calls_len(&self) -> usize {
        self.client.streams_len()
    }

    /// Calls in flight, oldest first.
    pub(super) fn calls(&self) -> impl Iterator<Item = &C> {
        self.client.calls().map(|(_, stream)| &stream.call)
    }

    /// Adds a call to the output.
    ///
    /// # Errors
    /// There is no room.
    pub(super) fn begin(&mut self, call: C, fields: &[(&str, &str)], body: &[u8]) -> Result<(), C> {
        let stream = CallStream { call, status: None, fields: AnswerFields::default() };
        let begun = self.client.request(stream, fields, body.len(), std::iter::once(body));
        begun.map(drop).map_err(|(stream, _)| stream.call)
    }

    /// Resets the oldest streams, as long as their calls are given up; returns how many.
    pub(super) fn reset_oldest(&mut self, now: Instant, is_given_up: impl Fn(&C) -> bool) -> u64 {
        let mut reset = 0;
        loop {
            let oldest = self.client.calls().next().filter(|(_, stream)| is_given_up(&stream.call));
            let oldest = oldest.map(|(stream, _)| stream);
            let Some(stream) = oldest.filter(|_| self.resets.take(now)) else { return reset };
            self.client.cancel(stream);
            reset += 1;
        }
    }

    /// Resets all streams whose calls are given up, as long as the server does not take it for an
    /// attack; returns how many.
    pub(super) fn reset_all(&mut self, now: Instant, is_given_up: impl Fn(&C) -> bool) -> u64 {
        let mut reset = 0;
        let calls = self.client.calls().filter(|(_, stream)| is_given_up(&stream.call));
        let given_up: Vec<_> = calls.map(|(stream, _)| stream).collect();
        for stream in given_up {
            if !self.resets.take(now) {
                break;
            }
            self.client.cancel(stream);
            reset += 1;
        }
        reset
    }

    pub(super) fn output(&self) -> &[u8] {
        self.client.output()
    }

    pub(super) fn mark_sent(&mut self) {
        self.client.mark_sent();
    }

    /// Handles bytes from the server.
    ///
    /// # Errors
    /// The server violates the protocol: the connection must be closed, and its calls have ended.
    pub(super) fn on_bytes(
        &mut self,
        bytes: &[u8],
        now: Instant,
        on_end: &mut impl FnMut(C, ConnectionCallEnd<'_>),
    ) -> Result<(), Http2Error> {
        self.read_at = now;
        let mut on_stream_end = |stream: CallStream<C>, end: StreamEnd<'_>| stream.end(end, on_end);
        let received = self.client.receive(bytes, &mut on_stream_end);
        if let Err(error) = &received {
            // What was not sent may be repeated; the other calls fail for this reason.
            self.client.end(error.code, |CallStream { call, status, .. }, end| match end {
                StreamEnd::Unprocessed => on_end(call, UNSEEN),
                _ => {
                    let outcome = CallOutcome::Malformed;
                    on_end(call, ConnectionCallEnd::Failed { outcome, status, error });
                }
            });
        }
        received
    }

    /// Ends all calls with their connection.
    pub(super) fn on_end(&mut self, on_end: &mut impl FnMut(C, ConnectionCallEnd<'_>)) {
        self.client.end(Http2ErrorCode::NO_ERROR, |stream, end| stream.end(end, on_end));
    }
}

const UNSEEN: ConnectionCallEnd<'static> =
    ConnectionCallEnd::Unseen { error: "the server did not process the call" };

impl<C> CallStream<C> {
    /// Passes what the stream's end means for its call.
    fn end(self, end: StreamEnd<'_>, on_end: &mut impl FnMut(C, ConnectionCallEnd<'_>)) {
        let Self { call, status, fields } = self;
        let pass = |end| on_end(call, end);
        let failed = |outcome, error| ConnectionCallEnd::Failed { outcome, status, error };
        match end {
            StreamEnd::Response { status, body } => {
                pass(ConnectionCallEnd::Answer { status, fields, body });
            }
            StreamEnd::Unprocessed => pass(UNSEEN),
            StreamEnd::Reset(code) => {
                let error = format_args!("the server resets the stream: {code}");
                pass(failed(CallOutcome::Reset, &error));
            }
            StreamEnd::Lost { has_begun: true } => {
                let error = &"the connection ended within the answer";
                pass(failed(CallOutcome::Malformed, error));
            }
            StreamEnd::Lost { has_begun: false } => {
                let error = "the connection ended before the answer began";
                pass(ConnectionCallEnd::Lost { error });
            }
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
}
