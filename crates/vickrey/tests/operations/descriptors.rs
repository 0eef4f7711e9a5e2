//! A process that may open few files.

use std::net::TcpStream;

use crate::fixtures::{Server, dsp, table, until};

/// However many callers come, operators are answered and the files are read.
#[test]
fn operators_are_served_while_callers_have_all_they_get() {
    let folder = tempfile::tempdir().unwrap();
    let record = folder.path().join("record");
    let tables = table("a", &dsp().to_string(), "")
        + &format!("[record]\ndirectory = \"{}\"\n", record.display());
    let server = Server::start_within(400, &tables);
    let log = server.log();
    assert!(log.contains("runtime.connections_max is 88 instead of 10000"), "{log}");
    assert!(log.contains("at most 88 connections to DSPs are opened instead of 512"), "{log}");

    // More than all descriptors; most of them take each other's places, or are refused.
    let callers: Vec<_> = (0..450).map(|_| TcpStream::connect(server.callers()).unwrap()).collect();
    let counted = || {
        server.scraped("connections_accepted_total") + server.scraped("connections_refused_total")
    };
    until("all have come", || counted() >= 450);
    until("the others have gone", || server.scraped("connections_open") == 44);
    assert_eq!(server.scraped("accept_failures_total"), 0);
    assert_eq!(server.ask("POST", "/v1/reload", "").status, 200);
    assert_eq!(server.auction(), 204, "it is recorded, and a DSP is asked");
    drop(callers);
}
