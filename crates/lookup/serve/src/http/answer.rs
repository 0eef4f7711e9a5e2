//! Responses.

use std::pin::Pin;

use bytes::Bytes;
use futures_util::stream::Stream;
use http_body_util::{Either, Full, StreamBody};
use hyper::body::Frame;
use hyper::header::{
    ALLOW, CACHE_CONTROL, CONTENT_TYPE, ETAG, HeaderValue, LOCATION, RETRY_AFTER,
    X_CONTENT_TYPE_OPTIONS,
};
use hyper::{Response, StatusCode};
use runtime::service::BoxError;
use serde_json::json;

use super::parameters::Refusal;
use crate::queries::entry::QueryId;

/// The type of lines of JSON.
pub(super) const NDJSON: &str = "application/x-ndjson";

pub(super) type RowLines = Pin<Box<dyn Stream<Item = Result<Frame<Bytes>, BoxError>>>>;

pub(super) type LookupBody = Either<Full<Bytes>, StreamBody<RowLines>>;

/// A body of a type.
pub(super) fn body(
    status: StatusCode,
    kind: &'static str,
    body: impl Into<Bytes>,
) -> Response<LookupBody> {
    let mut response = Response::new(Either::Left(Full::new(body.into())));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// A JSON document.
pub(super) fn document(
    status: StatusCode,
    text: Bytes,
    etag: Option<&str>,
) -> Response<LookupBody> {
    let mut response = body(status, "application/json", text);
    if let Some(etag) = etag.and_then(|etag| HeaderValue::from_str(etag).ok()) {
        // Otherwise a client's own cache would answer polls.
        response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        response.headers_mut().insert(ETAG, etag);
    }
    response
}

/// The client has the newest version.
pub(super) fn not_modified(etag: &str) -> Response<LookupBody> {
    let mut response = document(StatusCode::NOT_MODIFIED, Bytes::new(), Some(etag));
    response.headers_mut().remove(CONTENT_TYPE);
    response
}

/// Says where a query is found from now on.
pub(super) fn located(response: &mut Response<LookupBody>, id: QueryId) {
    let place = HeaderValue::from_str(&format!("/lookup/{id}")).expect("an id is hexadecimal");
    response.headers_mut().insert(LOCATION, place);
}

/// Another method must be used.
pub(super) fn allowed(methods: &'static str) -> Response<LookupBody> {
    let text = format!("use {methods}");
    let refusal = Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", text);
    let mut response = failure(&refusal);
    response.headers_mut().insert(ALLOW, HeaderValue::from_static(methods));
    response
}

/// A refusal.
pub(super) fn failure(refusal: &Refusal) -> Response<LookupBody> {
    let Refusal { status, code, message } = refusal;
    let text = json!({ "error": { "code": code, "message": message } }).to_string();
    let mut response = body(*status, "application/json", text);
    if *status == StatusCode::TOO_MANY_REQUESTS {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}
