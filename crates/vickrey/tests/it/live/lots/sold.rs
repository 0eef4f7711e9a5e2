//! A lot that is sold: the exchange offers its deal without a restart, and again after a crash.

use serde_json::{Value, json};

use super::fixtures::{ACCOUNTS, LATE_MS};
use crate::operations::fixtures::{Server, dsp, table};
use crate::program::until;

#[test]
fn a_sold_lot_is_a_deal_of_the_exchange() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("accounts.toml"), ACCOUNTS).unwrap();
    let place = |name: &str| folder.path().join(name);
    let services = format!(
        "[record]\ndirectory = {:?}\n[budgets]\ndirectory = {:?}\ncampaigns = {:?}\n\
         [exchange.notices]\nurl = \"https://exchange.example/n/\"\n\
         [live]\nlisten = \"127.0.0.1:0\"\ntrust_loopback = true\n[live.lots]\n",
        place("record"),
        place("ledger"),
        place("accounts.toml"),
    );
    let dsp = table("dsp-1", &dsp().to_string(), "seats = [\"ann\"]");
    let mut server = Server::start(&format!("{services}{dsp}"));
    until("it is ready", || server.ask("GET", "/health/ready", "").status == 200);
    let terms = json!({
        "id": "home", "currency": "USD", "impressions": 1000, "start_price": "2",
        "increments": [{ "from": "0", "increment": "0.1" }], "opens_ms": 0, "closes_ms": LATE_MS,
        "deal": { "id": "deal-home", "starts_ms": 0, "ends_ms": LATE_MS },
    });
    assert_eq!(server.send("POST", "/v1/lots", &terms).status, 200);
    let bid = json!({
        "bidder": "dsp-1/ann", "account": "acme", "maximum": "5", "currency": "USD", "key": "k",
    });
    assert_eq!(server.send("POST", "/v1/lots/home/bids", &bid).status, 200);
    let closed = server.send("POST", "/v1/lots/home/close", &json!(null)).json();
    assert_eq!(closed["lot"]["result"]["price"], "2", "{closed}");
    let is_offered = |server: &Server| server.get("/v1/lots/home")["offer"]["state"] == "offered";
    until("the deal is offered", || is_offered(&server));
    // What it may deliver is a budget of its own: 1,000 impressions at 2 per thousand.
    let campaign = server.get("/v1/campaigns/lot:home");
    assert_eq!(campaign["definition"]["account"], "acme", "{campaign}");
    pays_at_the_close(&server, &terms);
    server.kill_and_restart();
    until("it is offered again", || is_offered(&server));
    until("so is the other", || server.get("/v1/lots/paid")["offer"]["state"] == "offered");
}

/// Another lot, whose winner pays all of it at once; its impressions are paid from that.
fn pays_at_the_close(server: &Server, terms: &Value) {
    let mut terms = terms.clone();
    terms["id"] = json!("paid");
    terms["deal"]["id"] = json!("deal-paid");
    terms["payment"] = json!("at_close");
    assert_eq!(server.send("POST", "/v1/lots", &terms).status, 200);
    let bid = json!({
        "bidder": "dsp-1/ann", "account": "acme", "maximum": "4", "currency": "USD", "key": "p",
    });
    assert_eq!(server.send("POST", "/v1/lots/paid/bids", &bid).status, 200);
    assert_eq!(server.send("POST", "/v1/lots/paid/close", &json!(null)).status, 200);
    until("the deal is offered", || server.get("/v1/lots/paid")["offer"]["state"] == "offered");
    let spent =
        |account: &str| server.get(&format!("/v1/accounts/{account}/spend"))["life"].clone();
    until("acme has paid", || spent("acme") == "2");
    assert_eq!(spent("lot:paid"), "0");
    let account = server.get("/v1/accounts/lot:paid");
    assert_eq!(account["definition"]["budget"], "2", "{account}");
    assert_eq!(server.get("/v1/campaigns/lot:paid")["definition"]["account"], "lot:paid");
}
