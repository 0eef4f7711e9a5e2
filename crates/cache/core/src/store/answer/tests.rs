//! Requests that a stored response answers, or does not.

use http::header::IF_MATCH;

use super::*;
use crate::fields::dates::{Seconds, format_date};
use crate::rules::control::ResponseControl;
use crate::rules::freshness::ExchangeTimes;
use crate::store::purges::{Purge, PurgeEffect, PurgeNumber, PurgeScope, Purges};
use crate::store::response::{LifetimeRules, ReceivedResponse};

const RECEIVED: UnixSeconds = UnixSeconds(1_000_000);
const BOUNDARY: &str = "boundary-7";
const KEY: &str = "http://cdn.example/";

fn headers(lines: &[(&str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in lines {
        let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
        headers.append(name, HeaderValue::from_str(value).unwrap());
    }
    headers
}

fn stored(lines: &[(&str, &str)], request: &[(&str, &str)], pieces: &[&str]) -> StoredResponse {
    let fields = headers(lines);
    let control = ResponseControl::of(&fields, &[]);
    let times = ExchangeTimes { requested: RECEIVED, received: RECEIVED };
    let received = ReceivedResponse {
        status: StatusCode::OK,
        headers: &fields,
        control: &control,
        times,
        purged_through: PurgeNumber::default(),
    };
    let pieces: Vec<_> =
        pieces.iter().map(|piece| Bytes::copy_from_slice(piece.as_bytes())).collect();
    // As one piece each, also where they are short.
    let body =
        if pieces.len() > 1 { StoredBody::Shared(pieces.into()) } else { StoredBody::new(pieces) };
    StoredResponse::new(&received, &headers(request), body, LifetimeRules::default()).unwrap()
}

fn resource(responses: impl IntoIterator<Item = StoredResponse>) -> Resource {
    let mut resource = Resource::default();
    for response in responses {
        resource.put(response, &headers(&[("x-none", "")]), 8);
    }
    resource
}

fn ask(resource: &Resource, method: &Method, lines: &[(&str, &str)], after_s: u64) -> CacheAnswer {
    ask_purged(resource, &Purges::default(), (method, lines), after_s)
}

fn ask_purged(
    resource: &Resource,
    purges: &Purges,
    (method, lines): (&Method, &[(&str, &str)]),
    after_s: u64,
) -> CacheAnswer {
    let headers = headers(lines);
    let control = RequestControl::of(&headers);
    let rules = ReuseRules { obeys_requests: true, ..ReuseRules::default() };
    let now = UnixSeconds(RECEIVED.0 + after_s);
    let request = ClientRequest { method, headers: &headers, control: &control };
    let purges = purges.of(KEY);
    let context = AnswerContext { now, rules, boundary: BOUNDARY, name: "vickrey", purges };
    resource.answer(request, context, &mut BytesMut::new())
}

fn text(body: &AnswerBody) -> String {
    let bytes = match body {
        AnswerBody::Whole(bytes) => bytes.to_vec(),
        AnswerBody::Pieces(pieces) => pieces.concat(),
    };
    String::from_utf8(bytes).unwrap()
}

/// A response with a validator, fresh for 60 s and 5 s old.
fn example(pieces: &[&str]) -> Resource {
    let lines = [
        ("cache-control", "max-age=60"),
        ("age", "5"),
        ("etag", "\"v1\""),
        ("content-type", "text/plain"),
        ("x-custom", "1"),
        ("x-custom", "2"),
        ("content-length", "10"),
    ];
    resource([stored(&lines, &[], pieces)])
}

/// Each answer, from a body that is copied and from one in pieces.
#[track_caller]
fn check(method: &Method, lines: &[(&str, &str)], want: (u16, &str, &str)) {
    for pieces in [&["0123456789"][..], &["012", "34567", "89"]] {
        let CacheAnswer::Ready(answer) = ask(&example(pieces), method, lines, 10) else {
            panic!("no answer")
        };
        let field = |name| answer.headers.get(name).map_or("", |line| line.to_str().unwrap());
        let found = (answer.status.as_u16(), field(&CONTENT_RANGE), &*text(&answer.body));
        assert_eq!(found, want, "{lines:?}");
        assert_eq!(field(&AGE), "15");
        assert_eq!(answer.cache_status, "vickrey; hit; ttl=45");
        assert_eq!(field(&ETAG), "\"v1\"");
        if answer.status != StatusCode::NOT_MODIFIED && *method == Method::GET {
            assert_eq!(field(&CONTENT_LENGTH), want.2.len().to_string());
        }
    }
}

#[test]
fn answers_to_conditions_and_ranges() {
    let get = &Method::GET;
    check(get, &[], (200, "", "0123456789"));
    check(&Method::HEAD, &[], (200, "", ""));
    check(get, &[("if-none-match", "W/\"v1\"")], (304, "", ""));
    check(get, &[("if-none-match", "\"v2\"")], (200, "", "0123456789"));
    check(get, &[("range", "bytes=0-0")], (206, "bytes 0-0/10", "0"));
    check(get, &[("range", "bytes=2-6")], (206, "bytes 2-6/10", "23456"));
    check(get, &[("range", "bytes=-3")], (206, "bytes 7-9/10", "789"));
    check(get, &[("range", "bytes=10-")], (416, "bytes */10", ""));
    check(get, &[("range", "lines=1")], (200, "", "0123456789"));
    check(get, &[("range", "bytes=1-2"), ("if-range", "\"v2\"")], (200, "", "0123456789"));
    check(get, &[("range", "bytes=1-2"), ("if-range", "\"v1\"")], (206, "bytes 1-2/10", "12"));
    // Conditions come before ranges, and ranges are of GET alone.
    check(get, &[("range", "bytes=1-2"), ("if-none-match", "*")], (304, "", ""));
    check(&Method::HEAD, &[("range", "bytes=1-2")], (200, "", ""));
    let parts = "--boundary-7\r\ncontent-type: text/plain\r\ncontent-range: bytes 1-2/10\r\n\r\n12\
                 \r\n--boundary-7\r\ncontent-type: text/plain\r\ncontent-range: bytes 6-7/10\r\n\r\n67\
                 \r\n--boundary-7--\r\n";
    check(get, &[("range", "bytes=1-2,6-7")], (206, "", parts));
}

#[test]
fn fields_are_the_stored_ones() {
    let CacheAnswer::Ready(answer) = ask(&example(&["0123456789"]), &Method::GET, &[], 0) else {
        panic!("no answer")
    };
    let custom: Vec<_> = answer.headers.get_all("x-custom").iter().collect();
    assert_eq!(custom, ["1", "2"]);
    // A response without a date gets the time of its receipt.
    assert_eq!(answer.headers[DATE], format_date(RECEIVED));
    let sent_later =
        [("cache-control", "max-age=60, no-cache=\"set-cookie\""), ("set-cookie", "a")];
    let resource = resource([stored(&sent_later, &[], &["x"])]);
    let CacheAnswer::Ready(answer) = ask(&resource, &Method::GET, &[], 0) else {
        panic!("no answer")
    };
    assert!(!answer.headers.contains_key("set-cookie"), "it must be validated first");
    assert!(answer.headers.contains_key(CACHE_CONTROL));
}

#[test]
fn what_needs_the_origin() {
    let resource = example(&["0123456789"]);
    let get = &Method::GET;
    assert!(matches!(ask(&resource, get, &[], 54), CacheAnswer::Ready(_)));
    let CacheAnswer::Validate(lines) = ask(&resource, get, &[], 55) else { panic!("it is stale") };
    assert_eq!(lines, ValidatorLines { etag: Some(value("\"v1\"".into())), last_modified: None });
    let stale = ask(&resource, get, &[("cache-control", "only-if-cached")], 55);
    assert!(matches!(stale, CacheAnswer::Unavailable));
    let about_resource = ask(&resource, get, &[(IF_MATCH.as_str(), "\"v1\"")], 0);
    assert!(matches!(about_resource, CacheAnswer::AskOrigin));
    let waiting = [("cache-control", "max-age=60, stale-while-revalidate=30")];
    let waiting = self::resource([stored(&waiting, &[], &["x"])]);
    let CacheAnswer::Ready(answer) = ask(&waiting, get, &[], 70) else { panic!("it may wait") };
    assert!(answer.is_validated_meanwhile);
    assert_eq!((answer.served.fresh_for, answer.served.stale_for), (None, Seconds(10)));
}

/// Purged after 10 s of a lifetime of 60 s, and asked for after 15: before the purge is applied and
/// then.
fn ask_before_and_after(effect: PurgeEffect, directives: &str) -> [CacheAnswer; 2] {
    let lines = [("cache-control", directives), ("surrogate-key", "creative/17")];
    let mut resource = resource([stored(&lines, &[], &["x"])]);
    let mut purges = Purges::default();
    let scope = PurgeScope::SurrogateKey("creative/17".into());
    purges.list(Purge { scope, effect }).unwrap();
    let ask = |resource: &Resource, purges: &Purges| {
        let answer = ask_purged(resource, purges, (&Method::GET, &[]), 15);
        if let CacheAnswer::Ready(answer) = &answer {
            assert!(!answer.headers.contains_key("surrogate-key"), "it is for caches");
        }
        answer
    };
    let before = ask(&resource, &purges);
    assert!(resource.has_pending(purges.of(KEY)));
    assert_eq!(resource.take_pending(purges.of(KEY)), 1);
    assert!(!resource.has_pending(purges.of(KEY)));
    purges.applied(purges.newest());
    let after = match resource.responses() {
        [] => CacheAnswer::Purged,
        _ => ask(&resource, &purges),
    };
    [before, after]
}

#[test]
fn purged_responses_are_gone_or_stale_from_then_on() {
    let [before, after] = ask_before_and_after(PurgeEffect::Gone, "max-age=60");
    assert!(matches!((before, after), (CacheAnswer::Purged, CacheAnswer::Purged)));
    let soft = PurgeEffect::Stale(UnixSeconds(RECEIVED.0 + 10));
    for answer in ask_before_and_after(soft, "max-age=60") {
        assert!(matches!(answer, CacheAnswer::Validate(_)), "{answer:?}");
    }
    for answer in ask_before_and_after(soft, "max-age=60, stale-while-revalidate=5") {
        let CacheAnswer::Ready(answer) = answer else { panic!("it may wait") };
        assert_eq!((answer.served.stale_for, answer.is_validated_meanwhile), (Seconds(5), true));
    }
}

#[test]
fn responses_on_their_way_are_purged_before_they_are_stored() {
    let mut purges = Purges::default();
    let of_all = |effect| Purge { scope: PurgeScope::Prefix("".into()), effect };
    let response = || stored(&[("cache-control", "max-age=60")], &[], &["x"]);
    let purged = |purges: &Purges| response().purged(purges.of(KEY));
    assert!(purged(&purges).is_some());
    purges.list(of_all(PurgeEffect::Stale(UnixSeconds(RECEIVED.0 + 10)))).unwrap();
    let resource = resource([purged(&purges).unwrap()]);
    assert!(!resource.has_pending(purges.of(KEY)), "it is applied");
    let answer = ask(&resource, &Method::GET, &[], 11);
    assert!(matches!(answer, CacheAnswer::Validate(_)), "{answer:?}");
    purges.list(of_all(PurgeEffect::Gone)).unwrap();
    assert!(purged(&purges).is_none());
}

#[test]
fn variants_are_told_apart_and_replaced() {
    let lines = [("cache-control", "max-age=60"), ("vary", "accept-encoding")];
    let gzip = [("accept-encoding", "gzip")];
    let mut resource = Resource::default();
    let put = |resource: &mut Resource, request: &[(&str, &str)], body: &str| {
        let response = stored(&lines, request, &[body]);
        resource.put(response, &headers(request), 2);
    };
    put(&mut resource, &gzip, "zipped");
    put(&mut resource, &[], "plain");
    let body = |resource: &Resource, request: &[(&str, &str)]| match ask(
        resource,
        &Method::GET,
        request,
        0,
    ) {
        CacheAnswer::Ready(answer) => text(&answer.body),
        CacheAnswer::NoVariant => "none".to_owned(),
        other => panic!("{other:?}"),
    };
    assert_eq!((&*body(&resource, &gzip), &*body(&resource, &[])), ("zipped", "plain"));
    assert_eq!(body(&resource, &[("accept-encoding", "br")]), "none");
    put(&mut resource, &gzip, "again");
    assert_eq!((&*body(&resource, &gzip), &*body(&resource, &[])), ("again", "plain"));
    // The third variant takes the place of the oldest.
    put(&mut resource, &[("accept-encoding", "br")], "br");
    let bodies =
        [&gzip[..], &[], &[("accept-encoding", "br")]].map(|request| body(&resource, request));
    assert_eq!(bodies.iter().filter(|body| *body == "none").count(), 1, "{bodies:?}");
    assert_eq!(bodies[2], "br");
}

#[test]
fn an_answer_of_one_piece_is_one_copy() {
    let resource = example(&["0123456789"]);
    let CacheAnswer::Ready(answer) = ask(&resource, &Method::GET, &[], 0) else {
        panic!("no answer")
    };
    let AnswerBody::Whole(body) = answer.body else { panic!("it is copied") };
    let etag = answer.headers[ETAG].as_bytes().as_ptr_range();
    let distance = body.as_ptr() as usize - etag.end as usize;
    assert!(distance < 256, "{distance} bytes behind the etag");
}

#[test]
fn a_missing_variant_is_not_a_hit() {
    let lines = [("cache-control", "max-age=60"), ("vary", "x-team")];
    let resource = resource([stored(&lines, &[("x-team", "a")], &["x"])]);
    assert!(matches!(ask(&resource, &Method::GET, &[], 0), CacheAnswer::NoVariant));
}

/// The message of a plain GET after so many seconds. None if it is not written.
fn written(
    resource: &Resource,
    request: &[(&str, &str)],
    rules: ReuseRules,
    after_s: u64,
) -> Option<String> {
    let now = UnixSeconds(RECEIVED.0 + after_s);
    let purges = Purges::default();
    let context =
        AnswerContext { now, rules, boundary: BOUNDARY, name: "vickrey", purges: purges.of(KEY) };
    let mut message = BytesMut::new();
    let hit = resource.write_hit(&headers(request), context, &mut message)?;
    let message = String::from_utf8(message.to_vec()).unwrap();
    let (_, body) = message.split_once("\r\n\r\n").unwrap();
    assert_eq!(hit.body_bytes, body.len() as u64);
    Some(message)
}

#[test]
fn a_hit_is_written_as_it_would_be_sent() {
    let rules = ReuseRules::default();
    let message = written(&example(&["0123456789"]), &[], rules, 10).unwrap();
    let mut lines: Vec<_> = message.lines().filter(|line| !line.starts_with("date: ")).collect();
    assert_eq!((lines[0], &lines[10..]), ("HTTP/1.1 200 OK", &["", "0123456789"][..]));
    lines[1..10].sort_unstable();
    let want = [
        "age: 15",
        "cache-control: max-age=60",
        "cache-status: vickrey; hit; ttl=45",
        "content-length: 10",
        "content-type: text/plain",
        "etag: \"v1\"",
        "via: 1.1 vickrey",
        "x-custom: 1",
        "x-custom: 2",
    ];
    assert_eq!(lines[1..10], want);
    let vary = [("cache-control", "max-age=60"), ("vary", "accept-encoding")];
    let vary = resource([stored(&vary, &[("accept-encoding", "gzip, br")], &["zipped"])]);
    assert!(
        written(&vary, &[("accept-encoding", "BR,gzip")], rules, 0)
            .unwrap()
            .ends_with("\r\n\r\nzipped")
    );
}

#[test]
fn what_needs_more_than_writing_is_not_written() {
    let rules = ReuseRules { stale_while_revalidate: Seconds(100), ..ReuseRules::default() };
    let check = |what: &str, resource: &Resource, request: &[(&str, &str)], after_s| {
        assert_eq!(written(resource, request, rules, after_s), None, "{what}");
    };
    let of = |control| resource([stored(&[("cache-control", control)], &[], &["x"])]);
    check("shared pieces", &example(&["0", "1"]), &[], 0);
    check("stale, to be validated meanwhile", &of("max-age=60"), &[], 60);
    check("stale", &of("max-age=60, must-revalidate"), &[], 60);
    check("to be validated", &of("max-age=60, no-cache"), &[], 0);
    check("a field that is not to be sent", &of("max-age=60, no-cache=\"etag\""), &[], 0);
    let vary = resource([stored(&[("cache-control", "max-age=60"), ("vary", "x")], &[], &["x"])]);
    check("another variant", &vary, &[("x", "1")], 0);
    let mut missing = stored(&[("cache-control", "max-age=60")], &[], &["x"]);
    missing.status = StatusCode::NOT_FOUND;
    check("another status", &resource([missing]), &[], 0);
}
