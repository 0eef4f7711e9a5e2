//! One connection to a notice host, and what the end of a call on it means. Knows no other
//! connection, nor the calls that wait.

use std::cell::Cell;
use std::fmt;
use std::rc::Rc;
use std::time::Duration;

use http_kit::client::RequestError;
use mio::Token;
use tokio::time::Instant;

use super::call::{
    CallResult, CallWaiter, NoticeCall, NoticeRequest, RequestMessage, ServerAnswer,
};
use crate::fanout::connection::call::ConnectionCallEnd;
use crate::fanout::connection::outbound::{OutboundConnection, ReadProgress, SendError};
use crate::fanout::sockets::reactor::ReadBuffers;

/// Reads, or DATA frames, of few bytes each that an answer may take.
pub(super) const SMALL_READS_MAX: u32 = 1024;

/// A call that was sent.
pub(super) struct SentCall {
    request: Rc<NoticeRequest>,
    body_max: usize,
    /// End of the wait for a connection and the answer.
    until: Instant,
    sent_at: Instant,
    is_repeated: bool,
    /// None once it is told.
    waiter: Cell<Option<CallWaiter>>,
}

impl SentCall {
    fn new(WaitingCall { call, is_repeated }: WaitingCall, now: Instant) -> Self {
        let NoticeCall { request, body_max, until, waiter } = call;
        let waiter = Cell::new(Some(waiter));
        Self { request, body_max, until, sent_at: now, is_repeated, waiter }
    }

    fn tell(&self, result: CallResult) {
        if let Some(waiter) = self.waiter.take() {
            waiter.tell(result);
        }
    }

    /// Whether nobody waits any more.
    fn is_told(&self) -> bool {
        let waiter = self.waiter.take();
        let is_told = waiter.is_none();
        self.waiter.set(waiter);
        is_told
    }

    /// The call, unsent. None if it is told.
    fn take_back(self) -> Option<WaitingCall> {
        let Self { request, body_max, until, is_repeated, waiter, .. } = self;
        let call = NoticeCall { request, body_max, until, waiter: waiter.take()? };
        Some(WaitingCall { call, is_repeated })
    }

    /// What the end means. Returns the call if it is to be repeated.
    fn end(mut self, end: &ConnectionCallEnd<'_>) -> Option<WaitingCall> {
        let broken = |reason: String| Err(RequestError::Broken(reason).into());
        let result = match *end {
            ConnectionCallEnd::Answer { status, fields, body } => {
                let node = fields.node;
                match self.body_max {
                    0 => Ok(ServerAnswer { status, node, body: Vec::new() }),
                    most if body.len() <= most => {
                        Ok(ServerAnswer { status, node, body: body.to_vec() })
                    }
                    most => broken(format!("a body of more than {most} bytes")),
                }
            }
            // Its head says all that is asked.
            ConnectionCallEnd::Failed { status: Some(status), .. } if self.body_max == 0 => {
                Ok(ServerAnswer { status, node: None, body: Vec::new() })
            }
            ConnectionCallEnd::Failed { error, .. } => broken(error.to_string()),
            ConnectionCallEnd::Unseen { .. } if !self.is_repeated => {
                self.is_repeated = true;
                return self.take_back();
            }
            ConnectionCallEnd::Unseen { error } | ConnectionCallEnd::Lost { error } => {
                broken(error.to_owned())
            }
        };
        self.tell(result);
        None
    }
}

/// A call that is not sent.
pub(super) struct WaitingCall {
    pub(super) call: NoticeCall,
    /// Whether it was sent before, and a server did not process it.
    pub(super) is_repeated: bool,
}

pub(super) struct NoticeConnection {
    pub(super) http: OutboundConnection<SentCall>,
    pub(super) token: Token,
    /// Largest body of an answer.
    pub(super) body_max: usize,
    /// Longest wait for an answer.
    pub(super) timeout: Duration,
}

impl fmt::Debug for NoticeConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NoticeConnection").field("token", &self.token).finish_non_exhaustive()
    }
}

impl NoticeConnection {
    /// Whether it can carry `call` now.
    pub(super) fn has_room(&self, call: &NoticeCall) -> bool {
        let is_free = if self.http.is_multiplexed() {
            self.http.room(0).is_ok()
        } else {
            self.http.calls_len() == 0
        };
        is_free && call.body_max <= self.body_max
    }

    /// Sends a call; over HTTP/2, with the others of this turn.
    ///
    /// # Errors
    /// It was not sent.
    pub(super) fn send(
        &self,
        waiting: WaitingCall,
        authority: &str,
        now: Instant,
    ) -> Result<(), SendError<WaitingCall>> {
        let request = Rc::clone(&waiting.call.request);
        let message = RequestMessage { request: &request, authority };
        let back = |call: SentCall| call.take_back().expect("it is not told");
        self.http.send(SentCall::new(waiting, now), &message).map_err(|error| match error {
            SendError::Dead(call) => SendError::Dead(back(call)),
            SendError::Full(call) => SendError::Full(back(call)),
        })
    }

    /// Reads once. Calls that are to be repeated are added to `unseen`.
    pub(super) fn read(
        &self,
        buffers: &mut ReadBuffers,
        now: Instant,
        unseen: &mut Vec<WaitingCall>,
    ) -> ReadProgress {
        let mut on_end = |call: SentCall, end: ConnectionCallEnd<'_>| unseen.extend(call.end(&end));
        let progress = self.http.read(&mut buffers.scratch, now, SMALL_READS_MAX, &mut on_end);
        if matches!(progress, ReadProgress::PeerEnded) {
            self.http.end(false, &mut on_end);
        }
        progress
    }

    /// Closes it; calls that still wait fail, or are added to `unseen`.
    pub(super) fn close(&self, unseen: &mut Vec<WaitingCall>) {
        self.http.close(&mut |call, end| unseen.extend(call.end(&end)));
    }

    /// Sends what this turn has added. False if the connection is dead.
    #[must_use]
    pub(super) fn finish_turn(&self, now: Instant) -> bool {
        self.http.finish_turn(now, SentCall::is_told).is_ok()
    }

    /// Fails overdue calls. Returns whether the connection should close: it is idle since before
    /// `idle_before`, or the server does not answer.
    pub(super) fn sweep(&self, now: Instant, idle_before: Instant) -> bool {
        self.http.each_call(|call| {
            if call.until.min(call.sent_at + self.timeout) <= now {
                call.tell(Err(RequestError::TimedOut.into()));
            }
        });
        let is_stalled = self.http.oldest(|call, read_at| {
            call.is_told() && read_at.is_none_or(|read_at| read_at <= call.sent_at)
        });
        self.http.reset_given_up(now, SentCall::is_told);
        is_stalled.unwrap_or_else(|| self.http.is_useless(idle_before, idle_before))
    }
}
