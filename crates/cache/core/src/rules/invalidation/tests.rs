//! What becomes stale, by method, status and named resource.

use http::HeaderValue;

use super::*;

#[track_caller]
fn check(method: &str, status: u16, named: &[(&'static str, &str)], want: &[&str]) {
    let target = Url::parse("https://news.example/a/b?c=d").unwrap();
    let method = Method::from_bytes(method.as_bytes()).unwrap();
    let mut response = HeaderMap::new();
    for (name, value) in named {
        response.insert(*name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
    }
    let status = StatusCode::from_u16(status).unwrap();
    let found = invalidated(&method, &target, status, &response);
    let found: Vec<_> = found.iter().map(Url::as_str).collect();
    assert_eq!(found, want, "{method} {status} {named:?}");
}

#[test]
fn unsafe_methods_that_succeed_make_their_target_stale() {
    let target = &["https://news.example/a/b?c=d"];
    for method in ["POST", "PUT", "DELETE", "PATCH", "FROB", "get"] {
        for status in [200, 201, 204, 303, 399] {
            check(method, status, &[], target);
        }
        for status in [100, 400, 404, 500, 599] {
            check(method, status, &[], &[]);
        }
    }
    for method in ["GET", "HEAD", "OPTIONS", "TRACE"] {
        check(method, 200, &[], &[]);
    }
}

#[test]
fn named_resources_of_the_same_origin_are_stale_too() {
    let named = |value: &str, want: &str| {
        let target = "https://news.example/a/b?c=d";
        let all = [target, want];
        let want = if want.is_empty() { &all[..1] } else { &all };
        check("POST", 201, &[("location", value)], want);
        check("POST", 200, &[("content-location", value)], want);
    };
    named("/x", "https://news.example/x");
    named("x?y#z", "https://news.example/a/x?y");
    named("../x", "https://news.example/x");
    named("//news.example/x", "https://news.example/x");
    named("HTTPS://NEWS.example:443/x", "https://news.example/x");
    named("?c=d#here", "");
    for other in
        ["http://news.example/x", "https://news.example:8443/x", "//other.example/x", "mailto:x"]
    {
        named(other, "");
    }
    named("https://[/x", "");
    named("\u{e9}", "");
    let both = [("location", "/x"), ("content-location", "/y")];
    let want = ["https://news.example/a/b?c=d", "https://news.example/x", "https://news.example/y"];
    check("PUT", 201, &both, &want);
}
