//! Tests of `key_values`.

use proptest::prelude::*;

use crate::members::{entries, value_len};
use crate::validate::parse_request;

fn json() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i32>().prop_map(Into::into),
        "[a\\[\\]{},:\"\\\\ \n\u{e9}]{0,6}".prop_map(Into::into),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let members = prop::collection::btree_map("[a-c\"\\\\]{0,3}", inner.clone(), 0..4);
        prop_oneof![
            prop::collection::vec(inner, 0..4).prop_map(Into::into),
            members.prop_map(|members| members.into_iter().collect()),
        ]
    })
}

proptest! {
    /// As a real parser does, however the text is laid out.
    #[test]
    fn entries_are_those_of_the_parser(value in json(), is_pretty: bool) {
        let text = match is_pretty {
            true => serde_json::to_string_pretty(&value).unwrap(),
            false => value.to_string(),
        };
        let read = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        let members: Vec<_> =
            entries(Some(&text), b'{').map(|(key, value)| (read(key), read(value))).collect();
        let of = value.as_object().into_iter().flatten();
        let want: Vec<_> = of.map(|(key, value)| (key.as_str().into(), value.clone())).collect();
        prop_assert_eq!(members, want);
        let elements: Vec<_> = entries(Some(&text), b'[').map(|(_, value)| read(value)).collect();
        prop_assert_eq!(elements, value.as_array().cloned().unwrap_or_default());
    }

    /// What is no JSON comes to an end.
    #[test]
    fn no_text_is_too_odd(text in "[a{}\\[\\],:\"\\\\ \u{e9}]{0,40}") {
        for open in [b'{', b'['] {
            let longest = text.len() + 1;
            prop_assert!(entries(Some(&text), open).take(longest + 1).count() <= longest);
        }
        prop_assert!(value_len(text.as_bytes()) <= text.len());
    }
}

#[track_caller]
fn check(more: &str, of_imp: &str, want: &[&str]) {
    let body = format!(r#"{{"id":"r","imp":[{{"id":"1","banner":{{}}{of_imp}}}]{more}}}"#);
    let request = parse_request(&body).unwrap_or_else(|invalid| panic!("{body}: {invalid}"));
    let mut got = Vec::new();
    let mut each = |key: &str, value: &str| got.push(format!("{key}={value}"));
    request.key_values(&mut each);
    request.imps()[0].key_values(&mut each);
    assert_eq!(got, want, "{body}");
}

#[test]
fn key_values_come_from_first_party_data_and_keywords() {
    check("", "", &[]);
    check(
        r#","site":{"keywords":"a, b c,,d","kwarray":["e","f\u0067"]}"#,
        "",
        &["keywords=a", "keywords=b c", "keywords=d", "keywords=e", "keywords=fg"],
    );
    check(
        r#","app":{"ext":{"x":1,"data":{"k":"v","n":7,"b":true,"l":["x",2,null,["y"],{"z":1}],"o":{"p":1}}}}"#,
        "",
        &["k=v", "n=7", "b=true", "l=x", "l=2"],
    );
    check(
        r#","user":{"ext":{"data":{"s":["1"]}}}"#,
        r#","ext":{"data":{"pbadslot":"/1/home","\u006b":"v"},"gpid":"x"}"#,
        &["s=1", "pbadslot=/1/home", "k=v"],
    );
    // A child's data is nobody's target.
    check(
        r#","site":{"keywords":"a"},"user":{"ext":{"data":{"s":["1"]}}},"regs":{"coppa":1}"#,
        "",
        &["keywords=a"],
    );
}

/// What passed before passes.
#[test]
fn no_shape_makes_a_request_invalid() {
    for odd in ["7", "null", "\"x\"", "[]", "[[1]]", "{}", "{\"data\":7}", "{\"data\":[1]}"] {
        let site = format!(r#","site":{{"page":{odd},"ext":{odd}}}"#);
        check(&site, &format!(r#","ext":{odd}"#), &[]);
    }
    check(r#","site":{"keywords":7,"kwarray":{"a":1}}"#, "", &[]);
    check(r#","site":{"keywords":["a"],"kwarray":"a"}"#, "", &["keywords=a"]);
}

#[test]
fn a_place_has_a_domain_a_page_and_a_bundle() {
    let page = |page: &str| format!(r#","site":{{"page":"{page}"}}"#);
    for (more, domain, bundle, page) in [
        (String::new(), None, None, None),
        (r#","site":{"domain":"","bundle":""}"#.to_owned(), None, None, None),
        (
            r#","app":{"domain":"a.example","bundle":"b"}"#.to_owned(),
            Some("a.example"),
            Some("b"),
            None,
        ),
        (page("https://b.example/x?y"), Some("b.example"), None, Some("https://b.example/x?y")),
        (page(r"https:\/\/b.example:8\/x"), Some("b.example"), None, Some("https://b.example:8/x")),
        (page("https://u@b.example?y"), Some("b.example"), None, Some("https://u@b.example?y")),
        (page("about:blank"), None, None, Some("about:blank")),
        (page("https:///x"), None, None, Some("https:///x")),
    ] {
        let body = format!(r#"{{"id":"r","imp":[{{"id":"1","banner":{{}}}}]{more}}}"#);
        let request = parse_request(&body).unwrap_or_else(|invalid| panic!("{body}: {invalid}"));
        let got = (request.domain(), request.bundle(), request.page());
        assert_eq!((got.0.as_deref(), got.1, got.2.as_deref()), (domain, bundle, page), "{body}");
    }
}
