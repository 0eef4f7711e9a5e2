//! Purges by key, prefix and surrogate key, hard and soft, before, during and after fetches.

use std::io::Write as _;
use std::sync::mpsc::channel;

use cache_core::fields::dates::UnixSeconds;
use cache_core::key::{CacheKey, QueryRules};
use cache_core::store::purges::{Purge, PurgeEffect, PurgeScope};

use super::fixtures::{Proxy, until};

const FRESH: &str = "200 OK\r\ncache-control: max-age=600\r\n";
const MISS: &str = "fwd=uri-miss; fwd-status=200; stored";

/// Soft, now.
fn soft() -> PurgeEffect {
    PurgeEffect::Stale(UnixSeconds(runtime::process::unix_ms() / 1000))
}

fn of_key(path: &str) -> PurgeScope {
    let uri = format!("http://cdn.example{path}").parse().expect("a URI");
    PurgeScope::Key(CacheKey::of(&uri, &QueryRules::default()).expect("it has a host"))
}

fn prefix(path: &str) -> PurgeScope {
    PurgeScope::Prefix(format!("http://cdn.example{path}").into())
}

fn named(name: &str) -> PurgeScope {
    PurgeScope::SurrogateKey(name.into())
}

fn purge(proxy: &Proxy, scope: PurgeScope, effect: PurgeEffect) -> Option<usize> {
    proxy.cache().purge(&Purge { scope, effect }).expect("few are pending")
}

/// Stores a response per path, with its names.
fn fill(proxy: &Proxy, paths: &[(&str, &str)]) {
    for (path, names) in paths {
        proxy.origin.answer(&format!("{FRESH}surrogate-key: {names}\r\n"), path);
        let answer = proxy.get(path, &[]);
        assert_eq!((answer.cache(), answer.field("surrogate-key")), (MISS.to_owned(), None));
        assert_eq!(proxy.get(path, &[]).cache(), "hit");
    }
}

/// Asks for each path on several connections, which are on different shards.
fn check(proxy: &Proxy, wants: &[(&str, &str)]) {
    for (path, want) in wants {
        if *want != "hit" {
            proxy.origin.answer(FRESH, "again");
        }
        let mut handled: Vec<_> = (0..8).map(|_| proxy.get(path, &[]).cache()).collect();
        assert_eq!(handled.remove(0), *want, "{path}");
        assert!(handled.iter().all(|handled| handled == "hit"), "{path}: {handled:?}");
    }
}

#[test]
fn a_hard_purge_is_seen_by_the_next_request_on_every_shard() {
    let proxy = Proxy::start("");
    fill(&proxy, &[("/a/1", "x y"), ("/a/2", "y"), ("/b/1", "x"), ("/b/2", "xy"), ("/c", "")]);
    assert_eq!(purge(&proxy, of_key("/c"), PurgeEffect::Gone), Some(1));
    assert_eq!(purge(&proxy, of_key("/none"), PurgeEffect::Gone), Some(0));
    purge(&proxy, prefix("/a/"), PurgeEffect::Gone);
    purge(&proxy, named("x"), PurgeEffect::Gone);
    check(&proxy, &[("/a/1", MISS), ("/a/2", MISS), ("/b/1", MISS), ("/c", MISS), ("/b/2", "hit")]);
    // What is stored after a purge is not concerned.
    check(&proxy, &[("/a/1", "hit"), ("/c", "hit")]);
}

#[test]
fn all_is_purged_before_and_after_the_sweep() {
    let proxy = Proxy::start("");
    let paths: Vec<_> = (0..300).map(|at| format!("/{at}")).collect();
    for path in &paths {
        proxy.origin.answer(FRESH, "x");
        proxy.get(path, &[]);
    }
    assert_eq!(proxy.cache().figures().entries, 300);
    purge(&proxy, prefix("/"), PurgeEffect::Gone);
    proxy.origin.answer(FRESH, "again");
    assert_eq!(proxy.get("/7", &[]).cache(), MISS);
    until("the sweep has removed the others", || proxy.cache().figures().entries == 1);
    assert_eq!(proxy.get("/7", &[]).cache(), "hit");
}

#[test]
fn a_soft_purge_makes_stale_and_the_origin_may_find_it_valid() {
    let proxy = Proxy::start("");
    let validated = "200 OK\r\ncache-control: max-age=600\r\netag: \"v1\"\r\n";
    let waiting = "200 OK\r\ncache-control: max-age=600, stale-while-revalidate=60, \
                   stale-if-error=60\r\nsurrogate-key: ads\r\netag: \"v1\"\r\n";
    proxy.origin.answer(validated, "a").answer(waiting, "b");
    proxy.get("/a", &[]);
    proxy.get("/b", &[]);
    assert_eq!(purge(&proxy, of_key("/a"), soft()), Some(1));
    proxy.origin.raw("HTTP/1.1 304 Not Modified\r\netag: \"v1\"\r\n\r\n".into());
    assert_eq!(proxy.get("/a", &[]).cache(), "fwd=stale; fwd-status=304; stored");
    let asked = proxy.origin.received().pop().unwrap();
    assert_eq!(asked.field("if-none-match").as_deref(), Some("\"v1\""));
    assert_eq!(proxy.get("/a", &[]).cache(), "hit");
    // Stale answers while it is validated; its name stays with it.
    for _ in 0..2 {
        purge(&proxy, named("ads"), soft());
        let answer = proxy.get("/b", &[]);
        assert_eq!((answer.text(), &*answer.cache()), ("b", "hit"));
        assert!(answer.field("cache-status").unwrap().contains("ttl=-"), "{answer:?}");
        let count = proxy.origin.received().len();
        proxy.origin.raw("HTTP/1.1 304 Not Modified\r\netag: \"v1\"\r\n\r\n".into());
        proxy.origin.until_received(count);
        until("it is validated", || {
            !proxy.get("/b", &[]).field("cache-status").unwrap().contains("ttl=-")
        });
    }
}

#[test]
fn a_fetch_that_was_under_way_is_not_stored_nor_joined() {
    for (scope, is_known_by_head) in
        [(of_key("/"), false), (prefix("/"), false), (named("x"), false), (named("x"), true)]
    {
        let proxy = Proxy::start("");
        let (release, released) = channel();
        let head = "HTTP/1.1 200 OK\r\ncache-control: max-age=600\r\nsurrogate-key: x\r\n\
                    content-length: 3\r\n\r\n";
        proxy.origin.script(move |_, stream| {
            let (first, rest) = if is_known_by_head { (head, "old") } else { ("", "old") };
            stream.write_all(first.as_bytes()).unwrap();
            released.recv().unwrap();
            let rest = if first.is_empty() { format!("{head}{rest}") } else { rest.to_owned() };
            stream.write_all(rest.as_bytes()).is_ok()
        });
        let mut before = proxy.client();
        before.write("GET / HTTP/1.1\r\nhost: cdn.example\r\n\r\n");
        proxy.origin.until_received(1);
        if is_known_by_head {
            assert_eq!(before.head().status, 200);
        }
        purge(&proxy, scope.clone(), PurgeEffect::Gone);
        let mut after = proxy.client();
        after.write("GET / HTTP/1.1\r\nhost: cdn.example\r\n\r\n");
        let is_of_name = matches!(scope, PurgeScope::SurrogateKey(_));
        proxy.origin.answer(FRESH, "new");
        if !is_of_name || is_known_by_head {
            // It asks again at once.
            assert_eq!(after.answer("GET").text(), "new", "{scope:?}");
        }
        release.send(()).unwrap();
        match is_known_by_head {
            true => assert_eq!(before.bytes(3), b"old"),
            false => assert_eq!(before.answer("GET").text(), "old"),
        }
        if is_of_name && !is_known_by_head {
            // It could not know the name before the head came.
            assert_eq!(after.answer("GET").text(), "new", "{scope:?}");
        }
        let answer = proxy.get("/", &[]);
        assert_eq!((answer.text(), &*answer.cache()), ("new", "hit"), "{scope:?}");
        assert_eq!(proxy.origin.received().len(), 2);
    }
}

#[test]
fn what_is_purged_does_not_stand_in_for_errors() {
    let proxy = Proxy::start("");
    proxy
        .origin
        .answer("200 OK\r\ncache-control: max-age=0, stale-if-error=600\r\netag: \"v\"\r\n", "old");
    proxy.get("/", &[]);
    let (release, released) = channel();
    proxy.origin.script(move |_, stream| {
        released.recv().unwrap();
        stream.write_all(b"HTTP/1.1 503 Unavailable\r\ncontent-length: 0\r\n\r\n").is_ok()
    });
    let mut client = proxy.client();
    client.write("GET / HTTP/1.1\r\nhost: cdn.example\r\n\r\n");
    proxy.origin.until_received(2);
    assert_eq!(purge(&proxy, of_key("/"), PurgeEffect::Gone), Some(1));
    release.send(()).unwrap();
    assert_eq!(client.answer("GET").status, 503);
}
