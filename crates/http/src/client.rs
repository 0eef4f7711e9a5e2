//! Requests to servers other than DSPs: notices, other nodes, collectors, operators' listeners. A
//! connection pool for HTTP/1.1 and HTTP/2, with or without TLS, that checks addresses right before
//! it connects. It must not know the purpose of a request, nor when to retry.

mod interim;
mod stream;

use std::cell::RefCell;
use std::error::Error;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Either, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::{Request, Response, Uri};
use hyper_util::client::legacy;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use ipnet::IpNet;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_rustls::TlsConnector;
use tower_service::Service;

use self::stream::{ClientStream, HTTP2, OpenConnection, TransportStream};
use crate::address::is_public;
use crate::dns::Resolve;

/// Most bytes of an unwanted body to read, so that its connection can be reused.
const UNWANTED_BYTES_MAX: usize = 64 * 1024;

/// Turns of the runtime in which the idle connections of a replaced pool close.
const CLOSING_TURNS: usize = 4;

/// Addresses that the client may connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AddressRule {
    /// All: the operator chose the host.
    Any,
    /// Public ones and these: somebody else chose the host.
    PublicAnd(Vec<IpNet>),
}

impl AddressRule {
    fn allows(&self, address: IpAddr) -> bool {
        match self {
            Self::Any => true,
            Self::PublicAnd(networks) => {
                is_public(address) || networks.iter().any(|network| network.contains(&address))
            }
        }
    }
}

/// Limits and trust of a client.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// From the request to the end of the response, including the connection.
    pub timeout: Duration,
    /// A connection without a request closes after this time.
    pub idle_timeout: Duration,
    /// Most idle connections per host.
    pub idle_per_host_max: usize,
    /// Most open connections. While half of them are open, each request closes the idle ones.
    pub connections_max: usize,
    /// Addresses that the client may connect to.
    pub addresses: AddressRule,
    /// Trusted certificates.
    pub tls: Arc<ClientConfig>,
}

/// Why a request fails.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// The name does not resolve.
    #[error("the host cannot be resolved: {0}")]
    Unresolved(String),
    /// No address is public or explicitly allowed.
    #[error("{0} is not a public address")]
    Forbidden(IpAddr),
    /// No connection could be opened.
    #[error("cannot connect: {0}")]
    Unreachable(String),
    /// Too many connections are open, to all servers.
    #[error("too many connections are open")]
    TooManyConnections,
    /// The timeout passed.
    #[error("no answer in time")]
    TimedOut,
    /// The response broke off, is too large, or is not HTTP.
    #[error("no usable answer: {0}")]
    Broken(String),
}

/// Makes requests from one thread's runtime.
pub struct HttpClient {
    pool: RefCell<ConnectionPool>,
    connector: Connector,
    builder: legacy::Builder,
    timeout: Duration,
}

type ConnectionPool = legacy::Client<Connector, RequestBody>;

/// The body of a request: in memory, or passed on up to a number of bytes.
pub type RequestBody = Either<Full<Bytes>, Limited<Incoming>>;

impl HttpClient {
    /// Creates a client that resolves names with `resolver`.
    pub fn new(options: ClientOptions, resolver: Arc<dyn Resolve>) -> Self {
        let ClientOptions {
            timeout,
            idle_timeout,
            idle_per_host_max,
            connections_max,
            addresses,
            tls,
        } = options;
        let mut tls = (*tls).clone();
        tls.alpn_protocols = vec![HTTP2.to_vec(), b"http/1.1".to_vec()];
        let tls = TlsConnector::from(Arc::new(tls));
        let open = Arc::default();
        let options = ConnectorOptions { resolver, addresses, tls, timeout, connections_max, open };
        let connector = Connector(Arc::new(options));
        let mut builder = legacy::Client::builder(TokioExecutor::new());
        builder
            .pool_idle_timeout(idle_timeout)
            .pool_max_idle_per_host(idle_per_host_max)
            .pool_timer(TokioTimer::new());
        let pool = RefCell::new(builder.build(connector.clone()));
        Self { pool, connector, builder, timeout }
    }

    /// The pool. If many connections are open, it is replaced, which closes the idle ones: at once, or
    /// when the last of the old pool's requests is answered.
    fn pool(&self) -> ConnectionPool {
        let many = self.connector.0.connections_max.div_ceil(2);
        if many <= self.connector.0.open.load(Ordering::Relaxed) {
            *self.pool.borrow_mut() = self.builder.build(self.connector.clone());
        }
        self.pool.borrow().clone()
    }

    /// Requests an absolute URI; the head of the response must come within the client's timeout. Its
    /// body is streamed, and the caller limits its time and size.
    ///
    /// # Errors
    /// See [`RequestError`]. The server may have received the request even so.
    pub async fn send(
        &self,
        request: Request<RequestBody>,
    ) -> Result<Response<Incoming>, RequestError> {
        let answered = timeout(self.timeout, self.pool().request(request)).await;
        answered.map_err(|_| RequestError::TimedOut)?.map_err(|error| cause(&error))
    }

    /// Requests an absolute URI and reads the response, with a body of at most `body_max` bytes.
    /// With 0 the body is dropped, even if it breaks off.
    ///
    /// # Errors
    /// See [`RequestError`]. The server may have received the request even so.
    pub async fn request(
        &self,
        request: Request<Full<Bytes>>,
        body_max: usize,
    ) -> Result<Response<Bytes>, RequestError> {
        let until = Instant::now() + self.timeout;
        let (head, body) = self.send(request.map(Either::Left)).await?.into_parts();
        let is_wanted = body_max > 0;
        let most = if is_wanted { body_max } else { UNWANTED_BYTES_MAX };
        let read = timeout_at(until, Limited::new(body, most).collect()).await;
        let body = match read {
            _ if !is_wanted => Bytes::new(),
            Ok(Ok(body)) => body.to_bytes(),
            Ok(Err(error)) if error.is::<LengthLimitError>() => {
                return Err(RequestError::Broken(format!("a body of more than {most} bytes")));
            }
            Ok(Err(error)) => return Err(RequestError::Broken(error.to_string())),
            Err(_) => return Err(RequestError::TimedOut),
        };
        Ok(Response::from_parts(head, body))
    }
}

/// Maps the pool's error, whose source may be the connector's own.
fn cause(error: &legacy::Error) -> RequestError {
    let mut cause = error.source();
    let mut innermost: &(dyn Error + 'static) = error;
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<RequestError>() {
            return error.clone();
        }
        (innermost, cause) = (error, error.source());
    }
    RequestError::Broken(innermost.to_string())
}

#[derive(Clone)]
struct Connector(Arc<ConnectorOptions>);

struct ConnectorOptions {
    resolver: Arc<dyn Resolve>,
    addresses: AddressRule,
    tls: TlsConnector,
    timeout: Duration,
    connections_max: usize,
    open: Arc<AtomicUsize>,
}

impl Service<Uri> for Connector {
    type Response = TokioIo<ClientStream>;
    type Error = RequestError;
    type Future = Pin<Box<dyn Future<Output = Result<TokioIo<ClientStream>, RequestError>> + Send>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), RequestError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let options = Arc::clone(&self.0);
        Box::pin(async move {
            let connected = timeout(options.timeout, options.connect(&uri)).await;
            connected.unwrap_or(Err(RequestError::TimedOut))
        })
    }
}

impl ConnectorOptions {
    async fn connect(&self, uri: &Uri) -> Result<TokioIo<ClientStream>, RequestError> {
        let open = self.open().await?;
        let host = uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
        let is_tls = uri.scheme_str() == Some("https");
        let port = uri.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        let name = is_tls.then(|| ServerName::try_from(host.to_owned())).transpose();
        let name = name.map_err(|error| RequestError::Unreachable(error.to_string()))?;
        let addresses = match host.parse() {
            Ok(address) => vec![address],
            Err(_) => self.resolver.resolve(host).await.map_err(RequestError::Unresolved)?,
        };
        let mut last = RequestError::Unresolved("it has no address".to_owned());
        // Check the addresses in use: a second lookup could return others.
        let (allowed, forbidden): (Vec<_>, Vec<_>) =
            addresses.into_iter().partition(|address| self.addresses.allows(*address));
        if let Some(address) = forbidden.last() {
            last = RequestError::Forbidden(*address);
        }
        let until = Instant::now() + self.timeout;
        for (at, address) in allowed.iter().enumerate() {
            // An unresponsive address must leave time for the next ones.
            let left = until.saturating_duration_since(Instant::now());
            let share = if at + 1 < allowed.len() { left / 2 } else { left };
            let connecting = self.connect_to(SocketAddr::new(*address, port), name.clone());
            last = match timeout(share, connecting).await {
                Ok(Ok(stream)) => return Ok(TokioIo::new(ClientStream::new(stream, open))),
                Ok(Err(error)) => RequestError::Unreachable(error.to_string()),
                Err(_) => RequestError::TimedOut,
            };
        }
        Err(last)
    }

    /// Counts a connection as open, once there is room: idle ones of a replaced pool close soon.
    async fn open(&self) -> Result<OpenConnection, RequestError> {
        for _ in 0..CLOSING_TURNS {
            if let Some(open) = OpenConnection::count(&self.open, self.connections_max) {
                return Ok(open);
            }
            tokio::task::yield_now().await;
        }
        Err(RequestError::TooManyConnections)
    }

    /// With TLS if the server has a `name` to verify.
    async fn connect_to(
        &self,
        address: SocketAddr,
        name: Option<ServerName<'static>>,
    ) -> io::Result<TransportStream> {
        let socket = TcpStream::connect(address).await?;
        socket.set_nodelay(true)?;
        Ok(match name {
            None => TransportStream::Plain(socket),
            Some(name) => {
                let stream = self.tls.connect(name, socket).await?;
                TransportStream::Tls(Box::new(stream))
            }
        })
    }
}

#[cfg(test)]
mod tests;
