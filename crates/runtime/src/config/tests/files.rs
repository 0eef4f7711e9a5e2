//! Unreadable files.

use std::path::Path;

use super::super::{FILE_BYTES_MAX, Section, load};

#[track_caller]
fn check(path: &Path, want: &str) {
    let read = |s: &mut Section<'_>| s.boolean("x", false, "Doc.");
    let problems = load(path, read).expect_err(want).to_string();
    let headline = format!("1 problem in {}; nothing was started\n  ", path.display());
    assert_eq!(problems, format!("{headline}{want}"));
}

#[test]
fn unreadable_files_are_problems() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).expect("a temporary file");
        path
    };
    check(
        &folder.path().join("absent.toml"),
        "cannot be read: No such file or directory (os error 2)",
    );
    check(folder.path(), "cannot be read: Is a directory (os error 21)");
    check(
        &at("latin1.toml", b"x = true\n# caf\xe9"),
        "line 2: is not UTF-8; save the file in that encoding",
    );
    let limit = usize::try_from(FILE_BYTES_MAX).expect("16 MiB fit");
    check(
        &at("large.toml", &vec![b'\n'; limit + 1]),
        "is larger than 16MiB, the most that is read",
    );
    let path = at("fits.toml", &vec![b'\n'; limit]);
    assert_eq!(load(&path, |s| s.boolean("x", true, "Doc.")), Ok(true));
}
