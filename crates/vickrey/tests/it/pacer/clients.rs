//! The load generator and the client in Python, against the server and its books.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::fixtures::Pacer;
use crate::program::{check, root, until, vickrey};

const STRATEGIES: [&str; 6] = ["asap", "even", "throttle", "pid", "adaptive", "slot_dual"];

#[test]
fn totals_of_a_load_are_the_books_under_every_strategy() {
    let account = "[[account]]\nid = \"acme\"\ncurrency = \"USD\"\ntime_zone = \"UTC\"\n";
    let campaign = |name: &&str| {
        format!(
            "[[campaign]]\nid = \"{name}\"\naccount = \"acme\"\nbudget = \"1000000\"\n\
             start = \"2020-01-01T00:00:00Z\"\nend = \"2100-01-01T00:00:00Z\"\n\
             strategy.name = \"{name}\"\n"
        )
    };
    let campaigns: String = STRATEGIES.iter().map(campaign).collect();
    let pacer = Pacer::with_campaigns(&(account.to_owned() + &campaigns));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("report.json");
    let mut hammer = vickrey(&["hammer", "pacer", "--address", &pacer.address()]);
    hammer.args(["--secret", "of dsp 1", "--connections", "4"]);
    hammer.args(["--rate", "20000", "--biddable", "1000000", "--won", "500000"]);
    hammer.args(["--lost", "200000", "--duration", "2s", "--json"]).arg(&file);
    check(&mut hammer, 0, &["requests", "billed"], &[]);
    let report: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    let billed = report["billed_nanos"].as_u64().unwrap();
    until("the ledger has all wins", || {
        STRATEGIES.iter().map(|name| pacer.spend(name)).sum::<u64>() == billed
    });
    for name in STRATEGIES {
        assert!(pacer.spend(name) > 0, "{name} was never authorised: {report}");
    }
    let booked = pacer.server.scraped(r#"pacer_settlements_total{client="dsp-1",result="booked"}"#);
    assert_eq!(report["settlements"]["booked"], booked);
}

/// Whether there is Python; tests that need it are skipped otherwise.
fn has_python() -> bool {
    let mut python = Command::new("python3");
    python.arg("--version").stdout(Stdio::null()).status().is_ok()
}

/// Runs a script that gets the pacer's address.
fn python(script: &str, pacer: &Pacer) -> Command {
    let mut python = Command::new("python3");
    python.args(["-B", "-c", script, &pacer.address()]);
    python.env("PYTHONPATH", root().join("clients/python"));
    python
}

/// Spends one reservation and gives another back.
const SCRIPT: &str = r#"
import sys, time
from vickrey_pacer import Candidate, Cost, Pacer, Price, Request
host, port = sys.argv[1].rsplit(":", 1)
results = []
settled = lambda settlement, result: results.append(result.name)
with Pacer((host, int(port)), "dsp-1", "of dsp 1", on_settled=settled) as pacer:
    assert ("globex", "globex-spring") not in pacer.campaigns
    ours = Candidate("acme", "acme-spring", Price(1_000_000))
    until = time.monotonic() + 20
    while True:
        won, lost = pacer.decide([Request(1, [ours]), Request(2, [ours])], deadline_s=5)
        if won.authorised and lost.authorised:
            break
        assert time.monotonic() < until, (won, lost)
        for each in (won, lost):
            if each.authorised:
                pacer.lost(each.token)
        pacer.poll(0.05)
    assert won.amount == Price(1_000_000), won
    assert pacer.flush(20) == 0
    results.clear()
    pacer.won(won.token_text, Cost(700_001))
    pacer.lost(lost.token)
    assert pacer.flush(20) == 0
    pacer.won(won.token, Cost(5))
    assert pacer.flush(20) == 0
print(*results)
"#;

#[test]
fn the_client_in_python_is_understood() {
    if !has_python() {
        return;
    }
    let pacer = Pacer::start();
    check(&mut python(SCRIPT, &pacer), 0, &["BOOKED RELEASED ALREADY_BOOKED"], &[]);
    until("the ledger has it", || pacer.spend("acme-spring") == 700_001);
}

/// Connects over TLS with the certificate authority, and with a certificate if there is one more argument.
const TLS_SCRIPT: &str = r#"
import ssl, sys
from vickrey_pacer import Pacer, PacerError
_, port = sys.argv[1].rsplit(":", 1)
tls = ssl.create_default_context(cafile=sys.argv[2])
tls.set_alpn_protocols(["vickrey-pacer"])
if len(sys.argv) > 3:
    tls.load_cert_chain(sys.argv[3], sys.argv[4])
pacer = Pacer(("localhost", int(port)), "dsp-1", "of dsp 1", tls=tls)
try:
    pacer.connect(2)
    print("campaigns", len(pacer.campaigns))
except PacerError as error:
    print("refused", error)
"#;

#[test]
fn tls_may_ask_clients_for_a_certificate() {
    if !has_python() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let own = |name: &str| {
        let own = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
        let [certificate, key] =
            ["pem", "key"].map(|end| folder.path().join(format!("{name}.{end}")));
        std::fs::write(&certificate, own.cert.pem()).unwrap();
        std::fs::write(&key, own.signing_key.serialize_pem()).unwrap();
        (certificate, key)
    };
    let ((ca, key), (certificate, client_key)) = (own("localhost"), own("dsp"));
    let (_, stranger_key) = own("stranger");
    let stranger = folder.path().join("stranger.pem");
    let shown = |path: &Path| format!("\"file:{}\"", path.display());
    let table = format!("[pacer.tls]\ncertificate = {}\nkey = {}\n", shown(&ca), shown(&key));
    let open = Pacer::with_tls(&table);
    check(python(TLS_SCRIPT, &open).arg(&ca), 0, &["campaigns 2"], &[]);
    let plain = open.raw(&super::fixtures::hello());
    assert!(plain.len() < 32, "no frame in plain text: {plain:?}");
    let closed = Pacer::with_tls(&format!("{table}client_ca = {}\n", shown(&certificate)));
    let known = [&ca, &certificate, &client_key];
    check(python(TLS_SCRIPT, &closed).args(known), 0, &["campaigns 2"], &[]);
    check(python(TLS_SCRIPT, &closed).arg(&ca), 0, &["refused"], &[]);
    let unknown = [&ca, &stranger, &stranger_key];
    check(python(TLS_SCRIPT, &closed).args(unknown), 0, &["refused"], &[]);
}
