//! The threads of a process with all services: each has one task, as its name says.

use std::collections::BTreeMap;
use std::net::TcpListener;

use super::fixtures::{Server, dsp, table};
use crate::program::until;

#[test]
fn a_process_has_these_threads_and_no_others() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (record, budgets) = (folder.path().join("record"), folder.path().join("budgets"));
    let services = format!(
        "[record]\ndirectory = {record:?}\n[exchange.notices]\nurl = \"http://{port}/n/\"\n\
         [budgets]\ndirectory = {budgets:?}\n\
         [tracing]\nendpoint = \"http://127.0.0.1:1/v1/traces\"\n"
    );
    let tables = format!("{services}{}", table("d", &dsp().to_string(), ""));
    let mut server = Server::start(&tables);
    until("it is ready", || server.ask("GET", "/health/ready", "").status == 200);
    // A reload runs on the builder too.
    assert_eq!(server.ask("POST", "/v1/reload", "content-length: 0\r\n").status, 200);
    let mut threads = BTreeMap::new();
    for task in std::fs::read_dir(format!("/proc/{}/task", server.id())).unwrap() {
        let name = std::fs::read_to_string(task.unwrap().path().join("comm")).unwrap_or_default();
        *threads.entry(name.trim_end().to_owned()).or_insert(0) += 1;
    }
    // On demand, and soon gone again.
    let answering = threads.remove("control-answer").unwrap_or_default();
    assert!(answering <= 6, "{answering}");
    let once = ["acceptor", "builder", "control", "ledger", "ledger-store", "log", "notices"];
    let once = once.into_iter().chain(["shard-0", "vickrey"]);
    let want: BTreeMap<_, _> = once.map(|name| (name.to_owned(), 1)).collect();
    assert_eq!(threads, want);
    server.signal("-TERM");
    assert!(server.ends_well(), "{}", server.log());
}
