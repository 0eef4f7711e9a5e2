//! Clients' preferences, and a round trip of compressed parts.

use std::io::Read as _;

use hyper::header::HeaderValue;

use super::*;

#[track_caller]
fn check(lines: &[&str], want: bool) {
    let mut headers = HeaderMap::new();
    for line in lines {
        headers.append(ACCEPT_ENCODING, HeaderValue::from_str(line).unwrap());
    }
    assert_eq!(prefers_gzip(&headers), want, "{lines:?}");
}

#[test]
fn what_clients_accept() {
    for line in [
        "gzip",
        "GZIP",
        "x-gzip",
        "deflate, gzip;q=0.001",
        "br;q=1.0,gzip;q=0.8,*;q=0.1",
        "gzip ; q=1.000",
        "gzip;Q=1",
        "*",
        "identity;q=0.5, gzip;q=0.5",
        "identity;q=0, *;q=0.3",
    ] {
        check(&[line], true);
    }
    for line in [
        "",
        "identity",
        "br, deflate",
        "gzip;q=0",
        "gzip;q=0.000",
        "gzip;q=0, *",
        "*;q=0",
        "identity;q=1, gzip;q=0.9",
        "gzip;q=0.5, *;q=1",
        "gzip;q=2",
        "gzip;q=1.001",
        "gzip;q=0.1234",
        "gzip;q=",
        "gzip;q=.5",
        "gzip;q=x",
        "gzip;level=9",
        "gzip;q=1;q=1",
        "gzipped",
    ] {
        check(&[line], false);
    }
    check(&[], false);
    check(&["br", "gzip"], true);
    check(&["identity;q=1", "gzip;q=0.5"], false);
}

#[test]
fn parts_are_one_text_again() {
    let compressed = gzip(|write| ["a", "", "bc"].iter().for_each(|part| write(part.as_bytes())));
    let mut text = String::new();
    flate2::read::GzDecoder::new(&compressed[..]).read_to_string(&mut text).unwrap();
    assert_eq!(text, "abc");
}
