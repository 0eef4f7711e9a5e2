//! Heads of answers, and what they say of the cache.

use super::*;

fn parse(fields: &str) -> GetHead {
    let text = format!("HTTP/1.1 200 OK\r\n{fields}\r\nbody");
    let (head, length) = GetHead::parse(text.as_bytes()).unwrap().unwrap();
    assert_eq!(length, text.len() - 4);
    head
}

#[test]
fn bodies_end_as_their_heads_say() {
    let head = parse("Content-Length: 4\r\n");
    assert_eq!((head.body_end, head.keeps_connection), (BodyEnd::After(4), true));
    let head = parse("transfer-encoding: chunked\r\nconnection: close\r\n");
    assert_eq!((head.body_end, head.keeps_connection), (BodyEnd::Chunks, false));
    let head = parse("");
    assert_eq!((head.body_end, head.keeps_connection), (BodyEnd::Close, false));
    assert_eq!(GetHead::parse(b"HTTP/1.1 200 OK\r\nconte"), Ok(None));
    assert!(GetHead::parse(b"HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n").is_err());
    assert!(GetHead::parse(b"\0").is_err());
    let (head, _) = GetHead::parse(b"HTTP/1.1 304 Not Modified\r\n\r\n").unwrap().unwrap();
    assert_eq!(head.body_end, BodyEnd::After(0));
}

#[test]
fn the_nearest_cache_says_how_it_handled_the_request() {
    let check = |field: &str, want| {
        assert_eq!(parse(&format!("cache-status: {field}\r\n")).handling, want, "{field}");
    };
    check("vickrey; hit; ttl=30", CacheHandling::Hit);
    check("vickrey; hit; ttl=-3", CacheHandling::Stale);
    check("vickrey; fwd=uri-miss; fwd-status=200; stored", CacheHandling::Forwarded);
    check("vickrey; fwd=uri-miss; stored; collapsed", CacheHandling::Collapsed);
    check("far; fwd=uri-miss, near; hit; ttl=1", CacheHandling::Hit);
    assert_eq!(parse("").handling, CacheHandling::Unknown);
}

#[test]
fn only_right_bodies_are_valid() {
    let answer =
        CacheLoadAnswer { status: 200, bytes: 1, handling: CacheHandling::Hit, is_right: true };
    assert_eq!(answer.verdict(), Verdict::Valid);
    let wrong = CacheLoadAnswer { is_right: false, ..answer };
    assert!(matches!(wrong.verdict(), Verdict::Invalid(_)));
    assert_eq!(CacheLoadAnswer { status: 502, ..wrong }.verdict(), Verdict::Refused);
    let part = CacheLoadAnswer { status: 206, ..answer };
    assert!(matches!(part.verdict(), Verdict::Invalid(_)));
}
