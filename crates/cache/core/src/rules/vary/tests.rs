//! Which requests a response answers.

use http::HeaderValue;

use super::*;

fn headers(lines: &[(&'static str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in lines {
        let value = HeaderValue::from_bytes(value.as_bytes()).unwrap();
        headers.append(HeaderName::from_static(name), value);
    }
    headers
}

type Lines<'l> = &'l [(&'static str, &'l str)];

#[track_caller]
fn check(vary: &str, stored: Lines<'_>, request: Lines<'_>, want: bool) {
    let variant = Variant::of(&headers(&[("vary", vary)]), &headers(stored)).unwrap();
    assert_eq!(variant.matches(&headers(request)), want, "{vary}: {stored:?} {request:?}");
}

#[test]
fn nominated_fields_must_match() {
    check("", &[("x", "1")], &[("x", "2")], true);
    check("y", &[("x", "1")], &[("x", "2")], true);
    check("x", &[("x", "1")], &[("x", "1"), ("y", "2")], true);
    check("x", &[("x", "1")], &[("x", "2")], false);
    check("x", &[("x", "1")], &[], false);
    check("x", &[], &[("x", "")], false);
    check("x", &[], &[], true);
    check("X, y, x", &[("x", "1"), ("y", "2")], &[("y", "2"), ("x", "1")], true);
    check("x, y", &[("x", "1"), ("y", "2")], &[("x", "2"), ("y", "1")], false);
    check("x", &[("x", "1"), ("x", "2")], &[("x", "1, 2")], true);
    check("x", &[("x", "1"), ("x", "2")], &[("x", "2"), ("x", "1")], false);
    check("x", &[("x", "A")], &[("x", "a")], false);
}

#[test]
fn what_makes_no_difference_is_left_out() {
    let lists = ["accept-encoding", "accept-language", "accept-charset"];
    for name in lists {
        check(name, &[(name, "gzip;q=1, BR")], &[(name, "GZIP ; q=1,, br ")], true);
        check(name, &[(name, "gzip, br")], &[(name, "gzip"), (name, "br")], true);
        check(name, &[(name, "gzip")], &[(name, "gzip;q=0")], false);
        let is_set = name == "accept-encoding";
        check(name, &[(name, "gzip, br")], &[(name, "br, gzip")], is_set);
    }
}

#[test]
fn some_responses_match_no_request() {
    for vary in ["*", "x, *", "x y", "\u{e9}"] {
        let response = headers(&[("vary", vary)]);
        assert_eq!(Variant::of(&response, &HeaderMap::new()), None, "{vary}");
    }
    let response = headers(&[("vary", "x"), ("vary", "*")]);
    assert_eq!(Variant::of(&response, &HeaderMap::new()), None);
    assert!(Variant::of(&HeaderMap::new(), &HeaderMap::new()).unwrap().is_any());
}
