//! Which files paths name, and which fields they have.

use super::*;

#[test]
fn paths_name_files_below_the_folder_alone() {
    let check = |path: &str, want: Option<&str>| {
        assert_eq!(relative_path(path), want.map(PathBuf::from), "{path}");
    };
    check("/a.png", Some("a.png"));
    check("/a/b%20c.png", Some("a/b c.png"));
    check("/%c3%a4", Some("\u{e4}"));
    check("/..a", None);
    for path in [
        "/",
        "",
        "a",
        "//a",
        "/a/",
        "/a//b",
        "/../a",
        "/a/../b",
        "/.a",
        "/a/.b",
        "/%2e%2e/a",
        "/a%2fb",
        "/a%00",
        "/%e4",
        "/%4",
        "/%+4",
    ] {
        check(path, None);
    }
}

#[test]
fn types_are_of_endings() {
    for (path, want) in [
        ("a.png", "image/png"),
        ("a.b/c.JPG", "image/jpeg"),
        ("vast.xml", "application/xml"),
        ("a", "application/octet-stream"),
    ] {
        assert_eq!(content_type(Path::new(path)), want, "{path}");
    }
}
