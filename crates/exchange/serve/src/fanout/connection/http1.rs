//! HTTP/1.1 on one connection: one call at a time.

use exchange_core::record::CallOutcome;

use super::call::ConnectionCallEnd;
use crate::fanout::answer::{AnswerError, AnswerProgress, AnswerReader};

/// A read of fewer bytes that does not end the answer counts as small.
const SMALL_READ_BYTES: usize = 256;

/// What a read has achieved.
pub(super) enum Http1Progress {
    /// More of the answer is needed.
    Partial,
    /// The answer is complete, and the connection is idle.
    Answered,
    /// The connection must be closed.
    Ended,
}

/// The protocol's state; `C` is a call.
pub(super) struct Http1<C> {
    /// Set from the first byte written until the answer is read or given up.
    call: Option<C>,
    answer: AnswerReader,
    /// Small reads of the current answer.
    small_reads: u32,
}

impl<C> Http1<C> {
    pub(super) const fn new(body_bytes_max: usize) -> Self {
        Self { call: None, answer: AnswerReader::new(body_bytes_max), small_reads: 0 }
    }

    pub(super) const fn call(&self) -> Option<&C> {
        self.call.as_ref()
    }

    pub(super) fn begin(&mut self, call: C) {
        debug_assert!(self.call.is_none(), "a connection carries one call at a time");
        self.call = Some(call);
    }

    pub(super) fn take_call(&mut self) -> Option<C> {
        self.call.take()
    }

    /// Handles bytes of the answer. `has_unsent` if part of the request is not sent yet.
    pub(super) fn on_bytes(
        &mut self,
        bytes: &[u8],
        small_reads_max: u32,
        has_unsent: bool,
        on_end: impl FnOnce(C, ConnectionCallEnd<'_>),
    ) -> Http1Progress {
        let Some(call) = self.call.take() else {
            return Http1Progress::Ended; // Nothing was asked.
        };
        match self.answer.read(bytes) {
            Ok(AnswerProgress::Partial) => {
                // Each costs the shard a turn.
                self.small_reads += u32::from(bytes.len() < SMALL_READ_BYTES);
                if self.small_reads <= small_reads_max {
                    self.call = Some(call);
                    return Http1Progress::Partial;
                }
                let (outcome, error) = (CallOutcome::Trickle, &"the answer trickles in");
                let status = self.answer.status();
                on_end(call, ConnectionCallEnd::Failed { outcome, status, error });
            }
            Ok(AnswerProgress::Done { head, body, surplus }) => {
                on_end(
                    call,
                    ConnectionCallEnd::Answer { status: head.status, fields: head.fields, body },
                );
                // An answer before the whole request was sent leaves the connection out of step.
                if head.keep_alive && surplus == 0 && !has_unsent {
                    self.answer.reset();
                    self.small_reads = 0;
                    return Http1Progress::Answered;
                }
            }
            Err(error) => {
                let outcome = match error {
                    AnswerError::HeadTooLarge | AnswerError::BodyTooLarge => CallOutcome::TooLarge,
                    AnswerError::Malformed(_) | AnswerError::Truncated => CallOutcome::Malformed,
                };
                let status = self.answer.status();
                on_end(call, ConnectionCallEnd::Failed { outcome, status, error: &error });
            }
        }
        Http1Progress::Ended
    }

    /// Handles the peer's close or a failure. A connection that was `reused` may have been closed
    /// by the DSP without seeing the request.
    pub(super) fn on_end(&mut self, reused: bool, on_end: impl FnOnce(C, ConnectionCallEnd<'_>)) {
        let Some(call) = self.call.take() else { return };
        if !self.answer.has_begun() {
            let error = "the connection ended before the answer began";
            let end = if reused {
                ConnectionCallEnd::Unseen { error }
            } else {
                ConnectionCallEnd::Lost { error }
            };
            return on_end(call, end);
        }
        let status = self.answer.status();
        match self.answer.end() {
            Ok(AnswerProgress::Done { head, body, .. }) => {
                on_end(
                    call,
                    ConnectionCallEnd::Answer { status: head.status, fields: head.fields, body },
                );
            }
            Ok(AnswerProgress::Partial) | Err(_) => {
                let (outcome, error) = (CallOutcome::Malformed, &AnswerError::Truncated);
                on_end(call, ConnectionCallEnd::Failed { outcome, status, error });
            }
        }
    }
}
