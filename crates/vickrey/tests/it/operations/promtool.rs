//! Prometheus' own checker accepts the page, the scrape configuration and the alerts.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::dashboard::page;
use crate::program::root;

/// `promtool` from `scripts/tools` or the PATH. None if there is none.
#[expect(clippy::print_stderr, reason = "says that it has not run")]
fn promtool() -> Option<PathBuf> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("the folder of builds");
    let places = [target.join("tools/promtool"), PathBuf::from("promtool")];
    let runs = |path: &PathBuf| Command::new(path).arg("--version").output().is_ok();
    let found = places.into_iter().find(runs);
    if found.is_none() {
        eprintln!("SKIPPED: no promtool: `make tools` gets it on Debian");
    }
    found
}

#[track_caller]
fn check(command: &mut Command, stdin: &str) {
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = piped.spawn().unwrap();
    child.stdin.take().unwrap().write_all(stdin.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&said));
}

#[test]
fn the_page_is_as_prometheus_would_have_it() {
    let Some(promtool) = promtool() else { return };
    check(Command::new(&promtool).args(["check", "metrics"]), &page());
}

#[test]
fn prometheus_takes_its_configuration_and_the_alerts() {
    let Some(promtool) = promtool() else { return };
    let folder = tempfile::tempdir().unwrap();
    let token = folder.path().join("token");
    std::fs::write(&token, "secret").unwrap();
    let deployed = root().join("deploy/prometheus");
    let text = std::fs::read_to_string(deployed.join("prometheus.yml")).unwrap();
    let placed = "/etc/prometheus/vickrey-admin-token";
    assert!(text.contains(placed), "{text}");
    std::fs::copy(deployed.join("alerts.yml"), folder.path().join("alerts.yml")).unwrap();
    let config = folder.path().join("prometheus.yml");
    // As deployed, without a token; then with the lines for a token enabled.
    let with_token = text
        .replace("# authorization:", "authorization:")
        .replace("#   credentials_file:", "  credentials_file:")
        .replace(placed, token.to_str().unwrap());
    assert_eq!(with_token.matches("\n    authorization:\n      credentials_file: /").count(), 1);
    for text in [text, with_token] {
        std::fs::write(&config, text).unwrap();
        check(Command::new(&promtool).args(["check", "config"]).arg(&config), "");
    }
}
