//! The life of lots.

use serde_json::{Value, json};

use super::fixtures::{LATE_MS, LotsFloor, answer, bid};
use crate::program::{nanos, run, until, vickrey};

#[test]
fn two_bidders_fight_and_everyone_sees_it() {
    let lots = LotsFloor::start();
    let (mut ann, mut bob) = (lots.bidder("ann", "acme"), lots.bidder("bob", "globex"));
    let mut watcher = lots.floor.client();
    watcher.subscribe("lots", &json!({}));
    lots.create("home", &json!({ "reserve": "3", "title": "Home page" }));
    let first = answer(&mut ann, &bid("home", "2.50", "a1"));
    assert_eq!((&first["type"], &first["number"]), (&json!("accepted"), &json!(1)), "{first}");
    assert_eq!(first["lot"]["price"], "2");
    assert_eq!(first["lot"]["reserve_met"], false);
    assert_eq!(first["own"]["is_leading"], true);
    until("the money is on hold", || lots.holds() == 1);

    let second = answer(&mut bob, &bid("home", "4.00", "b1"));
    assert_eq!(
        (&second["lot"]["price"], &second["lot"]["leader"]),
        (&json!("3"), &json!("bidder 2"))
    );
    assert_eq!(second["lot"]["reserve_met"], true);
    until("only the leader's money is on hold", || lots.holds() == 1);
    // The maximum of another stays secret: only the own one is in any message.
    assert!(!second.to_string().contains("2.5"), "{second}");

    let beaten = answer(&mut ann, &bid("home", "3.50", "a2"));
    assert_eq!(
        (&beaten["lot"]["price"], &beaten["own"]["is_leading"]),
        (&json!("3.6"), &json!(false))
    );

    let page = lots.lot("home");
    assert_eq!(page["history"].as_array().unwrap().len(), 3, "{page}");
    let closed = lots.api("POST", "/v1/lots/home/close", &json!(null)).json();
    assert_eq!(closed["lot"]["result"]["kind"], "sold", "{closed}");
    assert_eq!(closed["lot"]["result"]["price"], "3.6");
    until("a sale on delivery holds nothing", || lots.holds() == 0);
    // No exchange runs here.
    until("that is told", || lots.lot("home")["offer"]["state"] == "failed");

    let mut told = Vec::new();
    for _ in 0..6 {
        let message = watcher.next_of("message");
        assert_eq!((&message["topic"], &message["lane"]), (&json!("lots"), &json!("durable")));
        let (data, event) = (&message["data"], message["data"]["event"].clone());
        told.push((event, data["price"].clone(), data["status"].clone()));
    }
    let events: Vec<_> = told.iter().map(|(event, ..)| event.as_str().unwrap()).collect();
    assert_eq!(events, ["created", "opened", "bid", "bid", "bid", "closed"]);
    let prices: Vec<_> = told.iter().map(|(_, price, _)| price.clone()).collect();
    assert_eq!(json!(prices), json!([null, null, "2", "3", "3.6", "3.6"]));
    the_log_has_the_secrets(&lots);
}

/// What `vickrey log cat --lots` shows of this fight.
fn the_log_has_the_secrets(lots: &LotsFloor) {
    let record = lots.floor.server.config_file().with_file_name("record");
    let cat = ["log", "cat", "--lots", "--json", "--dir", record.to_str().unwrap()];
    let (exit, rows, problems) = run(&mut vickrey(&cat));
    assert_eq!(exit, Some(0), "{problems}");
    let rows: Vec<Value> = rows.lines().map(|row| serde_json::from_str(row).unwrap()).collect();
    let bids: Vec<_> = rows
        .iter()
        .filter(|row| row["event"] == "bid")
        .map(|row| json!([row["number"], row["bidder"], row["account"], row["maximum_micros"]]))
        .collect();
    let want = json!([
        [1, "dsp-1/ann", "acme", 2_500_000],
        [2, "dsp-1/bob", "globex", 4_000_000],
        [3, "dsp-1/ann", "acme", 3_500_000],
    ]);
    assert_eq!(json!(bids), want);
    let told: Value = serde_json::from_str(rows[3]["told"].as_str().unwrap()).unwrap();
    assert_eq!(told["price"], "3", "{told}");
    let events: Vec<_> = rows.iter().map(|row| row["event"].as_str().unwrap()).collect();
    assert_eq!(events, ["created", "opened", "bid", "bid", "bid", "closed"]);
    let shown = run(&mut vickrey(&cat[..3].iter().chain(&cat[4..]).copied().collect::<Vec<_>>())).1;
    assert!(shown.contains("  home  bid 2  dsp-1/bob  at most 4 USD  from globex\n"), "{shown}");
}

#[test]
fn an_operator_schedules_extends_and_cancels() {
    let lots = LotsFloor::start();
    let mut desk = lots.operator();
    let later = LATE_MS - 1000;
    lots.create("a", &json!({ "opens_ms": later }));
    assert_eq!(lots.lot("a")["lot"]["status"], "scheduled");
    let mut ann = lots.bidder("ann", "acme");
    let early = answer(&mut ann, &bid("a", "5", "k"));
    assert_eq!((&early["code"], &early["reason"]), (&json!("refused"), &json!("not_open")));
    let opened = answer(&mut desk, &json!({ "op": "open_lot", "lot": "a", "id": 4 }));
    assert_eq!((&opened["type"], &opened["id"]), (&json!("lot"), &json!(4)), "{opened}");
    assert_eq!(opened["lot"]["status"], "open");
    let extended =
        answer(&mut desk, &json!({ "op": "extend_lot", "lot": "a", "closes_ms": LATE_MS + 5 }));
    assert_eq!(extended["lot"]["ends_ms"], LATE_MS + 5, "{extended}");
    assert_eq!(answer(&mut ann, &bid("a", "5", "k"))["type"], "accepted");
    assert_eq!(lots.holds(), 1);
    let cancel = json!({ "op": "cancel_lot", "lot": "a", "reason": "no stock" });
    let cancelled = answer(&mut desk, &cancel);
    assert_eq!(cancelled["lot"]["result"], json!({ "kind": "cancelled", "reason": "no stock" }));
    until("the money is free", || lots.holds() == 0);
    let all = answer(&mut desk, &json!({ "op": "lots" }));
    assert_eq!((all["lots"].as_array().unwrap().len(), &all["more"]), (1, &json!(false)));
}

#[test]
fn a_sealed_lot_is_paid_at_its_close_and_shows_nothing_before() {
    let lots = LotsFloor::start();
    let sealed = json!({
        "rules": "sealed_second_price", "increments": [], "payment": "at_close",
    });
    lots.create("s", &sealed);
    let (mut ann, mut bob) = (lots.bidder("ann", "acme"), lots.bidder("bob", "globex"));
    let first = answer(&mut ann, &bid("s", "9", "k"));
    assert_eq!((&first["type"], &first["lot"]["price"]), (&json!("accepted"), &json!(null)));
    assert_eq!(answer(&mut bob, &bid("s", "4", "k"))["type"], "accepted");
    until("both are on hold", || lots.holds() == 2);
    assert!(!lots.lot("s").to_string().contains("\"9\""), "bids are sealed");
    let closed = lots.api("POST", "/v1/lots/s/close", &json!(null)).json();
    assert_eq!(closed["lot"]["result"]["price"], "4", "{closed}");
    until("nothing is on hold", || lots.holds() == 0);
    // 1,000 impressions at 4 per thousand.
    until("the winner has paid", || spent(&lots, "acme") == 4_000_000_000);
    assert_eq!(spent(&lots, "globex"), 0);
}

/// What an account has spent in its life, in nanos.
fn spent(lots: &LotsFloor, account: &str) -> u64 {
    nanos(&lots.floor.server.get(&format!("/v1/accounts/{account}/spend"))["life"])
}
