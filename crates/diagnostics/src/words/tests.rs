//! Which words are near, and how words are listed and shortened.

use super::*;

#[test]
fn the_nearest_word_is_near() {
    let check = |word: &str, want: Option<&str>| {
        assert_eq!(nearest(word, ["dataset", "date", "run", "x"]), want, "{word}");
    };
    check("datset", Some("dataset"));
    check("DATE", Some("date"));
    check("rnu", Some("run"));
    check("rn", None);
    check("dat", Some("date"));
    check("dote", Some("date"));
    check("y", None);
    check("lumi", None);
    check(&"date".repeat(20), None);
    check("", None);
}

#[test]
fn lists_and_long_words_are_short() {
    assert_eq!([listed(&[]), listed(&["a"]), listed(&["a", "b", "c"])], ["", "a", "a, b and c"]);
    assert_eq!(shortened("a\nb"), "ab");
    assert_eq!(shortened(&"a".repeat(41)), "a".repeat(40) + "\u{2026}");
}
