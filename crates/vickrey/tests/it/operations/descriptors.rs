//! A process with few file descriptors.

use std::net::TcpStream;

use super::fixtures::{Server, dsp, table};
use crate::program::until;

/// Operators are served and files are read regardless of the number of callers.
#[test]
fn operators_are_served_while_callers_have_all_they_get() {
    let folder = tempfile::tempdir().unwrap();
    let record = folder.path().join("record");
    let tables = table("a", &dsp().to_string(), "")
        + &format!("[record]\ndirectory = \"{}\"\n", record.display());
    let server = Server::start_within(400, &tables);
    let log = server.log();
    let lowered = "runtime.connections_max is lowered from 10000 to 88: the limit of open files \
                   allows no more; raise `ulimit -n` or lower the key";
    assert!(log.contains(lowered), "{log}");
    let lowered = "connections to DSPs are lowered from 512 to 88: the limit of open files allows no \
                   more; raise `ulimit -n` or lower exchange.pool.connections_max";
    assert!(log.contains(lowered), "{log}");

    // More than all descriptors; most replace each other or are refused.
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

/// The connections reserved for the first DSP do not limit those added later.
#[test]
fn dsps_of_a_reload_have_connections_too() {
    let dsps = ["a", "b", "c"].map(|id| (id, dsp().to_string()));
    let tables = |count: usize| {
        let tables = dsps[..count].iter().map(|(id, address)| table(id, address, ""));
        "[exchange.pool]\nconnections_max = 1\n".to_owned() + &tables.collect::<String>()
    };
    let server = Server::start(&tables(1));
    assert_eq!(server.auction(), 204);
    server.configure("", &tables(3));
    assert_eq!(server.ask("POST", "/v1/reload", "").status, 200);
    until("it is in force", || server.get("/v1/config")["generation"] == 2);
    let calls = |id: &str, outcome: &str| {
        let labels = format!("dsp=\"{id}\",outcome=\"{outcome}\"");
        server.scraped(&format!("exchange_dsp_calls_total{{{labels}}}"))
    };
    let is_asked = |id: &str| calls(id, "no_bid") + calls(id, "saturated") > 0;
    until("all are asked", || server.auction() == 204 && dsps.iter().all(|(id, _)| is_asked(id)));
    for (id, _) in &dsps {
        assert_eq!(calls(id, "saturated"), 0, "{id}");
    }
}
