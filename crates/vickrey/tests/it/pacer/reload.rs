//! Clients of the configuration come, change and go while the pacer runs.

use pacer_client::{DecisionCode, PacerClient, SettlementCode};
use units::Nanos;

use super::fixtures::{Pacer, WITHIN, first_bid, request, runtime};
use crate::operations::document::check_pacer;
use crate::program::until;

#[test]
fn a_reload_adds_changes_and_removes_clients() {
    let pacer = Pacer::start();
    let runtime = runtime();
    let _entered = runtime.enter();
    let (changed, removed) =
        (pacer.client(), PacerClient::start(pacer.options("dsp-2", "of dsp 2")));
    let won = first_bid(&runtime, &changed);
    let foreign = request(&changed, 4, 1_000_000);
    until("the other is connected", || removed.status().is_connected);

    let file = pacer.server.config_file();
    let text = std::fs::read_to_string(&file).unwrap();
    let (kept, _) = text.split_once("[[pacer.client]]").unwrap();
    let clients = "[[pacer.client]]\nid = \"dsp-3\"\nsecret = \"of dsp 3\"\naccounts = [\"acme\"]\n\
                   [[pacer.client]]\nid = \"dsp-1\"\nsecret = \"another\"\naccounts = [\"globex\"]\n";
    let other = kept.replace("credit = 8", "credit = 9") + clients;
    std::fs::write(&file, &other).unwrap();
    let reload = || pacer.server.ask("POST", "/v1/reload", "content-length: 0\r\n").json();
    assert_eq!(reload()["needs_restart"], serde_json::json!(["pacer.limits.credit"]));

    // Its connection stays, with the campaigns of its new account. What it was authorised before is
    // booked all the same.
    until("its campaigns are others", || changed.campaign("globex", "globex-spring").is_some());
    assert!(changed.campaign("acme", "acme-spring").is_none());
    let decided = runtime.block_on(changed.decide(foreign, WITHIN));
    assert_eq!(decided, Some(Err(DecisionCode::Unknown)));
    let settled = changed.won(won.token, Nanos::new(5)).expect("there is room");
    assert_eq!(runtime.block_on(settled), Ok(SettlementCode::Booked));

    let added = PacerClient::start(pacer.options("dsp-3", "of dsp 3"));
    first_bid(&runtime, &added);
    let denied = r#"pacer_errors_total{code="denied"}"#;
    until("the removed one is told so", || pacer.server.scraped(denied) > 0);
    until("it is gone", || !removed.status().is_connected);
    let former = PacerClient::start(pacer.options("dsp-1", "of dsp 1"));
    let before = pacer.server.scraped(denied);
    until("the former secret is denied", || pacer.server.scraped(denied) > before);
    drop(former);

    let shown = pacer.server.get("/v1/pacer");
    let clients = shown["clients"].as_array().unwrap();
    let ids: Vec<_> = clients.iter().map(|client| client["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["dsp-1", "dsp-2", "dsp-3"]);
    let gone: Vec<_> = clients.iter().map(|client| client["removed"].as_bool().unwrap()).collect();
    assert_eq!(gone, [false, true, false]);
    check_pacer(&pacer.server, "dsp-1", 200);
    let one = pacer.server.get("/v1/pacer/clients/dsp-1");
    assert_eq!(one["accounts"], serde_json::json!(["globex"]));
    assert_eq!(one["settlements"]["booked"], 1);
    assert_eq!(one["billed_nanos"], 5);
    assert!(one["decisions"]["authorised"].as_u64().unwrap() > 0, "{one}");

    // The one that returns is the same client again.
    std::fs::write(&file, &text).unwrap();
    assert_eq!(reload()["needs_restart"], serde_json::json!([]));
    until("it is connected again", || removed.status().is_connected);
    let clients = pacer.server.get("/v1/pacer")["clients"].as_array().unwrap().len();
    assert_eq!(clients, 3);
}
