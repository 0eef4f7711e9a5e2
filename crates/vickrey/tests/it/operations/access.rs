//! Access control, secrets, and readiness.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::fixtures::{Server, TOKEN, dsp, table};
use crate::program::until;

/// All output to operators and all logs, at every level.
#[test]
fn secrets_are_nowhere() {
    let secrets = ["dsp-key-1234", "00112233445566778899aabbccddeeff", TOKEN, "url-key-1234"];
    let dsp_keys = format!("headers = {{ x-api-key = {:?} }}", secrets[0]);
    let tables = format!(
        "tie_key = {:?}\n[log]\nfilter = \"trace\"\n{}",
        secrets[1],
        table("d", &format!("{}/bid?a='&key={}", dsp(), secrets[3]), &dsp_keys)
    );
    let server = Server::start(&tables);
    assert_eq!(server.auction(), 204);
    let config = server.get("/v1/config");
    let masked = [
        &config["configuration"]["admin"]["token"],
        &config["configuration"]["exchange"]["tie_key"],
        &config["configuration"]["dsp"][0]["headers"]["x-api-key"],
    ];
    assert_eq!(masked, ["***"; 3]);
    for url in
        [&config["configuration"]["dsp"][0]["url"], &server.get("/v1/dsps")["dsps"][0]["url"]]
    {
        assert!(url.as_str().unwrap().ends_with("/bid?***"), "{url}");
    }
    // A changed and a broken configuration: differences and problems show no secret either.
    server.configure("", &tables.replace("1234", "5678"));
    let changed = server.ask("POST", "/v1/reload", "");
    let differences = &changed.json()["differences"];
    assert_eq!(differences.as_array().unwrap().len(), 2, "{changed:?}");
    assert_eq!(differences[1]["new"], "***", "{changed:?}");
    server.configure("", &tables.replace("00112233", "broken"));
    let broken = server.ask("POST", "/v1/reload", "");
    assert_eq!(broken.status, 422, "{broken:?}");
    assert_eq!(broken.json()["error"]["problems"][0]["key"], "exchange.tie_key");
    let mut shown = server.log() + &changed.body + &broken.body;
    for path in ["/v1/config", "/v1/dsps", "/v1/notices", "/metrics"] {
        shown += &server.ask("GET", path, "").body;
    }
    for secret in secrets.into_iter().chain(["dsp-key-5678", "url-key-5678", "broken445566"]) {
        assert!(!shown.contains(secret), "{secret} in\n{shown}");
    }
}

/// Everything below a directory, with its permissions.
fn modes(directory: &Path) -> Vec<(PathBuf, u32)> {
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    let mut found = vec![(directory.to_owned(), mode(directory))];
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(modes(&path));
        } else {
            found.push((path.clone(), mode(&path)));
        }
    }
    found
}

/// The record, the ledger and their keys. An accessible existing directory is reported.
#[test]
fn files_are_the_users_alone() {
    let folder = tempfile::tempdir().unwrap();
    let [record, budgets] = ["record", "budgets"].map(|name| folder.path().join(name));
    let tables = format!(
        "[exchange.notices]\nurl = \"http://127.0.0.1:1/n/\"\n[record]\ndirectory = {record:?}\n\
         [budgets]\ndirectory = {budgets:?}\n"
    ) + &table("d", &dsp().to_string(), "");
    let server = Server::start(&tables);
    assert_eq!(server.auction(), 204);
    until("it is recorded", || server.scraped("record_written_total{lane=\"firehose\"}") == 1);
    assert!(!server.log().contains("other users have rights"), "{}", server.log());
    drop(server);
    let found: Vec<_> = [&record, &budgets].into_iter().flat_map(|path| modes(path)).collect();
    for (path, mode) in &found {
        assert_eq!(*mode, if path.is_dir() { 0o700 } else { 0o600 }, "{}", path.display());
    }
    let names: Vec<_> = found.iter().map(|(path, _)| path.file_name().unwrap()).collect();
    for name in ["notices.key", "ledger.redb", "token.key", "durable", "firehose"] {
        assert!(names.iter().any(|found| *found == name), "{name} in {names:?}");
    }
    std::fs::set_permissions(&record, Permissions::from_mode(0o750)).unwrap();
    let log = Server::start(&tables).log();
    let told =
        format!("record.directory: other users have rights to {} (mode 750)", record.display());
    assert!(log.contains(&told) && !log.contains("budgets.directory: other"), "{log}");
}

/// Each of them makes a generation.
#[test]
fn reloads_and_changes_of_campaigns_share_a_limit() {
    let folder = tempfile::tempdir().unwrap();
    let [record, budgets] = ["record", "budgets"].map(|name| folder.path().join(name));
    let server = Server::start(&format!(
        "[exchange.notices]\nurl = \"http://127.0.0.1:1/n/\"\n[record]\ndirectory = {record:?}\n\
         [budgets]\ndirectory = {budgets:?}\n"
    ));
    let is_limited = |method: &str, path: &str| server.ask(method, path, "").status == 429;
    let mut reloads = 0;
    let mut are_both_limited = |_| {
        is_limited("PUT", "/v1/campaigns/nobody/pause") && {
            reloads += 1;
            is_limited("POST", "/v1/reload")
        }
    };
    assert!((0..10_000).any(&mut are_both_limited));
    assert!(reloads < 20, "{reloads} were left");
    assert_eq!(server.get("/v1/campaigns")["campaigns"], serde_json::json!([]));
}

#[test]
fn others_than_this_machine_need_a_token() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("vickrey.toml");
    std::fs::write(&path, "[exchange]\n[admin]\nlisten = \"0.0.0.0:0\"\n").unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_vickrey"))
        .args(["serve", "--config"])
        .arg(&path)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(64));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("admin.listen = \"0.0.0.0:0\": is reached by others"), "{said}");
    assert!(said.contains("set `admin.token`"), "{said}");
}

/// A name that does not resolve; `.invalid` never does (RFC 2606).
#[test]
fn names_are_awaited_for_readiness() {
    let server = Server::start(&table("d", "dsp.invalid:80", ""));
    let answer = server.ask_as("", "GET", "/health/ready");
    assert_eq!((answer.status, &*answer.body), (503, "not ready: names of DSPs\n"));
    assert_eq!(server.ask_as("", "GET", "/health/live").status, 200);
    let server = Server::start(&table("d", &dsp().to_string(), ""));
    assert_eq!(server.ask_as("", "GET", "/health/ready").status, 200);
    // A new name in a reload does not affect readiness.
    server.configure("", &table("d", "dsp.invalid:80", ""));
    assert_eq!(server.ask("POST", "/v1/reload", "").status, 200);
    until("it is in force", || server.get("/v1/config")["generation"] == 2);
    assert_eq!(server.ask_as("", "GET", "/health/ready").status, 200);
}
