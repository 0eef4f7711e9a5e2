//! Interim responses (1xx; RFC 9110, section 15.2) to clients over HTTP/1.1, for which hyper's server
//! has no interface: a stream that slips them in while hyper has nothing to send.

use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, BytesMut};
use hyper::header::HeaderMap;
use hyper::{StatusCode, http};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Interim responses that wait for one connection. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct InterimSlot(Rc<RefCell<BytesMut>>);

impl InterimSlot {
    /// Sends an interim response to the request that is being answered, once its task has waited for
    /// something.
    pub fn push(&self, status: StatusCode, headers: &HeaderMap) {
        let mut waiting = self.0.borrow_mut();
        waiting.extend_from_slice(b"HTTP/1.1 ");
        waiting.extend_from_slice(status.as_str().as_bytes());
        waiting.extend_from_slice(b" ");
        waiting.extend_from_slice(status.canonical_reason().unwrap_or_default().as_bytes());
        for (name, value) in headers {
            let name: &http::HeaderName = name;
            for part in [b"\r\n", name.as_str().as_bytes(), b": ", value.as_bytes()] {
                waiting.extend_from_slice(part);
            }
        }
        waiting.extend_from_slice(b"\r\n\r\n");
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.0.borrow().is_empty()
    }

    /// The response follows: what waits comes too late.
    pub fn clear(&self) {
        self.0.borrow_mut().clear();
    }
}

/// The stream below hyper.
#[derive(Debug)]
pub struct WithInterim<S> {
    stream: S,
    slot: InterimSlot,
    /// The rest of what has begun to be sent: nothing may come between.
    sending: BytesMut,
}

impl<S: AsyncWrite + Unpin> WithInterim<S> {
    /// Sends what comes into the slot.
    pub fn new(stream: S, slot: InterimSlot) -> Self {
        Self { stream, slot, sending: BytesMut::new() }
    }

    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.sending.is_empty() {
            let sent = ready!(Pin::new(&mut self.stream).poll_write(cx, &self.sending))?;
            if sent == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.sending.advance(sent);
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WithInterim<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_read(cx, into)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WithInterim<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        ready!(this.poll_send(cx))?;
        Pin::new(&mut this.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        ready!(this.poll_send(cx))?;
        Pin::new(&mut this.stream).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// Hyper flushes once it has written all that it has: here, and only here, another message may
    /// begin.
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.poll_send(cx))?;
        if !this.slot.is_empty() {
            this.sending = this.slot.0.take();
            ready!(this.poll_send(cx))?;
        }
        Pin::new(&mut this.stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests;
