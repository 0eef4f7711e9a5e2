//! Lists whose elements have commas.

use super::*;

#[track_caller]
fn check(list: &str, quoting: Quoting, want: &[&str]) {
    let found: Vec<_> = elements(list.as_bytes(), quoting).collect();
    let want: Vec<_> = want.iter().map(|element| element.as_bytes()).collect();
    assert_eq!(found, want, "{list}");
}

#[test]
fn quotes_hide_commas() {
    use Quoting::{Escapes, Verbatim};
    check("", Escapes, &[]);
    check(" ,\t, ", Escapes, &[]);
    check("a,b , \tc d", Escapes, &["a", "b", "c d"]);
    check(r#"a="b,c", d"#, Escapes, &[r#"a="b,c""#, "d"]);
    check(r#"a="b\",c", d"#, Escapes, &[r#"a="b\",c""#, "d"]);
    check(r#""b\",c", d"#, Verbatim, &[r#""b\""#, r#"c", d"#]);
    // Only between quotes.
    check(r"a\,b", Escapes, &[r"a\", "b"]);
    // An open quote hides the rest.
    check(r#"a="b, c"#, Escapes, &[r#"a="b, c"#]);
    check(r#"a="b, c\"#, Escapes, &[r#"a="b, c\"#]);
}
