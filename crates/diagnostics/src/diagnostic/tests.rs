//! Where the carets are.

use super::*;

#[track_caller]
fn check(text: &str, at: Range<usize>, want: [&str; 2]) {
    let (problem, remedy) = ("problem".to_owned(), "remedy".to_owned());
    let shown = Diagnostic { text: text.to_owned(), at, problem, remedy }.to_string();
    let lines: Vec<_> = shown.lines().collect();
    assert_eq!(lines, ["problem", want[0], want[1], "remedy"]);
}

#[test]
fn carets_stand_below_what_is_wrong() {
    let (problem, remedy) = ("problem".to_owned(), "remedy".to_owned());
    let blank = Diagnostic { text: " ".to_owned(), at: 1..1, problem, remedy };
    assert_eq!(blank.to_string(), "problem\nremedy");
    check("a b", 2..3, ["  a b", "    ^"]);
    check("a b", 3..3, ["  a b", "     ^"]);
    check("\u{e4}\u{e4} bcd", 5..8, ["  \u{e4}\u{e4} bcd", "     ^^^"]);
    // What would move the caret, or turn the line around, is replaced.
    check("a\t\u{202e}b", 5..6, ["  a\u{fffd}\u{fffd}b", "     ^"]);
}

#[test]
fn a_long_text_is_shown_around_the_place() {
    let text = "x".repeat(100) + "!" + &"y".repeat(100);
    let shown = format!("  \u{2026}{}!{}\u{2026}", "x".repeat(8), "y".repeat(63));
    check(&text, 100..101, [&shown, "           ^"]);
    let carets = "^".repeat(SHOWN_MAX);
    check(&text, 0..201, [&format!("  {}\u{2026}", "x".repeat(72)), &format!("  {carets}")]);
}
