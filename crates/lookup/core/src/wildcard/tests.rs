//! Which texts match.

use proptest::prelude::*;

use super::*;

#[test]
fn stars_stand_for_any_characters() {
    let check = |pattern: &str, text: &str, want: bool| {
        assert_eq!(matches(pattern, text), want, "{pattern} {text}");
    };
    check("", "", true);
    check("", "a", false);
    check("*", "", true);
    check("***", "abc", true);
    check("/*/*/*", "/a/b/c", true);
    check("/*/*/*", "/a/b", false);
    check("a*b*c", "axxbxbxc", true);
    check("a*b*c", "axxbxbx", false);
    check("*ab", "aab", true);
    check("\u{e4}*", "\u{e4}\u{f6}", true);
    check("a*a", "a", false);
    // The time does not grow with the product of the lengths.
    let (pattern, text) = (format!("*{}b*", "a".repeat(100_000)), "a".repeat(10_000_000));
    check(&pattern, &text, false);
}

/// By trying every way.
fn matches_naively(pattern: &[u8], text: &[u8]) -> bool {
    match (pattern.split_first(), text.split_first()) {
        (None, None) => true,
        (Some((b'*', pattern)), _) => {
            (0..=text.len()).any(|covered| matches_naively(pattern, &text[covered..]))
        }
        (Some((one, pattern)), Some((other, text))) => {
            one == other && matches_naively(pattern, text)
        }
        _ => false,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn it_agrees_with_trying_every_way(pattern in "[ab*]{0,8}", text in "[ab]{0,10}") {
        let want = matches_naively(pattern.as_bytes(), text.as_bytes());
        prop_assert_eq!(matches(&pattern, &text), want);
    }
}
