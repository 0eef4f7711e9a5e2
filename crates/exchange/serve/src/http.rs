//! Callers' HTTP: reads a request within its limits, holds the auction, writes the answer.

use std::convert::Infallible;
use std::io::Read as _;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use exchange_core::no_bid;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body as _, Incoming};
use hyper::header::{
    ALLOW, AUTHORIZATION, CONNECTION, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderValue,
    RETRY_AFTER, VARY,
};
use hyper::http::request::Parts;
use hyper::rt::{Read, Write};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use openrtb::codes::NoBidReason;
use runtime::arrival::{ArrivalClock, StampedStream};
use runtime::request::check_head;
use runtime::shards::{ActiveStream, Activity};
use socket2::SockRef;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tracing::debug;

use crate::auction::{self, Presented, Reply};
use crate::beacon::{BEACON_PATH, Called};
use crate::config::{ExchangeConfig, InboundLimits, OverloadAnswer};
use crate::explain::with_debug;
use crate::gzip::{gzip, prefers_gzip};
use crate::shard::Shard;

/// Where bid requests are posted.
pub const AUCTION_PATH: &str = "/openrtb2/auction";
/// Most header fields of a request.
const HEADERS_MAX: usize = 64;

/// Why a request does not reach an auction.
#[derive(Clone, Debug, PartialEq, Eq)]
struct TurnedAway {
    status: StatusCode,
    problem: String,
    /// The method that would do.
    allow: Option<&'static str>,
}

impl TurnedAway {
    fn with(status: StatusCode, problem: impl Into<String>) -> Self {
        Self { status, problem: problem.into(), allow: None }
    }

    fn method(allow: &'static str, problem: &str) -> Self {
        let status = StatusCode::METHOD_NOT_ALLOWED;
        Self { allow: Some(allow), ..Self::with(status, problem) }
    }
}

/// The other end of a connection.
#[derive(Debug)]
pub struct Peer {
    /// Where it is.
    pub address: IpAddr,
    /// What the connection is doing.
    pub activity: Activity,
}

/// Serves one connection until it ends, or until `drain` completes and it is idle.
pub async fn serve(
    (stream, peer): (TcpStream, Peer),
    shard: Rc<Shard>,
    drain: impl Future<Output = ()>,
) {
    let snapshot = shard.snapshot();
    let InboundLimits { timeouts, write_timeout, .. } = snapshot.config().inbound;
    // A caller that stops reading would hold its connection for ever: hyper waits to write without
    // a timer, the kernel does not.
    let socket = SockRef::from(&stream);
    if let Err(error) = socket.set_tcp_user_timeout(Some(write_timeout)) {
        debug!(%error, "no write timeout on a connection");
    }
    let stream = StampedStream::new(stream);
    let caller = Caller { shard: Rc::clone(&shard), peer, clock: stream.clock() };
    let activity = &caller.peer.activity;
    let stream = ActiveStream::new(stream, activity.clone());
    let Some(tls) = &snapshot.config().tls else {
        drop(snapshot);
        return converse(TokioIo::new(stream), caller, drain).await;
    };
    let handshake = TlsAcceptor::from(Arc::clone(tls)).accept(stream);
    match activity.limited(&timeouts, handshake).await {
        Ok(Ok(stream)) => {
            drop(snapshot);
            activity.set_idle();
            converse(TokioIo::new(stream), caller, drain).await;
        }
        Ok(Err(error)) => {
            shard.metrics.handshakes_failed.increment();
            debug!(%error, "no TLS with a caller");
        }
        Err(end) => {
            shard.metrics.handshakes_failed.increment();
            debug!(%end, "no TLS with a caller");
        }
    }
}

/// Who is at the other end of a connection.
struct Caller {
    shard: Rc<Shard>,
    peer: Peer,
    /// When its requests were received.
    clock: ArrivalClock,
}

/// Answers request after request on an open connection.
async fn converse<S: Read + Write + Unpin>(
    stream: S,
    caller: Caller,
    drain: impl Future<Output = ()>,
) {
    let inbound = caller.shard.snapshot().config().inbound;
    let caller = &caller;
    let service = service_fn(|request| {
        let under_way = caller.peer.activity.request();
        async move {
            let _under_way = under_way;
            let answer = handle(request, caller).await;
            // What was read of this request says nothing of the next one's arrival.
            caller.clock.reset();
            Ok::<_, Infallible>(answer)
        }
    });
    let connection = http1::Builder::new()
        // The activity has its own: hyper's head timeout begins when the connection is idle.
        .header_read_timeout(None)
        .max_headers(HEADERS_MAX)
        .max_buf_size(inbound.head_max)
        .serve_connection(stream, service);
    let mut connection = std::pin::pin!(connection);
    let served = caller.peer.activity.limited(&inbound.timeouts, async {
        tokio::select! {
            served = connection.as_mut() => served,
            () = drain => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        }
    });
    match served.await {
        Ok(Ok(())) => (),
        Ok(Err(error)) => debug!(%error, "connection ended"),
        Err(end) => debug!(%end, "connection closed"),
    }
}

async fn handle(request: Request<Incoming>, caller: &Caller) -> Response<Full<Bytes>> {
    let Caller { shard, peer, clock } = caller;
    let arrival = clock.take();
    let snapshot = shard.snapshot();
    let (head, body) = request.into_parts();
    if let Err(malformed) = check_head(&head) {
        shard.metrics.turned_away.increment();
        let problem = TurnedAway::with(StatusCode::BAD_REQUEST, malformed.to_string());
        let mut response = refuse(&problem);
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        return response;
    }
    if head.uri.path().starts_with(BEACON_PATH) && head.method == Method::GET {
        let (uri, headers) = (&head.uri, &head.headers);
        let called = Called { shard, snapshot: &snapshot, uri, headers, peer: peer.address };
        return called.answer().await;
    }
    let config = snapshot.config();
    let reply = match route(&head) {
        Err(turned_away) => Err(turned_away),
        // Beacons are never refused for overload: they bill.
        Ok(()) => match shard.admission.admit(arrival).await {
            Err(_) => {
                shard.metrics.count_no_bid(NoBidReason::Overloaded);
                return overloaded(&head.headers, body, config).await;
            }
            Ok(_in_flight) => match read(&head.headers, body, &config.inbound).await {
                Err(turned_away) => Err(turned_away),
                Ok(body) => {
                    let traceparent = head.headers.get("traceparent").map(HeaderValue::as_bytes);
                    let presented = Presented { key: presented_key(&head.headers), traceparent };
                    Ok(auction::hold(shard, &snapshot, (&body, presented), arrival).await)
                }
            },
        },
    };
    match reply {
        Ok(reply) => answer(reply, config, (shard, prefers_gzip(&head.headers))),
        Err(turned_away) => {
            shard.metrics.turned_away.increment();
            refuse(&turned_away)
        }
    }
}

/// Whether a request's head is that of a bid request.
fn route(head: &Parts) -> Result<(), TurnedAway> {
    if head.uri.path().starts_with(BEACON_PATH) {
        return Err(TurnedAway::method("GET", "notices are called with GET"));
    }
    if head.uri.path() != AUCTION_PATH {
        let problem = format!("nothing is served here; bid requests are posted to {AUCTION_PATH}");
        return Err(TurnedAway::with(StatusCode::NOT_FOUND, problem));
    }
    if head.method != Method::POST {
        return Err(TurnedAway::method("POST", "use POST for bid requests"));
    }
    if !is_json(&head.headers) {
        let problem = "content-type is application/json, text/plain or absent";
        return Err(TurnedAway::with(StatusCode::UNSUPPORTED_MEDIA_TYPE, problem));
    }
    Ok(())
}

/// The answer to a bid request that the shard has no time for. Its body is read, so that the
/// connection can be used again, and inflated and parsed only where the answer must bear the
/// request's id.
async fn overloaded(
    headers: &HeaderMap,
    body: Incoming,
    config: &ExchangeConfig,
) -> Response<Full<Bytes>> {
    let is_explained = config.overload_answer == OverloadAnswer::NoBid && config.explain_no_bid;
    let body = if is_explained {
        read(headers, body, &config.inbound).await.unwrap_or_default()
    } else {
        let InboundLimits { body_timeout, body_max, .. } = config.inbound;
        let _ = timeout(body_timeout, collect(body, body_max)).await;
        Bytes::new()
    };
    match config.overload_answer {
        OverloadAnswer::Unavailable => {
            let problem = "the exchange is overloaded; try again in a second";
            let turned_away = TurnedAway::with(StatusCode::SERVICE_UNAVAILABLE, problem);
            let mut response = refuse(&turned_away);
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
            response
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

/// Smallest answer that is compressed for a caller that prefers that: a smaller one, with its head, fits
/// one packet as it is.
const GZIP_BYTES_MIN: usize = 1024;

fn answer(
    reply: Reply,
    config: &ExchangeConfig,
    (shard, prefers_gzip): (&Rc<Shard>, bool),
) -> Response<Full<Bytes>> {
    let negotiated = |body: String| {
        let is_compressed = prefers_gzip && body.len() >= GZIP_BYTES_MIN;
        negotiated(body, is_compressed)
    };
    match reply {
        Reply::Bid { body, notices } => {
            if !notices.is_empty() {
                let shard = Rc::clone(shard);
                // Runs once this task has handed the answer to the kernel.
                tokio::task::spawn_local(async move { shard.give(notices) });
            }
            negotiated(body)
        }
        Reply::Invalid(invalid) => json(StatusCode::BAD_REQUEST, invalid.to_json()),
        Reply::TurnedAway { status, problem } => {
            shard.metrics.turned_away.increment();
            let mut response = refuse(&TurnedAway::with(status, problem));
            if status == StatusCode::TOO_MANY_REQUESTS {
                response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
            }
            response
        }
        Reply::NoBid { id, reason, explanation: Some(explanation) } => {
            negotiated(with_debug(no_bid(&id, reason), *explanation))
        }
        Reply::NoBid { id, reason, .. } if config.explain_no_bid => negotiated(no_bid(&id, reason)),
        Reply::NoBid { .. } => no_content(),
    }
}

/// The answer to an auction, of which a cache may have another form.
fn negotiated(body: String, is_compressed: bool) -> Response<Full<Bytes>> {
    let body = if is_compressed { gzip(|write| write(body.as_bytes())) } else { body.into_bytes() };
    let mut response = json(StatusCode::OK, body);
    let headers = response.headers_mut();
    headers.insert(VARY, HeaderValue::from_static("accept-encoding"));
    if is_compressed {
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    response
}

/// The key that a caller presents, if it does.
fn presented_key(headers: &HeaderMap) -> Option<&[u8]> {
    let bearer = headers.get(AUTHORIZATION).map(HeaderValue::as_bytes).and_then(|value| {
        let (scheme, key) = value.split_at_checked("Bearer ".len())?;
        scheme.eq_ignore_ascii_case(b"Bearer ").then_some(key.trim_ascii())
    });
    bearer.or_else(|| headers.get("x-api-key").map(HeaderValue::as_bytes))
}

fn refuse(turned_away: &TurnedAway) -> Response<Full<Bytes>> {
    let problem = openrtb::Invalid::at(openrtb::Reason::NotJson, "", turned_away.problem.as_str());
    let mut response = json(turned_away.status, problem.to_json());
    if let Some(allow) = turned_away.allow {
        response.headers_mut().insert(ALLOW, HeaderValue::from_static(allow));
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

/// Absent means JSON (section 2.3). Browsers post as text/plain to avoid a preflight.
fn is_json(headers: &HeaderMap) -> bool {
    let Some(value) = headers.get(CONTENT_TYPE) else { return true };
    let media_type = value.as_bytes().split(|byte| *byte == b';').next().unwrap_or_default();
    let media_type = media_type.trim_ascii();
    media_type.eq_ignore_ascii_case(b"application/json")
        || media_type.eq_ignore_ascii_case(b"text/plain")
}

/// The body, decompressed; never more than `body_max` bytes of it are held.
async fn read(
    headers: &HeaderMap,
    body: Incoming,
    inbound: &InboundLimits,
) -> Result<Bytes, TurnedAway> {
    let gzipped = match headers.get(CONTENT_ENCODING).map(HeaderValue::as_bytes) {
        None => false,
        Some(coding) if coding.eq_ignore_ascii_case(b"identity") => false,
        Some(coding) if coding.eq_ignore_ascii_case(b"gzip") => true,
        Some(_) => {
            let problem = "content-encoding is gzip, identity or absent";
            return Err(TurnedAway::with(StatusCode::UNSUPPORTED_MEDIA_TYPE, problem));
        }
    };
    let collected = match timeout(inbound.body_timeout, collect(body, inbound.body_max)).await {
        Ok(collected) => collected?,
        Err(_) => {
            let problem = format!("the body did not come within {:?}", inbound.body_timeout);
            return Err(TurnedAway::with(StatusCode::REQUEST_TIMEOUT, problem));
        }
    };
    if gzipped { gunzip(&collected, inbound.body_max) } else { Ok(collected) }
}

async fn collect(mut body: Incoming, body_max: usize) -> Result<Bytes, TurnedAway> {
    if body.size_hint().lower() > body_max as u64 {
        return Err(too_large(body_max));
    }
    let length = body.size_hint().exact().and_then(|length| usize::try_from(length).ok());
    let length = length.unwrap_or(body_max);
    let mut joined: Option<BytesMut> = None;
    let mut first: Option<Bytes> = None;
    while let Some(frame) = body.frame().await {
        let broken = |_| TurnedAway::with(StatusCode::BAD_REQUEST, "the body is broken off");
        let Ok(data) = frame.map_err(broken)?.into_data() else { continue };
        let held = joined.as_ref().map_or(0, BytesMut::len) + first.as_ref().map_or(0, Bytes::len);
        if held + data.len() > body_max {
            return Err(too_large(body_max));
        }
        // The usual body comes in one piece and is not copied.
        match (&mut joined, first.take()) {
            (Some(joined), _) => joined.extend_from_slice(&data),
            (None, None) => first = Some(data),
            (None, Some(earlier)) => {
                // Its final size at once: growing would take twice the cap.
                let mut both = BytesMut::with_capacity(length);
                both.extend_from_slice(&earlier);
                both.extend_from_slice(&data);
                joined = Some(both);
            }
        }
    }
    Ok(joined.map(BytesMut::freeze).or(first).unwrap_or_default())
}

fn gunzip(compressed: &[u8], body_max: usize) -> Result<Bytes, TurnedAway> {
    // One byte beyond the cap tells a body that is too large from one that just fits. Reserved at
    // once, or growing would take twice the cap.
    let mut body = Vec::with_capacity(body_max + 1);
    let mut decoder = flate2::read::MultiGzDecoder::new(compressed).take(body_max as u64 + 1);
    if decoder.read_to_end(&mut body).is_err() {
        return Err(TurnedAway::with(StatusCode::BAD_REQUEST, "the body is not gzip"));
    }
    if body.len() > body_max {
        let problem = format!("the body is larger than {body_max} bytes once decompressed");
        return Err(TurnedAway::with(StatusCode::BAD_REQUEST, problem));
    }
    Ok(body.into())
}

fn too_large(body_max: usize) -> TurnedAway {
    let problem = format!("the body is larger than {body_max} bytes");
    TurnedAway::with(StatusCode::PAYLOAD_TOO_LARGE, problem)
}
