//! Equal resources, and queries by the rules of a route.

use proptest::prelude::*;

use super::*;

#[track_caller]
fn check(uri: &str, rules: &QueryRules, want: &str) {
    let key = CacheKey::of(&uri.parse().unwrap(), rules).unwrap();
    assert_eq!(key.as_str(), want, "{uri}");
}

#[test]
fn equal_resources_have_equal_keys() {
    let all = QueryRules::default();
    for (uri, want) in [
        ("http://a.example", "http://a.example/"),
        ("HTTP://A.Example:80/", "http://a.example/"),
        ("https://a.example:443/", "https://a.example/"),
        ("https://a.example:80/", "https://a.example:80/"),
        ("http://[::1]:8080/", "http://[::1]:8080/"),
        ("http://a/%7euser/%2f%25", "http://a/~user/%2F%25"),
        ("http://a/%7e/%2f%zz", "http://a/~/%2f%zz"),
        ("http://a/%7e/%zz/..", "http://a/~/"),
        ("http://a/%7e%4", "http://a/%7e%4"),
        ("http://a/b/./c/../d", "http://a/b/d"),
        ("http://a/b/%2e%2E/d", "http://a/d"),
        ("http://a/b/..", "http://a/"),
        ("http://a/b/.", "http://a/b/"),
        ("http://a/../../b", "http://a/b"),
        ("http://a//b//", "http://a//b//"),
        ("http://a/B", "http://a/B"),
        ("http://a/?", "http://a/?"),
        ("http://a/?b=%41&a", "http://a/?b=A&a"),
        ("http://user@A:80/", "http://a/"),
        ("http://a:/", "http://a/"),
    ] {
        check(uri, &all, want);
    }
    assert_eq!(CacheKey::of(&"/path".parse().unwrap(), &all), None);
    let key = CacheKey::of(&"http://a:81/b?c=/".parse().unwrap(), &all).unwrap();
    assert_eq!((key.authority(), key.target()), ("a:81", "/b?c=/"));
}

#[test]
fn queries_count_as_the_route_says() {
    let uri = "http://a/?b=2&utm=x&a=1&b=1&%61=3&A=9";
    let sorted = QueryRules { is_sorted: true, ..QueryRules::default() };
    check(uri, &sorted, "http://a/?A=9&a=1&a=3&b=2&b=1&utm=x");
    let only = |names: &[&str], is_sorted| QueryRules {
        allowed: Some(names.iter().map(|&name| name.to_owned()).collect()),
        is_sorted,
    };
    check(uri, &only(&["a", "b"], false), "http://a/?b=2&a=1&b=1&a=3");
    check(uri, &only(&["a", "b"], true), "http://a/?a=1&a=3&b=2&b=1");
    check(uri, &only(&["c"], true), "http://a/");
    check(uri, &only(&[], false), "http://a/");
    check("http://a/?", &only(&["a"], false), "http://a/");
    check("http://a/?a=%7e&b=%zz", &only(&["a"], false), "http://a/?a=~");
}

proptest! {
    #[test]
    fn a_key_is_its_own_key(
        path in "/[a-cA-C./%0-9~?&=]{0,20}",
        only in proptest::option::of("[a-c]"),
    ) {
        let rules = QueryRules { allowed: only.map(|name| [name].into()), is_sorted: false };
        let key = CacheKey::of(&format!("http://a{path}").parse().unwrap(), &rules).unwrap();
        let again = CacheKey::of(&key.as_str().parse().unwrap(), &rules).unwrap();
        prop_assert_eq!(again, key);
    }
}
