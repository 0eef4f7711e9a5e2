//! Requests to the listener: an upgrade to WebSocket, a stream of events, a message to publish.

use std::borrow::Cow;
use std::rc::Rc;

use bytes::Bytes;
use events::Publication;
use http_body_util::{Either, Full};
use http_kit::head::MalformedHead;
use http_kit::query::query_value;
use hyper::header::{
    ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue,
    RETRY_AFTER, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, UPGRADE,
    WWW_AUTHENTICATE,
};
use hyper::http::request::Parts;
use hyper::{Method, Response, StatusCode};
use live_core::feed::{FeedPosition, SlowPolicy};
use live_core::protocol::{LiveError, LiveErrorCode, ServerMessage, Subscribe};
use live_core::rights::LiveRights;
use live_core::topic::TopicName;
use live_core::websocket::{UpgradeError, UpgradeHeaders, WEBSOCKET_VERSION};
use runtime::service::{
    ClientConnection, ConnectionOptions, HttpRequest, HttpService, LocalFuture, ServiceShard,
};
use serde_json::value::RawValue;

use crate::access::RequestOrigin;
use crate::clients::socket;
use crate::clients::stream::EventStream;
use crate::config::LiveConfig;
use crate::shard::LiveShard;

/// Path of the feed over WebSocket.
pub const FEED_PATH: &str = "/feed";
/// Path of the feed as server-sent events.
pub const EVENTS_PATH: &str = "/events";
/// Path for publishing.
pub const PUBLISH_PATH: &str = "/publish";

/// Path of the page on which people bid for lots.
pub const LOTS_PATH: &str = "/lots";
/// The page: one file, without anything from elsewhere.
const LOTS_PAGE: &str = include_str!("lots/page.html");
/// The id of the last event that a client has read (HTML Standard, section 9.2.4).
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// Bytes that the kernel keeps unsent for a connection: a stalled client costs little memory.
const UNSENT_MAX: u32 = 16 << 10;

type LiveBody = Either<Full<Bytes>, EventStream>;

impl ServiceShard for LiveShard {
    fn connection_options(&self, _listener: usize) -> ConnectionOptions {
        let LiveConfig { tls, timeouts, .. } = &self.context.config;
        ConnectionOptions {
            tls: tls.clone(),
            timeouts: timeouts.connection,
            write_timeout: timeouts.write,
            unsent_max: Some(UNSENT_MAX),
            dates_arrivals: false,
        }
    }

    fn serve(self: Rc<Self>, connection: ClientConnection) -> LocalFuture<'static, ()> {
        Box::pin(connection.serve_http(LiveConfig::HEADS, LiveHttp(self)))
    }
}

struct LiveHttp(Rc<LiveShard>);

impl HttpService for LiveHttp {
    type Body = LiveBody;

    const UPGRADES: bool = true;

    async fn answer(&self, request: HttpRequest) -> Response<LiveBody> {
        let (path, method) = (request.head.uri.path().to_owned(), request.head.method.clone());
        let allowed = match &*path {
            FEED_PATH | EVENTS_PATH | LOTS_PATH => Method::GET,
            PUBLISH_PATH => Method::POST,
            _ => {
                let message = format!(
                    "nothing is served here: see {FEED_PATH}, {EVENTS_PATH}, {PUBLISH_PATH} and {LOTS_PATH}"
                );
                return plain(StatusCode::NOT_FOUND, &message);
            }
        };
        if method != allowed {
            let mut response =
                plain(StatusCode::METHOD_NOT_ALLOWED, &format!("use {allowed} for {path}"));
            let allowed =
                HeaderValue::from_str(allowed.as_str()).expect("a method is a header's value");
            response.headers_mut().insert(ALLOW, allowed);
            return response;
        }
        let answered = match &*path {
            FEED_PATH => self.feed(&request),
            EVENTS_PATH => self.events(&request),
            LOTS_PATH => Ok(lots_page()),
            _ => self.publish(request).await,
        };
        answered.unwrap_or_else(|error| {
            self.0.count_refusal(&error);
            refusal(&error)
        })
    }

    fn malformed(&self, problem: &MalformedHead) -> Response<LiveBody> {
        plain(StatusCode::BAD_REQUEST, &problem.to_string())
    }
}

impl LiveHttp {
    /// The rights with which a request begins.
    fn rights(&self, request: &HttpRequest) -> Result<Option<LiveRights>, LiveError> {
        let HttpRequest { head, peer, .. } = request;
        let token = parameter(head, "access_token")?;
        let from = RequestOrigin { head, peer: *peer };
        self.0.context.access.rights(&from, token.as_deref())
    }

    fn needed_rights(&self, request: &HttpRequest) -> Result<LiveRights, LiveError> {
        self.rights(request)?.ok_or_else(|| {
            let message = "needs a token: send `Authorization: Bearer …`";
            LiveError::new(LiveErrorCode::BadToken, message)
        })
    }

    fn feed(&self, request: &HttpRequest) -> Result<Response<LiveBody>, LiveError> {
        let head = &request.head;
        let upgrade = joined(&head.headers, &UPGRADE);
        let connection = joined(&head.headers, &CONNECTION);
        let version = joined(&head.headers, &SEC_WEBSOCKET_VERSION);
        let key = joined(&head.headers, &SEC_WEBSOCKET_KEY);
        let accept = UpgradeHeaders {
            upgrade: upgrade.as_deref(),
            connection: connection.as_deref(),
            version: version.as_deref(),
            key: key.as_deref(),
        };
        let accept = match accept.accept() {
            Ok(accept) if head.version == hyper::Version::HTTP_11 => accept,
            Ok(_) => return Ok(not_upgraded(UpgradeError::Upgrade)),
            Err(error) => return Ok(not_upgraded(error)),
        };
        let rights = self.rights(request)?;
        let shard = Rc::clone(&self.0);
        request.upgrade(move |upgraded| socket::serve(shard, upgraded, rights));
        let mut response = Response::new(Either::Left(Full::default()));
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        let accept = HeaderValue::from_str(&accept).expect("base64 is a header's value");
        let headers = response.headers_mut();
        headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
        headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(SEC_WEBSOCKET_ACCEPT, accept);
        Ok(response)
    }

    fn events(&self, request: &HttpRequest) -> Result<Response<LiveBody>, LiveError> {
        let rights = self.needed_rights(request)?;
        let head = &request.head;
        let topic = needed(head, "topic")?;
        let policy = match parameter(head, "policy")?.as_deref() {
            None | Some("strict") => SlowPolicy::Strict,
            Some("conflate") => SlowPolicy::Conflate,
            Some(_) => return Err(bad("policy", "is `strict` or `conflate`")),
        };
        let last = head.headers.get(LAST_EVENT_ID).and_then(|id| id.to_str().ok());
        let after = match (last, parameter(head, "after")?) {
            (Some(last), _) => Some(Cow::Borrowed(last)),
            (None, after) => after.map(Cow::Owned),
        };
        let after = after.map(|text| text.parse::<FeedPosition>()).transpose();
        let after = after.map_err(|error| bad("after", &error.to_string()))?;
        let filter = parameter(head, "filter")?.unwrap_or_default();
        let topic = TopicName::of(&topic);
        let wanted = Subscribe { topic, filter: filter.into(), policy, after };
        let stream = EventStream::open(&self.0, rights, &wanted)?;
        let mut response = Response::new(Either::Right(stream));
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        Ok(response)
    }

    async fn publish(&self, request: HttpRequest) -> Result<Response<LiveBody>, LiveError> {
        let rights = self.needed_rights(&request)?;
        let (topic, key) = (needed(&request.head, "topic")?, parameter(&request.head, "key")?);
        let limits = self.0.context.config.limits.body();
        let body = http_kit::body::read(&request.head.headers, request.body, limits).await;
        let body = body.map_err(|error| {
            let code = match error.status() {
                StatusCode::PAYLOAD_TOO_LARGE => LiveErrorCode::TooLarge,
                _ => LiveErrorCode::Malformed,
            };
            LiveError::new(code, error.to_string())
        })?;
        let body = serde_json::from_slice::<&RawValue>(&body).map_err(|error| {
            LiveError::new(LiveErrorCode::Malformed, format!("the body is not JSON: {error}"))
        })?;
        let (topic, key) = (&*topic, key.unwrap_or_default());
        let publisher = &*rights.subject;
        let publication = Publication { topic, publisher, key: &key, body: body.get() };
        self.0.publish(&rights, &publication)?;
        Ok(json(StatusCode::ACCEPTED, ServerMessage::Published { id: None, topic }.to_json()))
    }
}

fn bad(field: &'static str, message: &str) -> LiveError {
    LiveError::field(LiveErrorCode::BadField, field, format!("`{field}` {message}"))
}

/// A value of the query.
fn parameter(head: &Parts, name: &'static str) -> Result<Option<String>, LiveError> {
    let query = head.uri.query().unwrap_or_default();
    query_value(query, name).map_err(|error| bad(name, &error.to_string()))
}

fn needed(head: &Parts, name: &'static str) -> Result<String, LiveError> {
    parameter(head, name)?.ok_or_else(|| bad(name, "is missing in the query"))
}

/// All values of a header, as one list (RFC 9110, section 5.3).
fn joined(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    let values: Vec<_> = values.collect();
    (!values.is_empty()).then(|| values.join(", "))
}

fn json(status: StatusCode, body: impl Into<Bytes>) -> Response<LiveBody> {
    let mut response = Response::new(Either::Left(Full::new(body.into())));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn lots_page() -> Response<LiveBody> {
    let mut response = Response::new(Either::Left(Full::from(LOTS_PAGE)));
    http_kit::server::page::set_headers(response.headers_mut());
    response
}

fn plain(status: StatusCode, message: &str) -> Response<LiveBody> {
    let error = LiveError::new(LiveErrorCode::Malformed, message);
    json(status, ServerMessage::error(None, &error).to_json())
}

fn not_upgraded(error: UpgradeError) -> Response<LiveBody> {
    let status = StatusCode::from_u16(error.status()).expect("it is a status");
    let mut response = plain(status, &error.to_string());
    if status == StatusCode::UPGRADE_REQUIRED {
        let headers = response.headers_mut();
        headers.insert(SEC_WEBSOCKET_VERSION, HeaderValue::from_static(WEBSOCKET_VERSION));
        headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    }
    response
}

fn refusal(error: &LiveError) -> Response<LiveBody> {
    let status = match error.code {
        LiveErrorCode::BadToken => StatusCode::UNAUTHORIZED,
        LiveErrorCode::Forbidden => StatusCode::FORBIDDEN,
        LiveErrorCode::UnknownTopic | LiveErrorCode::UnknownLot => StatusCode::NOT_FOUND,
        LiveErrorCode::Refused => StatusCode::CONFLICT,
        LiveErrorCode::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        LiveErrorCode::Busy | LiveErrorCode::RateLimited | LiveErrorCode::Limit => {
            StatusCode::TOO_MANY_REQUESTS
        }
        LiveErrorCode::Malformed
        | LiveErrorCode::UnknownOp
        | LiveErrorCode::BadField
        | LiveErrorCode::BadFilter
        | LiveErrorCode::Subscription => StatusCode::BAD_REQUEST,
    };
    let mut response = json(status, ServerMessage::error(None, error).to_json());
    let headers = response.headers_mut();
    if status == StatusCode::UNAUTHORIZED {
        headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    if status == StatusCode::TOO_MANY_REQUESTS {
        headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Size of what serves a connection to its end.
    fn serving_bytes<F>(_serve: impl FnOnce(ClientConnection, LiveHttp) -> F) -> usize {
        size_of::<F>()
    }

    #[test]
    fn an_idle_client_does_not_keep_the_room_of_a_request() {
        let bytes =
            serving_bytes(|connection, http| connection.serve_http(LiveConfig::HEADS, http));
        assert!(bytes <= 2048, "{bytes} bytes");
    }
}
