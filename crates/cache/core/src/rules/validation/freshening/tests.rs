//! Which responses a 304 is about, and what it changes.

use http::header::{ETAG, LAST_MODIFIED};
use http::{HeaderName, HeaderValue};

use super::*;
use crate::fields::dates::{UnixSeconds, format_date};

const NOW: UnixSeconds = UnixSeconds(1_795_737_600);

fn headers(lines: &[(HeaderName, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in lines {
        headers.append(name, HeaderValue::from_str(value).unwrap());
    }
    headers
}

type Lines<'l> = &'l [(HeaderName, &'l str)];

#[test]
fn a_304_is_about_what_has_its_validator() {
    use FresheningTarget::{Strong, Unvalidated, Weak};
    let check = |newer: Lines<'_>, stored: Lines<'_>, target, admits| {
        let (newer, stored) = (headers(newer), headers(stored));
        let (newer, stored) = (Validators::of(&newer, NOW), Validators::of(&stored, NOW));
        assert_eq!(FresheningTarget::of(&newer), target, "{newer:?}");
        assert_eq!(target.admits(&newer, &stored), admits, "{newer:?} {stored:?}");
    };
    let old = format_date(UnixSeconds(NOW.0 - 1_000));
    let older = format_date(UnixSeconds(NOW.0 - 2_000));
    let now = format_date(NOW);
    check(&[(ETAG, "\"a\"")], &[(ETAG, "\"a\"")], Strong, true);
    check(&[(ETAG, "\"a\"")], &[(ETAG, "W/\"a\"")], Strong, false);
    check(&[(ETAG, "\"a\"")], &[(ETAG, "\"b\"")], Strong, false);
    check(&[(ETAG, "\"a\"")], &[], Strong, false);
    check(&[(ETAG, "W/\"a\"")], &[(ETAG, "W/\"a\"")], Weak, true);
    check(&[(ETAG, "W/\"a\"")], &[(ETAG, "W/\"b\"")], Weak, false);
    check(&[(LAST_MODIFIED, &old)], &[(LAST_MODIFIED, &old)], Strong, true);
    check(&[(LAST_MODIFIED, &old)], &[(LAST_MODIFIED, &older)], Strong, false);
    check(&[(LAST_MODIFIED, &now)], &[(LAST_MODIFIED, &now)], Weak, true);
    check(&[], &[], Unvalidated, true);
    check(&[], &[(ETAG, "\"a\"")], Unvalidated, false);
    let both: Lines<'_> = &[(ETAG, "\"a\""), (LAST_MODIFIED, &old)];
    check(both, &[(ETAG, "\"a\""), (LAST_MODIFIED, &older)], Strong, true);
}

#[test]
fn newer_fields_replace_all_lines_of_the_old_ones() {
    use http::header::{CACHE_CONTROL, CONTENT_TYPE, VIA};
    let mut stored = headers(&[
        (CACHE_CONTROL, "max-age=1"),
        (VIA, "a"),
        (VIA, "b"),
        (CONTENT_LENGTH, "9"),
        (CONTENT_TYPE, "text/plain"),
    ]);
    let newer = headers(&[
        (CACHE_CONTROL, "max-age=2"),
        (CACHE_CONTROL, "public"),
        (VIA, "c"),
        (CONTENT_LENGTH, "0"),
        (ETAG, "\"x\""),
    ]);
    freshen(&mut stored, &newer);
    let want = headers(&[
        (CACHE_CONTROL, "max-age=2"),
        (CACHE_CONTROL, "public"),
        (VIA, "c"),
        (CONTENT_LENGTH, "9"),
        (CONTENT_TYPE, "text/plain"),
        (ETAG, "\"x\""),
    ]);
    assert_eq!(stored, want);
}

#[test]
fn an_answer_to_head_may_be_about_something_newer() {
    let stored = headers(&[(ETAG, "\"a\""), (CONTENT_LENGTH, "9")]);
    let check = |head: Lines<'_>, want| assert_eq!(head_agrees(&headers(head), &stored), want);
    check(&[], true);
    check(&[(ETAG, "\"a\""), (CONTENT_LENGTH, "9")], true);
    check(&[(ETAG, "\"b\""), (CONTENT_LENGTH, "9")], false);
    check(&[(CONTENT_LENGTH, "8")], false);
    check(&[(LAST_MODIFIED, "x")], false);
}
