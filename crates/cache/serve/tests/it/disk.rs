//! What the disk gives back: after a restart, and for what memory has no room for.

use std::fs;
use std::path::Path;
use std::sync::Barrier;
use std::thread;

use cache_core::key::{CacheKey, QueryRules};
use cache_core::store::purges::{Purge, PurgeEffect, PurgeScope};

use super::fixtures::{Answer, Proxy, until};

const FRESH: &str = "200 OK\r\ncache-control: max-age=600\r\netag: \"e\"\r\n";
const MISS: &str = "fwd=uri-miss; fwd-status=200; stored";

/// Keys of a cache whose memory has room for about ten bodies.
fn keys(directory: &Path, more: &str) -> String {
    format!(
        "memory = \"1MiB\"\nobject_max = \"512KiB\"\n[cache.disk]\ndirectory = \"{}\"\n\
         size = \"64MiB\"\nread_timeout = \"20s\"\n{more}",
        directory.display()
    )
}

fn body(path: &str) -> String {
    format!("{path} {}", "x".repeat(100_000))
}

/// Asks for what is not stored.
fn miss(proxy: &Proxy, path: &str, body: &str) -> Answer {
    proxy.origin.answer(&format!("{FRESH}surrogate-key: name{}\r\n", &path[1..]), body);
    let answer = proxy.get(path, &[]);
    assert_eq!((answer.cache().as_str(), answer.text()), (MISS, body));
    answer
}

fn hit(proxy: &Proxy, path: &str, body: &str) {
    let answer = proxy.get(path, &[]);
    assert_eq!((answer.cache().as_str(), answer.text()), ("hit", body), "{path}");
}

/// So many responses, all of them on disk, and the first ones nowhere else.
fn filled(directory: &Path, count: usize) -> Proxy {
    let proxy = Proxy::with(&keys(directory, "write_all = true"), "");
    for at in 0..count {
        let path = format!("/{at}");
        miss(&proxy, &path, &body(&path));
    }
    until("all are written", || proxy.cache().figures().on_disk == count);
    proxy
}

fn purge(proxy: &Proxy, scope: PurgeScope) {
    proxy.cache().purge(&Purge { scope, effect: PurgeEffect::Gone }).expect("the disk is well");
}

fn of_key(path: &str) -> PurgeScope {
    let uri = format!("http://cdn.example{path}").parse().expect("a URI");
    PurgeScope::Key(CacheKey::of(&uri, &QueryRules::default()).expect("it has a host"))
}

#[test]
fn what_was_asked_for_again_is_there_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let keys = keys(directory.path(), "");
    let proxy = Proxy::with(&keys, "");
    for path in ["/again", "/once"] {
        miss(&proxy, path, path);
    }
    hit(&proxy, "/again", "/again");
    until("it is written", || proxy.cache().figures().on_disk == 1);
    // And at the end of the process what was not written yet.
    miss(&proxy, "/late", "/late");
    hit(&proxy, "/late", "/late");
    let proxy = proxy.restarted(&keys, "");
    for path in ["/again", "/late"] {
        for _ in 0..8 {
            hit(&proxy, path, path);
        }
    }
    miss(&proxy, "/once", "new");
    let figures = proxy.cache().figures();
    assert_eq!((figures.loaded, figures.fetches), (2, 1));
}

#[test]
fn what_is_fetched_again_is_written() {
    let directory = tempfile::tempdir().unwrap();
    let proxy = Proxy::with(&keys(directory.path(), ""), "");
    miss(&proxy, "/0", &body("/0"));
    for at in 1..30 {
        let path = format!("/{at}");
        miss(&proxy, &path, &body(&path));
    }
    assert_eq!(proxy.cache().figures().on_disk, 0);
    // It was evicted, and nothing has it.
    miss(&proxy, "/0", &body("/0"));
    until("it is written", || proxy.cache().figures().on_disk == 1);
}

#[test]
fn the_disk_answers_what_memory_has_no_room_for() {
    let directory = tempfile::tempdir().unwrap();
    let proxy = filled(directory.path(), 40);
    assert!(proxy.cache().figures().entries < 12);
    for at in 0..40 {
        let path = format!("/{at}");
        hit(&proxy, &path, &body(&path));
    }
    let part = proxy.get("/3", &["range: bytes=1-1"]);
    assert_eq!((part.status, part.text()), (206, "3"));
    assert_eq!(proxy.get("/4", &["if-none-match: \"e\""]).status, 304);
    assert_eq!(proxy.get("/5", &["cache-control: only-if-cached"]).text(), body("/5"));
    let head = proxy.client().send("HEAD", "/6", &[]);
    assert_eq!((head.status, head.cache().as_str()), (200, "hit"));
    let figures = proxy.cache().figures();
    assert_eq!(figures.fetches, 40);
    assert!(figures.loaded >= 30, "{figures:?}");
}

#[test]
fn simultaneous_requests_of_a_key_are_one_read() {
    let directory = tempfile::tempdir().unwrap();
    let proxy =
        filled(directory.path(), 10).restarted(&keys(directory.path(), "write_all = true"), "");
    let start = Barrier::new(20);
    thread::scope(|scope| {
        for _ in 0..20 {
            scope.spawn(|| {
                let mut client = proxy.client();
                for at in 0..10 {
                    let path = format!("/{at}");
                    start.wait();
                    let answer = client.send("GET", &path, &[]);
                    assert_eq!((answer.text(), &*answer.cache()), (&*body(&path), "hit"));
                }
            });
        }
    });
    assert_eq!(proxy.cache().figures().loaded, 10);
}

#[test]
fn a_purge_reaches_the_disk_and_outlives_the_process() {
    let directory = tempfile::tempdir().unwrap();
    let proxy = filled(directory.path(), 30);
    purge(&proxy, of_key("/0"));
    purge(&proxy, PurgeScope::Prefix("http://cdn.example/1".into()));
    purge(&proxy, PurgeScope::SurrogateKey("name2".into()));
    for path in ["/0", "/1", "/10", "/2"] {
        miss(&proxy, path, "new");
    }
    hit(&proxy, "/3", &body("/3"));
    let proxy = proxy.restarted(&keys(directory.path(), "write_all = true"), "");
    for path in ["/0", "/1", "/10", "/2"] {
        hit(&proxy, path, "new");
    }
    for path in ["/12", "/19"] {
        miss(&proxy, path, "new");
    }
    hit(&proxy, "/3", &body("/3"));
    purge(&proxy, PurgeScope::Prefix("".into()));
    miss(&proxy, "/3", "newest");
    let proxy = proxy.restarted(&keys(directory.path(), "write_all = true"), "");
    miss(&proxy, "/0", "newest");
    hit(&proxy, "/3", "newest");
}

#[test]
fn a_soft_purge_makes_what_is_on_disk_stale() {
    let directory = tempfile::tempdir().unwrap();
    let proxy = filled(directory.path(), 30);
    let effect = PurgeEffect::Stale(cache_core::fields::dates::UnixSeconds(
        runtime::process::unix_ms() / 1000,
    ));
    let scope = PurgeScope::SurrogateKey("name2".into());
    proxy.cache().purge(&Purge { scope, effect }).expect("the disk is well");
    proxy.origin.answer("304 Not Modified\r\netag: \"e\"\r\n", "");
    let answer = proxy.get("/2", &[]);
    assert_eq!(answer.cache(), "fwd=stale; fwd-status=304; stored");
    assert_eq!(answer.text(), body("/2"));
    assert!(proxy.origin.received().last().unwrap().field("if-none-match").is_some());
}

#[test]
fn a_change_of_the_resource_makes_what_is_on_disk_void() {
    let directory = tempfile::tempdir().unwrap();
    let proxy = filled(directory.path(), 30);
    proxy.origin.answer("200 OK\r\n", "done");
    assert_eq!(proxy.client().send("POST", "/0", &["content-length: 0"]).text(), "done");
    miss(&proxy, "/0", "new");
    hit(&proxy, "/1", &body("/1"));
    let proxy = proxy.restarted(&keys(directory.path(), "write_all = true"), "");
    hit(&proxy, "/0", "new");
}

#[test]
fn each_variant_is_the_one_of_its_request() {
    let directory = tempfile::tempdir().unwrap();
    let keys = keys(directory.path(), "write_all = true");
    let proxy = Proxy::with(&keys, "");
    for language in ["en", "fr"] {
        proxy.origin.answer(&format!("{FRESH}vary: accept-language\r\n"), language);
        let answer = proxy.get("/", &[&format!("accept-language: {language}")]);
        assert_eq!(answer.text(), language);
    }
    let proxy = proxy.restarted(&keys, "");
    for language in ["fr", "en"] {
        let answer = proxy.get("/", &[&format!("accept-language: {language}")]);
        assert_eq!((answer.cache().as_str(), answer.text()), ("hit", language));
    }
    proxy.origin.answer(&format!("{FRESH}vary: accept-language\r\n"), "de");
    let answer = proxy.get("/", &["accept-language: de"]);
    assert_eq!(answer.cache(), "fwd=vary-miss; fwd-status=200; stored");
}

#[test]
fn values_of_clients_survive_too() {
    let directory = tempfile::tempdir().unwrap();
    let keys = keys(directory.path(), "write_all = true\n[cache.puts]");
    let proxy = Proxy::with(&keys, "");
    let body = r#"{"puts":[{"type":"json","value":7}]}"#;
    let mut client = proxy.client();
    let length = body.len();
    client.write(&format!(
        "POST /cache HTTP/1.1\r\nhost: any\r\ncontent-length: {length}\r\n\r\n{body}"
    ));
    let answer: serde_json::Value = serde_json::from_str(client.answer("POST").text()).unwrap();
    let uuid = answer["responses"][0]["uuid"].as_str().unwrap();
    let proxy = proxy.restarted(&keys, "");
    assert_eq!(proxy.get(&format!("/cache?uuid={uuid}"), &[]).text(), "7");
}

#[test]
fn damaged_files_cost_fetches_and_nothing_else() {
    let directory = tempfile::tempdir().unwrap();
    let proxy = filled(directory.path(), 20);
    let keys = keys(directory.path(), "write_all = true");
    let files = || {
        let files = fs::read_dir(directory.path()).unwrap().map(|file| file.unwrap().path());
        files.filter(|file| file.extension().is_some_and(|it| it == "cache-segment"))
    };
    for file in files() {
        let mut bytes = fs::read(&file).unwrap();
        for at in (1_000..bytes.len()).step_by(50_000) {
            bytes[at] ^= 0xff;
        }
        fs::write(&file, bytes).unwrap();
    }
    for at in 0..20 {
        let path = format!("/{at}");
        proxy.origin.answer(FRESH, &body(&path));
    }
    let proxy = proxy.restarted(&keys, "");
    for at in 0..20 {
        let path = format!("/{at}");
        let answer = proxy.get(&path, &[]);
        // Scripts are in order, and all of one length.
        assert_eq!((answer.status, answer.body.len()), (200, body(&path).len()));
    }
    assert_eq!(proxy.cache().figures().fetches, 20);
}
