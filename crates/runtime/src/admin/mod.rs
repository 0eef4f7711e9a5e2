//! The admin listener: metrics and health for operators, on a thread of its own so that it
//! answers while the shards are busy.
//!
//! It must not know any service: they add metrics to the [`Exposition`] and checks to the
//! [`Readiness`]. It has no authentication, so it listens on loopback unless told otherwise.
//!
//! | request | answer |
//! |---|---|
//! | `GET /metrics` | 200, OpenMetrics text |
//! | `GET /health/live` | 200 as long as the process answers |
//! | `GET /health/ready` | 200 when every check holds; 503 before, and while draining |
//! | other paths | 404 |
//! | other methods | 405 |

#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::rc::Rc;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::{Semaphore, oneshot};
use tracing::{debug, warn};

use crate::config::{Section, ms, secs};
use crate::metrics::{Exposition, MEDIA_TYPE};
use crate::shutdown::Shutdown;

/// Longest life of a connection, whatever its client does or leaves undone.
const CONNECTION_AGE_MAX: Duration = Duration::from_secs(300);

/// Pause after a failed accept, most often for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Where the admin listener is, and what it bears.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdminOptions {
    /// Where operators ask.
    pub listen: SocketAddr,
    /// Most connections open at once; those beyond are closed at once.
    pub connections_max: usize,
    /// Longest wait for the headers of a request, idle time included.
    pub header_timeout: Duration,
}

impl AdminOptions {
    /// Declares and reads the keys `listen`, `connections_max` and `header_timeout`.
    pub fn read(s: &mut Section<'_>) -> Self {
        Self {
            listen: s.socket_address(
                "listen",
                "127.0.0.1:9464",
                "Where operators ask for metrics and health; anyone who reaches it may.",
            ),
            connections_max: s.integer(
                "connections_max",
                32,
                1..=10_000_usize,
                "Most connections open at once; those beyond are closed at once.",
            ),
            header_timeout: s.duration(
                "header_timeout",
                "60s",
                ms(1)..=secs(300),
                "Longest wait for the headers of a request, idle time included.",
            ),
        }
    }
}

/// A named check of readiness.
type Check = (&'static str, Box<dyn Fn() -> bool + Send + Sync>);

/// Whether the process may be sent traffic: every check holds.
#[derive(Default)]
pub struct Readiness(Vec<Check>);

impl Readiness {
    /// Adds a check; `name` is what operators see while it does not hold.
    pub fn add(&mut self, name: &'static str, check: impl Fn() -> bool + Send + Sync + 'static) {
        self.0.push((name, Box::new(check)));
    }

    /// The names of the checks that do not hold.
    pub fn missing(&self) -> Vec<&'static str> {
        self.0.iter().filter(|(_, check)| !check()).map(|(name, _)| *name).collect()
    }
}

impl fmt::Debug for Readiness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}

/// What the admin listener shows.
#[derive(Debug)]
pub struct Pages {
    /// The metrics page.
    pub exposition: Exposition,
    /// The checks of `/health/ready`.
    pub readiness: Readiness,
    /// A process that drains is not ready.
    pub shutdown: Shutdown,
}

/// The running admin listener. It goes on through a drain, until stopped or dropped.
#[derive(Debug)]
pub struct Admin {
    stop: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

impl Admin {
    /// Serves `pages` on a non-blocking listener, as [`listen`](crate::listen::listen) opens it.
    ///
    /// # Errors
    ///
    /// When the thread or its runtime cannot be set up.
    pub fn start(options: &AdminOptions, listener: TcpListener, pages: Pages) -> io::Result<Self> {
        let (stop, stopped) = oneshot::channel();
        let (ready, outcome) = mpsc::channel();
        let server = Server {
            pages,
            header_timeout: options.header_timeout,
            connections: Semaphore::new(options.connections_max),
        };
        let thread = thread::Builder::new()
            .name("admin".to_owned())
            .spawn(move || run(server, listener, stopped, &ready))?;
        let died = |_| Err(io::Error::other("the admin thread died"));
        outcome.recv().unwrap_or_else(died).map(|()| Self { stop, thread })
    }

    /// Stops listening, drops what is open, and waits for the thread to end.
    pub fn stop(self) {
        drop(self.stop);
        if self.thread.join().is_err() {
            warn!("the admin thread had panicked");
        }
    }
}

/// The thread of the admin listener.
fn run(
    server: Server,
    listener: TcpListener,
    stopped: oneshot::Receiver<()>,
    ready: &mpsc::Sender<io::Result<()>>,
) {
    // The starter waits for exactly one message.
    let runtime =
        match Builder::new_current_thread().enable_all().build_local(LocalOptions::default()) {
            Ok(runtime) => runtime,
            Err(error) => return drop(ready.send(Err(error))),
        };
    runtime.block_on(async move {
        let listener = match tokio::net::TcpListener::from_std(listener) {
            Ok(listener) => listener,
            Err(error) => return drop(ready.send(Err(error))),
        };
        drop(ready.send(Ok(())));
        let server = Rc::new(server);
        tokio::select! {
            () = accept_all(&server, &listener) => (),
            // Nothing is ever sent: the sender is dropped.
            _ = stopped => (),
        }
    });
}

struct Server {
    pages: Pages,
    header_timeout: Duration,
    connections: Semaphore,
}

async fn accept_all(server: &Rc<Server>, listener: &tokio::net::TcpListener) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let server = Rc::clone(server);
                tokio::task::spawn_local(async move { server.connection(stream).await });
            }
            Err(error) => {
                warn!(%error, "the admin listener cannot accept connections");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

impl Server {
    async fn connection(self: Rc<Self>, stream: TcpStream) {
        let Ok(_permit) = self.connections.try_acquire() else {
            debug!("too many admin connections: one was closed");
            return;
        };
        let answer = service_fn(|request: Request<Incoming>| {
            let response = self.answer(request.method(), request.uri().path());
            async { Ok::<_, Infallible>(response) }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.header_timeout)
            .serve_connection(TokioIo::new(stream), answer);
        match tokio::time::timeout(CONNECTION_AGE_MAX, connection).await {
            Ok(Ok(())) => (),
            Ok(Err(error)) => debug!(%error, "an admin connection failed"),
            Err(_) => debug!("an admin connection reached its age limit"),
        }
    }

    fn answer(&self, method: &Method, path: &str) -> Response<Full<Bytes>> {
        let ok = |body: &str| page(StatusCode::OK, body.to_owned());
        if !matches!(path, "/metrics" | "/health/live" | "/health/ready") {
            return page(StatusCode::NOT_FOUND, "no such page\n".to_owned());
        }
        if !matches!(*method, Method::GET | Method::HEAD) {
            let mut refusal = page(StatusCode::METHOD_NOT_ALLOWED, "only GET\n".to_owned());
            refusal.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return refusal;
        }
        match path {
            "/metrics" => {
                let mut metrics = page(StatusCode::OK, self.pages.exposition.text());
                let kind = HeaderValue::from_static(MEDIA_TYPE);
                metrics.headers_mut().insert(CONTENT_TYPE, kind);
                metrics
            }
            "/health/live" => ok("live\n"),
            _ if self.pages.shutdown.is_started() => {
                page(StatusCode::SERVICE_UNAVAILABLE, "draining\n".to_owned())
            }
            _ => match self.pages.readiness.missing()[..] {
                [] => ok("ready\n"),
                ref missing => {
                    let body = format!("not ready: {}\n", missing.join(", "));
                    page(StatusCode::SERVICE_UNAVAILABLE, body)
                }
            },
        }
    }
}

fn page(status: StatusCode, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    let kind = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}
