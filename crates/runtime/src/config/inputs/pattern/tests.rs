//! Pattern matches and mismatches.

use super::*;

#[track_caller]
fn check(pattern: &str, name: &str, want: bool) {
    assert_eq!(matches(pattern, name), want, "{pattern} {name}");
}

#[test]
fn wildcards() {
    check("*.toml", "a.toml", true);
    check("*.toml", ".toml", false);
    check("*.toml", ".a.toml", false);
    check(".*.toml", ".a.toml", true);
    check("*.toml", "a.toml~", false);
    check("*.toml", "a.TOML", false);
    check("*", "a", true);
    check("a*b", "ab", true);
    check("a*b", "a", false);
    check("ab*ba", "aba", false);
    check("a*b*c", "a-b-b-c", true);
    check("a*b*c", "a-c-b", false);
    check("**x", "abx", true);
    check("dsp-*-eu*", "dsp-1-eu.toml", true);
    check("dsp-*-eu*", "dsp-1-us.toml", false);
}

#[test]
fn the_last_part_alone_has_wildcards() {
    let parse = |text: &str| Pattern::parse(text, Path::new("etc"));
    let found = |text: &str| {
        let pattern = parse(text).unwrap().unwrap();
        (pattern.folder().to_path_buf(), pattern.path())
    };
    assert_eq!(parse("rates.toml"), Ok(None));
    assert_eq!(parse("d/rates.toml"), Ok(None));
    assert!(parse("d*/rates.toml").unwrap_err().contains("last part"));
    assert!(parse("*/").unwrap_err().contains("last part"));
    assert_eq!(found("*.toml"), ("etc/".into(), "etc/*.toml".into()));
    assert_eq!(found("d/*.toml"), ("etc/d".into(), "etc/d/*.toml".into()));
    assert_eq!(found("/*.toml"), ("/".into(), "/*.toml".into()));
    assert_eq!(found("/a/*.toml"), ("/a".into(), "/a/*.toml".into()));
    let beside = Pattern::parse("*.toml", Path::new("")).unwrap().unwrap();
    assert_eq!(beside.folder(), Path::new("."));
    assert_eq!(beside.join(&"a.toml".into()), Path::new("a.toml"));
}
