//! JSON as TOML, with the problems of what TOML cannot hold.

use serde_json::json;

use super::*;

#[track_caller]
fn check(value: &Value, want: Result<&str, &[(&str, &str)]>) {
    let found = toml_of(value.as_object().expect("an object"));
    let found = found
        .map_err(|problems| problems.into_iter().map(|it| (it.key, it.remedy)).collect::<Vec<_>>());
    let owned = |all: &[(&str, &str)]| {
        all.iter().map(|(key, remedy)| ((*key).to_owned(), (*remedy).to_owned())).collect()
    };
    assert_eq!(found, want.map(str::to_owned).map_err(owned), "{value}");
}

#[test]
fn what_toml_has() {
    check(&json!({ "a": "x" }), Ok("\"a\" = \"x\"\n"));
    check(&json!({ "a": -1, "b": true }), Ok("\"a\" = -1\n\"b\" = true\n"));
    check(&json!({ "a": [1, "2"] }), Ok("\"a\" = [1, \"2\", ]\n"));
    check(&json!({ "a": { "b c": [] } }), Ok("\"a\" = { \"b c\" = [] }\n"));
    check(&json!({ "a": "\u{7f}\u{1}\"\n" }), Ok("\"a\" = \"\\u007F\\u0001\\\"\\n\"\n"));
}

#[test]
fn what_toml_has_not() {
    check(&json!({ "a": { "b": [null] } }), Err(&[("a.b[0]", "is null: leave the key out")]));
    check(
        &json!({ "a": 0.3, "b": u64::MAX }),
        Err(&[
            ("a", "is no whole number: write it as text, \"0.3\""),
            ("b", "is no whole number: write it as text, \"18446744073709551615\""),
        ]),
    );
    let mut deep = json!(1);
    for _ in 0..100 {
        deep = json!([deep]);
    }
    let path = format!("a{}", "[0]".repeat(16));
    check(&json!({ "a": deep }), Err(&[(&path, "is nested too deep: no definition needs that")]));
}
