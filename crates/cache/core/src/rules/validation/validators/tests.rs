//! Tags, dates and the conditions on them.

use http::HeaderValue;

use super::*;
use crate::fields::dates::format_date;

const NOW: UnixSeconds = UnixSeconds(1_795_737_600);

fn headers(lines: &[(HeaderName, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in lines {
        headers.append(name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
    }
    headers
}

fn at(seconds: u64) -> String {
    format_date(UnixSeconds(NOW.0 - 1_000 + seconds))
}

#[test]
fn tags_are_quoted() {
    let tag =
        |text: &'static str| EntityTag::parse(text.as_bytes()).map(|tag| (tag.is_weak, tag.opaque));
    assert_eq!(tag("\"a,b\""), Some((false, &b"a,b"[..])));
    assert_eq!(tag("W/\"\""), Some((true, &b""[..])));
    assert_eq!(tag("\"\u{e9}\""), Some((false, "\u{e9}".as_bytes())));
    for malformed in ["", "a", "\"", "\"a", "a\"", "w/\"a\"", "W\"a\"", "\"a b\"", "\"a\"b\"", "*"]
    {
        assert_eq!(tag(malformed), None, "{malformed}");
    }
}

#[track_caller]
fn check(stored: &[(HeaderName, &str)], request: &[(HeaderName, &str)], want: Condition) {
    let stored = headers(stored);
    let validators = Validators::of(&stored, NOW);
    assert_eq!(evaluate(&headers(request), &validators, NOW), want, "{stored:?} {request:?}");
}

#[test]
fn conditions_of_clients() {
    let unmodified = Condition::Fails(StatusCode::NOT_MODIFIED);
    let modified = at(100);
    let stored: &[(HeaderName, &str)] = &[(ETAG, "\"a\""), (LAST_MODIFIED, &modified)];
    check(stored, &[], Condition::Holds);
    for same in ["\"a\"", "W/\"a\"", "*", "\"x,y\", \"a\"", "x, \"a\"", ", \"a\" ,"] {
        check(stored, &[(IF_NONE_MATCH, same)], unmodified);
    }
    for other in ["\"b\"", "a", "\"a", "\"x, \"a\"", ""] {
        check(stored, &[(IF_NONE_MATCH, other)], Condition::Holds);
    }
    check(stored, &[(IF_NONE_MATCH, "\"b\""), (IF_NONE_MATCH, "\"a\"")], unmodified);
    check(&[], &[(IF_NONE_MATCH, "*")], unmodified);
    check(&[], &[(IF_NONE_MATCH, "\"a\"")], Condition::Holds);
    check(stored, &[(IF_MODIFIED_SINCE, &at(100))], unmodified);
    check(stored, &[(IF_MODIFIED_SINCE, &at(200))], unmodified);
    check(stored, &[(IF_MODIFIED_SINCE, &at(99))], Condition::Holds);
    check(stored, &[(IF_MODIFIED_SINCE, "yesterday")], Condition::Holds);
    // Without `Last-Modified`, it is as old as the response.
    check(&[], &[(IF_MODIFIED_SINCE, &at(999))], Condition::Holds);
    check(&[], &[(IF_MODIFIED_SINCE, &at(1_000))], unmodified);
    // With a tag, the date does not count.
    let both = [(IF_NONE_MATCH, "\"b\""), (IF_MODIFIED_SINCE, &*at(200))];
    check(stored, &both, Condition::Holds);
    check(stored, &[(IF_MATCH, "\"a\"")], Condition::AskOrigin);
    check(stored, &[(IF_UNMODIFIED_SINCE, &at(1))], Condition::AskOrigin);
}

#[test]
fn preconditions_of_an_origin() {
    let modified = at(100);
    let own = headers(&[(ETAG, "\"a\""), (LAST_MODIFIED, &modified)]);
    let own = Validators::of(&own, NOW);
    let check = |request: &[(HeaderName, &str)], want| {
        assert_eq!(precondition_fails(&headers(request), &own, NOW), want, "{request:?}");
    };
    check(&[], false);
    for (tags, fails) in
        [("\"a\"", false), ("*", false), ("\"b\", \"a\"", false), ("W/\"a\"", true), ("a", true)]
    {
        check(&[(IF_MATCH, tags)], fails);
    }
    for (since, fails) in [(at(99), true), (at(100), false), ("x".to_owned(), false)] {
        check(&[(IF_UNMODIFIED_SINCE, &since)], fails);
        check(&[(IF_UNMODIFIED_SINCE, &since), (IF_MATCH, "\"a\"")], false);
    }
}

#[test]
fn a_range_is_of_what_the_client_knows() {
    let check = |stored: &[(HeaderName, &str)], known: &str, want: bool| {
        let stored = headers(stored);
        let validators = Validators::of(&stored, NOW);
        let request = headers(&[(IF_RANGE, known)]);
        assert_eq!(range_applies(&request, &validators, NOW), want, "{stored:?} {known}");
    };
    check(&[(ETAG, "\"a\"")], "\"a\"", true);
    check(&[(ETAG, "\"a\"")], "\"b\"", false);
    check(&[(ETAG, "\"a\"")], "W/\"a\"", false);
    check(&[(ETAG, "W/\"a\"")], "\"a\"", false);
    check(&[(LAST_MODIFIED, &at(100))], &at(100), true);
    check(&[(LAST_MODIFIED, &at(100))], &at(101), false);
    check(&[(LAST_MODIFIED, &at(100))], "x", false);
    // It may have changed twice within that second.
    check(&[(LAST_MODIFIED, &at(1_000))], &at(1_000), false);
    let none = Validators::default();
    assert!(range_applies(&HeaderMap::new(), &none, NOW) && !none.is_some());
}
