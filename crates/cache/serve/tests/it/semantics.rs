//! What clients get from the store and what origins are asked for.

use std::io::Write as _;

use super::fixtures::Proxy;

const FRESH: &str = "200 OK\r\ncache-control: max-age=60\r\netag: \"v1\"\r\n";

#[test]
fn a_second_request_is_a_hit() {
    let proxy = Proxy::start("");
    proxy.origin.answer(FRESH, "hello");
    let miss = proxy.get("/a?x=1", &["accept: text/plain"]);
    assert_eq!(
        (miss.status, miss.text(), &*miss.cache()),
        (200, "hello", "fwd=uri-miss; fwd-status=200; stored")
    );
    let request = &proxy.origin.received()[0];
    assert_eq!(request.line, "GET /a?x=1");
    assert_eq!(request.field("host").unwrap(), "cdn.example");
    assert_eq!(request.field("via").unwrap(), "1.1 vickrey");
    assert_eq!(request.field("cdn-loop").unwrap(), "vickrey");
    assert_eq!(request.field("accept").unwrap(), "text/plain");
    // On other connections, so on other shards too.
    for _ in 0..4 {
        let hit = proxy.get("/a?x=1", &[]);
        assert_eq!((hit.status, hit.text(), &*hit.cache()), (200, "hello", "hit"));
        assert_eq!(hit.field("content-length").unwrap(), "5");
        assert_eq!(hit.field("etag").unwrap(), "\"v1\"");
        assert_eq!(hit.field("via").unwrap(), "1.1 vickrey");
        assert!(hit.field("age").is_some() && hit.field("date").is_some());
    }
    let head = proxy.client().send("HEAD", "/a?x=1", &[]);
    assert_eq!((head.status, &*head.cache()), (200, "hit"));
    assert_eq!(head.field("content-length").unwrap(), "5");
    let part = proxy.get("/a?x=1", &["range: bytes=1-3"]);
    assert_eq!((part.status, part.text()), (206, "ell"));
    let unmodified = proxy.get("/a?x=1", &["if-none-match: \"v1\""]);
    assert_eq!(unmodified.status, 304);
    assert_eq!(proxy.origin.received().len(), 1);
}

#[test]
fn hits_of_plain_requests_are_as_those_of_others() {
    let proxy = Proxy::start("");
    let long = format!("x-{}: 1\r\n", "name".repeat(20));
    let heads = [
        "",
        "vary: accept-encoding, x-other\r\n",
        "via: 1.1 nearer\r\nx-twice: 1\r\nx-twice: 2\r\n",
        "cache-control: no-cache=\"x-private\"\r\nx-private: 1\r\nage: 7\r\n",
        "date: Fri, 27 Nov 2026 00:00:00 GMT\r\ncache-control: max-age=99999999\r\n",
        &long,
    ];
    for (at, head) in heads.iter().enumerate() {
        let target = format!("/{at}?q");
        let mut client = proxy.client();
        for (encoding, body) in [("gzip", "packed"), ("br, gzip", "")] {
            let encoding = format!("Accept-Encoding: {encoding}");
            proxy.origin.answer(&format!("{FRESH}{head}"), body);
            client.send("GET", &target, &[&encoding]);
            let [plain, other] =
                ["x: y", "pragma: y"].map(|line| client.send("GET", &target, &[&encoding, line]));
            assert_eq!((plain.cache(), &plain.body), ("hit".to_owned(), &other.body));
            assert_eq!(plain.sorted_lines(), other.sorted_lines(), "{head:?}");
        }
    }
}

#[test]
fn a_stale_response_is_validated_once() {
    let proxy = Proxy::start("");
    let stale = "200 OK\r\ncache-control: max-age=60\r\nage: 60\r\netag: \"v1\"\r\nx-made: 1\r\n";
    proxy.origin.answer(stale, "hello");
    assert_eq!(proxy.get("/", &[]).text(), "hello");
    proxy.origin.raw("HTTP/1.1 304 Not Modified\r\ncache-control: max-age=60\r\nx-made: 2\r\netag: \"v1\"\r\n\r\n".into());
    let validated = proxy.get("/", &["if-none-match: \"other\"", "range: bytes=0-1"]);
    assert_eq!((validated.status, validated.text()), (206, "he"));
    assert_eq!(validated.cache(), "fwd=stale; fwd-status=304; stored");
    let asked = &proxy.origin.received()[1];
    assert_eq!(asked.field("if-none-match").unwrap(), "\"v1\"");
    assert_eq!(asked.field("range"), None);
    let hit = proxy.get("/", &[]);
    assert_eq!((hit.text(), &*hit.field("x-made").unwrap(), &*hit.cache()), ("hello", "2", "hit"));
    assert_eq!(proxy.origin.received().len(), 2);
}

#[test]
fn a_304_may_end_storing() {
    let proxy = Proxy::start("");
    proxy
        .origin
        .answer("200 OK\r\ncache-control: max-age=60\r\nage: 60\r\netag: \"v1\"\r\n", "all");
    assert_eq!(proxy.get("/", &[]).text(), "all");
    proxy
        .origin
        .raw("HTTP/1.1 304 Not Modified\r\ncache-control: private\r\netag: \"v1\"\r\n\r\n".into());
    let own = "200 OK\r\ncache-control: private\r\n";
    proxy.origin.answer(own, "Ann's").answer(own, "Bob's");
    assert_eq!(proxy.get("/", &[]).text(), "Ann's");
    assert_eq!(proxy.origin.received()[2].field("if-none-match"), None);
    assert_eq!(proxy.get("/", &[]).text(), "Bob's");
}

#[test]
fn equal_uris_are_one_resource_whose_normal_form_the_origin_sees() {
    let proxy = Proxy::start("query_allowed = [\"b\", \"a\"]\nquery_sorted = true");
    proxy.origin.answer(FRESH, "hello");
    let absolute = "http://CDN.example:80/x/../%7euser?b=2&utm=1&a=1";
    assert_eq!(proxy.client().send("GET", absolute, &[]).text(), "hello");
    let request = &proxy.origin.received()[0];
    assert_eq!(request.line, "GET /~user?a=1&b=2");
    assert_eq!(request.field("host").unwrap(), "cdn.example");
    assert_eq!(proxy.get("/~user?a=1&b=2", &[]).cache(), "hit");
}

#[test]
fn variants_are_fetched_apart() {
    let proxy = Proxy::start("");
    let varies = "200 OK\r\ncache-control: max-age=60\r\nvary: accept-encoding\r\n";
    proxy.origin.answer(varies, "plain").answer(varies, "zipped");
    assert_eq!(proxy.get("/", &[]).text(), "plain");
    let other = proxy.get("/", &["accept-encoding: gzip"]);
    assert_eq!(
        (other.text(), &*other.cache()),
        ("zipped", "fwd=vary-miss; fwd-status=200; stored")
    );
    assert_eq!(proxy.get("/", &[]).text(), "plain");
    assert_eq!(proxy.get("/", &["accept-encoding: GZIP"]).text(), "zipped");
    assert_eq!(proxy.origin.received().len(), 2);
}

#[test]
fn what_is_for_one_client_is_not_shared() {
    let proxy = Proxy::start("");
    let cookie = "200 OK\r\ncache-control: max-age=60\r\nset-cookie: a=1\r\n";
    proxy.origin.answer(cookie, "yours").answer(cookie, "mine");
    assert_eq!(proxy.get("/", &[]).text(), "yours");
    assert_eq!(proxy.get("/", &[]).text(), "mine");
    proxy.origin.answer(FRESH, "for Ann").answer(FRESH, "for Bob");
    assert_eq!(proxy.get("/private", &["authorization: Basic Ann"]).text(), "for Ann");
    assert_eq!(proxy.get("/private", &["authorization: Basic Bob"]).text(), "for Bob");
}

#[test]
fn a_change_makes_what_is_stored_stale() {
    let proxy = Proxy::start("");
    proxy.origin.answer(FRESH, "before");
    assert_eq!(proxy.get("/doc", &[]).text(), "before");
    proxy.origin.answer("200 OK\r\nlocation: /doc\r\n", "changed");
    let mut client = proxy.client();
    client.write("POST /form HTTP/1.1\r\nhost: cdn.example\r\ncontent-length: 3\r\n\r\na=1");
    let changed = client.answer("POST");
    assert_eq!((changed.text(), &*changed.cache()), ("changed", "fwd=method; fwd-status=200"));
    assert_eq!(proxy.origin.received()[1].body, "a=1");
    proxy.origin.answer(FRESH, "after");
    assert_eq!(proxy.get("/doc", &[]).text(), "after");
    assert_eq!(proxy.origin.received()[2].field("if-none-match").unwrap(), "\"v1\"");
}

#[test]
fn stale_answers_while_the_origin_is_slow_or_broken() {
    let proxy = Proxy::start("stale_if_error = \"1h\"");
    let waits = "200 OK\r\ncache-control: max-age=60, stale-while-revalidate=60\r\nage: 70\r\n";
    proxy.origin.answer(waits, "old");
    assert_eq!(proxy.get("/", &[]).text(), "old");
    let stale = proxy.get("/", &[]);
    assert_eq!((stale.text(), &*stale.cache()), ("old", "hit"));
    assert!(stale.field("cache-status").unwrap().contains("ttl=-1"), "{stale:?}");
    proxy.origin.until_received(2);
    proxy.origin.answer(FRESH, "new");
    super::fixtures::until("the new one is stored", || proxy.get("/", &[]).text() == "new");
    // Without a time to wait, but with the operator's leave if the origin fails.
    proxy.origin.answer("200 OK\r\ncache-control: max-age=60\r\nage: 70\r\n", "kept");
    assert_eq!(proxy.get("/kept", &[]).text(), "kept");
    proxy.origin.answer("503 Service Unavailable\r\n", "down");
    assert_eq!(proxy.get("/kept", &[]).text(), "kept");
    proxy.origin.script(|_, _| false);
    assert_eq!(proxy.get("/kept", &[]).text(), "kept");
}

#[test]
fn head_updates_what_is_stored() {
    let proxy = Proxy::start("");
    proxy
        .origin
        .answer("200 OK\r\ncache-control: max-age=60\r\nage: 70\r\netag: \"v1\"\r\n", "hello");
    assert_eq!(proxy.get("/", &[]).text(), "hello");
    proxy.origin.script(|request, stream| {
        assert_eq!(request.line, "HEAD /");
        let head = "HTTP/1.1 200 OK\r\ncache-control: max-age=60\r\netag: \"v1\"\r\ncontent-length: 5\r\n\r\n";
        stream.write_all(head.as_bytes()).is_ok()
    });
    assert_eq!(proxy.client().send("HEAD", "/", &[]).status, 200);
    assert_eq!(proxy.get("/", &[]).cache(), "hit");
    assert_eq!(proxy.origin.received().len(), 2);
}

/// Of an answer that is stored, one that is not, and one to a POST; not to an old client.
#[test]
fn interim_answers_are_passed_on_and_not_stored() {
    let proxy = Proxy::start("");
    let hints = "HTTP/1.1 103 Early Hints\r\nlink: </a.css>; rel=preload\r\nconnection: x-own\r\n\
                 x-own: 1\r\n\r\n";
    let ask = |method: &str, target: &str, version: &str, control: &str| {
        let own =
            format!("HTTP/1.1 200 OK\r\ncache-control: {control}\r\ncontent-length: 1\r\n\r\nx");
        proxy.origin.raw(format!("HTTP/1.1 100 Continue\r\n\r\n{hints}{hints}{own}"));
        let mut client = proxy.client();
        client.write(&format!(
            "{method} {target} HTTP/{version}\r\nhost: cdn.example\r\ncontent-length: 0\r\n\r\n"
        ));
        let mut interim = Vec::new();
        loop {
            let head = client.head();
            if head.status >= 200 {
                return interim;
            }
            assert_eq!(head.field("x-own"), None);
            interim.push((head.status, head.field("link"), head.field("via")));
        }
    };
    let link = || Some("</a.css>; rel=preload".to_owned());
    let want = vec![(103, link(), Some("1.1 vickrey".to_owned())); 2];
    assert_eq!(ask("GET", "/a", "1.1", "max-age=60"), want);
    assert_eq!(ask("GET", "/b", "1.1", "private"), want);
    assert_eq!(ask("POST", "/c", "1.1", "max-age=60"), want);
    assert_eq!(ask("GET", "/d", "1.0", "max-age=60"), []);
    // The next request of the same connection, which is a hit, has none.
    let mut client = proxy.client();
    for _ in 0..2 {
        client.write("GET /a HTTP/1.1\r\nhost: cdn.example\r\n\r\n");
        let head = client.head();
        assert_eq!((head.status, &*head.cache()), (200, "hit"));
        client.bytes(1);
    }
}
