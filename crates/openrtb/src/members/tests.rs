//! Tests of `members`.

use super::*;
use proptest::prelude::*;

#[test]
fn objects_come_apart() {
    let text = r#" { "a" : 1 , "n\u0075rl":"x\n", "c":[ {} ],"a":null } "#;
    let got = members(text).unwrap();
    let got: Vec<_> = got.iter().map(|(key, value)| (&**key, *value)).collect();
    assert_eq!(got, [("a", "1"), ("nurl", r#""x\n""#), ("c", "[ {} ]"), ("a", "null")]);
    assert_eq!(members("{}").map(|members| members.len()), Some(0));
    let deep = format!("{{\"a\":{}1{}}}", "[".repeat(DEPTH_MAX), "]".repeat(DEPTH_MAX));
    for text in ["", "[]", "1", "null", "{", "{}x", "{\"a\":1,}", &deep] {
        assert!(members(text).is_none(), "{text}");
    }
}

#[test]
fn the_id_of_a_request_is_found_alone() {
    for (text, want) in [
        (r#"{"imp":[{"id":"i"}],"id":"r\n","x":1}"#, Some(r#""r\n""#)),
        (r#"{"id":7}"#, None),
        (r#"{"imp":[{"id":"i"}]}"#, None),
        (r#"{"id":"r""#, None),
    ] {
        assert_eq!(request_id(text), want, "{text}");
    }
}

#[test]
fn strings_are_undone() {
    for (text, want) in [
        (r#""""#, Some("")),
        (r#""a/b""#, Some("a/b")),
        (r#""a\/\u0026\ud83d\ude00\"""#, Some("a/&😀\"")),
        (r#""\ud83d""#, None),
        (r#""\""#, None),
        ("\"a\nb\"", None),
        ("7", None),
        (r#"""#, None),
    ] {
        assert_eq!(string(text).as_deref(), want, "{text}");
    }
}

#[test]
fn strings_are_escaped_where_needed() {
    assert!(matches!(escaped("plain é"), Cow::Borrowed("plain é")));
    assert_eq!(escaped("a\"b\\c\n\r\t\u{1}é\u{1f}"), r#"a\"b\\c\n\r\t\u0001é\u001f"#);
}

proptest! {
    #[test]
    fn what_is_escaped_is_undone(text in any::<String>()) {
        let quoted = format!("\"{}\"", escaped(&text));
        prop_assert!(crate::is_json(&quoted));
        let undone = string(&quoted);
        prop_assert_eq!(undone.as_deref(), Some(&*text));
    }

    #[test]
    fn the_plain_start_ends_at_the_first_special_byte(
        before in r#"[^\x00-\x1f"\\]{0,20}"#,
        special in r#"[\x00-\x1f"\\]"#,
        after in any::<String>(),
    ) {
        let text = format!("{before}{special}{after}");
        prop_assert_eq!(plain_len(text.as_bytes()), before.len());
        prop_assert_eq!(plain_len(before.as_bytes()), before.len());
    }
}
