//! Callers' HTTP: reads a request within limits, runs the auction, writes the answer.

mod beacon;

use std::rc::Rc;

use bytes::Bytes;
use exchange_core::no_bid;
use http_body_util::Full;
use http_kit::gzip::{gzip, prefers_gzip};
use http_kit::head::MalformedHead;
use hyper::body::Incoming;
use hyper::header::{
    ALLOW, AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER, VARY,
};
use hyper::http::request::Parts;
use hyper::{Method, Response, StatusCode};
use openrtb::codes::NoBidReason;
use runtime::service::{
    ClientConnection, ConnectionOptions, HeadLimits, HttpRequest, HttpService, LocalFuture,
    ServiceShard,
};

use crate::auctions::auction::{self, AuctionReply, AuctionRequest};
use crate::config::{ExchangeConfig, InboundLimits, OverloadAnswer};
use crate::http::beacon::{BEACON_PATH, BeaconCall};
use crate::shard::ExchangeShard;

/// Path of bid requests.
pub const AUCTION_PATH: &str = "/openrtb2/auction";
/// Most header fields of a request.
const HEADERS_MAX: usize = 64;

#[derive(Clone, Debug, PartialEq, Eq)]
struct RequestRefusal {
    status: StatusCode,
    problem: String,
    /// The allowed method.
    allow: Option<&'static str>,
}

impl RequestRefusal {
    fn with(status: StatusCode, problem: impl Into<String>) -> Self {
        Self { status, problem: problem.into(), allow: None }
    }

    fn method(allow: &'static str, problem: &str) -> Self {
        let status = StatusCode::METHOD_NOT_ALLOWED;
        Self { allow: Some(allow), ..Self::with(status, problem) }
    }
}

impl ServiceShard for ExchangeShard {
    fn connection_options(&self, _listener: usize) -> ConnectionOptions {
        let snapshot = self.snapshot();
        let config = snapshot.config();
        let InboundLimits { timeouts, write_timeout, .. } = config.inbound;
        ConnectionOptions {
            tls: config.tls.clone(),
            timeouts,
            write_timeout,
            unsent_max: None,
            dates_arrivals: true,
        }
    }

    fn serve(self: Rc<Self>, connection: ClientConnection) -> LocalFuture<'static, ()> {
        let heads = HeadLimits {
            bytes_max: self.snapshot().config().inbound.head_max,
            fields_max: HEADERS_MAX,
        };
        Box::pin(connection.serve_either_http(heads, ExchangeHttp(self)))
    }

    fn count_failed_handshake(&self) {
        self.metrics.handshakes_failed.increment();
    }

    fn close(self: Rc<Self>) -> LocalFuture<'static, ()> {
        Box::pin(async move {
            if let Some(budget) = self.budget() {
                budget.close().await;
            }
        })
    }
}

struct ExchangeHttp(Rc<ExchangeShard>);

impl HttpService for ExchangeHttp {
    type Body = Full<Bytes>;

    async fn answer(&self, request: HttpRequest) -> Response<Full<Bytes>> {
        let Self(shard) = self;
        let HttpRequest { head, body, arrival, peer, .. } = request;
        let snapshot = shard.snapshot();
        if head.uri.path().starts_with(BEACON_PATH) && head.method == Method::GET {
            let (uri, headers) = (&head.uri, &head.headers);
            let called = BeaconCall { shard, snapshot: &snapshot, uri, headers, peer };
            return called.answer().await;
        }
        let config = snapshot.config();
        if let Err(refusal) = check_bid_request_head(&head) {
            return self.refuse(&refusal);
        }
        // Never refuse beacons for overload: they bill.
        let Ok(in_flight) = shard.parts.admission.admit(arrival).await else {
            shard.metrics.count_no_bid(NoBidReason::Overloaded);
            return overloaded(&head.headers, body, config).await;
        };
        let body = match http_kit::body::read(&head.headers, body, config.inbound.body).await {
            Ok(body) => body,
            Err(error) => {
                return self.refuse(&RequestRefusal::with(error.status(), error.to_string()));
            }
        };
        let key = caller_key(&head.headers);
        let traceparent = head.headers.get("traceparent").map(HeaderValue::as_bytes);
        let request = AuctionRequest { arrival, body: &body, key, traceparent };
        let reply = auction::run(shard, &snapshot, request).await;
        drop(in_flight);
        answer(reply, shard, prefers_gzip(&head.headers))
    }

    fn malformed(&self, problem: &MalformedHead) -> Response<Full<Bytes>> {
        self.refuse(&RequestRefusal::with(StatusCode::BAD_REQUEST, problem.to_string()))
    }
}

impl ExchangeHttp {
    fn refuse(&self, refusal: &RequestRefusal) -> Response<Full<Bytes>> {
        self.0.metrics.turned_away.increment();
        refuse(refusal)
    }
}

/// Checks that the head is a bid request's.
fn check_bid_request_head(head: &Parts) -> Result<(), RequestRefusal> {
    if head.uri.path().starts_with(BEACON_PATH) {
        return Err(RequestRefusal::method("GET", "notices are called with GET"));
    }
    if head.uri.path() != AUCTION_PATH {
        let problem = format!("nothing is served here; bid requests are posted to {AUCTION_PATH}");
        return Err(RequestRefusal::with(StatusCode::NOT_FOUND, problem));
    }
    if head.method != Method::POST {
        return Err(RequestRefusal::method("POST", "use POST for bid requests"));
    }
    if !is_json(&head.headers) {
        let problem = "content-type is application/json, text/plain or absent";
        return Err(RequestRefusal::with(StatusCode::UNSUPPORTED_MEDIA_TYPE, problem));
    }
    Ok(())
}

/// Answers a bid request that the shard has no time for. Reads the body so that the connection can
/// be reused; inflates and parses it only if the answer needs the request's id.
async fn overloaded(
    headers: &HeaderMap,
    body: Incoming,
    config: &ExchangeConfig,
) -> Response<Full<Bytes>> {
    let is_explained = config.overload_answer == OverloadAnswer::NoBid && config.explain_no_bid;
    let limits = config.inbound.body;
    let body = if is_explained {
        http_kit::body::read(headers, body, limits).await.unwrap_or_default()
    } else {
        let _ = http_kit::body::read_encoded(body, limits).await;
        Bytes::new()
    };
    match config.overload_answer {
        OverloadAnswer::Unavailable => {
            let problem = "the exchange is overloaded; try again in a second";
            refuse(&RequestRefusal::with(StatusCode::SERVICE_UNAVAILABLE, problem))
        }
        OverloadAnswer::NoBid if config.explain_no_bid => {
            let id = std::str::from_utf8(&body).ok().and_then(openrtb::request_id);
            json(StatusCode::OK, no_bid(id.unwrap_or("\"\""), NoBidReason::Overloaded))
        }
        OverloadAnswer::NoBid => no_content(),
    }
}

fn no_content() -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}

/// Smallest answer to compress: smaller ones fit one packet with their head.
const GZIP_BYTES_MIN: usize = 1024;

fn answer(
    reply: AuctionReply,
    shard: &Rc<ExchangeShard>,
    prefers_gzip: bool,
) -> Response<Full<Bytes>> {
    let negotiated = |body: String| negotiated(body, prefers_gzip);
    match reply {
        AuctionReply::Bid { body, notices } => {
            if !notices.is_empty() {
                let shard = Rc::clone(shard);
                // Runs once the kernel has the answer.
                tokio::task::spawn_local(async move { shard.send_notices(notices) });
            }
            negotiated(body)
        }
        AuctionReply::Invalid(invalid) => json(StatusCode::BAD_REQUEST, invalid.to_json()),
        AuctionReply::CallerRefused { status, problem } => {
            refuse(&RequestRefusal::with(status, problem))
        }
        AuctionReply::NoBid { body: Some(body), .. } => negotiated(body),
        AuctionReply::NoBid { body: None, .. } => no_content(),
    }
}

/// An auction's answer, which caches must vary by encoding.
fn negotiated(body: String, prefers_gzip: bool) -> Response<Full<Bytes>> {
    let is_compressed = prefers_gzip && body.len() >= GZIP_BYTES_MIN;
    let body = if is_compressed { gzip(|write| write(body.as_bytes())) } else { body.into_bytes() };
    let mut response = json(StatusCode::OK, body);
    let headers = response.headers_mut();
    headers.insert(VARY, HeaderValue::from_static("accept-encoding"));
    if is_compressed {
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    response
}

fn caller_key(headers: &HeaderMap) -> Option<&[u8]> {
    let bearer = headers.get(AUTHORIZATION).map(HeaderValue::as_bytes).and_then(|value| {
        let (scheme, key) = value.split_at_checked("Bearer ".len())?;
        scheme.eq_ignore_ascii_case(b"Bearer ").then_some(key.trim_ascii())
    });
    bearer.or_else(|| headers.get("x-api-key").map(HeaderValue::as_bytes))
}

fn refuse(refusal: &RequestRefusal) -> Response<Full<Bytes>> {
    let RequestRefusal { status, problem, allow } = refusal;
    let mut response = json(*status, openrtb::error_json("", problem));
    if let Some(allow) = allow {
        response.headers_mut().insert(ALLOW, HeaderValue::from_static(allow));
    }
    if [StatusCode::TOO_MANY_REQUESTS, StatusCode::SERVICE_UNAVAILABLE].contains(status) {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}

fn json(status: StatusCode, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert("x-openrtb-version", HeaderValue::from_static("2.6"));
    response
}

/// Absent means JSON (OpenRTB 2.3). Browsers post text/plain to avoid a preflight.
fn is_json(headers: &HeaderMap) -> bool {
    let Some(value) = headers.get(CONTENT_TYPE) else { return true };
    let media_type = value.as_bytes().split(|byte| *byte == b';').next().unwrap_or_default();
    let media_type = media_type.trim_ascii();
    media_type.eq_ignore_ascii_case(b"application/json")
        || media_type.eq_ignore_ascii_case(b"text/plain")
}
