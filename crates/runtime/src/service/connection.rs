//! One connection of a service on its shard: accepted, encrypted where the service says so, and held
//! to its timeouts.
//!
//! It must not know what is served.

use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http_kit::head::{MalformedHead, check_head};
use http_kit::server::{
    BoxError, HeadLimits, HttpHandler, UpgradeSlot, Upgraded, serve_http1, serve_http2,
    serve_upgradable,
};
use hyper::body::{Body, Bytes, Incoming};
use hyper::header::{CONNECTION, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Request, Response};
use rustls::ServerConfig;
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tracing::debug;

use crate::arrival::{ArrivalClock, StampedStream};
use crate::shards::{Accepted, ActiveStream, Activity, ConnectionTimeouts, OpenClient};
use crate::shutdown::Shutdown;

/// The name that HTTP/2 has in the TLS handshake (RFC 9113, section 3.2).
const HTTP2: &[u8] = b"h2";

/// How a service takes the connections of one of its listeners. Asked for each connection, so that a
/// reload applies to those that come after it.
#[derive(Clone, Debug)]
pub struct ConnectionOptions {
    /// The certificate that clients see. None if connections are not encrypted. Clients that offer
    /// `h2` speak HTTP/2 where its list of protocols has it.
    pub tls: Option<Arc<ServerConfig>>,
    /// How long a connection may be idle, and a head or a handshake may take.
    pub timeouts: ConnectionTimeouts,
    /// Longest wait for the client to take more of what is written.
    pub write_timeout: Duration,
}

/// The bytes of a connection, decrypted.
#[derive(Debug)]
pub enum ConnectionStream {
    /// As they come.
    Plain(ActiveStream<StampedStream>),
    /// Through TLS.
    Tls(Box<TlsStream<ActiveStream<StampedStream>>>),
}

/// A connection that a service serves to its end.
#[derive(Debug)]
pub struct ClientConnection {
    stream: ConnectionStream,
    /// Which of the service's listeners it came in by.
    pub listener: usize,
    /// Where the client is.
    pub peer: IpAddr,
    timeouts: ConnectionTimeouts,
    clock: ArrivalClock,
    shutdown: Shutdown,
    /// Counts the connection as open until dropped.
    open: OpenClient,
}

/// Answers the requests of one connection.
pub trait HttpService: 'static {
    /// Of answers. A streamed body is written as fast as the client takes it.
    type Body: Body<Data = Bytes, Error: Into<BoxError>> + 'static;

    /// Whether requests may upgrade the connection to another protocol.
    const UPGRADES: bool = false;

    /// Answers a request. Its body may be read piece by piece.
    fn answer(&self, request: HttpRequest) -> impl Future<Output = Response<Self::Body>>;

    /// The answer to a request whose head is malformed. The connection is closed behind it.
    fn malformed(&self, problem: &MalformedHead) -> Response<Self::Body>;
}

/// A request, and what is known of how it came.
pub struct HttpRequest {
    /// The head, checked by [`check_head`].
    pub head: Parts,
    /// The body, as it comes.
    pub body: Incoming,
    /// When the kernel received the end of the head.
    pub arrival: Instant,
    /// Where the client is.
    pub peer: IpAddr,
    activity: Activity,
    upgrade: UpgradeSlot<ConnectionStream>,
}

impl HttpRequest {
    /// Once the answer 101 is written, `run` has the connection until it ends, without the limits of
    /// a request: it is neither timed out nor closed to make place for another. Only for services
    /// whose [`HttpService::UPGRADES`] is set, over HTTP/1.1.
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
    /// Takes an accepted socket over, with the TLS handshake where `options` ask for it.
    ///
    /// # Errors
    /// Why there is no connection: the socket or the handshake failed, or it took too long.
    pub(super) async fn open(
        accepted: Accepted,
        listener: usize,
        options: ConnectionOptions,
        shutdown: Shutdown,
    ) -> Result<Self, ConnectError> {
        let Accepted { stream, peer, open, .. } = accepted;
        let stream = TcpStream::from_std(stream).map_err(ConnectError::Socket)?;
        // A client that stops reading would hold its connection for ever: a writer waits without a
        // timer, the kernel does not.
        let timeout = Some(options.write_timeout);
        if let Err(error) = SockRef::from(&stream).set_tcp_user_timeout(timeout) {
            debug!(%error, "no write timeout on a connection");
        }
        let stream = StampedStream::new(stream);
        let clock = stream.clock();
        let activity = open.activity();
        let stream = ActiveStream::new(stream, activity.clone());
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

    /// Its bytes, for a protocol of the service's own. The connection counts as open for as long as
    /// the rest of it is held. It is idle, and may be closed to make place for another, except while a
    /// [`RequestActivity`](crate::shards::RequestActivity) of its [`Activity`] is held.
    pub fn stream(&mut self) -> &mut ConnectionStream {
        &mut self.stream
    }

    /// By which the service tells what the connection is doing.
    pub fn activity(&self) -> &Activity {
        self.open.activity()
    }

    /// Begun when connections are to end.
    pub fn shutdown(&self) -> &Shutdown {
        &self.shutdown
    }

    /// Serves HTTP until the connection ends, is too slow, or is idle in a drain.
    pub async fn serve_http<H: HttpService>(self, heads: HeadLimits, service: H) {
        let Self { stream, peer, timeouts, clock, shutdown, open, .. } = self;
        let drain = async move {
            shutdown.started().await;
        };
        let activity = open.activity();
        let upgrade = UpgradeSlot::default();
        let requests = Requests { service, peer, clock, activity: activity.clone(), upgrade };
        let requests = Rc::new(requests);
        let served = if stream.is_http2() {
            let served = serve_http2(stream, heads, &requests, drain);
            activity.limited(&timeouts, async { served.await.map_err(BoxError::from) }).await
        } else if H::UPGRADES {
            let served = serve_upgradable(stream, (heads, &requests.upgrade), &requests, drain);
            activity.limited(&timeouts, served).await
        } else {
            let served = serve_http1(stream, heads, &requests, drain);
            activity.limited(&timeouts, async { served.await.map_err(BoxError::from) }).await
        };
        match served {
            Ok(Ok(())) => (),
            Ok(Err(error)) => debug!(%error, "connection ended"),
            Err(end) => debug!(%end, "connection closed"),
        }
    }
}

/// Why an accepted socket is no connection.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// It is unusable.
    #[error("accepted socket is unusable: {0}")]
    Socket(io::Error),
    /// There was no TLS handshake.
    #[error("no TLS with a client: {0}")]
    Handshake(BoxError),
}

/// The requests of one connection, on their way to the service.
struct Requests<H> {
    service: H,
    peer: IpAddr,
    clock: ArrivalClock,
    activity: Activity,
    upgrade: UpgradeSlot<ConnectionStream>,
}

impl<H: HttpService> HttpHandler for Requests<H> {
    type Body = H::Body;

    async fn answer(&self, request: Request<Incoming>) -> Response<H::Body> {
        let _under_way = self.activity.request();
        let arrival = self.clock.take();
        let (head, body) = request.into_parts();
        let response = match check_head(&head) {
            Ok(()) => {
                let (peer, upgrade) = (self.peer, self.upgrade.clone());
                let activity = self.activity.clone();
                let request = HttpRequest { head, body, arrival, peer, activity, upgrade };
                self.service.answer(request).await
            }
            Err(malformed) => {
                let mut response = self.service.malformed(&malformed);
                response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
                response
            }
        };
        // What was read of this request says nothing of the next one's arrival.
        self.clock.reset();
        response
    }
}

impl ConnectionStream {
    /// Whether client and server have agreed on HTTP/2.
    fn is_http2(&self) -> bool {
        match self {
            Self::Plain(_) => false,
            Self::Tls(stream) => stream.get_ref().1.alpn_protocol() == Some(HTTP2),
        }
    }
}

impl AsyncRead for ConnectionStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(cx, into),
            Self::Tls(stream) => Pin::new(stream).poll_read(cx, into),
        }
    }
}

impl AsyncWrite for ConnectionStream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(cx, bytes),
            Self::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write_vectored(cx, parts),
            Self::Tls(stream) => Pin::new(stream).poll_write_vectored(cx, parts),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(stream) => stream.is_write_vectored(),
            Self::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Self::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
