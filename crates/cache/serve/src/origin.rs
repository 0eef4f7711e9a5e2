//! Requests to origins, and what is wrong with their answers.

pub(crate) mod body;
mod files;
pub(crate) mod health;

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cache_core::fields::dates::UnixSeconds;
use cache_core::fields::forwarding::connection::remove_connection_fields;
use cache_core::fields::forwarding::{CDN_LOOP, via_member};
use cache_core::key::CacheKey;
use http_body_util::{Either, Full};
use http_kit::client::{AddressRule, ClientOptions, HttpClient, RequestBody, RequestError};
use http_kit::dns::SystemNames;
use http_kit::tls::{Authorities, client_config};
use hyper::ext::on_informational;
use hyper::header::{
    CONTENT_LENGTH, EXPECT, HOST, HeaderMap, HeaderValue, IF_MATCH, IF_MODIFIED_SINCE,
    IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE, RANGE, TRANSFER_ENCODING, VIA,
};
use hyper::http::uri::{Authority, PathAndQuery, Scheme};
use hyper::{Method, Request, Response, StatusCode, Uri, Version};
use runtime::process::unix_ms;
use tokio::sync::mpsc::UnboundedSender;

use crate::config::{CacheRoute, CacheRoutes, OriginPlace};
use body::OriginBody;
use files::FileRequest;
use health::OriginsHealth;

/// Idle connections to one origin, per shard.
const IDLE_PER_ORIGIN_MAX: usize = 64;
/// An idle connection is closed after this time. Many servers keep theirs for longer.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// A request to an origin fails at the latest then, whatever its route says.
const ANSWER_TIMEOUT_MAX: Duration = Duration::from_secs(600);

/// Why there is no answer of the origin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum OriginError {
    #[error("the origin cannot be reached: {0}")]
    Unreachable(Arc<str>),
    #[error("the origin did not answer in time")]
    TimedOut,
    #[error("the origin's answer is not HTTP: {0}")]
    Malformed(Arc<str>),
    #[error("the origin's answer broke off: {0}")]
    BrokenOff(Arc<str>),
    #[error("the origin's answer stalled")]
    Stalled,
    #[error("the origin answered {0}")]
    Status(StatusCode),
    #[error("the origin failed {0} times in a row, and is tried again soon")]
    LeftAlone(u32),
    #[error("too many connections to origins are open")]
    TooManyConnections,
    #[error("the request that fetched it ended")]
    Abandoned,
}

impl From<RequestError> for OriginError {
    fn from(error: RequestError) -> Self {
        match error {
            RequestError::TimedOut => Self::TimedOut,
            RequestError::TooManyConnections => Self::TooManyConnections,
            RequestError::Broken(text) => Self::Malformed(text.into()),
            other => Self::Unreachable(other.to_string().into()),
        }
    }
}

/// An interim answer of an origin, which is passed on and never stored. `100 (Continue)` is not: each
/// connection has its own.
#[derive(Debug)]
pub(crate) struct InterimHead {
    pub status: StatusCode,
    pub headers: HeaderMap,
}

/// Where interim answers go.
pub(crate) type InterimSender = UnboundedSender<InterimHead>;

/// Connections to all origins of one shard.
pub(crate) struct Origins {
    routes: CacheRoutes,
    health: Arc<OriginsHealth>,
    /// By route. Those that trust the same signers share one.
    clients: Vec<Rc<HttpClient>>,
}

impl Origins {
    /// Must run within a runtime.
    pub fn new(routes: CacheRoutes, health: Arc<OriginsHealth>, connections_max: usize) -> Self {
        let authorities = routes.all().iter().map(|route| route.authorities.as_ref());
        let distinct: HashSet<_> = authorities.clone().collect();
        let connections_max = (connections_max / distinct.len().max(1)).max(1);
        let mut clients = HashMap::new();
        let mut client = |authorities: Option<&Authorities>| {
            let new = || {
                let options = ClientOptions {
                    timeout: ANSWER_TIMEOUT_MAX,
                    idle_timeout: IDLE_TIMEOUT,
                    idle_per_host_max: IDLE_PER_ORIGIN_MAX.min(connections_max),
                    connections_max,
                    addresses: AddressRule::Any,
                    tls: Arc::new(client_config(authorities.map(|authorities| &**authorities))),
                };
                Rc::new(HttpClient::new(options, Arc::new(SystemNames::new())))
            };
            Rc::clone(clients.entry(authorities.cloned()).or_insert_with(new))
        };
        let clients = authorities.map(&mut client).collect();
        Self { routes, health, clients }
    }

    /// The head of the answer, checked, and its body as it comes. Interim answers go to `interim`.
    pub async fn send(
        &self,
        route: usize,
        mut request: Request<RequestBody>,
        interim: Option<InterimSender>,
    ) -> Result<Response<OriginBody>, OriginError> {
        let CacheRoute { id, health, answer_timeout, origin, .. } = &*self.routes.all()[route];
        if let OriginPlace::Folder(folder) = origin {
            let read = tokio::time::timeout(*answer_timeout, read(folder, &request)).await;
            return read.unwrap_or(Err(OriginError::TimedOut));
        }
        if !self.health.admits(route) {
            return Err(OriginError::LeftAlone(health.failures_max));
        }
        if let Some(interim) = interim {
            // The client of origins bounds how many there are.
            on_informational(&mut request, move |head| {
                let status = head.status();
                if !matches!(status, StatusCode::CONTINUE | StatusCode::SWITCHING_PROTOCOLS) {
                    let mut headers = head.headers().clone();
                    remove_connection_fields(&mut headers);
                    // The client may have gone.
                    let _gone = interim.send(InterimHead { status, headers });
                }
            });
        }
        let has_body = matches!(request.body(), Either::Right(_));
        let sent = self.clients[route].send(request);
        let answered = tokio::time::timeout(*answer_timeout, sent).await;
        let answered = match answered {
            Ok(answered) => answered.map_err(OriginError::from),
            Err(_) => Err(OriginError::TimedOut),
        };
        match &answered {
            Ok(_) => self.health.record(route, id, true),
            // A client that sends its body too slowly, or too much of it, is no fault of the origin.
            Err(OriginError::TimedOut | OriginError::Malformed(_)) if has_body => (),
            Err(OriginError::TooManyConnections) => (),
            Err(_) => self.health.record(route, id, false),
        }
        let mut response = answered?;
        let headers = response.headers_mut();
        // Two framings: what one reader takes for the end is the middle for another (RFC 9112,
        // section 6.3).
        if headers.contains_key(TRANSFER_ENCODING) && headers.contains_key(CONTENT_LENGTH) {
            let text = "it has a content-length and a transfer-encoding";
            return Err(OriginError::Malformed(text.into()));
        }
        remove_connection_fields(headers);
        Ok(response.map(OriginBody::Received))
    }
}

/// The answer of a folder's files.
async fn read(
    folder: &Path,
    request: &Request<RequestBody>,
) -> Result<Response<OriginBody>, OriginError> {
    let request = FileRequest {
        method: request.method().clone(),
        path: request.uri().path().to_owned(),
        headers: request.headers().clone(),
    };
    let now = UnixSeconds(unix_ms() / 1000);
    let answered = files::answer(folder.to_owned(), request, now).await;
    answered.map_err(|error| OriginError::Unreachable(error.to_string().into()))
}

/// A request of a client, as it goes to the origin.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ForwardedHead<'f> {
    pub method: &'f Method,
    pub version: Version,
    /// The origin is asked for its path and query, and sees its host.
    pub key: &'f CacheKey,
    pub headers: &'f HeaderMap,
    /// This cache's name.
    pub name: &'f str,
}

impl ForwardedHead<'_> {
    /// A request without the conditions of the client, whose response may be stored.
    pub fn for_store(&self, route: &CacheRoute) -> Request<RequestBody> {
        let mut request = self.with_body(route, Either::Left(Full::new(Bytes::new())));
        let headers = request.headers_mut();
        for name in
            [IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE, RANGE]
        {
            headers.remove(name);
        }
        headers.remove(CONTENT_LENGTH);
        request
    }

    /// The client's own request.
    pub fn with_body(&self, route: &CacheRoute, body: RequestBody) -> Request<RequestBody> {
        let mut headers = self.headers.clone();
        remove_connection_fields(&mut headers);
        headers.remove(EXPECT);
        let text = |text: &str| HeaderValue::from_str(text).expect("names and keys are checked");
        // HTTP/2 has no such field, and in an absolute URI the host stands above it (RFC 9112,
        // section 3.2.2).
        headers.insert(HOST, text(route.origin_host.as_deref().unwrap_or(self.key.authority())));
        headers.append(VIA, text(&via_member(self.version, self.name)));
        headers.append(&CDN_LOOP, text(self.name));
        let mut request = Request::new(body);
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = self.uri(route);
        *request.headers_mut() = headers;
        request
    }

    fn uri(&self, route: &CacheRoute) -> Uri {
        let mut parts = hyper::http::uri::Parts::default();
        parts.path_and_query = PathAndQuery::try_from(self.key.target()).ok();
        let OriginPlace::Server(origin) = &route.origin else {
            return Uri::from_parts(parts).expect("a key has a path");
        };
        let is_tls = origin.scheme() == "https";
        parts.scheme = Some(if is_tls { Scheme::HTTPS } else { Scheme::HTTP });
        let host = origin.host_str().unwrap_or_default();
        let authority = match origin.port() {
            Some(port) => format!("{host}:{port}"),
            None => host.to_owned(),
        };
        parts.authority = Authority::try_from(authority).ok();
        Uri::from_parts(parts).expect("an origin is a URI")
    }
}
