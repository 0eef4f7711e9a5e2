//! An exchange as a provider of look-ups: its record and its ledger are asked by queries.

use serde_json::{Value, json};

use crate::operations::document::check_record;
use crate::operations::fixtures::{Server, TOKEN, answer, ask_for_bids, bidder, connect, table};
use crate::program::{check, root, until, vickrey};

/// Bids of two seats by turns.
fn bid(request: &Value) -> Value {
    let publisher = request["site"]["publisher"]["id"].as_str().unwrap_or_default();
    let (seat, price) = if publisher == "p" { ("acme, inc", 2.5) } else { ("other", 0.01) };
    let bid =
        json!({ "id": "b", "impid": "1", "price": price, "adm": "<p>", "crid": "c", "cid": "c1" });
    json!({ "seat": seat, "bid": [bid] })
}

fn exchange() -> Server {
    let keys = "seats = [\"acme, inc\", \"other\"]\ntimeout = \"20s\"";
    let dsp = table("d", &bidder(bid).to_string(), keys);
    let server = Server::start(&format!(
        "[record]\ndirectory = \"record\"\nnode = 1\n[exchange.notices]\n\
         url = \"http://127.0.0.1:1/n/\"\n[budgets]\ndirectory = \"budgets\"\n{dsp}"
    ));
    for publisher in ["p", "q", "p"] {
        let mut stream = connect(server.callers());
        ask_for_bids(
            &mut stream,
            &format!(",\"site\":{{\"publisher\":{{\"id\":\"{publisher}\"}}}}"),
        );
        assert!(matches!(answer(&mut stream).status, 200 | 204));
    }
    until("all are recorded", || auctions(&server, "").len() == 3);
    server
}

fn auctions(server: &Server, query: &str) -> Vec<Value> {
    let list = server.get(&format!("/v1/auctions?{query}"));
    assert_eq!(list["damages"], 0);
    list["auctions"].as_array().unwrap().clone()
}

fn bids(server: &Server, query: &str) -> Vec<Value> {
    server.get(&format!("/v1/bids?{query}"))["bids"].as_array().unwrap().clone()
}

#[test]
fn the_record_is_asked_over_http() {
    let server = exchange();
    check_record(&server, 200);
    let all = auctions(&server, "");
    let mut command = vickrey(&["log", "cat", "--json", "--dir"]);
    command.arg(server.config_file().with_file_name("record"));
    let (printed, _) = check(&mut command, 0, &[], &[]);
    let printed: Vec<Value> =
        printed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(all, printed.into_iter().rev().collect::<Vec<_>>(), "the newest first");
    assert_eq!(auctions(&server, "publisher=p"), [all[0].clone(), all[2].clone()]);
    assert_eq!(auctions(&server, "publisher=p&publisher=q"), all);
    assert_eq!(auctions(&server, "most=1&skip=1"), [all[1].clone()]);
    let id = all[1]["id"].as_str().unwrap();
    assert_eq!(auctions(&server, &format!("id={id}")), [all[1].clone()]);
    // A comma is a part of the value.
    let of_acme = bids(&server, "seat=acme%2C+inc");
    assert_eq!(of_acme.len(), 2);
    assert_eq!(of_acme[0]["reference"], format!("{}/0", all[0]["id"].as_str().unwrap()));
    assert_eq!(
        (&of_acme[0]["fate"], &of_acme[0]["price_micros"]),
        (&json!("won"), &json!(2_500_000))
    );
    assert_eq!(bids(&server, "most=1&skip=1&seat=acme%2C+inc"), [of_acme[1].clone()]);
    assert_eq!(bids(&server, "seat=acme"), [Value::Null; 0]);
    let second = all[0]["time_us"].as_u64().unwrap() / 1_000_000;
    assert_eq!(auctions(&server, &format!("since={}", second + 2)), [Value::Null; 0]);
    assert_eq!(auctions(&server, &format!("since={}&until={}", second - 60, second + 1)), all);
    for (query, field) in [
        ("seats=acme", "seats"),
        ("format=film", "format"),
        ("since=yesterday", "since"),
        ("most=1001", "most"),
        ("seat=%ff", "seat"),
    ] {
        let refused = server.ask("GET", &format!("/v1/auctions?{query}"), "");
        assert_eq!(refused.status, 400, "{query}");
        assert!(refused.body.contains(field), "{query}: {}", refused.body);
    }
}

#[test]
fn an_exchange_is_a_provider() {
    let server = exchange();
    let account = json!({ "id": "acme", "currency": "USD", "budget": "100.00" });
    assert_eq!(server.send("POST", "/v1/accounts", &account).status, 201);
    let folder = tempfile::tempdir().unwrap();
    let map = std::fs::read_to_string(root().join("deploy/maps/exchange.toml")).unwrap();
    let secret = folder.path().join("authorization");
    std::fs::write(&secret, format!("Bearer {TOKEN}")).unwrap();
    let headers = format!("headers = {{ authorization = \"file:{}\" }}", secret.display());
    let url = format!("url = \"http://{}\"\n{headers}", server.admin());
    let map = map.replace("url = \"http://127.0.0.1:9464\"", &url);
    std::fs::write(folder.path().join("exchange.toml"), map).unwrap();
    let lookups = Server::start_without_exchange(&format!(
        "[lookup]\nlisten = \"127.0.0.1:0\"\nmaps = \"{}/*.toml\"\n",
        folder.path().display()
    ));
    let address = format!("http://{}", lookups.logged("look-ups are at "));
    let ask = |query: &str| -> Value {
        let mut command = vickrey(&["query", query, "--json", "--server", &address]);
        serde_json::from_str(&check(&mut command, 0, &[], &[]).0).unwrap()
    };
    let spent =
        ask("bid seat=\"acme, inc\" outcome=won date last 1h | sum(bid.price_micros), count(bid)");
    assert_eq!(
        spent["rows"][0]["record"],
        json!({ "sum(bid.price_micros)": 5_000_000, "count(bid)": 2 })
    );
    let lost = ask("auction publisher=q");
    assert_eq!(lost["rows"][0]["record"]["auction"]["bids"], 1);
    let reference = ask(&format!("bid auction={}", lost["rows"][0]["record"]["auction"]["id"]));
    assert_eq!(reference["rows"][0]["record"]["bid"]["seat"], "other");
    let mut refused = vickrey(&["query", "bid date=20261128", "--server", &address]);
    let why = "the provider answered 400 Bad Request: there is no parameter `date`";
    check(&mut refused, 69, &[], &[why]);
    assert_eq!(ask("dsp dsp=d")["rows"][0]["record"]["dsp"]["breaker"], "closed");
    assert_eq!(ask("account account=acme")["rows"][0]["record"]["account"]["spent"], "0");
}
