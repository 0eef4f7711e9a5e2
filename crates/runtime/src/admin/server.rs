//! The admin listener: connections, access, and reading of requests. Routes run on blocking
//! threads, some of which are reserved for health and metrics. It must not know what routes answer.

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use http_kit::body::{BodyError, BodyLimits, read_encoded};
use http_kit::head::HeadLimits;
use http_kit::head::check_head;
use http_kit::server::{HttpHandler, serve_http1};
use hyper::body::{Body as _, Bytes, Incoming};
use hyper::header::{AUTHORIZATION, HeaderMap, ORIGIN};
use hyper::{Method, Request, Response};
use subtle::ConstantTimeEq as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tracing::{debug, error, warn};

use super::host::names_listener;
use super::openapi::is_open;
use super::options::AdminOptions;
use super::pages::Pages;
use super::reply::{ErrorCode, Reply, ReplyResult};
use super::route::{Api, find};
use crate::config::Secret;
use crate::control::BLOCKING_MAX;
use crate::shards::{
    ActiveStream, Activity, ConnectionLimits, ConnectionTable, ConnectionTimeouts,
};
use crate::shutdown::Shutdown;

/// Longest life of a connection, idle or not.
const CONNECTION_AGE_MAX: Duration = Duration::from_secs(300);

/// Pause after a failed accept, most often because descriptors ran out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Limits on request heads: definitions are in bodies.
const HEADS: HeadLimits = HeadLimits { bytes_max: 64 * 1024, fields_max: 100 };

const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// Most service routes that run concurrently; each may wait for the ledger, a file or a reload.
const ANSWERING_MAX: usize = 4;

const _: () = assert!(ANSWERING_MAX < BLOCKING_MAX, "a thread is left for health and metrics");

/// Connections beyond `connections_max` for health and metrics alone, accepted while all others
/// have requests under way: a liveness probe must not fail because operators are busy.
pub const HEALTH_CONNECTIONS: usize = 8;

/// Index of health and metrics among the APIs.
const HEALTH: usize = 0;

pub(super) struct Server {
    apis: Vec<Arc<Api>>,
    token: Option<Secret>,
    hosts: Vec<String>,
    timeouts: ConnectionTimeouts,
    shutdown: Shutdown,
    connections: ConnectionTable,
    /// For health and metrics alone.
    health: ConnectionTable,
    /// Threads for all other routes.
    answering: Arc<Semaphore>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    All,
    Health,
}

impl Server {
    pub(super) fn new(options: &AdminOptions, pages: Pages) -> Self {
        Self {
            shutdown: pages.shutdown.clone(),
            apis: pages.into_apis().into_iter().map(Arc::new).collect(),
            token: options.token.clone(),
            hosts: options.hosts.clone(),
            timeouts: options.timeouts,
            connections: table(options.connections_max),
            health: table(HEALTH_CONNECTIONS),
            answering: Arc::new(Semaphore::new(ANSWERING_MAX)),
        }
    }

    /// Accepts connections. Dropping the future closes them.
    pub(super) async fn run(self, listener: TcpListener) {
        let server = Rc::new(self);
        let mut connections = JoinSet::new();
        loop {
            match listener.accept().await {
                Ok((stream, peer)) => match server.enter(peer) {
                    Some((activity, scope)) => {
                        let server = Rc::clone(&server);
                        connections.spawn_local(async move {
                            server.serve(stream, activity, scope).await;
                        });
                    }
                    None => debug!("too many admin connections: one was closed"),
                },
                Err(error) => {
                    warn!(%error, "the admin listener cannot accept connections");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
            while connections.try_join_next().is_some() {}
        }
    }

    fn enter(&self, peer: SocketAddr) -> Option<(Activity, Scope)> {
        let of_all = self.connections.enter(peer.ip()).map(|place| (place, Scope::All));
        let entered =
            of_all.or_else(|| self.health.enter(peer.ip()).map(|place| (place, Scope::Health)));
        entered.map(|(place, scope)| (Activity::new(place), scope))
    }

    async fn serve(self: Rc<Self>, stream: TcpStream, activity: Activity, scope: Scope) {
        let timeouts = self.timeouts;
        let stream = ActiveStream::new(stream, activity.clone(), self.shutdown.clone());
        let handler =
            Rc::new(OperatorConnection { server: self, activity: activity.clone(), scope });
        // A drain must not close the connections of operators who watch it.
        let connection = serve_http1(stream, HEADS, &handler, std::future::pending());
        let connection = activity.limited(&timeouts, connection);
        match tokio::time::timeout(CONNECTION_AGE_MAX, connection).await {
            Ok(Ok(Ok(()))) => (),
            Ok(Ok(Err(error))) => debug!(%error, "an admin connection failed"),
            Ok(Err(end)) => debug!(%end, "an admin connection was closed"),
            Err(_) => debug!("an admin connection reached its age limit"),
        }
    }

    /// The first check that fails decides.
    async fn reply(&self, request: Request<Incoming>, scope: Scope) -> ReplyResult {
        let (mut head, body) = request.into_parts();
        check_head(&head).map_err(|malformed| {
            Reply::error(ErrorCode::BadRequest, &malformed.to_string()).and_close()
        })?;
        let path = head.uri.path();
        if !is_open(path) && !names_listener(&head, &self.hosts) {
            let message = "name the listener by its address, as localhost, or as one of \
                           `admin.hosts`";
            return Err(Reply::error(ErrorCode::MisdirectedRequest, message));
        }
        if !is_open(path) && !self.is_authorized(&head.headers) {
            let message = "send the configuration's `admin.token` as authorization: Bearer TOKEN";
            return Err(Reply::error(ErrorCode::Unauthorized, message));
        }
        let found = find(self.apis.iter().map(Arc::as_ref), &head.method, path)?;
        // Browsers send `Origin` with every change that a page requests, even on its own site.
        let changes = !matches!(head.method, Method::GET | Method::HEAD);
        if changes && head.headers.contains_key(ORIGIN) {
            let message = "requests with an `origin` header come from web pages and may not change \
                           anything";
            return Err(Reply::error(ErrorCode::CrossOrigin, message));
        }
        if scope == Scope::Health && found.api != HEALTH {
            let message = "all of `admin.connections_max` connections have requests under way";
            return Err(Reply::error(ErrorCode::Unavailable, message).and_close());
        }
        let api = Arc::clone(&self.apis[found.api]);
        // Routes need not know the secret.
        head.headers.remove(AUTHORIZATION);
        let query = head.uri.query().unwrap_or_default();
        if found.api == HEALTH {
            // Health needs no token: a body that never arrives must not occupy its connection.
            let call = found.call.with_request(query, head.headers, Bytes::new());
            let answered = run_blocking(move || api.answer(found.route, &call)).await;
            let (Ok(reply) | Err(reply)) = answered;
            return Ok(if body.is_end_stream() { reply } else { reply.and_close() });
        }
        let body = read_body(body, api.body_bytes_max()).await?;
        let call = found.call.with_request(query, head.headers, body);
        let answering = Arc::clone(&self.answering).acquire_owned().await;
        let permit = answering.expect("it is never closed");
        run_blocking(move || {
            // Held until the route returns, even if the client has left.
            let _permit = permit;
            api.answer(found.route, &call)
        })
        .await
    }

    fn is_authorized(&self, headers: &HeaderMap) -> bool {
        let Some(token) = &self.token else { return true };
        let given = headers.get(AUTHORIZATION).map(|value| value.as_bytes().trim_ascii());
        let given = given.and_then(|value| value.split_at_checked("bearer ".len()));
        given.is_some_and(|(scheme, given)| {
            let is_bearer = scheme.eq_ignore_ascii_case(b"bearer ");
            // Constant time: the duration must not tell how much of the token is right.
            is_bearer && bool::from(given.trim_ascii().ct_eq(token.expose().as_bytes()))
        })
    }
}

fn table(connections_max: usize) -> ConnectionTable {
    // No limit per address: operators and probes often share one.
    let limits = ConnectionLimits { total: connections_max, per_address: usize::MAX };
    ConnectionTable::new(limits)
}

async fn run_blocking(route: impl FnOnce() -> ReplyResult + Send + 'static) -> ReplyResult {
    tokio::task::spawn_blocking(route).await.unwrap_or_else(|panic| {
        error!(%panic, "an admin request's answer panicked");
        Err(Reply::error(ErrorCode::Defect, "this is a defect of ours; the log says more"))
    })
}

/// Reads a body to its end, even an unwanted one, so that the connection stays usable.
async fn read_body(body: Incoming, bytes_max: usize) -> Result<Bytes, Reply> {
    let limits = BodyLimits { bytes_max, timeout: BODY_TIMEOUT };
    read_encoded(body, limits).await.map_err(|error| {
        debug!(%error, "the body of an admin request is not read");
        let code = match error {
            BodyError::TooLarge(_) => ErrorCode::BodyTooLarge,
            _ => ErrorCode::BodyTimeout,
        };
        Reply::error(code, &error.to_string())
    })
}

struct OperatorConnection {
    server: Rc<Server>,
    activity: Activity,
    scope: Scope,
}

impl HttpHandler for OperatorConnection {
    type Body = Full<Bytes>;

    async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let _request = self.activity.request();
        let (Ok(reply) | Err(reply)) = self.server.reply(request, self.scope).await;
        reply.into_response()
    }
}
