//! A floor with lots, its bidders, and its operator.

use std::path::Path;

use serde_json::{Value, json};

use super::super::fixtures::{Client, Floor};
use crate::operations::fixtures::{Answer, Server};
use crate::program::until;

pub const ACCOUNTS: &str = r#"[[account]]
id = "acme"
currency = "USD"
budget = "1000.00"
[[account]]
id = "globex"
currency = "USD"
budget = "1000.00"
[[account]]
id = "euro"
currency = "EUR"
budget = "1000.00"
"#;

/// A time that does not come while a test runs, in Unix milliseconds.
pub const LATE_MS: u64 = 4_000_000_000_000;

/// A running floor with lots.
pub struct LotsFloor {
    pub floor: Floor,
}

fn tables(record: &Path) -> String {
    format!(
        r#"[runtime]
shards = 2
[record]
directory = {record:?}
[budgets]
directory = "ledger"
campaigns = "accounts.toml"
[live]
listen = "127.0.0.1:0"
trust_loopback = true
topics = ["news"]
heartbeat = "100ms"
[[live.key]]
id = "k"
secret = "0123456789abcdef0123456789abcdef"
[live.limits]
commands_per_s = 100000
[live.lots]
hold_timeout = "20s"
"#
    )
}

impl LotsFloor {
    pub fn start() -> Self {
        Self::with_record(Path::new("record"))
    }

    pub fn with_record(record: &Path) -> Self {
        let beside = ("accounts.toml", ACCOUNTS);
        let server = Server::start_without_exchange_beside(&tables(record), beside);
        let started = Self { floor: Floor { server } };
        started.until_ready();
        started
    }

    fn until_ready(&self) {
        let server = &self.floor.server;
        until("it is ready", || server.ask("GET", "/health/ready", "").status == 200);
    }

    pub fn kill_and_restart(&mut self) {
        self.floor.server.kill_and_restart();
        self.until_ready();
    }

    /// A bidder of `dsp-1`, who bids from an account.
    pub fn bidder(&self, seat: &str, account: &str) -> Client {
        self.client(&["--bidder", &format!("dsp-1/{seat}"), "--account", account])
    }

    pub fn operator(&self) -> Client {
        self.client(&["--operator"])
    }

    fn client(&self, claims: &[&str]) -> Client {
        let token = self.floor.token(&[&["--subject", "test"], claims].concat());
        Client::connect(&self.floor.address(), &token)
    }

    /// A request to the admin API, with a body unless it is null.
    pub fn api(&self, method: &str, path: &str, body: &Value) -> Answer {
        self.floor.server.send(method, path, body)
    }

    /// Creates a lot that is open for long: 1,000 impressions from a price of 2 on, in steps of 0.1.
    pub fn create(&self, id: &str, more: &Value) -> Value {
        let mut terms = json!({
            "id": id, "currency": "USD", "impressions": 1000, "start_price": "2",
            "increments": [{ "from": "0", "increment": "0.1" }],
            "opens_ms": 0, "closes_ms": LATE_MS,
            "deal": { "id": format!("deal-{id}"), "starts_ms": LATE_MS, "ends_ms": LATE_MS + 1 },
        });
        terms.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let answer = self.api("POST", "/v1/lots", &terms);
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()
    }

    pub fn lot(&self, id: &str) -> Value {
        self.floor.server.get(&format!("/v1/lots/{id}"))
    }

    /// What the ledger has on hold for all bids, and how many holds that is.
    pub fn holds(&self) -> u64 {
        self.floor.server.scraped("ledger_holds")
    }
}

/// A bid as a command.
pub fn bid(lot: &str, maximum: &str, key: &str) -> Value {
    json!({ "op": "bid", "lot": lot, "maximum": maximum, "currency": "USD", "key": key })
}

/// Bids, and returns the answer, whatever it is.
pub fn answer(client: &mut Client, command: &Value) -> Value {
    client.say(command);
    loop {
        let message = client.next();
        match message["type"].as_str() {
            Some("heartbeat" | "message") => (),
            _ => return message,
        }
    }
}
