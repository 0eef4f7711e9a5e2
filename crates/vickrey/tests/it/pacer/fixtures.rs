//! A pacer with two accounts and their clients, and frames written by hand.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::path::Path;
use std::time::Duration;

use pacer_client::{
    AuthorisedAmount, AuthorisedBid, Candidate, DecisionCode, Offer, PacerClient,
    PacerClientOptions, SpendRequest,
};
use pacer_wire::{FrameKind, Hello, ProtocolError, RawFrame, write_hello};
use units::Cpm;

use crate::operations::fixtures::Server;
use crate::program::{PATIENCE, nanos, until};

/// A budget that no test spends.
pub const BUDGET: &str = "1000.00";

const TABLES: &str = r#"[runtime]
shards = 2
[record]
directory = "record"
[budgets]
directory = "budgets"
campaigns = "campaigns.toml"
lease_period = "20ms"
slice_span = "50ms"
[pacer]
listen = "127.0.0.1:0"
frame_timeout = "300ms"
idle_timeout = "20s"
[pacer.limits]
credit = 8
connections = 3
[[pacer.client]]
id = "dsp-1"
secret = "of dsp 1"
accounts = ["acme"]
[[pacer.client]]
id = "dsp-2"
secret = "of dsp 2"
accounts = ["globex"]
"#;

/// A running pacer.
pub struct Pacer {
    pub server: Server,
}

/// Both accounts, each with the campaigns `spring` and `autumn`.
fn campaigns(strategy: &str) -> String {
    let account = |id: &str| {
        let campaign = |name: &str| {
            format!(
                "[[campaign]]\nid = \"{id}-{name}\"\naccount = \"{id}\"\nbudget = \"{BUDGET}\"\n\
                 start = \"2020-01-01T00:00:00Z\"\nend = \"2100-01-01T00:00:00Z\"\n\
                 {strategy}\n"
            )
        };
        let account =
            format!("[[account]]\nid = \"{id}\"\ncurrency = \"USD\"\ntime_zone = \"UTC\"\n");
        account + &campaign("spring") + &campaign("autumn")
    };
    account("acme") + &account("globex")
}

impl Pacer {
    /// With campaigns that bid their value.
    pub fn start() -> Self {
        Self::with_campaigns(&campaigns("strategy.name = \"asap\""))
    }

    pub fn with_campaigns(file: &str) -> Self {
        Self::with(TABLES, file)
    }

    /// With `[pacer.tls]`.
    pub fn with_tls(table: &str) -> Self {
        Self::with(&format!("{TABLES}{table}"), &campaigns("strategy.name = \"asap\""))
    }

    /// With the record at another place.
    pub fn with_record(directory: &Path) -> Self {
        let own = format!("[record]\ndirectory = {directory:?}");
        let tables = TABLES.replace("[record]\ndirectory = \"record\"", &own);
        Self::with(&tables, &campaigns("strategy.name = \"asap\""))
    }

    fn with(tables: &str, file: &str) -> Self {
        let server = Server::start_without_exchange_beside(tables, ("campaigns.toml", file));
        Self { server }
    }

    pub fn address(&self) -> String {
        self.server.logged("pacing bidders at ")
    }

    /// Lets later starts listen on the port of this one.
    pub fn keep_port(&self) {
        let file = self.server.config_file();
        let text = std::fs::read_to_string(&file).unwrap();
        let own = format!("[pacer]\nlisten = \"{}\"", self.address());
        std::fs::write(&file, text.replace("[pacer]\nlisten = \"127.0.0.1:0\"", &own)).unwrap();
    }

    /// A client of the first account.
    pub fn client(&self) -> PacerClient {
        PacerClient::start(self.options("dsp-1", "of dsp 1"))
    }

    pub fn options(&self, id: &str, secret: &str) -> PacerClientOptions {
        PacerClientOptions::new(self.address(), id, secret)
    }

    /// A campaign's spend in nanos, as the ledger has it.
    pub fn spend(&self, campaign: &str) -> u64 {
        let shown = self.server.get(&format!("/v1/campaigns/{campaign}/spend"));
        nanos(&shown["life"])
    }

    /// Connects and writes bytes; returns what the server says until it closes.
    pub fn raw(&self, bytes: &[u8]) -> Vec<u8> {
        let mut stream = TcpStream::connect(self.address()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(bytes).unwrap();
        // A server that has closed its end already refuses the rest.
        let _gone = stream.shutdown(Shutdown::Write);
        let mut answer = Vec::new();
        let _reset = stream.read_to_end(&mut answer);
        answer
    }
}

/// The hello of the first client.
pub fn hello() -> Vec<u8> {
    let mut bytes = Vec::new();
    write_hello(&mut bytes, 1, &Hello::new("dsp-1", "of dsp 1", 65_536));
    bytes
}

/// The error at the end of what a server said.
pub fn error_of(bytes: &[u8]) -> Option<ProtocolError> {
    let (mut rest, mut error) = (bytes, None);
    while let Some(frame) = RawFrame::read(rest, 1 << 20).unwrap() {
        rest = &rest[frame.bytes.len()..];
        if frame.kind == FrameKind::Error {
            error = frame.error().unwrap().0;
        }
    }
    error
}

pub fn cpm(micros: u64) -> Cpm {
    Cpm::new(micros).unwrap()
}

/// A request that `spring` of the first account may bid on, at a fixed price.
pub fn request(client: &PacerClient, id: u64, micros: u64) -> SpendRequest {
    let campaign = client.campaign("acme", "acme-spring").expect("there is a catalogue").handle;
    let offer = Offer::Price(cpm(micros));
    SpendRequest::new(id, &[Candidate { campaign, offer, minimum: Cpm::ZERO }])
}

/// A long time for a decision.
pub const WITHIN: Duration = Duration::from_secs(10);

/// A runtime for a test's clients.
pub fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

/// Waits for a connection and for the first grants; returns an authorised bid.
pub fn first_bid(runtime: &tokio::runtime::Runtime, client: &PacerClient) -> AuthorisedBid {
    until("the client is connected", || client.status().is_connected);
    let mut bid = None;
    until("money is granted", || {
        let request = request(client, 1, 1_000_000);
        match runtime.block_on(client.decide(request, WITHIN)) {
            Some(Ok(authorised)) => bid = Some(authorised),
            Some(Err(DecisionCode::Unavailable)) | None => (),
            Some(Err(code)) => panic!("it is refused: {code:?}"),
        }
        bid.is_some()
    });
    bid.expect("it waited for it")
}

/// What a bid at a price authorises, in nanos for one impression.
pub fn amount(bid: &AuthorisedBid) -> u64 {
    match bid.amount {
        AuthorisedAmount::Price(price) => price.micros(),
        AuthorisedAmount::Cost(cost) => cost.get(),
    }
}
