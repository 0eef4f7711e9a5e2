//! Secrets: their sources, their problems, and that nothing shows them.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;

use super::super::{
    Optional, Required, SECRET_BYTES_MAX, Secret, Section, default_toml, describe, masked_url,
    parse,
};
use super::{Folder, lines_of, load_with};

const HIDDEN: &str = "hunter2";

fn read(s: &mut Section<'_>) -> (Option<Secret>, Vec<(String, Secret)>) {
    s.includes();
    let token = s.secret("token", Optional("env:TOKEN"), "Opens it.");
    if token.as_ref().is_some_and(|token| token.expose().contains("short")) {
        s.problem("token", "", "is too short");
    }
    let headers = s.secret_map(
        "headers",
        &[("authorization", "env:AUTHORIZATION")],
        |name, value| match value.expose().contains(' ') {
            true => Err(format!("must not hold a space, as `{}` does", value.expose())),
            false => Ok((name.to_owned(), value)),
        },
        "Sent along.",
    );
    s.renamed("pass", "token");
    s.section("inner", "More.", |s| s.secret("key", Optional("file:key"), "Seals."));
    (token, headers)
}

fn variables(name: &str) -> Option<OsString> {
    match name {
        "TOKEN" => Some(HIDDEN.into()),
        "LIKE_A_REFERENCE" => Some("env:TOKEN".into()),
        "EMPTY" => Some(OsString::new()),
        "LATIN1" => Some(OsString::from_vec(b"\xe9".to_vec())),
        _ => None,
    }
}

fn folder(text: &str) -> Folder {
    let folder = Folder::of(&[("vickrey.toml", text), ("key", "hunter2-in-file\n")]);
    folder.write("crlf", b"hunter2\r\n");
    folder.write("two", b"hunter2\n\n");
    folder.write("bare", b"hunter2");
    folder.write("empty", b"");
    folder.write("newline", b"\n");
    folder.write("latin1", b"\xe9");
    let limit = usize::try_from(SECRET_BYTES_MAX).expect("64 KiB fit");
    folder.write("fits", &vec![b'x'; limit]);
    folder.write("large", &vec![b'x'; limit + 1]);
    folder
}

/// Reads `token = VALUE`; `Err` is the problem without the file's path.
#[track_caller]
fn check(value: &str, want: Result<&str, &str>) {
    let folder = folder(&format!("token = {value}"));
    let (loaded, _) = load_with(&folder.main(), &variables, read);
    match (loaded, want) {
        (Ok(loaded), Ok(want)) => assert_eq!(loaded.value.0.unwrap().expose(), want, "{value}"),
        (Err(problems), Err(want)) => assert_eq!(lines_of(&problems), [want], "{value}"),
        (got, want) => panic!("{value}: {got:?} instead of {want:?}"),
    }
}

#[test]
fn where_secrets_come_from() {
    check("'hunter2'", Ok("hunter2"));
    check("'env:TOKEN'", Ok("hunter2"));
    check("'file:key'", Ok("hunter2-in-file"));
    check("'file:crlf'", Ok("hunter2"));
    check("'file:two'", Ok("hunter2\n"));
    check("'file:bare'", Ok("hunter2"));
    check("'file:fits'", Ok(&"x".repeat(64 * 1024)));
    // The content behind a reference is not itself a reference.
    check("'env:LIKE_A_REFERENCE'", Ok("env:TOKEN"));
    check("'ENV:TOKEN'", Ok("ENV:TOKEN"));
}

#[test]
fn problems_name_the_reference_alone() {
    let wrong = "line 1: token";
    check("''", Err(&format!("{wrong}: must not be empty")));
    check("5", Err(&format!("{wrong}: expected a secret, for example \"env:TOKEN\"")));
    check("['hunter2']", Err(&format!("{wrong}: expected a secret, for example \"env:TOKEN\"")));
    check("'short hunter2'", Err(&format!("{wrong}: is too short")));
    let refused = |reference: &str, remedy: &str| {
        check(&format!("'{reference}'"), Err(&format!("{wrong} = \"{reference}\": {remedy}")));
    };
    refused("env:", "names no variable");
    refused("env:NONE", "the variable is not set");
    refused("env:EMPTY", "the variable is empty");
    refused("env:LATIN1", "the variable is not UTF-8");
    refused("file:", "names no file");
    refused("file:none", "the file cannot be read: No such file or directory (os error 2)");
    refused("file:/dev/zero", "the file cannot be read: not a file");
    refused("file:empty", "the file is empty");
    refused("file:newline", "the file is empty");
    refused("file:latin1", "the file is not UTF-8");
    refused("file:large", "the file is larger than 64KiB, the most that a secret has");
}

#[test]
fn a_required_secret_that_is_missing() {
    let read = |s: &mut Section<'_>| s.secret("key", Required("env:KEY"), "Doc.");
    assert_eq!(
        super::problems_of("", read),
        ["key: is missing, expected a secret, for example \"env:KEY\""]
    );
    assert_eq!(parse("x", "key = 'k'", read).unwrap().expose(), "k");
}

#[test]
fn maps_hold_secrets() {
    let folder = folder("[headers]\na = 'env:TOKEN'\nb = 'file:key'\nc = 'as-it-is'");
    let (loaded, _) = load_with(&folder.main(), &variables, read);
    let headers = loaded.unwrap().value.1;
    let shown: Vec<_> = headers.iter().map(|(name, secret)| (&**name, secret.expose())).collect();
    assert_eq!(shown, [("a", HIDDEN), ("b", "hunter2-in-file"), ("c", "as-it-is")]);
}

#[test]
fn paths_are_relative_to_the_file_that_names_them() {
    let folder = Folder::of(&[
        ("vickrey.toml", "include = ['d/*.toml']\ntoken = 'file:key'"),
        ("key", "main"),
        ("d/a.toml", "[inner]\nkey = 'file:key'\n[headers]\nx = 'file:../d/key'\ny = 'file:none'"),
        ("d/key", "included"),
    ]);
    assert_eq!(
        folder.problems(read),
        [
            "d/a.toml line 5: headers.y = \"file:none\": the file cannot be read: No such file or directory (os error 2)"
        ]
    );
    folder.write("d/none", b"found");
    let (loaded, sources) = load_with(&folder.main(), &variables, |s| {
        let (token, headers) = read(s);
        (token.unwrap(), headers.into_iter().map(|(_, secret)| secret).collect::<Vec<_>>())
    });
    let (token, headers) = loaded.unwrap().value;
    assert_eq!((token.expose(), headers[0].expose()), ("main", "included"));
    let mut paths: Vec<_> = sources.paths().map(|path| folder.relative(path)).collect();
    paths.sort();
    let want = ["d", "d/../d/key", "d/a.toml", "d/key", "d/none", "key", "vickrey.toml"];
    assert_eq!(paths, want);
    // A replaced secret is a change.
    folder.write("d/key", b"another");
    assert!(sources.now().difference(&sources).is_some());
}

#[test]
fn a_text_alone_reaches_nothing() {
    for reference in ["env:PATH", "file:/etc/hostname", "file:/dev/zero"] {
        let text = format!("token = '{reference}'");
        let want = format!(
            "line 1: token = \"{reference}\": cannot be followed from a text that is no file"
        );
        assert_eq!(super::problems_of(&text, read), [want]);
    }
}

/// Every known way for a secret to get into a message.
#[test]
fn no_message_shows_a_secret() {
    for text in [
        "token = ['hunter2']",
        "token = 'short hunter2'",
        "token = { x = 'hunter2' }",
        "token = hunter2",
        "token = 'hunter2",
        "token =\n'hunter2'",
        "token = \"\"\"\nhunter2",
        "token = 'a' 'hunter2'",
        "token = 'a'\ntoken = 'hunter2'",
        "tokn = 'hunter2'",
        "tokn = ['hunter2']",
        "tokn = [['hunter2']]",
        "tokn = { a = 'hunter2' }",
        "anything = 'hunter2'",
        "[inner]\ntoken = 'hunter2'",
        "[iner]\nkey = 'hunter2'",
        "pass = 'hunter2'",
        "inner = 'hunter2'",
        "inner = ['hunter2']",
        "[[inner]]\nkey = 'hunter2'",
        "headers = 'hunter2'",
        "[headers]\na = ['hunter2']",
        "[headers]\na = 'with hunter2'",
        "[headers]\na = { b = 'hunter2' }",
        "[headers]\na = ''\nb = 'hunter2'",
        "include = ['a.toml']\ntoken = 'hunter2'",
        "token = 'env:TOKEN'\nx = 1",
        "token = 'file:key'\nx = 1",
    ] {
        let folder = folder(text);
        folder.write("a.toml", b"token = 'hunter2 again'");
        let (loaded, sources) = load_with(&folder.main(), &variables, read);
        let problems = loaded.expect_err(text);
        assert!(problems.count() > 0, "{text}");
        for shown in [format!("{problems}"), format!("{problems:?}"), format!("{sources:?}")] {
            assert!(!shown.contains(HIDDEN), "{text}: {shown}");
        }
    }
    // The suggested key decides, even if the value is an amount.
    assert_eq!(
        super::problems_of("tokn = 12345", read),
        ["line 1: tokn: unknown key, did you mean `token`?"]
    );
}

#[test]
fn neither_debug_nor_display_nor_documents_show_a_secret() {
    let folder = folder("token = 'hunter2'\n[headers]\nx = 'file:key'");
    let (loaded, _) = load_with(&folder.main(), &variables, read);
    let loaded = loaded.unwrap();
    let shown = format!("{loaded:?} {loaded:#?} {}", Secret::new(HIDDEN));
    assert!(shown.contains("***") && !shown.contains(HIDDEN), "{shown}");
    let shown = format!("{} {}", loaded.effective.to_json(), loaded.effective.to_toml());
    assert!(shown.contains("***") && !shown.contains(HIDDEN), "{shown}");
    assert!(default_toml(&describe(read)).contains("#token = \"env:TOKEN\"\n"));
}

#[test]
fn urls_are_shown_without_what_may_be_a_key() {
    let check = |url: &str, want: &str| assert_eq!(masked_url(url), want, "{url}");
    check("http://a.example/bid", "http://a.example/bid");
    check("https://a.example:8443/@me/bid", "https://a.example:8443/@me/bid");
    check("http://a.example/?key=1", "http://a.example/?***");
    check("http://a.example?key=1", "http://a.example?***");
    check("http://a.example/?a='&key=1", "http://a.example/?***");
    check("http://a.example/?a=\"&key=1", "http://a.example/?***");
    check("http://a.example/?a=?key=1", "http://a.example/?***");
    check("http://a.example/?to=b@c.example&key=1", "http://a.example/?***");
    check("http://a.example/#key=1", "http://a.example/#***");
    check("http://user:password@a.example/", "http://***@a.example/");
    check("http://user:pass/word@a.example/?key=1", "http://***@a.example/?***");
    check("http://user:pass@word@a.example/", "http://***@a.example/");
    check("http://user:pass?word@a.example/", "http://***");
    check("http://user:pass#word@a.example/", "http://***");
    check("ftp://user:password@a.example/?key=1", "ftp://***@a.example/?***");
    check("user:password@a.example/bid", "***@a.example/bid");
    check("user:pass://word@a.example/bid", "***@a.example/bid");
    check("a.example/bid?key=1", "a.example/bid?***");
    check("?key=1", "?***");
    check("", "");
}
