//! A connection to a server: plain or TLS, counted while it is open, and followed for interim
//! responses.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use hyper_util::client::legacy::connect::{Connected, Connection};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use super::interim::InterimCount;

/// The ALPN name of HTTP/2 (RFC 9113, section 3.2).
pub(super) const HTTP2: &[u8] = b"h2";

/// Counts a connection as open until dropped.
pub(super) struct OpenConnection(Arc<AtomicUsize>);

impl OpenConnection {
    /// None if as many as may be are open.
    pub(super) fn count(open: &Arc<AtomicUsize>, open_max: usize) -> Option<Self> {
        let one_more = |open| Some(open + 1).filter(|open| *open <= open_max);
        let counted = open.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more);
        counted.is_ok().then(|| Self(Arc::clone(open)))
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// An open connection.
pub enum TransportStream {
    /// Without TLS.
    Plain(TcpStream),
    /// After the handshake.
    Tls(Box<TlsStream<TcpStream>>),
}

impl TransportStream {
    fn is_http2(&self) -> bool {
        match self {
            Self::Plain(_) => false,
            Self::Tls(stream) => stream.get_ref().1.alpn_protocol() == Some(HTTP2),
        }
    }
}

/// A connection to a server.
pub(super) struct ClientStream {
    stream: TransportStream,
    /// None with HTTP/2, whose frames hyper bounds.
    interim: Option<InterimCount>,
    _open: OpenConnection,
}

impl ClientStream {
    pub(super) fn new(stream: TransportStream, open: OpenConnection) -> Self {
        let interim = (!stream.is_http2()).then(InterimCount::default);
        Self { stream, interim, _open: open }
    }
}

impl Connection for ClientStream {
    fn connected(&self) -> Connected {
        match self.stream.is_http2() {
            true => Connected::new().negotiated_h2(),
            false => Connected::new(),
        }
    }
}

impl AsyncRead for ClientStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Self { stream, interim, .. } = self.get_mut();
        let before = into.filled().len();
        let read = match stream {
            TransportStream::Plain(stream) => Pin::new(stream).poll_read(cx, into),
            TransportStream::Tls(stream) => Pin::new(stream).poll_read(cx, into),
        };
        if let (Poll::Ready(Ok(())), Some(interim)) = (&read, interim) {
            interim.received(&into.filled()[before..]).map_err(io::Error::other)?;
        }
        read
    }
}

impl AsyncWrite for ClientStream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let Self { stream, interim, .. } = self.get_mut();
        if let Some(interim) = interim {
            interim.sent();
        }
        match stream {
            TransportStream::Plain(stream) => Pin::new(stream).poll_write(cx, bytes),
            TransportStream::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().stream {
            TransportStream::Plain(stream) => Pin::new(stream).poll_flush(cx),
            TransportStream::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().stream {
            TransportStream::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            TransportStream::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
