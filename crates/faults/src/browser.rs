//! A real browser, where one is installed.

use std::process::Command;

const BROWSERS: [&str; 4] =
    ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

/// Opens a page in headless Chromium, with these arguments too, and returns its final DOM. None
/// without a browser, which is said.
///
/// # Panics
/// If it does not run, or fails.
#[expect(clippy::print_stderr, reason = "says that a test has not run")]
pub fn shown(url: &str, arguments: &[&str]) -> Option<String> {
    let is_there = |name: &&str| Command::new(name).arg("--version").output().is_ok();
    let Some(browser) = BROWSERS.into_iter().find(is_there) else {
        eprintln!("SKIPPED: no Chromium is on the PATH");
        return None;
    };
    let profile = tempfile::tempdir().expect("a directory");
    let output = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--dump-dom"])
        .args(["--disable-dev-shm-usage", "--virtual-time-budget=10000"])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .args(arguments)
        .arg(url)
        .output()
        .expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text} {}", String::from_utf8_lossy(&output.stderr));
    Some(text)
}
