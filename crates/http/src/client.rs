//! Requests to origins, providers, collectors and operators' listeners. A connection pool for HTTP/1.1
//! and HTTP/2, with or without TLS, that checks addresses right before it connects. It must not know
//! the purpose of a request, nor when to retry.

mod connect;
mod interim;
mod stream;

pub use connect::{AddressRule, Connector, ConnectorOptions, RequestError, ServerAt};
pub use stream::TransportStream;

use std::cell::RefCell;
use std::error::Error;
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
use rustls::ClientConfig;
use tokio::time::{Instant, timeout, timeout_at};
use tower_service::Service;

use self::stream::{ClientStream, OpenConnection};
use crate::dns::Resolve;

/// Most bytes of an unwanted body to read, so that its connection can be reused.
const UNWANTED_BYTES_MAX: usize = 64 * 1024;

/// Turns of the runtime in which the idle connections of a replaced pool close.
const CLOSING_TURNS: usize = 4;

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

/// Makes requests from one thread's runtime.
pub struct HttpClient {
    pool: RefCell<ConnectionPool>,
    connector: PoolConnector,
    builder: legacy::Builder,
    timeout: Duration,
}

type ConnectionPool = legacy::Client<PoolConnector, RequestBody>;

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
        let connector = Connector::new(ConnectorOptions { addresses, timeout, tls }, resolver);
        let open = Arc::default();
        let connections = PoolConnections { connector, connections_max, open };
        let connector = PoolConnector(Arc::new(connections));
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

/// Opens the pool's connections, and counts them.
#[derive(Clone)]
struct PoolConnector(Arc<PoolConnections>);

struct PoolConnections {
    connector: Connector,
    connections_max: usize,
    open: Arc<AtomicUsize>,
}

impl Service<Uri> for PoolConnector {
    type Response = TokioIo<ClientStream>;
    type Error = RequestError;
    type Future = Pin<Box<dyn Future<Output = Result<TokioIo<ClientStream>, RequestError>> + Send>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), RequestError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let connections = Arc::clone(&self.0);
        Box::pin(async move {
            let open = connections.open().await?;
            let is_tls = uri.scheme_str() == Some("https");
            let host = uri.host().unwrap_or_default();
            let host = host.trim_start_matches('[').trim_end_matches(']');
            let port = uri.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
            let stream = connections.connector.connect(&ServerAt { is_tls, host, port }).await?;
            Ok(TokioIo::new(ClientStream::new(stream, open)))
        })
    }
}

impl PoolConnections {
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
}

#[cfg(test)]
mod tests;
