//! A response of ten bytes of which four came.

use http::HeaderName;

use super::*;

fn headers(lines: &[(&str, &str)]) -> HeaderMap {
    let field = |(name, value): &(&str, &str)| {
        (name.parse::<HeaderName>().unwrap(), HeaderValue::from_str(value).unwrap())
    };
    lines.iter().map(field).collect()
}

fn incomplete(lines: &[(&str, &str)], length: Option<u64>) -> Option<IncompleteResponse> {
    IncompleteResponse::of(StatusCode::OK, &headers(lines), 4, length)
}

#[test]
fn what_has_a_strong_tag_can_be_completed() {
    let found = incomplete(&[("etag", "\"v1\""), ("accept-ranges", "bytes")], Some(10)).unwrap();
    assert_eq!(
        (found.range(), found.if_range()),
        ("bytes=4-".parse().unwrap(), &"\"v1\"".parse().unwrap())
    );
    for lines in [
        &[][..],
        &[("etag", "W/\"v1\"")],
        &[("etag", "v1")],
        &[("etag", "\"v1\""), ("accept-ranges", "none")],
    ] {
        assert!(incomplete(lines, Some(10)).is_none(), "{lines:?}");
    }
    let part = headers(&[("etag", "\"v1\"")]);
    assert!(IncompleteResponse::of(StatusCode::PARTIAL_CONTENT, &part, 4, None).is_none());
}

#[test]
fn only_the_whole_rest_of_the_same_representation_completes_it() {
    let check = |length, status, lines: &[(&str, &str)], want: bool| {
        let incomplete = incomplete(&[("etag", "\"v1\"")], length).unwrap();
        let status = StatusCode::from_u16(status).unwrap();
        let rest = incomplete.rest(status, &headers(lines));
        assert_eq!(rest, want.then_some(ByteRange { start: 4, end: 10 }), "{lines:?}");
    };
    let etag = ("etag", "\"v1\"");
    for length in [Some(10), None] {
        check(length, 206, &[etag, ("content-range", "bytes 4-9/10")], true);
        check(length, 200, &[etag, ("content-range", "bytes 4-9/10")], false);
        check(length, 206, &[("etag", "\"v2\""), ("content-range", "bytes 4-9/10")], false);
        check(length, 206, &[("content-range", "bytes 4-9/10")], false);
        check(length, 206, &[etag], false);
        let coded = [etag, ("content-encoding", "gzip"), ("content-range", "bytes 4-9/10")];
        check(length, 206, &coded, false);
        for range in [
            "bytes 3-9/10",
            "bytes 4-8/10",
            "bytes 4-9/*",
            "bytes 4-10/10",
            "bytes */10",
            "items 4-9/10",
        ] {
            check(length, 206, &[etag, ("content-range", range)], false);
        }
    }
    check(Some(10), 206, &[etag, ("content-range", "bytes 4-10/11")], false);
}

#[test]
fn the_rest_has_the_same_coding() {
    let coding = ("content-encoding", "gzip");
    let coded = incomplete(&[("etag", "\"v1\""), coding], None).unwrap();
    let part = [("etag", "\"v1\""), ("content-range", "bytes 4-9/10")];
    assert_eq!(coded.rest(StatusCode::PARTIAL_CONTENT, &headers(&part)), None);
    let part = [part[0], part[1], coding];
    assert!(coded.rest(StatusCode::PARTIAL_CONTENT, &headers(&part)).is_some());
}
