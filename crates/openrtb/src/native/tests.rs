//! Tests of `native`.

use super::*;

#[track_caller]
fn check(text: &str, want: Option<&str>) {
    let got = add_tracker(text, "u");
    assert_eq!(got.as_deref(), want, "{text}");
    assert!(got.is_none_or(|got| crate::is_json(&got)));
}

const EVENT: &str = r#"{"event":1,"method":1,"url":"u"}"#;

#[test]
fn the_version_and_what_is_there_choose_the_list() {
    for (text, want) in [
        ("{}", format!(r#"{{"eventtrackers":[{EVENT}]}}"#)),
        (r#"{"ver":"1.2"}"#, format!(r#"{{"ver":"1.2","eventtrackers":[{EVENT}]}}"#)),
        (r#"{"ver":"1.1"}"#, r#"{"ver":"1.1","imptrackers":["u"]}"#.to_owned()),
        (r#"{"ver":1}"#, r#"{"ver":1,"imptrackers":["u"]}"#.to_owned()),
        (r#"{"imptrackers":["a"]}"#, r#"{"imptrackers":["a","u"]}"#.to_owned()),
        (r#"{"imptrackers":[ ],"ver":"1.2"}"#, r#"{"ver":"1.2","imptrackers":[ "u"]}"#.to_owned()),
        (
            r#"{"eventtrackers":[{}],"imptrackers":["a"]}"#,
            format!(r#"{{"imptrackers":["a"],"eventtrackers":[{{}},{EVENT}]}}"#),
        ),
        (
            r#"{"eventtrackers":[{}],"ver":"1.1"}"#,
            r#"{"eventtrackers":[{}],"ver":"1.1","imptrackers":["u"]}"#.to_owned(),
        ),
        (r#"{"eventtrackers":null}"#, format!(r#"{{"eventtrackers":[{EVENT}]}}"#)),
    ] {
        check(text, Some(&want));
        // Within the outer object of the older versions, beside which others stay.
        let outer = format!(r#"{{"native":{text},"x":"\u00e9"}}"#);
        check(&outer, Some(&format!(r#"{{"x":"\u00e9","native":{want}}}"#)));
    }
}

#[test]
fn what_is_no_native_markup_is_left_alone() {
    for text in [
        "",
        "<p>",
        "[]",
        r#"{"native":[]}"#,
        r#"{"native":"x"}"#,
        r#"{"ver":"1.1","imptrackers":{}}"#,
        r#"{"eventtrackers":"x"}"#,
        r#"{"eventtrackers":[],"eventtrackers":[]}"#,
        r#"{"native":{},"native":{}}"#,
        r#"{"ver":"\ud800"}"#,
    ] {
        check(text, None);
    }
}

#[test]
fn strings_are_told_with_their_keys() {
    let mut told = Vec::new();
    let text = r#"{"native":{"assets":[{"id":1,"img":{"url":"a","w":-1,"h":2.5,"url":"f","x":[true,null]}}],"link":{"url":"b",
        "clicktrackers":["c","d"]},"imptrackers":["\u0065"]}}"#;
    let is_json = native_strings(text, &mut |parent, key, text| {
        told.push([parent, key, text].join(" "));
    });
    assert!(is_json);
    let want = [
        "img url a",
        "img url f",
        "link url b",
        "link clicktrackers c",
        "link clicktrackers d",
        "native imptrackers e",
    ];
    assert_eq!(told, want);
    let deep = "[".repeat(DEPTH_MAX + 1) + &"]".repeat(DEPTH_MAX + 1);
    for text in ["", "{", "<p>", &deep] {
        assert!(!native_strings(text, &mut |_, _, _| ()), "{text}");
    }
}

#[test]
fn the_url_is_escaped_once() {
    let got = add_tracker("{}", "a\"\\😀").unwrap();
    assert!(got.contains(r#""url":"a\"\\😀""#), "{got}");
}
