//! Answers as clients get them: with the cache's own fields, or of the cache itself.

pub(crate) mod body;

use bytes::Bytes;
use cache_core::cache_status::CacheStatus;
use cache_core::store::answer::ReadyAnswer;
use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};

use body::CacheBody;

pub(crate) static CACHE_STATUS: HeaderName = HeaderName::from_static("cache-status");

/// An answer of the cache itself, whose name is given.
pub(crate) fn error(name: &str, status: StatusCode, text: &str) -> Response<CacheBody> {
    let mut response = plain(status, text);
    set_status(&mut response, name, CacheStatus::Unanswered);
    response
}

/// Says how the cache of this name handled the request.
pub(crate) fn set_status(response: &mut Response<CacheBody>, name: &str, status: CacheStatus) {
    let member = HeaderValue::try_from(status.member(name));
    let member = member.expect("a member has visible characters");
    response.headers_mut().append(&CACHE_STATUS, member);
}

/// A line of text.
pub(crate) fn plain(status: StatusCode, text: &str) -> Response<CacheBody> {
    let mut response = Response::new(CacheBody::from(Bytes::from(format!("{text}\n"))));
    *response.status_mut() = status;
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, plain);
    response
}

/// An answer of the store.
pub(crate) fn ready(answer: ReadyAnswer) -> Response<CacheBody> {
    let ReadyAnswer { status, headers, body, .. } = answer;
    let mut response = Response::new(CacheBody::from(body));
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}
