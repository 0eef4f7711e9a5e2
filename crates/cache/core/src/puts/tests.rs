//! Bodies as Prebid Cache takes and refuses them.

use super::*;

const LIMITS: PutLimits = PutLimits { count_max: 2, value_max: 20, ttl_max: Seconds(3_600) };

fn check(body: &str, want: Result<&[(&str, u64, &str)], &str>) {
    let values = |values: Vec<PutValue>| -> Vec<_> {
        let text = |value: PutValue| {
            let content = String::from_utf8(value.content).unwrap();
            (value.content_type.trim_start_matches("application/").to_owned(), value.ttl.0, content)
        };
        values.into_iter().map(text).collect()
    };
    let want = want.map(|want| {
        let owned =
            |(kind, ttl, text): &(&str, u64, &str)| ((*kind).to_owned(), *ttl, (*text).to_owned());
        want.iter().map(owned).collect::<Vec<_>>()
    });
    let got =
        parse_puts(body.as_bytes(), LIMITS).map(values).map_err(|refusal| refusal.to_string());
    assert_eq!(got, want.map_err(str::to_owned), "{body}");
}

#[test]
fn values_have_types_and_lifetimes() {
    check(r#"{"puts":[]}"#, Ok(&[]));
    check(r#"{"puts":null}"#, Ok(&[]));
    check("{}", Ok(&[]));
    check(
        r#"{"puts":[{"type":"xml","ttlseconds":60,"value":"\u003ca b=\"c\"/>","key":"x"},
            {"type":"json","value":{ "a": 1.0 }}],"more":1}"#,
        Ok(&[("xml", 60, "<a b=\"c\"/>"), ("json", 3_600, "{ \"a\": 1.0 }")]),
    );
    check(
        r#"{"puts":[{"type":"json","ttlseconds":9999,"value":null}]}"#,
        Ok(&[("json", 3_600, "null")]),
    );
    check(r#"{"puts":[{"type":"xml","ttlseconds":0,"value":""}]}"#, Ok(&[("xml", 3_600, "")]));
}

#[test]
fn the_first_wrong_value_refuses_all() {
    let one = |value: &str| format!(r#"{{"puts":[{{"type":"json","value":1}},{value}]}}"#);
    check(&one(r#"{"type":"json"}"#), Err("Missing value."));
    let negative = r#"{"type":"json","ttlseconds":-1,"value":1}"#;
    check(&one(negative), Err("ttlseconds must not be negative -1."));
    let unknown = r#"{"type":"yaml","value":"a"}"#;
    check(&one(unknown), Err("Type must be one of [\"json\", \"xml\"]. Found 'yaml'"));
    check(&one(r#"{"value":"a"}"#), Err("Type must be one of [\"json\", \"xml\"]. Found ''"));
    let object = r#"{"type":"xml","value":{"a":1}}"#;
    check(&one(object), Err("XML messages must have a String value. Found {\"a\":1}"));
    let too_large = "POST /cache element 1 exceeded max size: Payload size 21 exceeded max 20";
    check(&one(&format!(r#"{{"type":"xml","value":"{}"}}"#, "x".repeat(18))), Err(too_large));
    check(
        &one(&format!(r#"{{"type":"xml","value":"{}"}}"#, "x".repeat(17))),
        Ok(&[("json", 3_600, "1"), ("xml", 3_600, &"x".repeat(17))]),
    );
    let form = "the body is not {\"puts\": [{\"type\": …, \"value\": …}]}: line 1, column 10";
    check(r#"{"puts":[1,2,3]}"#, Err(form));
    let three = r#"{"puts":[{},{},{}]}"#;
    check(three, Err("More keys than allowed: 2"));
}

#[test]
fn what_is_no_json_is_refused() {
    for body in ["", "[]x", "{\"puts\":1}", "{\"puts\":[{\"ttlseconds\":1.5}]}", "\u{7}"] {
        let refused = parse_puts(body.as_bytes(), LIMITS);
        assert!(matches!(refused, Err(PutRefusal::NotPuts { .. })), "{body}: {refused:?}");
    }
}
