//! The real DSPs, called by the command, and `ext.debug` of a running exchange.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread::JoinHandle;

use exchange_core::explain::Explanation;
use exchange_serve::{Exchange, ExchangeConfig};
use runtime::service::{LoneOptions, LoneService, Ports};
use runtime::shards::ShardsOptions;
use runtime::shutdown::Shutdown;
use runtime::traces::Tracer;
use serde_json::Value;

use super::{TIE_KEY, explain, text};
use crate::program::{PATIENCE, message};

/// A DSP that bids on impression `1` with the given prices, one per request, each on a new
/// connection.
struct Dsp {
    address: SocketAddr,
    thread: JoinHandle<Vec<String>>,
}

impl Dsp {
    fn bidding(prices: &'static [&'static str]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let thread = std::thread::spawn(move || {
            prices.iter().map(|price| answer(&listener, price)).collect()
        });
        Self { address, thread }
    }

    /// The requests that it received.
    fn requests(self) -> Vec<Value> {
        let bodies = self.thread.join().unwrap();
        bodies.iter().map(|body| serde_json::from_str(body).unwrap()).collect()
    }
}

fn answer(listener: &TcpListener, price: &str) -> String {
    let (mut stream, _) = listener.accept().unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let (_, body) = message(&mut stream).expect("a whole message");
    let request: Value = serde_json::from_str(&body).unwrap();
    let id = request["id"].as_str().unwrap();
    let bid = format!(r#"{{"id":"b","impid":"1","price":{price},"adm":"<p>","crid":"c"}}"#);
    let answer = format!(r#"{{"id":"{id}","seatbid":[{{"bid":[{bid}]}}]}}"#);
    let length = answer.len();
    let head = format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n");
    stream.write_all(&[head, answer].concat().into_bytes()).unwrap();
    body
}

fn toml(dsps: &[(&str, SocketAddr)], more: &str) -> String {
    let mut toml = format!(
        "[exchange]\nlisten = \"127.0.0.1:0\"\ntmax_max = \"20s\"\ntie_key = \"{TIE_KEY}\"\n\
         [exchange.pool]\n[[publisher]]\nid = \"trusted\"\nfee = \"10%\"\ndebug = true\n\
         [[publisher]]\nid = \"other\"\n"
    );
    for (id, address) in dsps {
        toml.push_str(&format!(
            "[[dsp]]\nid = \"{id}\"\nurl = \"http://{address}/bid\"\ntimeout = \"20s\"\n"
        ));
    }
    toml + more
}

/// An address without a listener.
fn nowhere() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

fn request(publisher: &str, more: &str) -> String {
    let imp = r#"{"id":"1","banner":{"w":300,"h":250},"bidfloor":0.5}"#;
    let site = format!(r#"{{"publisher":{{"id":"{publisher}"}}}}"#);
    format!(r#"{{"id":"r","at":2,"site":{site},"imp":[{imp}]{more}}}"#)
}

#[test]
fn the_real_dsps_are_asked_once() {
    let (high, low) = (Dsp::bidding(&["3.00"]), Dsp::bidding(&["2.00"]));
    let scratch = tempfile::tempdir().unwrap();
    let config = scratch.path().join("vickrey.toml");
    let dsps = [("high", high.address), ("low", low.address), ("gone", nowhere())];
    // The access rules of a running exchange do not hinder its operator.
    let more = "[[publisher]]\nid = \"keyed\"\nkey = \"literal-key-0123456789\"\n";
    std::fs::write(&config, toml(&dsps, more)).unwrap();
    let file = scratch.path().join("request.json");
    std::fs::write(&file, request("keyed", "")).unwrap();
    let args = [file.to_str().unwrap(), "--config", config.to_str().unwrap(), "--json"];
    let printed = explain(&args);
    assert_eq!(printed.status.code(), Some(0), "{}", text(&printed.stderr));
    let got: Explanation = serde_json::from_slice(&printed.stdout).unwrap();
    assert!(!got.request.test, "the file's request is no test");
    let won = got.clearing[0].won.as_ref().unwrap();
    assert_eq!((won.bid, &*won.price, &*won.paid), (1, "2.01", "2.01"));
    let answers: Vec<_> = got.dsps.iter().map(|dsp| dsp.answer.as_ref().unwrap()).collect();
    let outcomes: Vec<_> = answers.iter().map(|answer| &*answer.outcome).collect();
    assert_eq!(outcomes, ["answered", "answered", "unreachable"]);
    assert!(answers[0].latency_us.is_some() && answers[2].latency_us.is_none());
    for request in high.requests().into_iter().chain(low.requests()) {
        assert_eq!(request["test"], 1, "no DSP takes it for more than it is");
        assert_eq!(request["id"], got.auction_id);
    }
}

/// An exchange in this process.
struct Running {
    address: SocketAddr,
    exchange: Option<LoneService<Exchange>>,
    shutdown: Shutdown,
}

impl Running {
    fn start(toml: &str) -> Self {
        let config = runtime::config::parse("test.toml", toml, ExchangeConfig::read);
        let config = config.unwrap_or_else(|problems| panic!("{problems}")).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let shutdown = Shutdown::new(PATIENCE);
        let options = LoneOptions {
            shards: ShardsOptions::default(),
            listeners: vec![listener],
            shutdown: shutdown.clone(),
            tracer: Tracer::off(),
            ports: Ports::default(),
        };
        let exchange = LoneService::start(config, options);
        Self { address, exchange: Some(exchange.unwrap()), shutdown }
    }

    /// Status and body.
    fn post(&self, body: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let length = body.len();
        let head = format!(
            "POST /openrtb2/auction HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\
             content-length: {length}\r\n\r\n"
        );
        stream.write_all(&[head.as_str(), body].concat().into_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head[9..12].parse().unwrap(), body.to_owned())
    }

    /// The `ext.debug` of the response.
    fn explain(&self, body: &str) -> (Value, Explanation) {
        let (status, answer) = self.post(body);
        assert_eq!(status, 200, "{answer}");
        let answer: Value = serde_json::from_str(&answer).unwrap();
        let debug = answer["ext"]["debug"].clone();
        (answer, serde_json::from_value(debug).unwrap())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.shutdown.begin();
        self.exchange.take().unwrap().join().unwrap();
    }
}

const ASKS: &str = r#","test":1,"ext":{"debug":1}"#;

#[test]
fn whoever_may_ask_is_told() {
    let (high, low) = (Dsp::bidding(&["3.00"]), Dsp::bidding(&["2.00"]));
    let exchange = Running::start(&toml(&[("high", high.address), ("low", low.address)], ""));
    let (answer, told) = exchange.explain(&request("trusted", ASKS));
    // The explanation matches the auction.
    let won = told.clearing[0].won.as_ref().unwrap();
    let sold = &answer["seatbid"][0]["bid"][0];
    assert_eq!((&*won.price, &*won.net), ("2.01", "1.809"));
    assert_eq!(sold["price"].to_string(), won.net);
    assert_eq!(answer["bidid"], told.auction_id);
    let as_sent: Value = serde_json::from_str(told.response.as_deref().unwrap()).unwrap();
    assert_eq!(as_sent["seatbid"], answer["seatbid"]);
    assert!(told.dsps.iter().all(|dsp| dsp.answer.as_ref().unwrap().latency_us.is_some()));
}

#[test]
fn nobody_else_is_told_anything() {
    let dsp = Dsp::bidding(&["3.00"; 6]);
    let exchange = Running::start(&toml(&[("high", dsp.address)], ""));
    for (publisher, more) in [
        ("other", ASKS),
        ("unnamed", ASKS),
        ("trusted", r#","ext":{"debug":1}"#),
        ("trusted", r#","test":0,"ext":{"debug":1}"#),
        ("trusted", r#","test":1"#),
        ("trusted", r#","test":1,"ext":{"debug":0}"#),
    ] {
        let (status, answer) = exchange.post(&request(publisher, more));
        assert_eq!(status, 200, "{publisher}{more}: {answer}");
        let answer: Value = serde_json::from_str(&answer).unwrap();
        assert!(answer["seatbid"][0]["bid"][0].is_object(), "{answer}");
        assert!(answer["ext"].is_null(), "{publisher}{more}: {answer}");
    }
}

#[test]
fn without_a_bid_too_and_with_what_the_guards_say() {
    // Both are called until one is paused; breakers would be open by then.
    let toml = toml(&[("gone", nowhere()), ("paused", nowhere())], "");
    let exchange = Running::start(&toml.replace("[[dsp]]\n", "[[dsp]]\nbreaker = false\n"));
    assert!(exchange.exchange.as_ref().unwrap().service().pause("paused", true));
    // The shard gets the pause within a few turns of the governors.
    let started = std::time::Instant::now();
    let (answer, told) = loop {
        let (answer, told) = exchange.explain(&request("trusted", ASKS));
        if told.dsps[1].not_asked.is_some() {
            break (answer, told);
        }
        assert!(started.elapsed() < PATIENCE, "it is never paused: {answer}");
    };
    assert_eq!((&answer["nbr"], &answer["seatbid"]), (&Value::from(1), &Value::Array(vec![])));
    assert_eq!(told.no_bid.as_ref().unwrap().reason, "technical_error");
    assert_eq!(told.dsps[0].answer.as_ref().unwrap().outcome, "unreachable");
    let not_asked = told.dsps[1].not_asked.as_ref().unwrap();
    assert_eq!((&*not_asked.reason, &*not_asked.why), ("paused", "the operator has paused it"));
    // A request without `ext.debug` gets the usual response.
    assert_eq!(exchange.post(&request("trusted", r#","test":1"#)), (204, String::new()));
}

#[test]
fn an_explanation_is_bounded() {
    let dsp = Dsp::bidding(&["3.00"]);
    let exchange = Running::start(&toml(&[("high", dsp.address)], ""));
    let long = "x".repeat(100_000);
    let imps: Vec<_> = (1..60)
        .map(|n| format!(r#"{{"id":"{n}","banner":{{"w":300,"h":250}},"tagid":"{n}"}}"#))
        .collect();
    let body = format!(
        r#"{{"id":"{long}","site":{{"publisher":{{"id":"trusted"}}}},"imp":[{}]{ASKS}}}"#,
        imps.join(",")
    );
    let (answer, told) = exchange.explain(&body);
    assert_eq!(answer["id"].as_str().unwrap().len(), long.len());
    assert!(told.request.id.chars().count() <= 121, "{}", told.request.id);
}
