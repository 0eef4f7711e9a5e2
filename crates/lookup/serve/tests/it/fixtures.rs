//! A farm of providers, look-ups of them, and a client.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use lookup_serve::{Lookup, LookupConfig, LookupMemories};
use runtime::config::parse;
use runtime::metrics::Exposition;
use runtime::service::{LoneOptions, LoneService, Ports, Service as _};
use runtime::shards::ShardsOptions;
use runtime::shutdown::Shutdown;
use runtime::traces::Tracer;
use serde_json::Value;
use tempfile::TempDir;
use testbed::provider::{
    CatalogueOptions, ProviderAct, ProviderBehaviour, ProviderFarm, ProviderOptions, farm_map,
};
use testbed::server::ServerOptions;

/// Longer than anything takes.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Waits for a condition.
#[track_caller]
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < end, "not in time: {what}");
        std::thread::yield_now();
    }
}

/// So much, and no more, is in a catalogue.
pub const CATALOGUE: CatalogueOptions = CatalogueOptions { blocks: 25, files: 4, items: 20 };

pub fn options() -> ProviderOptions {
    ProviderOptions { catalogue: CATALOGUE, ..ProviderOptions::default() }
}

/// Providers that answer at once, unless a test makes them do otherwise.
pub fn farm(count: usize, options: &ProviderOptions) -> ProviderFarm {
    let behaviours = vec![ProviderBehaviour::HEALTHY; count];
    testbed::provider::start(options, behaviours, &ServerOptions::default()).expect("they start")
}

/// Requests that all providers have had.
pub fn requests(farm: &ProviderFarm) -> u64 {
    farm.stats().iter().map(|of| of.requests).sum()
}

pub fn behave(farm: &ProviderFarm, index: usize, act: ProviderAct) {
    let behaviour = ProviderBehaviour { act, share_ppm: 1_000_000 };
    farm.set_behaviour(index, behaviour).expect("its thread runs");
}

/// Running look-ups.
pub struct Lookups {
    pub address: SocketAddr,
    shutdown: Shutdown,
    service: Option<LoneService<Lookup>>,
    _maps: TempDir,
}

impl Lookups {
    /// Of a farm's items. Each provider has the lines of `limits`.
    pub fn of_farm(farm: &ProviderFarm, limits: &str) -> Self {
        Self::start(&farm_map(farm.urls(), limits), "")
    }

    /// Of the example of physics data, with three providers.
    pub fn of_physics(farm: &ProviderFarm, keys: &str) -> Self {
        let mut map = include_str!("../../../../../deploy/maps/physics.toml").to_owned();
        for (port, url) in [7501, 7502, 7503].into_iter().zip(farm.urls()) {
            map = map.replace(&format!("http://127.0.0.1:{port}"), url);
        }
        Self::start(&map, keys)
    }

    /// Of a map, with keys of `[lookup]`.
    pub fn start(map: &str, keys: &str) -> Self {
        let maps = tempfile::tempdir().expect("a folder");
        std::fs::write(maps.path().join("map.toml"), map).expect("a file");
        let pattern = maps.path().join("*.toml");
        let text = format!(
            "[lookup]\nlisten = \"127.0.0.1:0\"\nmaps = \"{}\"\n{keys}\n",
            pattern.display()
        );
        let config: LookupConfig = parse("test.toml", &text, Lookup::read)
            .unwrap_or_else(|problems| panic!("{problems}"))
            .expect("there are look-ups");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        listener.set_nonblocking(true).expect("a socket option");
        let address = listener.local_addr().expect("an address");
        let shutdown = Shutdown::new(Duration::from_secs(5));
        let options = LoneOptions {
            shards: ShardsOptions { shards: 2, outbound_max: 1_000, ..ShardsOptions::default() },
            listeners: vec![listener],
            shutdown: shutdown.clone(),
            tracer: Tracer::off(),
            ports: Ports::default(),
        };
        let service = LoneService::start(config, options);
        let service = service.unwrap_or_else(|error| panic!("{error}"));
        Self { address, shutdown, service: Some(service), _maps: maps }
    }

    /// The answer to `GET /lookup?query=…`, with other parameters.
    #[track_caller]
    pub fn query(&self, query: &str, parameters: &str) -> Value {
        let target = format!("/lookup?query={}{parameters}", encoded(query));
        let answer = self.get(&target);
        assert!(matches!(answer.status, 200 | 202), "{query}: {}", answer.body);
        answer.json()
    }

    /// The value of a metric without labels.
    pub fn metric(&self, name: &str) -> u64 {
        let mut exposition = Exposition::default();
        self.service.as_ref().expect("they run").expose(&mut exposition);
        let page = exposition.text();
        let line = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.expect("it is exposed").parse().expect("it is whole")
    }

    pub fn memories(&self) -> &LookupMemories {
        self.service.as_ref().expect("they run").service().memories()
    }

    /// The id of a query that has begun.
    pub fn begin(&self, query: &str) -> String {
        let body = serde_json::json!({ "query": query }).to_string();
        let answer = send(self.address, "POST", "/lookup", &[], &body);
        assert!(matches!(answer.status, 200 | 202), "{}", answer.body);
        answer.json()["id"].as_str().expect("an id").to_owned()
    }

    pub fn get(&self, target: &str) -> Answer {
        send(self.address, "GET", target, &[], "")
    }
}

impl Drop for Lookups {
    fn drop(&mut self) {
        self.shutdown.begin();
        if let Some(service) = self.service.take() {
            service.join().expect("it ends well");
        }
    }
}

/// A response.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    head: String,
    pub body: String,
}

impl Answer {
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("no JSON: {}", self.body))
    }

    pub fn field(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().skip(1).filter_map(|line| line.split_once(": "));
        lines.into_iter().find(|(of, _)| of.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

/// Sends a request of HTTP/1.0, whose answer ends with the connection.
#[track_caller]
pub fn send(address: SocketAddr, method: &str, target: &str, lines: &[&str], body: &str) -> Answer {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket option");
    let lines: String = lines.iter().map(|line| format!("{line}\r\n")).collect();
    let length = body.len();
    let request = format!(
        "{method} {target} HTTP/1.0\r\nHost: localhost\r\nContent-Length: {length}\r\n{lines}\r\n{body}"
    );
    stream.write_all(request.as_bytes()).expect("it reads");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("an answer");
    let (head, body) = text.split_once("\r\n\r\n").expect("a head");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    Answer { status, head: head.to_owned(), body: body.to_owned() }
}

/// Percent-encoded.
pub fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02x}")).collect()
}

/// The state of each provider, in their order.
pub fn states(answer: &Value) -> Vec<&str> {
    let providers = answer["providers"].as_array().expect("a list");
    providers.iter().map(|of| of["state"].as_str().expect("a text")).collect()
}
