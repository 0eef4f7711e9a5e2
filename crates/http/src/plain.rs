//! Lets a handler answer plain GETs from their bytes, before hyper's server sees them. What the handler
//! has no answer to, and everything else, goes to hyper as it came.
//!
//! Hyper's own work for a request costs more than finding its answer in memory. Plain GETs are
//! answered only between messages: when hyper has sent all responses to what it was given, the last of
//! its messages is whole, and it asks for more. What it has left of a body is for it to read or to
//! close, so the bytes alone do not tell.

mod request;

use std::cell::{Cell, RefCell};
use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::framing::FramingCheck;
use crate::head::HeadLimits;
pub use request::PlainGet;

/// Answers plain GETs.
pub trait PlainHandler {
    /// Hands the bytes of the whole response to `send`. Returns false if it has none at hand, and has
    /// not called it.
    fn answer_plain(&self, request: PlainGet<'_>, send: impl FnOnce(&[u8])) -> bool;

    /// All that was read is answered.
    fn answered_plain(&self) {}
}

/// Responses of hyper whose bytes are all made. Clones share the count.
#[derive(Clone, Debug, Default)]
pub struct MadeResponses(Rc<Cell<u64>>);

impl MadeResponses {
    /// Another one is.
    pub fn count(&self) {
        self.0.set(self.0.get() + 1);
    }
}

/// Bytes of one read while hyper waits for a message. A plain GET that is longer is left to hyper.
const READ_BYTES: usize = 4 << 10;

/// Room for the head of a request to hyper that is kept for the next one.
const UNREAD_KEPT: usize = 512;

/// A connection that answers plain GETs itself, and the stream of hyper, which is a clone of it. It
/// refuses messages with two framings (see [`FramingCheck`]).
#[derive(Debug)]
pub struct PlainFirst<S, H>(Rc<RefCell<PlainState<S, H>>>);

impl<S, H> Clone for PlainFirst<S, H> {
    fn clone(&self) -> Self {
        Self(Rc::clone(&self.0))
    }
}

#[derive(Debug)]
struct PlainState<S, H> {
    stream: S,
    limits: HeadLimits,
    handler: Rc<H>,
    /// Of what hyper gets.
    check: FramingCheck,
    made: MadeResponses,
    /// Those of them that are sent.
    sent: u64,
    /// Whether hyper waits for the next message, and has nothing of it.
    is_between: bool,
    /// No plain GET is answered any more.
    is_stopped: bool,
    /// What was read for hyper.
    unread: Vec<u8>,
    /// What hyper is told once it has read that.
    end: Option<io::Result<()>>,
    /// The rest of a response to a client that does not read.
    unsent: Vec<u8>,
}

impl<S: AsyncRead + AsyncWrite + Unpin, H: PlainHandler> PlainFirst<S, H> {
    /// From the beginning of a connection.
    pub fn new(stream: S, limits: HeadLimits, handler: Rc<H>, made: MadeResponses) -> Self {
        Self(Rc::new(RefCell::new(PlainState {
            stream,
            limits,
            handler,
            check: FramingCheck::default(),
            made,
            sent: 0,
            is_between: false,
            is_stopped: false,
            unread: Vec::new(),
            end: None,
            unsent: Vec::new(),
        })))
    }

    /// From now on hyper answers all.
    pub fn stop(&self) {
        let mut state = self.0.borrow_mut();
        (state.is_stopped, state.is_between) = (true, false);
    }

    /// Answers plain GETs while hyper waits for the next message. Ready once hyper has something to do.
    pub fn poll_plain(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.0.borrow_mut();
        while state.is_between {
            if let Err(error) = ready!(state.poll_answer(cx)) {
                state.is_between = false;
                state.end = Some(Err(error));
            }
        }
        Poll::Ready(())
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin, H: PlainHandler> PlainState<S, H> {
    /// Answers what can be read. What it does not answer is kept for hyper.
    fn poll_answer(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_send(cx))?;
        // TLS takes more than it sends.
        ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
        let mut buffer = [const { MaybeUninit::uninit() }; READ_BYTES];
        let mut buffer = ReadBuf::uninit(&mut buffer);
        ready!(Pin::new(&mut self.stream).poll_read(cx, &mut buffer))?;
        let read = buffer.filled_mut();
        let answered = self.answer(cx, read)?;
        if 0 < answered && answered == read.len() {
            self.handler.answered_plain();
        } else {
            self.is_between = false;
            self.end = read.is_empty().then_some(Ok(()));
            self.check.follow(&mut read[answered..]);
            self.unread.extend_from_slice(&read[answered..]);
        }
        Poll::Ready(Ok(()))
    }

    /// Answers the plain GETs at the beginning of what was read. Returns how many bytes they are.
    fn answer(&mut self, cx: &mut Context<'_>, read: &[u8]) -> io::Result<usize> {
        let mut answered = 0;
        while answered < read.len() && self.unsent.is_empty() {
            let Self { stream, limits, handler, unsent, .. } = self;
            let mut sent = Ok(());
            let send = |response: &[u8]| sent = send_or_keep(stream, cx, response, unsent);
            let found = PlainGet::read(&read[answered..], *limits, |request| {
                handler.answer_plain(request, send)
            });
            let Some((true, length)) = found else { break };
            sent?;
            answered += length;
        }
        Ok(answered)
    }

    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.unsent.is_empty() {
            let sent = ready!(Pin::new(&mut self.stream).poll_write(cx, &self.unsent))?;
            if sent == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.unsent.drain(..sent);
            if self.unsent.is_empty() {
                self.unsent = Vec::new();
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Whether hyper, which reads, wants the beginning of a message: it has had nothing but whole
    /// messages, and has sent their responses. Before that it may read to the end of a body.
    fn is_awaiting(&self) -> bool {
        let is_read = self.unread.is_empty() && self.end.is_none();
        is_read && !self.is_stopped && self.check.whole_messages() == Some(self.sent)
    }
}

/// Writes what the socket takes, and keeps the rest.
fn send_or_keep<S: AsyncWrite + Unpin>(
    stream: &mut S,
    cx: &mut Context<'_>,
    response: &[u8],
    unsent: &mut Vec<u8>,
) -> io::Result<()> {
    let sent = match Pin::new(stream).poll_write(cx, response) {
        Poll::Ready(sent) => sent?,
        Poll::Pending => 0,
    };
    unsent.extend_from_slice(&response[sent..]);
    Ok(())
}

impl<S: AsyncRead + AsyncWrite + Unpin, H: PlainHandler> AsyncRead for PlainFirst<S, H> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let is_awaiting = self.0.borrow().is_awaiting();
        self.0.borrow_mut().is_between = is_awaiting;
        ready!(self.poll_plain(cx));
        let mut state = self.0.borrow_mut();
        if !state.unread.is_empty() {
            let length = state.unread.len().min(into.remaining());
            into.put_slice(&state.unread[..length]);
            state.unread.drain(..length);
            if state.unread.is_empty() && UNREAD_KEPT < state.unread.capacity() {
                state.unread = Vec::new();
            }
            return Poll::Ready(Ok(()));
        }
        if let Some(end) = state.end.take() {
            return Poll::Ready(end);
        }
        let PlainState { stream, check, .. } = &mut *state;
        let before = into.filled().len();
        ready!(Pin::new(stream).poll_read(cx, into))?;
        check.follow(&mut into.filled_mut()[before..]);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin, H: PlainHandler> AsyncWrite for PlainFirst<S, H> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let mut state = self.0.borrow_mut();
        ready!(state.poll_send(cx))?;
        Pin::new(&mut state.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut state = self.0.borrow_mut();
        ready!(state.poll_send(cx))?;
        Pin::new(&mut state.stream).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.borrow().stream.is_write_vectored()
    }

    /// Hyper flushes once it has written all that it has.
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut state = self.0.borrow_mut();
        ready!(state.poll_send(cx))?;
        ready!(Pin::new(&mut state.stream).poll_flush(cx))?;
        state.sent = state.made.0.get();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stop();
        let mut state = self.0.borrow_mut();
        ready!(state.poll_send(cx))?;
        Pin::new(&mut state.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests;
