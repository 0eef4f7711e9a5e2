//! The admin listener's thread: connections, who may ask, and what is read of a request.
//!
//! It must not know what is answered: that is the routes'.

use std::convert::Infallible;
use std::io;
use std::net::TcpListener;
use std::rc::Rc;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{AUTHORIZATION, HeaderMap, ORIGIN};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use subtle::ConstantTimeEq as _;
use tokio::net::TcpStream;
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::{Semaphore, oneshot};
use tracing::{debug, error, warn};

use super::AdminOptions;
use super::pages::Pages;
use super::reply::{ErrorCode, Reply};
use super::route::{Api, find};
use crate::config::Secret;

/// Longest life of a connection, whatever its client does or leaves undone.
const CONNECTION_AGE_MAX: Duration = Duration::from_secs(300);

/// Pause after a failed accept, most often for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Longest wait for one.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// Routes that may take a while, answered at once.
const ANSWERING_MAX: usize = 4;

/// The place of health and metrics among the parts of the API. They are answered by the listener's
/// own thread, so that nothing can hold them up.
const VITALS: usize = 0;

pub(super) struct Server {
    apis: Vec<Arc<Api>>,
    token: Option<Secret>,
    header_timeout: Duration,
    connections: Semaphore,
}

/// Runs the thread until `stopped` is dropped at its other end; tells `ready` how it began.
pub(super) fn run(
    server: Server,
    listener: TcpListener,
    stopped: oneshot::Receiver<()>,
    ready: &mpsc::Sender<io::Result<()>>,
) {
    // The starter waits for exactly one message.
    let runtime = Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(ANSWERING_MAX)
        .build_local(LocalOptions::default());
    let runtime = match runtime {
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
    // An answer that takes long must not hold up the end.
    runtime.shutdown_background();
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
    pub(super) fn new(options: &AdminOptions, pages: Pages) -> Self {
        Self {
            apis: pages.into_apis().into_iter().map(Arc::new).collect(),
            token: options.token.clone(),
            header_timeout: options.header_timeout,
            connections: Semaphore::new(options.connections_max),
        }
    }

    async fn connection(self: Rc<Self>, stream: TcpStream) {
        let Ok(_permit) = self.connections.try_acquire() else {
            debug!("too many admin connections: one was closed");
            return;
        };
        let answer = service_fn(|request: Request<Incoming>| async {
            let response: Response<Full<Bytes>> = self.answer(request).await.into_response();
            Ok::<_, Infallible>(response)
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

    /// The refusals come in the order of [`ErrorCode`].
    async fn answer(&self, request: Request<Incoming>) -> Reply {
        let (mut head, body) = request.into_parts();
        let path = head.uri.path();
        if !path.starts_with("/health/") && !self.may_ask(&head.headers) {
            let message = "send the configuration's `admin.token` as authorization: Bearer TOKEN";
            return Reply::error(ErrorCode::Unauthorized, message);
        }
        let found = match find(self.apis.iter().map(Arc::as_ref), &head.method, path) {
            Ok(found) => found,
            Err(refusal) => return refusal,
        };
        // Browsers send it with whatever a page has them change, the page's own site apart or not.
        let changes = !matches!(head.method, Method::GET | Method::HEAD);
        if changes && head.headers.contains_key(ORIGIN) {
            let message = "changes are not taken from web pages, which the origin header tells of";
            return Reply::error(ErrorCode::CrossOrigin, message);
        }
        let api = Arc::clone(&self.apis[found.api]);
        let body = match collected(body, api.body_bytes_max()).await {
            Ok(body) => body,
            Err(refusal) => return refusal,
        };
        // Who answers need not know the secret.
        head.headers.remove(AUTHORIZATION);
        let query = head.uri.query().unwrap_or_default();
        let call = found.call.with_request(query, head.headers, body);
        if found.api == VITALS {
            return api.answer(found.route, &call);
        }
        let answer = move || api.answer(found.route, &call);
        tokio::task::spawn_blocking(answer).await.unwrap_or_else(|panic| {
            error!(%panic, "an admin request's answer panicked");
            Reply::error(ErrorCode::Defect, "this is a defect of ours; the log says more")
        })
    }

    fn may_ask(&self, headers: &HeaderMap) -> bool {
        let Some(token) = &self.token else { return true };
        let given = headers.get(AUTHORIZATION).map(|value| value.as_bytes().trim_ascii());
        let given = given.and_then(|value| value.split_at_checked("bearer ".len()));
        given.is_some_and(|(scheme, given)| {
            let is_bearer = scheme.eq_ignore_ascii_case(b"bearer ");
            // How long it takes must not tell how much of it is right.
            is_bearer && bool::from(given.trim_ascii().ct_eq(token.expose().as_bytes()))
        })
    }
}

/// Reads a body to its end, also one that nobody wants, so that the connection serves on.
async fn collected(body: Incoming, bytes_max: usize) -> Result<Bytes, Reply> {
    let limited = Limited::new(body, bytes_max).collect();
    match tokio::time::timeout(BODY_TIMEOUT, limited).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            let message = format!("the body is larger than {bytes_max} bytes");
            Err(Reply::error(ErrorCode::BodyTooLarge, &message))
        }
        Ok(Err(error)) => {
            debug!(%error, "the body of an admin request broke off");
            Err(Reply::error(ErrorCode::BodyTimeout, "the body broke off"))
        }
        Err(_) => {
            let message = format!("the body did not come within {BODY_TIMEOUT:?}");
            Err(Reply::error(ErrorCode::BodyTimeout, &message))
        }
    }
}
