//! One connection of a service on its shard: accepted, optionally encrypted, and limited by
//! timeouts. It must not know what is served.

mod arrival;

use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http_kit::head::{HeadLimits, MalformedHead, check_head};
use http_kit::interim::InterimSlot;
use http_kit::plain::{PlainGet, PlainHandler};
use http_kit::server::{
    BoxError, HttpHandler, UpgradeSlot, Upgraded, serve_http1, serve_http2, serve_intermediary,
    serve_upgradable,
};
use hyper::body::{Body, Bytes, Incoming};
use hyper::header::{CONNECTION, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Request, Response, Version};
use rustls::ServerConfig;
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tracing::debug;

use crate::shards::{
    Accepted, ActiveStream, Activity, ConnectionTimeouts, OpenClient, RequestActivity,
};
use crate::shutdown::Shutdown;
pub use arrival::ArrivalClock;

use arrival::StampedStream;

/// The ALPN name of HTTP/2 (RFC 9113, section 3.2).
const HTTP2: &[u8] = b"h2";

/// How to handle connections of a listener. Asked for each, so that a reload applies to new ones.
#[derive(Clone, Debug)]
pub struct ConnectionOptions {
    /// None if connections are not encrypted. HTTP/2 needs `h2` in its ALPN list.
    pub tls: Option<Arc<ServerConfig>>,
    /// Limits on idle time and on the time for a head or handshake.
    pub timeouts: ConnectionTimeouts,
    /// Longest wait for the client to accept more of the response.
    pub write_timeout: Duration,
    /// Bytes that the kernel keeps unsent before it takes no more. None: as many as fit its buffer.
    pub unsent_max: Option<u32>,
    /// Whether the kernel says when it received what is read, for deadlines that count from there.
    /// Costs each read about a tenth.
    pub dates_arrivals: bool,
}

/// The decrypted bytes of a connection.
#[derive(Debug)]
pub enum ConnectionStream {
    /// Without encryption.
    Plain(ActiveStream<StampedStream>),
    /// Through TLS.
    Tls(Box<TlsStream<ActiveStream<StampedStream>>>),
}

/// A connection for a service to serve.
#[derive(Debug)]
pub struct ClientConnection {
    stream: ConnectionStream,
    /// Index of the listener that accepted it.
    pub listener: usize,
    /// Address of the client.
    pub peer: IpAddr,
    timeouts: ConnectionTimeouts,
    clock: ArrivalClock,
    shutdown: Shutdown,
    open: OpenClient,
}

/// Answers the requests of one connection.
pub trait HttpService: 'static {
    /// Response body. It is streamed as fast as the client reads.
    type Body: Body<Data = Bytes, Error: Into<BoxError>> + Unpin + 'static;

    /// Whether requests may upgrade the connection to another protocol.
    const UPGRADES: bool = false;

    /// Whether requests are passed on, so that one with two framings must be refused. Not together
    /// with upgrades.
    const PASSES_ON: bool = false;

    /// Answers a request, whose body arrives as a stream.
    fn answer(&self, request: HttpRequest) -> impl Future<Output = Response<Self::Body>>;

    /// Answers a plain GET of a service that passes requests on, if it can do so at once: see
    /// [`PlainHandler::answer_plain`]. The request is neither counted as under way nor dated.
    fn answer_plain(&self, request: PlainGet<'_>, send: impl FnOnce(&[u8])) -> bool {
        // Most services have no use for it.
        let _ = (request, send);
        false
    }

    /// The answer to a malformed head. The connection closes after it.
    fn malformed(&self, problem: &MalformedHead) -> Response<Self::Body>;
}

/// A request and its origin.
pub struct HttpRequest {
    /// The head, checked by [`check_head`].
    pub head: Parts,
    /// The body, as a stream.
    pub body: Incoming,
    /// When the kernel received the end of the head; where arrivals are not dated, when its first
    /// bytes were read.
    pub arrival: Instant,
    /// Address of the client.
    pub peer: IpAddr,
    /// Takes interim responses. None if the client cannot be sent any: it speaks HTTP/2 or 1.0, or
    /// requests are not passed on.
    pub interim: Option<InterimSlot>,
    activity: Activity,
    upgrade: UpgradeSlot<ConnectionStream>,
}

impl HttpRequest {
    /// Keeps the request under way, so that its connection is not idle, while a body of unknown length
    /// is sent.
    pub fn under_way(&self) -> RequestActivity {
        self.activity.request()
    }

    /// After the 101 response is written, `run` owns the connection until it ends. Request limits
    /// no longer apply: it neither times out nor is evicted. Requires [`HttpService::UPGRADES`] and
    /// HTTP/1.1.
    pub fn upgrade<F: Future<Output = ()> + 'static>(
        &self,
        run: impl FnOnce(Upgraded<ConnectionStream>) -> F + 'static,
    ) {
        let under_way = self.activity.request();
        self.upgrade.set(move |upgraded| async move {
            let _under_way = under_way;
            run(upgraded).await;
        });
    }
}

impl ClientConnection {
    /// Opens an accepted socket, with TLS if `options` require it, or fails if that times out.
    pub(super) async fn open(
        accepted: Accepted,
        listener: usize,
        options: ConnectionOptions,
        shutdown: Shutdown,
    ) -> Result<Self, ConnectError> {
        let Accepted { stream, peer, open, .. } = accepted;
        let stream = TcpStream::from_std(stream).map_err(ConnectError::Socket)?;
        // The kernel's timer closes the connection of a client that stops reading; a writer has
        // none.
        let timeout = Some(options.write_timeout);
        if let Err(error) = SockRef::from(&stream).set_tcp_user_timeout(timeout) {
            debug!(%error, "no write timeout on a connection");
        }
        if let Some(unsent_max) = options.unsent_max
            && let Err(error) = SockRef::from(&stream).set_tcp_notsent_lowat(unsent_max)
        {
            debug!(%error, "no limit on the send queue of a connection");
        }
        let stream = StampedStream::new(stream, options.dates_arrivals);
        let clock = stream.clock();
        let activity = open.activity();
        let stream = ActiveStream::new(stream, activity.clone(), shutdown.clone());
        let timeouts = options.timeouts;
        let stream = match options.tls {
            None => ConnectionStream::Plain(stream),
            Some(tls) => {
                let handshake = TlsAcceptor::from(tls).accept(stream);
                let ended = activity.limited(&timeouts, handshake).await;
                let stream = ended
                    .map_err(|end| ConnectError::Handshake(end.into()))?
                    .map_err(|error| ConnectError::Handshake(error.into()))?;
                activity.set_idle();
                ConnectionStream::Tls(Box::new(stream))
            }
        };
        let peer = peer.ip();
        Ok(Self { stream, listener, peer, timeouts, clock, shutdown, open })
    }

    /// The bytes, for the service's own protocol. `self` counts as an open connection until
    /// dropped. It is idle, and may be evicted, unless a
    /// [`RequestActivity`](crate::shards::RequestActivity) of its [`Activity`] exists.
    pub fn stream(&mut self) -> &mut ConnectionStream {
        &mut self.stream
    }

    /// When the kernel received the bytes read from it.
    pub const fn arrivals(&self) -> &ArrivalClock {
        &self.clock
    }

    /// Records what the connection is doing.
    pub fn activity(&self) -> &Activity {
        self.open.activity()
    }

    /// Shutdown that ends connections.
    pub fn shutdown(&self) -> &Shutdown {
        &self.shutdown
    }

    /// Whether HTTP/2 was agreed on, or the first bytes, which remain to be read, are those of its
    /// preface: no method of HTTP/1.1 is `PRI`. None if the connection ends before.
    async fn begins_http2(&self) -> Option<bool> {
        let ConnectionStream::Plain(stream) = &self.stream else {
            return Some(self.stream.is_http2());
        };
        let mut first = [0; 4];
        let peek = stream.get_ref().get_ref().peek(&mut first);
        let peeked = tokio::select! {
            peeked = self.open.activity().limited(&self.timeouts, peek) => peeked,
            _ = self.shutdown.started() => return None,
        };
        match peeked {
            Ok(peeked) => Some(matches!(peeked, Ok(4)) && first == *b"PRI "),
            Err(end) => {
                debug!(%end, "connection closed");
                None
            }
        }
    }

    /// Serves HTTP until the connection ends, times out, or is idle in a drain. Under TLS, ALPN chooses
    /// the version; without, it is HTTP/1.1.
    pub fn serve_http<H: HttpService>(
        self,
        heads: HeadLimits,
        service: H,
    ) -> impl Future<Output = ()> {
        let is_http2 = self.stream.is_http2();
        self.serve_version(heads, service, is_http2)
    }

    /// The same; without TLS, a connection that begins with the preface of HTTP/2 speaks HTTP/2
    /// (RFC 9113, section 3.3). Costs each connection a system call.
    pub async fn serve_either_http<H: HttpService>(self, heads: HeadLimits, service: H) {
        if let Some(is_http2) = self.begins_http2().await {
            Box::pin(self.serve_version(heads, service, is_http2)).await;
        }
    }

    async fn serve_version<H: HttpService>(self, heads: HeadLimits, service: H, is_http2: bool) {
        let Self { stream, peer, timeouts, clock, shutdown, open, .. } = self;
        let drain = async move {
            shutdown.started().await;
        };
        let activity = open.activity();
        let upgrade = UpgradeSlot::default();
        let interim = (H::PASSES_ON && !is_http2).then(InterimSlot::default);
        let activity_of_requests = activity.clone();
        let requests =
            Requests { service, peer, clock, interim, activity: activity_of_requests, upgrade };
        let requests = Rc::new(requests);
        let served = if is_http2 {
            // Large: a connection of another protocol must not have room for it.
            let served = Box::pin(serve_http2(stream, heads, &requests, drain));
            activity.limited(&timeouts, async { served.await.map_err(BoxError::from) }).await
        } else if H::UPGRADES {
            let served = serve_upgradable(stream, heads, &requests.upgrade, &requests, drain);
            activity.limited(&timeouts, served).await
        } else if let Some(interim) = requests.interim.clone() {
            let served = serve_intermediary(stream, heads, interim, &requests, drain);
            let served = Box::pin(served);
            activity.limited(&timeouts, async { served.await.map_err(BoxError::from) }).await
        } else {
            let served = Box::pin(serve_http1(stream, heads, &requests, drain));
            activity.limited(&timeouts, async { served.await.map_err(BoxError::from) }).await
        };
        match served {
            Ok(Ok(())) => (),
            Ok(Err(error)) => debug!(%error, "connection ended"),
            Err(end) => debug!(%end, "connection closed"),
        }
    }
}

/// Why an accepted socket does not become a connection.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The socket failed.
    #[error("accepted socket is unusable: {0}")]
    Socket(io::Error),
    /// The TLS handshake failed.
    #[error("no TLS with a client: {0}")]
    Handshake(BoxError),
}

struct Requests<H> {
    service: H,
    peer: IpAddr,
    clock: ArrivalClock,
    interim: Option<InterimSlot>,
    activity: Activity,
    upgrade: UpgradeSlot<ConnectionStream>,
}

impl<H: HttpService> HttpHandler for Requests<H> {
    type Body = H::Body;

    async fn answer(&self, request: Request<Incoming>) -> Response<H::Body> {
        let begun = self.activity.begun();
        let _under_way = self.activity.request();
        let overlaps = request.version() == Version::HTTP_2;
        let arrival = if overlaps { self.clock.last() } else { self.clock.take() };
        let arrival = arrival.or(begun).unwrap_or_else(Instant::now);
        let (head, body) = request.into_parts();
        let response = match check_head(&head) {
            Ok(()) => {
                let (peer, upgrade) = (self.peer, self.upgrade.clone());
                let activity = self.activity.clone();
                let interim = self.interim.clone().filter(|_| head.version == Version::HTTP_11);
                let request = HttpRequest { head, body, arrival, peer, interim, activity, upgrade };
                self.service.answer(request).await
            }
            Err(malformed) => {
                let mut response = self.service.malformed(&malformed);
                response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
                response
            }
        };
        if let Some(interim) = &self.interim {
            interim.clear();
        }
        if !overlaps {
            // Bytes read for this request must not date the next one.
            self.clock.reset();
        }
        response
    }
}

impl<H: HttpService> PlainHandler for Requests<H> {
    fn answer_plain(&self, request: PlainGet<'_>, send: impl FnOnce(&[u8])) -> bool {
        self.service.answer_plain(request, send)
    }

    fn answered_plain(&self) {
        self.activity.answered_at_once();
    }
}

impl ConnectionStream {
    /// When this is dropped, the connection is reset and what is unsent is discarded. A client that
    /// reads nothing would keep it in memory.
    pub fn reset_on_drop(&self) {
        let stream = match self {
            Self::Plain(stream) => stream.get_ref(),
            Self::Tls(stream) => stream.get_ref().0.get_ref(),
        };
        if let Err(error) = SockRef::from(stream.get_ref()).set_linger(Some(Duration::ZERO)) {
            debug!(%error, "a connection is not reset");
        }
    }

    fn is_http2(&self) -> bool {
        match self {
            Self::Plain(_) => false,
            Self::Tls(stream) => stream.get_ref().1.alpn_protocol() == Some(HTTP2),
        }
    }
}

/// Calls a method of the stream within.
macro_rules! delegate {
    ($stream:expr, $method:ident($($argument:ident),*)) => {
        match $stream.get_mut() {
            Self::Plain(stream) => Pin::new(stream).$method($($argument),*),
            Self::Tls(stream) => Pin::new(stream).$method($($argument),*),
        }
    };
}

impl AsyncRead for ConnectionStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        delegate!(self, poll_read(cx, into))
    }
}

impl AsyncWrite for ConnectionStream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        delegate!(self, poll_write(cx, bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        delegate!(self, poll_write_vectored(cx, parts))
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(stream) => stream.is_write_vectored(),
            Self::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        delegate!(self, poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        delegate!(self, poll_shutdown(cx))
    }
}
