//! Parts of a body: those that clients ask for while it is fetched, and those that complete it.

use std::io::Write as _;
use std::sync::mpsc::channel;

use super::fixtures::{PATIENCE, Proxy, until};

const FRESH: &str = "200 OK\r\ncache-control: max-age=60\r\netag: \"v1\"\r\n";

#[test]
fn a_part_is_answered_while_the_whole_is_fetched() {
    let proxy = Proxy::start("");
    let (go_on, gone_on) = channel();
    proxy.origin.script(move |request, stream| {
        assert_eq!(request.field("range"), None, "the whole is wanted");
        let head = format!("HTTP/1.1 {FRESH}content-length: 10\r\n\r\n012345");
        stream.write_all(head.as_bytes()).unwrap();
        gone_on.recv_timeout(PATIENCE).unwrap();
        stream.write_all(b"6789").is_ok()
    });
    // The one that is fetched for, and one that joins it.
    let [mut first, mut second] = [proxy.client(), proxy.client()];
    let ask =
        |range: &str| format!("GET /a HTTP/1.1\r\nhost: cdn.example\r\nrange: {range}\r\n\r\n");
    first.write(&ask("bytes=2-4"));
    let part = first.answer("GET");
    assert_eq!((part.status, part.text()), (206, "234"));
    assert_eq!(part.field("content-range").unwrap(), "bytes 2-4/10");
    second.write(&ask("bytes=-7"));
    let mut part = second.head();
    assert_eq!((part.status, &*part.field("content-length").unwrap()), (206, "7"));
    part.body = second.bytes(3);
    assert_eq!(part.text(), "345");
    go_on.send(()).unwrap();
    assert_eq!(second.bytes(4), b"6789");
    until("it is stored", || proxy.cache().figures().entries == 1);
    let cases = [("bytes=20-", 416), ("bytes=0-1,4-5", 206), ("items=1", 200)];
    for (range, status) in cases {
        let line = format!("range: {range}");
        assert_eq!(proxy.get("/a", &[&line]).status, status, "{range}");
    }
    assert_eq!(proxy.origin.received().len(), 1);
}

#[test]
fn a_part_of_what_is_too_large_is_asked_for() {
    let proxy = Proxy::with("object_max = \"1KiB\"", "");
    let large = "x".repeat(2_000);
    proxy.origin.answer(FRESH, &large);
    proxy.origin.raw(
        "HTTP/1.1 206 Partial Content\r\netag: \"v1\"\r\ncontent-range: bytes 5-6/2000\r\n\
         content-length: 2\r\n\r\nab"
            .into(),
    );
    let part = proxy.get("/a", &["range: bytes=5-6"]);
    assert_eq!((part.status, part.text()), (206, "ab"));
    assert_eq!(proxy.origin.received()[1].field("range").unwrap(), "bytes=5-6");
}

/// The next answer, of ten bytes, breaks off after six.
fn breaks_off(proxy: &Proxy, fields: &str) {
    let text = format!(
        "HTTP/1.1 200 OK\r\ncache-control: max-age=60\r\n{fields}content-length: 10\r\n\r\n012345"
    );
    proxy.origin.script(move |_, stream| {
        stream.write_all(text.as_bytes()).expect("an open connection");
        false
    });
}

#[test]
fn a_body_that_breaks_off_is_completed_and_stored() {
    let proxy = Proxy::start("");
    breaks_off(&proxy, "etag: \"v1\"\r\nx-part: 1\r\n");
    proxy.origin.raw(
        "HTTP/1.1 206 Partial Content\r\netag: \"v1\"\r\ncontent-range: bytes 6-9/10\r\nx-part: 2\r\n\
         content-length: 4\r\n\r\n6789"
            .into(),
    );
    let answer = proxy.get("/a", &["accept: x/y"]);
    assert_eq!((answer.status, answer.text(), answer.is_complete), (200, "0123456789", true));
    let rest = &proxy.origin.received()[1];
    assert_eq!(rest.field("range").unwrap(), "bytes=6-");
    assert_eq!(rest.field("if-range").unwrap(), "\"v1\"");
    assert_eq!(rest.field("accept").unwrap(), "x/y");
    until("it is stored", || proxy.cache().figures().entries == 1);
    // With the fields of the last part (RFC 9111, section 3.4).
    let hit = proxy.get("/a", &[]);
    assert_eq!((hit.text(), &*hit.cache()), ("0123456789", "hit"));
    assert_eq!((hit.field("x-part").unwrap(), hit.field("content-range")), ("2".to_owned(), None));
}

#[test]
fn what_is_not_the_rest_completes_nothing() {
    let whole = format!("HTTP/1.1 {FRESH}content-length: 10\r\n\r\n0123456789");
    let part = |etag: &str, range: &str| {
        format!(
            "HTTP/1.1 206 Partial Content\r\netag: \"{etag}\"\r\ncontent-range: bytes {range}\r\n\
             content-length: 4\r\n\r\n6789"
        )
    };
    for answer in [whole, part("v2", "6-9/10"), part("v1", "5-8/10"), part("v1", "6-9/11")] {
        let proxy = Proxy::start("");
        breaks_off(&proxy, "etag: \"v1\"\r\n");
        proxy.origin.raw(answer.clone());
        let broken = proxy.get("/a", &[]);
        assert_eq!((broken.text(), broken.is_complete), ("012345", false), "{answer:?}");
        proxy.origin.answer(FRESH, "whole");
        assert_eq!(proxy.get("/a", &[]).text(), "whole", "nothing was stored after {answer:?}");
    }
    // Its range is right, and its length is not.
    let part = "HTTP/1.1 206 Partial Content\r\netag: \"v1\"\r\ncontent-range: bytes 6-9/10\r\n";
    for body in [
        "\r\n67",
        "content-length: 2\r\n\r\n67",
        "transfer-encoding: chunked\r\n\r\n2\r\n67\r\n0\r\n\r\n",
        "transfer-encoding: chunked\r\n\r\n6\r\n6789ab\r\n0\r\n\r\n",
    ] {
        for framing in [
            "content-length: 10\r\n\r\n012345",
            "transfer-encoding: chunked\r\n\r\n6\r\n012345\r\n",
        ] {
            let proxy = Proxy::start("");
            let whole = format!("HTTP/1.1 {FRESH}{framing}");
            let part = format!("{part}{body}");
            // What has its own end leaves the connection open.
            let goes_on = !body.starts_with("\r\n");
            for (answer, goes_on) in [(whole, false), (part.clone(), goes_on), (part, goes_on)] {
                proxy.origin.script(move |_, stream| {
                    stream.write_all(answer.as_bytes()).expect("an open connection");
                    goes_on
                });
            }
            let broken = proxy.get("/a", &[]);
            assert!(
                !broken.is_complete && b"0123456789".starts_with(&broken.body),
                "{body:?}: {broken:?}"
            );
            proxy.origin.answer(FRESH, "whole");
            assert_eq!(proxy.get("/a", &[]).text(), "whole", "nothing was stored after {body:?}");
        }
    }
    // It is not even asked for without a strong tag, nor for ever.
    let proxy = Proxy::start("");
    breaks_off(&proxy, "etag: W/\"v1\"\r\n");
    assert!(!proxy.get("/a", &[]).is_complete);
    assert_eq!(proxy.origin.received().len(), 1);
    breaks_off(&proxy, "etag: \"v1\"\r\n");
    let nothing = "HTTP/1.1 206 Partial Content\r\netag: \"v1\"\r\ncontent-range: bytes 6-9/10\r\ncontent-length: 4\r\n\r\n";
    for _ in 0..5 {
        proxy.origin.script(move |_, stream| {
            stream.write_all(nothing.as_bytes()).unwrap();
            false
        });
    }
    assert!(!proxy.get("/b", &[]).is_complete);
    assert_eq!(proxy.origin.received().len(), 4);
}

#[test]
fn trailers_are_no_fields_of_what_is_stored() {
    let proxy = Proxy::start("");
    proxy.origin.raw(
        "HTTP/1.1 200 OK\r\ncache-control: max-age=60\r\ntrailer: x-sum\r\ntransfer-encoding: chunked\r\n\r\n\
         5\r\nhello\r\n0\r\nx-sum: 1\r\ncontent-type: x/y\r\n\r\n"
            .into(),
    );
    for _ in 0..2 {
        let answer = proxy.get("/a", &["te: trailers"]);
        assert_eq!((answer.status, answer.text()), (200, "hello"));
        assert_eq!((answer.field("x-sum"), answer.field("content-type")), (None, None));
    }
    assert_eq!(proxy.origin.received().len(), 1);
}
