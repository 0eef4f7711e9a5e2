//! Which fields go with a connection.

use http::HeaderValue;

use super::*;

#[test]
fn what_connection_names_goes_with_it() {
    let mut headers = HeaderMap::new();
    for (name, value) in [
        ("connection", "close, X-Own ,,b\u{e9}"),
        ("connection", "x-other"),
        ("x-own", "1"),
        ("x-own", "2"),
        ("x-other", "3"),
        ("close", "4"),
        ("keep-alive", "5"),
        ("proxy-authenticate", "6"),
        ("transfer-encoding", "chunked"),
        ("x-kept", "7"),
        ("date", "8"),
    ] {
        let value = HeaderValue::from_bytes(value.as_bytes()).unwrap();
        headers.append(HeaderName::from_static(name), value);
    }
    remove_connection_fields(&mut headers);
    let mut left: Vec<_> = headers.keys().map(HeaderName::as_str).collect();
    left.sort_unstable();
    assert_eq!(left, ["date", "x-kept"]);
}
