//! A connection of HTTP/2: its socket, from which a turn reads once and to which it writes once.
//! [`session`] knows the protocol.

mod answers;
mod sender;
mod session;
mod translator;

use std::io;

use super::context::{ConnectionStep, DRAIN_BYTES, DRAIN_TIME, ThreadContext};
use super::socket::{ServedSocket, SocketInput};
use crate::server::responder::SimulatedService;

use session::{Http2Session, SessionFate};

/// A larger output buffer is not kept.
const OUTPUT_KEPT_BYTES: usize = 256 * 1024;

#[derive(Debug)]
pub(super) struct MultiplexedConnection {
    socket: ServedSocket,
    session: Http2Session,
    /// The beginning of an incomplete frame. At first, what has been read before.
    inbox: Vec<u8>,
    /// Whether the reactor will call `advance` at the end of the turn.
    is_gathering: bool,
    /// Whether `inbox` may hold whole frames.
    is_new: bool,
    /// Whether the client has shut its side.
    is_ended: bool,
    /// Bytes that may still be discarded. None before our side is shut.
    draining: Option<usize>,
}

impl MultiplexedConnection {
    /// A connection whose `first` bytes have been read.
    pub(super) fn new(socket: ServedSocket, first: Vec<u8>, body_bytes_max: usize) -> Self {
        let session = Http2Session::new(body_bytes_max);
        Self {
            socket,
            session,
            inbox: first,
            is_gathering: false,
            is_new: true,
            is_ended: false,
            draining: None,
        }
    }

    pub(super) const fn socket_mut(&mut self) -> &mut ServedSocket {
        &mut self.socket
    }

    /// Asks for the end of the turn, once.
    pub(super) const fn gather(&mut self) -> ConnectionStep {
        match std::mem::replace(&mut self.is_gathering, true) {
            true => ConnectionStep::Idle,
            false => ConnectionStep::Gather,
        }
    }

    /// An answer is due. For stream 0, the time to drain is over.
    pub(super) fn ring(
        &mut self,
        stream: u32,
        context: &mut ThreadContext<'_, impl SimulatedService>,
    ) -> ConnectionStep {
        if stream == 0 {
            return ConnectionStep::Close;
        }
        self.session.ring(stream, context.buffers);
        self.gather()
    }

    /// The end of a turn: reads once, and writes all answers at once.
    pub(super) fn advance(
        &mut self,
        context: &mut ThreadContext<'_, impl SimulatedService>,
    ) -> ConnectionStep {
        self.is_gathering = false;
        self.serve(context).unwrap_or(ConnectionStep::Close)
    }

    fn serve(
        &mut self,
        context: &mut ThreadContext<'_, impl SimulatedService>,
    ) -> io::Result<ConnectionStep> {
        if let Some(left) = self.draining {
            return self.drain(left, context);
        }
        // A client that takes no answers is not read either.
        if !self.socket.has_unsent() && self.session.fate() == SessionFate::Open {
            if std::mem::take(&mut self.is_new) {
                let first = std::mem::take(&mut self.inbox);
                let used = self.session.receive(&first, context);
                self.inbox.extend_from_slice(&first[used..]);
            } else if self.socket.is_readable() {
                self.read(context)?;
            }
            self.session.proceed(context.buffers);
        }
        let flushed = self.socket.flush()?;
        self.socket.send(self.session.output())?;
        self.session.mark_sent(OUTPUT_KEPT_BYTES);
        if !flushed || !self.socket.flush()? {
            return Ok(ConnectionStep::Idle);
        }
        match self.session.fate() {
            SessionFate::Open if self.socket.is_readable() || self.session.is_ready() => {
                Ok(self.gather())
            }
            SessionFate::Open => Ok(ConnectionStep::Idle),
            SessionFate::Finishing => {
                self.socket.finish()?;
                Ok(match self.drain(DRAIN_BYTES, context)? {
                    ConnectionStep::Idle => ConnectionStep::Alarm(DRAIN_TIME),
                    step => step,
                })
            }
            SessionFate::Resetting => {
                self.socket.reset()?;
                Ok(ConnectionStep::Close)
            }
        }
    }

    /// Fills the thread's buffer once, after the unused bytes of the last read.
    fn read(&mut self, context: &mut ThreadContext<'_, impl SimulatedService>) -> io::Result<()> {
        let mut input = std::mem::take(&mut context.buffers.input);
        let received = self.fill(&mut input);
        if let Ok(filled) = received {
            let used = self.session.receive(&input[..filled], context);
            self.inbox.clear();
            self.inbox.extend_from_slice(&input[used..filled]);
        }
        if self.is_ended {
            self.session.leave_at_once();
        }
        context.buffers.input = input;
        received.map(|_| ())
    }

    /// Returns the number of bytes in `input`.
    fn fill(&mut self, input: &mut [u8]) -> io::Result<usize> {
        let mut filled = self.inbox.len();
        input[..filled].copy_from_slice(&self.inbox);
        // One call for a plain socket; TLS yields a record at a time.
        while self.socket.is_readable() && filled < input.len() {
            match self.socket.read(&mut input[filled..])? {
                SocketInput::Bytes(count) => filled += count,
                SocketInput::Dry => break,
                SocketInput::End => self.is_ended = true,
            }
        }
        Ok(filled)
    }

    /// Discards input until the peer closes or the limit is reached.
    fn drain<R>(
        &mut self,
        left: usize,
        context: &mut ThreadContext<'_, R>,
    ) -> io::Result<ConnectionStep> {
        self.draining = self.socket.discard(left, &mut context.buffers.input)?;
        Ok(match self.draining {
            Some(_) => ConnectionStep::Idle,
            None => ConnectionStep::Close,
        })
    }
}
