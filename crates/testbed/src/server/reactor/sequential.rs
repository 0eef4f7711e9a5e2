//! A connection of HTTP/1.1: its input, its pending answers, and their order. Normally reads once
//! and writes once per request.

use std::io;
use std::time::Duration;

use super::context::{Buffers, ConnectionStep, DRAIN_BYTES, DRAIN_TIME, ThreadContext};
use super::socket::{ServedSocket, SocketInput};
use crate::server::http::{self, RequestFrame, ServerRequest};
use crate::server::responder::{ServiceReply, SimulatedService};
use crate::server::script::{Script, ScriptEnd, ScriptStep};

/// Answers to pipelined requests are written once they reach this size.
const GATHER_BYTES: usize = 64 * 1024;

/// Pieces of a script sent in one turn, before other connections get theirs.
const PIECES_MAX: usize = 16;

/// The state of a connection. Answers leave in the order of their requests, so nothing more is read
/// while one is delayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ServingPhase {
    Reading,
    /// `Connection::delayed` holds the answer; the alarm is set.
    Delaying,
    /// `Connection::script` is being performed, or waits for its alarm.
    Performing,
    /// Nothing will ever be sent; the peer must close.
    Hanging,
    /// No more requests: pending bytes leave, then the connection drains.
    Finishing,
    /// Everything is sent and our side is shut; up to this many more bytes are discarded.
    Draining(usize),
}

#[derive(Debug)]
pub(super) struct SequentialConnection {
    socket: ServedSocket,
    phase: ServingPhase,
    /// Bytes of a request that is incomplete or must wait.
    inbox: Vec<u8>,
    /// Bytes that `inbox` must have before another attempt can succeed.
    needed: usize,
    /// The answer that waits for the alarm.
    delayed: Vec<u8>,
    /// Whether the connection continues after the delayed answer or the script.
    keep_alive: bool,
    /// An answer with its own pace.
    script: Option<Box<Script>>,
    /// Whether an alarm is set for the script.
    pausing: bool,
}

impl SequentialConnection {
    /// A connection whose `first` bytes have been read.
    pub(super) const fn new(socket: ServedSocket, first: Vec<u8>) -> Self {
        Self {
            socket,
            phase: ServingPhase::Reading,
            inbox: first,
            needed: 0,
            delayed: Vec::new(),
            keep_alive: true,
            script: None,
            pausing: false,
        }
    }

    pub(super) const fn socket_mut(&mut self) -> &mut ServedSocket {
        &mut self.socket
    }

    /// The alarm: a delayed answer is due, or the time to drain is over.
    pub(super) fn ring(
        &mut self,
        context: &mut ThreadContext<'_, impl SimulatedService>,
    ) -> ConnectionStep {
        match self.phase {
            ServingPhase::Delaying => {
                self.phase =
                    if self.keep_alive { ServingPhase::Reading } else { ServingPhase::Finishing };
                let answer = std::mem::take(&mut self.delayed);
                match self.socket.send(&answer) {
                    Ok(()) => self.advance(context),
                    Err(_) => ConnectionStep::Close,
                }
            }
            ServingPhase::Performing => {
                self.pausing = false;
                self.advance(context)
            }
            ServingPhase::Draining(_) => ConnectionStep::Close,
            ServingPhase::Reading | ServingPhase::Finishing | ServingPhase::Hanging => {
                ConnectionStep::Idle
            }
        }
    }

    /// Does everything that needs no waiting.
    pub(super) fn advance(
        &mut self,
        context: &mut ThreadContext<'_, impl SimulatedService>,
    ) -> ConnectionStep {
        self.serve(context).unwrap_or(ConnectionStep::Close)
    }

    /// As [`advance`](Self::advance). An error ends the connection.
    fn serve(
        &mut self,
        context: &mut ThreadContext<'_, impl SimulatedService>,
    ) -> io::Result<ConnectionStep> {
        loop {
            if !self.socket.flush()? {
                return Ok(ConnectionStep::Idle);
            }
            match self.phase {
                ServingPhase::Delaying => return Ok(ConnectionStep::Idle), // Its alarm is already set.
                ServingPhase::Performing => match self.perform(context.buffers)? {
                    Some(step) => return Ok(step),
                    None => continue,
                },
                ServingPhase::Hanging if self.socket.is_half_closed() => {
                    return Ok(ConnectionStep::Close);
                }
                ServingPhase::Hanging => return Ok(ConnectionStep::Idle),
                ServingPhase::Finishing => {
                    self.socket.finish()?;
                    self.phase = ServingPhase::Draining(DRAIN_BYTES);
                    return Ok(match self.drain(context.buffers)? {
                        ConnectionStep::Idle => ConnectionStep::Alarm(DRAIN_TIME),
                        step => step,
                    });
                }
                ServingPhase::Draining(_) => return self.drain(context.buffers),
                ServingPhase::Reading => (),
            }
            let delay = if !self.inbox.is_empty() && self.inbox.len() >= self.needed {
                self.answer_inbox(context)?
            } else if self.socket.is_readable() {
                match self.read(context)? {
                    Some(delay) => delay,
                    None => return Ok(ConnectionStep::Idle),
                }
            } else {
                return Ok(ConnectionStep::Idle);
            };
            if let Some(delay) = delay {
                return Ok(ConnectionStep::Alarm(delay));
            }
        }
    }

    /// Reads once and answers complete requests. None if the socket was dry. A delay in `Some` is
    /// the alarm to set.
    fn read(
        &mut self,
        context: &mut ThreadContext<'_, impl SimulatedService>,
    ) -> io::Result<Option<Option<Duration>>> {
        let count = match self.socket.read(&mut context.buffers.input)? {
            SocketInput::Bytes(count) => count,
            SocketInput::Dry => return Ok(None),
            SocketInput::End => {
                self.phase = ServingPhase::Finishing;
                return Ok(Some(None));
            }
        };
        if !self.inbox.is_empty() {
            self.inbox.extend_from_slice(&context.buffers.input[..count]);
            return Ok(Some(None));
        }
        let input = std::mem::take(&mut context.buffers.input);
        let answered = self.answer_whole(&input[..count], context);
        if let Ok((used, _)) = answered {
            self.inbox.extend_from_slice(&input[used..count]);
        }
        context.buffers.input = input;
        answered.map(|(_, delay)| Some(delay))
    }

    fn answer_inbox(
        &mut self,
        context: &mut ThreadContext<'_, impl SimulatedService>,
    ) -> io::Result<Option<Duration>> {
        let mut inbox = std::mem::take(&mut self.inbox);
        let (used, delay) = self.answer_whole(&inbox, context)?;
        if used < inbox.len() {
            inbox.drain(..used);
            self.inbox = inbox;
        }
        Ok(delay)
    }

    /// Answers the complete requests at the start of `bytes`, up to a delayed one. Returns the
    /// bytes consumed, and the delay.
    fn answer_whole(
        &mut self,
        bytes: &[u8],
        context: &mut ThreadContext<'_, impl SimulatedService>,
    ) -> io::Result<(usize, Option<Duration>)> {
        let (mut used, mut delay) = (0, None);
        let mut output = std::mem::take(&mut context.buffers.output);
        output.clear();
        self.needed = 0;
        while self.phase == ServingPhase::Reading
            && used < bytes.len()
            && output.len() < GATHER_BYTES
        {
            match http::frame(&bytes[used..], context.body_bytes_max) {
                RequestFrame::Partial { needed } => {
                    self.needed = needed;
                    break;
                }
                RequestFrame::Refused(refusal) => {
                    context.responder.connections().malformed.add(1);
                    output.extend_from_slice(refusal.answer());
                    self.phase = ServingPhase::Finishing;
                    used = bytes.len();
                }
                RequestFrame::Whole(request) => {
                    used += request.length;
                    delay = self.answer_one(&request, &mut output, context);
                }
            }
        }
        let sent = if output.is_empty() { Ok(()) } else { self.socket.send(&output) };
        context.buffers.output = output;
        sent.map(|()| (used, delay))
    }

    /// Answers one request into `output`, or into `delayed` if it must wait.
    fn answer_one(
        &mut self,
        request: &ServerRequest<'_>,
        output: &mut Vec<u8>,
        context: &mut ThreadContext<'_, impl SimulatedService>,
    ) -> Option<Duration> {
        let start = output.len();
        let delay = match context.responder.respond(request, output) {
            ServiceReply::Whole(delay) => delay,
            ServiceReply::Script(script) => return self.begin(script, request.keep_alive),
        };
        if delay.is_zero() {
            if !request.keep_alive {
                self.phase = ServingPhase::Finishing;
            }
            return None;
        }
        self.delayed = output.split_off(start);
        self.keep_alive = request.keep_alive;
        self.phase = ServingPhase::Delaying;
        Some(delay)
    }

    /// Begins a script. Returns the delay of its first byte, if any.
    fn begin(&mut self, script: Box<Script>, keep_alive: bool) -> Option<Duration> {
        let delay = (!script.delay.is_zero()).then_some(script.delay);
        self.pausing = delay.is_some();
        self.script = Some(script);
        self.keep_alive = keep_alive;
        self.phase = ServingPhase::Performing;
        delay
    }

    /// Sends what the script has now. None once it has ended and the connection is in its next
    /// phase.
    fn perform(&mut self, buffers: &mut Buffers) -> io::Result<Option<ConnectionStep>> {
        if self.pausing {
            return Ok(Some(ConnectionStep::Idle));
        }
        let Some(mut script) = self.script.take() else { return Ok(None) };
        for _ in 0..PIECES_MAX {
            let mut output = std::mem::take(&mut buffers.output);
            output.clear();
            let cue = script.next(&mut output);
            let sent = self.socket.send(&output);
            buffers.output = output;
            sent?;
            match cue {
                ScriptStep::End(end) => {
                    self.phase = match end {
                        ScriptEnd::Next if self.keep_alive => ServingPhase::Reading,
                        ScriptEnd::Next | ScriptEnd::Close => ServingPhase::Finishing,
                        ScriptEnd::Hang => ServingPhase::Hanging,
                        ScriptEnd::Reset => {
                            self.socket.reset()?;
                            return Ok(Some(ConnectionStep::Close));
                        }
                    };
                    return Ok(None);
                }
                ScriptStep::SendThenWait(pause) => {
                    self.script = Some(script);
                    self.pausing = true;
                    return Ok(Some(ConnectionStep::Alarm(pause)));
                }
                ScriptStep::Send if self.socket.has_unsent() => {
                    self.script = Some(script);
                    return Ok(Some(ConnectionStep::Idle));
                }
                ScriptStep::Send => (),
            }
        }
        self.script = Some(script);
        self.pausing = true;
        Ok(Some(ConnectionStep::Alarm(Duration::ZERO)))
    }

    /// Discards input until the peer closes or the limit is reached.
    fn drain(&mut self, buffers: &mut Buffers) -> io::Result<ConnectionStep> {
        let ServingPhase::Draining(left) = self.phase else { return Ok(ConnectionStep::Idle) };
        let Some(left) = self.socket.discard(left, &mut buffers.input)? else {
            return Ok(ConnectionStep::Close);
        };
        self.phase = ServingPhase::Draining(left);
        Ok(ConnectionStep::Idle)
    }
}
