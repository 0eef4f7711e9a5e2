//! A folder of files as the origin.

use std::fs;
use std::os::unix::fs::symlink;

use super::fixtures::Proxy;

/// A folder with some files, and a cache before it.
fn folder(route_keys: &str) -> (tempfile::TempDir, Proxy) {
    let directory = tempfile::tempdir().expect("a directory");
    let files = directory.path().join("files");
    fs::create_dir_all(files.join("ads")).expect("a directory");
    fs::write(files.join("ads/a 1.png"), "0123456789").expect("a file");
    fs::write(files.join("ads/.hidden"), "x").expect("a file");
    fs::write(directory.path().join("outside.png"), "x").expect("a file");
    symlink("../outside.png", files.join("link.png")).expect("a link");
    symlink("ads/a 1.png", files.join("inner.png")).expect("a link");
    let proxy = Proxy::before_url(&format!("file:{}", files.display()), route_keys);
    (directory, proxy)
}

#[test]
fn files_are_cached_with_types_conditions_and_parts() {
    let (_directory, proxy) = folder("ttl_default = \"60s\"");
    let miss = proxy.get("/ads/a%201.png?v=1", &[]);
    assert_eq!((miss.status, miss.text()), (200, "0123456789"));
    assert_eq!(miss.cache(), "fwd=uri-miss; fwd-status=200; stored");
    assert_eq!(miss.field("content-type").unwrap(), "image/png");
    let hit = proxy.get("/ads/a%201.png?v=1", &[]);
    assert_eq!((hit.text(), &*hit.cache()), ("0123456789", "hit"));
    let etag = hit.field("etag").unwrap();
    let part = proxy.get("/inner.png", &["range: bytes=2-4"]);
    assert_eq!((part.status, part.text()), (206, "234"));
    let unmodified = proxy.get("/ads/a%201.png?v=2", &[&format!("if-none-match: {etag}")]);
    assert_eq!(unmodified.status, 304);
    let head = proxy.client().send("HEAD", "/ads/a%201.png?v=3", &[]);
    assert_eq!((head.status, &*head.field("content-length").unwrap()), (200, "10"));
    assert_eq!(proxy.client().send("POST", "/inner.png", &["content-length: 0"]).status, 405);
    let failed = proxy.get("/inner.png", &["if-match: \"other\""]);
    assert_eq!(failed.status, 412);
}

#[test]
fn a_changed_file_is_noticed_when_it_is_validated() {
    let (directory, proxy) = folder("ttl = \"0s\"");
    let path = directory.path().join("files/ads/b.xml");
    fs::write(&path, "one").unwrap();
    for _ in 0..2 {
        assert_eq!(proxy.get("/ads/b.xml", &[]).text(), "one");
    }
    fs::write(&path, "another").unwrap();
    assert_eq!(proxy.get("/ads/b.xml", &[]).text(), "another");
    fs::remove_file(&path).unwrap();
    assert_eq!(proxy.get("/ads/b.xml", &[]).status, 404);
}

#[test]
fn nothing_else_is_sent() {
    let (_directory, proxy) = folder("");
    for path in [
        "/",
        "/ads",
        "/ads/",
        "/none.png",
        "/ads/.hidden",
        "/link.png",
        "/ads%2fa%201.png",
        "/../outside.png",
        "/%2e%2e/outside.png",
    ] {
        assert_eq!(proxy.get(path, &[]).status, 404, "{path}");
    }
}

#[test]
fn a_large_file_is_passed_on_in_pieces() {
    let (directory, proxy) = folder("");
    let large = "0123456789".repeat(3 << 20);
    fs::write(directory.path().join("files/large.mp4"), &large).expect("a file");
    let whole = proxy.get("/large.mp4", &[]);
    assert_eq!((whole.status, whole.body == large.as_bytes()), (200, true));
    let part = proxy.get("/large.mp4", &["range: bytes=15000001-15000003"]);
    assert_eq!((part.status, part.text()), (206, "123"));
}
