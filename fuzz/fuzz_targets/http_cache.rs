//! Any heads of a request and of a response: what the cache makes of them, and its answers to that
//! request from what it has stored. The input is the target, lines of the request, an empty line,
//! lines of the response, an empty line, and the body.
#![no_main]

use bytes::{Bytes, BytesMut};
use cache_core::fields::dates::UnixSeconds;
use cache_core::fields::forwarding::connection::remove_connection_fields;
use cache_core::fields::forwarding::passes;
use cache_core::key::{CacheKey, QueryRules};
use cache_core::rules::control::{RequestControl, ResponseControl};
use cache_core::rules::freshness::ExchangeTimes;
use cache_core::rules::invalidation::invalidated;
use cache_core::rules::reuse::ReuseRules;
use cache_core::rules::storing::{ExchangeHeads, StoringRules, check_storing};
use cache_core::store::answer::{AnswerBody, AnswerContext, CacheAnswer, ClientRequest};
use cache_core::store::purges::{PurgeNumber, Purges};
use cache_core::store::response::{
    Freshening, LifetimeRules, ReceivedResponse, Resource, StoredBody, StoredResponse,
};
use http::header::{CONTENT_LENGTH, HeaderName, HeaderValue};
use http::{HeaderMap, Method, StatusCode, Uri};
use libfuzzer_sys::fuzz_target;

const RECEIVED: UnixSeconds = UnixSeconds(1_700_000_000);

/// Lines up to an empty one that are header fields.
fn head<'i>(lines: &mut impl Iterator<Item = &'i [u8]>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for line in lines.take_while(|line| !line.is_empty()) {
        let mut parts = line.splitn(2, |byte| *byte == b':');
        let name = HeaderName::from_bytes(parts.next().unwrap_or_default());
        let value = HeaderValue::from_bytes(parts.next().unwrap_or_default().trim_ascii());
        if let (Ok(name), Ok(value)) = (name, value) {
            headers.append(name, value);
        }
    }
    headers
}

fuzz_target!(|input: &[u8]| {
    let mut lines = input.split(|byte| *byte == b'\n');
    let target = lines.next().unwrap_or_default();
    key(target);
    let request = head(&mut lines);
    let mut response = head(&mut lines);
    let body: Vec<Bytes> = lines.map(Bytes::copy_from_slice).collect();
    passes(&request, "vickrey");
    if let Ok(url) = url::Url::parse("http://a/b") {
        let stale = invalidated(&Method::POST, &url, StatusCode::OK, &response);
        assert!(stale.iter().all(|named| named.origin() == url.origin()));
    }
    remove_connection_fields(&mut response);
    let statuses = [StatusCode::OK, StatusCode::NOT_FOUND, StatusCode::NO_CONTENT];
    let status = statuses[input.len() % statuses.len()];
    store_and_answer(status, &request, &response, body);
});

/// The key of a key is itself.
fn key(target: &[u8]) {
    let rules = QueryRules { allowed: None, is_sorted: true };
    let Ok(uri) = Uri::try_from(target) else { return };
    let Some(key) = CacheKey::of(&uri, &rules) else { return };
    let again = Uri::try_from(key.as_str()).expect("a key is a URI");
    assert_eq!(CacheKey::of(&again, &rules), Some(key));
}

fn store_and_answer(status: StatusCode, request: &HeaderMap, response: &HeaderMap, body: Vec<Bytes>) {
    let targets = [HeaderName::from_static("cdn-cache-control")];
    let response_control = ResponseControl::of(response, &targets);
    let request_control = RequestControl::of(request);
    let heads = ExchangeHeads {
        method: &Method::GET,
        request,
        request_control: &request_control,
        status,
        response,
        response_control: &response_control,
    };
    if check_storing(&heads, StoringRules::default()).is_err() {
        return;
    }
    let times = ExchangeTimes { requested: RECEIVED, received: RECEIVED };
    let purged_through = PurgeNumber::default();
    let received =
        ReceivedResponse { status, headers: response, control: &response_control, times, purged_through };
    let rules = LifetimeRules::default();
    let length: u64 = body.iter().map(|piece| piece.len() as u64).sum();
    for body in [StoredBody::new(body.clone()), StoredBody::Shared(body.into())] {
        let stored = StoredResponse::new(&received, request, body, rules);
        let stored = stored.expect("`Vary: *` is not stored");
        assert!(stored.matches(request), "it answers its own request");
        let storing = StoringRules::default();
        let freshening =
            Freshening { request, targets: &targets, times, purged_through, rules, storing };
        let freshened = stored.freshened(response, &freshening).expect("the same fields");
        for stored in [stored, freshened] {
            let mut resource = Resource::default();
            resource.put(stored, request, 2);
            for (method, after_s) in [(Method::GET, 0), (Method::GET, 100_000), (Method::HEAD, 0)] {
                let now = UnixSeconds(RECEIVED.0 + after_s);
                answer(&resource, &method, request, now, length);
            }
        }
    }
}

fn answer(resource: &Resource, method: &Method, request: &HeaderMap, now: UnixSeconds, length: u64) {
    let control = RequestControl::of(request);
    let request = ClientRequest { method, headers: request, control: &control };
    let rules = ReuseRules { obeys_requests: true, ..ReuseRules::default() };
    let purges = Purges::default();
    let purges = purges.of("http://cdn.example/");
    let boundary = "0123456789abcdef0123456789abcdef";
    let context = AnswerContext { now, rules, boundary, name: "vickrey", purges };
    let CacheAnswer::Ready(answer) = resource.answer(request, context, &mut BytesMut::new()) else {
        return;
    };
    let sent: u64 = match &answer.body {
        AnswerBody::Whole(bytes) => bytes.len() as u64,
        AnswerBody::Pieces(pieces) => pieces.iter().map(|piece| piece.len() as u64).sum(),
    };
    let said = answer.headers.get(CONTENT_LENGTH).map(|line| line.to_str().expect("a number"));
    match answer.status {
        StatusCode::NOT_MODIFIED => assert_eq!(sent, 0),
        StatusCode::NO_CONTENT => assert_eq!(said, None),
        _ if *method == Method::HEAD => assert_eq!((sent, said), (0, Some(&*length.to_string()))),
        _ => assert_eq!(said, Some(&*sent.to_string())),
    }
}
