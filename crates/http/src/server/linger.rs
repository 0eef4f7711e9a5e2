//! Closes a connection in two steps: stops sending, then discards what the client still sends.
//! Closing both directions at once resets the connection, and a client that is still sending loses
//! the response (RFC 9112, section 9.6).

use std::cell::Cell;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// How long a connection is still read after its last response.
const LINGER: Duration = Duration::from_secs(2);
/// Bytes discarded by one read.
const DISCARD_BYTES: usize = 16 * 1024;

/// A stream whose shutdown ends when the client closes, or after [`LINGER`].
pub(super) struct LingeringStream<S> {
    stream: S,
    /// Set once the server drains: shutdown then does not wait for the client.
    is_draining: Rc<Cell<bool>>,
    closing: Option<Closing>,
}

struct Closing {
    end: Pin<Box<Sleep>>,
    discarded: Box<[u8]>,
}

impl<S> LingeringStream<S> {
    pub(super) fn new(stream: S, is_draining: Rc<Cell<bool>>) -> Self {
        Self { stream, is_draining, closing: None }
    }

    pub(super) fn into_inner(self) -> S {
        self.stream
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for LingeringStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, into)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for LingeringStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.closing.is_none() {
            ready!(Pin::new(&mut this.stream).poll_shutdown(cx))?;
        }
        if this.is_draining.get() {
            return Poll::Ready(Ok(()));
        }
        let closing = this.closing.get_or_insert_with(|| Closing {
            end: Box::pin(sleep(LINGER)),
            discarded: vec![0; DISCARD_BYTES].into_boxed_slice(),
        });
        while closing.end.as_mut().poll(cx).is_pending() {
            let mut buffer = ReadBuf::new(&mut closing.discarded);
            match ready!(Pin::new(&mut this.stream).poll_read(cx, &mut buffer)) {
                Ok(()) if !buffer.filled().is_empty() => (),
                Ok(()) | Err(_) => break,
            }
        }
        Poll::Ready(Ok(()))
    }
}
