//! Budgets without an exchange in the process: definitions are accepted, shown and stored.

use super::fixtures::Server;
use crate::program::until;

const BUDGETS: &str = "[budgets]\ndirectory = \"budgets\"\ncampaigns = \"a*.toml\"\n";

#[test]
fn a_pacer_runs_without_an_exchange() {
    let mut server = Server::start_without_exchange(BUDGETS);
    until("the ledger is ready", || server.ask("GET", "/health/ready", "").status == 200);
    let accounts = "[[account]]\nid = \"acme\"\ncurrency = \"USD\"\ntime_zone = \"UTC\"\n";
    std::fs::write(server.config_file().with_file_name("accounts.toml"), accounts).unwrap();
    let reloaded = server.ask("POST", "/v1/reload", "content-length: 0\r\n").json();
    assert_eq!(reloaded["campaigns"]["created"], 1, "{reloaded}");
    assert_eq!(server.get("/v1/accounts")["accounts"][0]["id"], "acme");
    assert_eq!(server.ask("GET", "/v1/dsps", "").status, 404, "no exchange runs here");
    // Tables of services that do not run take effect at a start.
    let tables = format!("{BUDGETS}[exchange]\nlisten = \"127.0.0.1:0\"\n");
    let admin = "[admin]\nlisten = \"127.0.0.1:0\"\n[record]\n[exchange.notices]\nurl = \"http://127.0.0.1/\"\n";
    std::fs::write(server.config_file(), format!("{admin}{tables}")).unwrap();
    let reloaded = server.ask("POST", "/v1/reload", "content-length: 0\r\n").json();
    let needs_restart = reloaded["needs_restart"].as_array().unwrap();
    assert!(needs_restart.iter().any(|key| key == "exchange"), "{reloaded}");
    server.signal("-TERM");
    assert!(server.ends_well(), "{}", server.log());
}
