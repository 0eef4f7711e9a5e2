//! Bid requests with data that providers know: at the DSP, in the record, in explanations and metrics.

use std::io::Write as _;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use testbed::provider::{ProviderAct, ProviderBehaviour, ProviderFarm, ProviderOptions};
use testbed::server::ServerOptions;

use crate::operations::fixtures::{Server, TOKEN, answer, ask_for_bids, connect, table};
use crate::program::{check, message, root, until, vickrey};

/// A DSP that does not bid, and what it was asked.
#[derive(Clone)]
struct Witness {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<Value>>>,
}

impl Witness {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let witness = Self { address, requests: Arc::default() };
        let own = witness.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let own = own.clone();
                std::thread::spawn(move || own.answer(stream));
            }
        });
        witness
    }

    fn answer(&self, mut stream: TcpStream) {
        while let Some((_, body)) = message(&mut stream) {
            self.requests.lock().unwrap().push(serde_json::from_str(&body).unwrap());
            if stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").is_err() {
                return;
            }
        }
    }

    fn last(&self) -> Value {
        self.requests.lock().unwrap().last().expect("it was asked").clone()
    }
}

/// An exchange with the example of audience data.
struct EnrichedExchange {
    farm: ProviderFarm,
    witness: Witness,
    server: Server,
    _maps: tempfile::TempDir,
}

const ENRICH: &str = include_str!("../../../../deploy/enrichment.toml");

const WHO: &str = r#","user":{"id":"u1"},"site":{"page":"http://a.example/1","publisher":{"id":"p"}},"device":{"geo":{"country":"USA","region":"CA","city":"San Jose"}}"#;

impl EnrichedExchange {
    fn tables(maps: &str, witness: &Witness, enrich: &str) -> String {
        format!(
            "{enrich}\n[exchange.bodies]\nsample = \"100%\"\n[record]\ndirectory = \"record\"\nnode = 1\n\
             [lookup]\nlisten = \"127.0.0.1:0\"\nmaps = \"{maps}\"\n{}",
            table("w", &witness.address.to_string(), "timeout = \"20s\"")
        )
    }

    fn start(enrich: &str) -> Self {
        Self::start_with(enrich, "timeout = \"20s\"")
    }

    fn start_with(enrich: &str, slow: &str) -> Self {
        let behaviours = vec![ProviderBehaviour::HEALTHY; 3];
        let (options, server) = (ProviderOptions::default(), ServerOptions::default());
        let farm = testbed::provider::start(&options, behaviours, &server).unwrap();
        let mut map = std::fs::read_to_string(root().join("deploy/maps/audience.toml")).unwrap();
        for (port, url) in [7511, 7512, 7513].into_iter().zip(farm.urls()) {
            map = map.replace(&format!("http://127.0.0.1:{port}"), url);
        }
        // A busy machine must not make a second attempt.
        let map = map.replace("timeout = \"200ms\"", slow).replace("timeout = \"500ms\"", slow);
        let maps = tempfile::tempdir().unwrap();
        std::fs::write(maps.path().join("audience.toml"), map).unwrap();
        let pattern = maps.path().join("*.toml").display().to_string();
        let witness = Witness::start();
        let server = Server::start(&Self::tables(&pattern, &witness, enrich));
        Self { farm, witness, server, _maps: maps }
    }

    /// Holds an auction; returns its status.
    fn auction(&self, more: &str) -> u16 {
        let mut stream = connect(self.server.callers());
        ask_for_bids(&mut stream, more);
        answer(&mut stream).status
    }

    fn outcome(&self, enrichment: &str, outcome: &str) -> u64 {
        let labels = format!("{{enrichment=\"{enrichment}\",outcome=\"{outcome}\"}}");
        self.server.scraped(&format!("exchange_enrichments_total{labels}"))
    }
}

#[test]
fn dsps_see_what_providers_know() {
    let all = EnrichedExchange::start(ENRICH);
    // The first auction waits for nothing.
    assert_eq!(all.auction(WHO), 204);
    let first = all.witness.last();
    assert_eq!((&first["user"]["data"], &first["ext"]), (&Value::Null, &Value::Null));
    for name in ["audience", "pages", "weather"] {
        until("its data is there", || {
            all.auction(WHO);
            all.outcome(name, "added") > 0
        });
    }
    let told = all.witness.last();
    let data = &told["user"]["data"];
    assert_eq!((data[0]["name"].as_str(), data[1].is_null()), (Some("audience"), true));
    let segments: Vec<_> =
        data[0]["segment"].as_array().unwrap().iter().map(|of| of["id"].clone()).collect();
    let page = &told["site"]["content"]["data"][0];
    assert_eq!(page["segment"][1], json!({ "name": "safe", "value": "true" }), "{told}");
    let weather = &told["ext"]["enrichment"]["weather"];
    assert!(weather["celsius"].is_number() && weather["weather"].is_string(), "{told}");
    // What a query says of the same user.
    let url = format!("http://{}", all.server.logged("look-ups are at "));
    let mut query = vickrey(&["query", "user user=u1", "--server", &url, "--json"]);
    let answer: Value = serde_json::from_str(&check(&mut query, 0, &[], &[]).0).unwrap();
    assert_eq!(answer["rows"][0]["record"]["user"]["segments"], json!(segments), "{answer}");
    // Once for each value, and once by the query at most.
    let requests = || all.farm.stats().iter().map(|of| of.requests).sum::<u64>();
    assert!((3..=4).contains(&requests()), "{}", requests());
    all.record_has(&segments);
}

impl EnrichedExchange {
    fn record_has(mut self, segments: &[Value]) {
        let record = self.server.config_file().with_file_name("record");
        self.server.signal("-TERM");
        assert!(self.server.ends_well());
        let record = record.to_str().unwrap();
        let mut cat = vickrey(&["log", "cat", "--dir", record, "--json"]);
        let (rows, _) = check(&mut cat, 0, &[], &[]);
        let rows: Vec<Value> =
            rows.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let of = |row: &Value| {
            let outcomes = row["enrichments"].as_array().unwrap().iter();
            outcomes.map(|it| it["outcome"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        let (first, last) = (&rows[0], rows.last().unwrap());
        assert_eq!((of(first), of(last)), (vec!["unknown".into(); 3], vec!["added".into(); 3]));
        let text = last["enrichments"][0]["text"].as_str().unwrap();
        let text: Value = serde_json::from_str(text).unwrap();
        let of_text = text["segment"].as_array().unwrap().iter().map(|of| of["id"].clone());
        assert_eq!(of_text.collect::<Vec<_>>(), segments);
        check(&mut vickrey(&["log", "replay", "--dir", record]), 0, &[], &[]);
    }
}

#[test]
fn nothing_about_the_user_is_added_or_asked_where_privacy_forbids() {
    let all = EnrichedExchange::start(ENRICH);
    for regs in [r#","regs":{"coppa":1}"#, ""] {
        let who = if regs.is_empty() {
            WHO.replace(r#""device":{"#, r#""device":{"lmt":1,"#)
        } else {
            WHO.to_owned()
        };
        until("the page is known", || {
            all.auction(&format!("{who}{regs}"));
            !all.witness.last()["site"]["content"]["data"].is_null()
        });
        assert_eq!(all.witness.last()["user"]["data"], Value::Null);
    }
    assert_eq!(all.farm.stats()[0].requests, 0, "nobody asked about the user");
    assert!(all.outcome("audience", "withheld") > 0 && all.outcome("audience", "unknown") == 0);
}

#[test]
fn a_slow_provider_costs_nothing_and_a_required_one_the_auction() {
    let required =
        ENRICH.replacen("into = \"user.data\"", "into = \"user.data\"\nrequired = true", 1);
    let all = EnrichedExchange::start_with(&required, "timeout = \"200ms\"");
    let behave = |at: usize, act| {
        all.farm.set_behaviour(at, ProviderBehaviour { act, share_ppm: 1_000_000 }).unwrap();
    };
    (0..3).for_each(|at| behave(at, ProviderAct::Hang));
    for _ in 0..3 {
        assert_eq!(all.auction(WHO), 204);
    }
    assert!(all.witness.requests.lock().unwrap().is_empty(), "no DSP is asked");
    let refused = "exchange_auctions_total{outcome=\"data_unknown\"}";
    assert_eq!(all.server.scraped(refused), 3);
    // Without the hanging provider's data, those that need none are held.
    behave(0, ProviderAct::Healthy);
    until("the user is known", || {
        all.auction(&WHO.replace("u1", "u2"));
        !all.witness.requests.lock().unwrap().is_empty()
    });
    assert_eq!(all.outcome("pages", "added"), 0);
}

/// The example is explained with what its providers know, and a map without what is named is refused.
#[test]
fn configurations_are_checked_and_requests_explained() {
    let mut all = EnrichedExchange::start(ENRICH);
    let file = all.server.config_file();
    let path = file.to_str().unwrap();
    let request = file.with_file_name("request.json");
    let body = format!(r#"{{"id":"r","imp":[{{"id":"1","banner":{{"w":300,"h":250}}}}]{WHO}}}"#);
    std::fs::write(&request, body).unwrap();
    let mut explain = vickrey(&["explain", request.to_str().unwrap(), "--config", path]);
    explain.env("OPERATORS_TOKEN", TOKEN);
    let (text, _) = check(&mut explain, 0, &[], &[]);
    for part in ["Added for DSPs", "user.id → user.data", "city → ext", "\"celsius\":"] {
        assert!(text.contains(part), "{text}");
    }
    let config = std::fs::read_to_string(&file).unwrap();
    for (from, to, want) in [
        ("\"user\"\nfields", "\"usr\"\nfields", "`audience`: the maps have no key `usr`"),
        ("user.segments", "user.segmnts", "`user` has no attribute `segmnts`"),
    ] {
        std::fs::write(&file, config.replace(from, to)).unwrap();
        let mut checked = vickrey(&["config", "check", path]);
        checked.env("OPERATORS_TOKEN", TOKEN);
        check(&mut checked, 64, &[], &["and its maps disagree", want]);
    }
    let without = config.split("\n[lookup]").next().unwrap();
    std::fs::write(&file, without).unwrap();
    let mut checked = vickrey(&["config", "check", path]);
    checked.env("OPERATORS_TOKEN", TOKEN);
    check(&mut checked, 64, &[], &["exchange.enrich", "needs [lookup]"]);
    all.server.signal("-TERM");
    assert!(all.server.ends_well());
}
