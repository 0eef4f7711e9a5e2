//! A process that spends, from its start until it is killed; its DSP, and the protocols of both.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStderr, Stdio};
use std::sync::Arc;
use std::time::Duration;

use faults::process::kill;
use serde_json::Value;
use testbed::server::{
    self, ConnectionCounters, ContentFault, ServerBehaviour, ServerOptions, ServerRequest,
    ServerSchedule, ServiceReply, SimulatedService,
};

use crate::program::{PATIENCE, message, signal, vickrey};

/// The DSP's seat has an account of this name.
pub const SEAT: &str = "buyer";

/// A DSP that bids on every request for its seat, with these CPMs in turn, over either version of
/// HTTP. Serves until the tests end.
pub fn dsp(prices: &'static [&'static str]) -> SocketAddr {
    let options = ServerOptions::default();
    let responder = |_, _: &str| SeatResponder { prices, asked: 0, counters: Arc::default() };
    let servers = server::start(&options, vec![ServerSchedule::default()], responder).unwrap();
    Box::leak(Box::new(servers)).addresses()[0]
}

struct SeatResponder {
    prices: &'static [&'static str],
    asked: usize,
    counters: Arc<ConnectionCounters>,
}

/// The DSP has no faults.
#[derive(Clone, Debug, PartialEq)]
enum NoFault {}

impl ContentFault for NoFault {
    fn problem(&self) -> Option<&'static str> {
        match *self {}
    }
}

impl SimulatedService for SeatResponder {
    type Fault = NoFault;
    type Change = ();

    fn respond(&mut self, request: &ServerRequest<'_>, out: &mut Vec<u8>) -> ServiceReply {
        let request: Value = serde_json::from_slice(request.body).unwrap();
        let price = self.prices[self.asked % self.prices.len()];
        let bid = format!(
            r#"{{"id":"b","impid":"1","price":{price},"adm":"<p>","crid":"c","w":300,"h":250}}"#
        );
        let id = request["id"].as_str().unwrap();
        let body = format!(r#"{{"id":"{id}","seatbid":[{{"seat":"{SEAT}","bid":[{bid}]}}]}}"#);
        out.extend(server::whole_answer(body.as_bytes()));
        // Calls overlap, and the answers of one connection come in another order than the calls.
        self.asked += 1;
        ServiceReply::Whole(Duration::from_millis((self.asked % 3) as u64))
    }

    fn behave(&mut self, _: &ServerBehaviour<NoFault>) {}

    fn change(&mut self, (): ()) {}

    fn connections(&self) -> &ConnectionCounters {
        &self.counters
    }
}

/// The configuration of all runs: the listener, the table of the DSP, the folders, and further keys
/// of budgets.
pub fn configure(folder: &Path, dsp_table: &str, budgets: &str) {
    let directory = folder.join("budgets");
    std::fs::create_dir(folder.join("campaigns.d")).unwrap();
    let budgets = format!(
        "[budgets]\ndirectory = {directory:?}\ncampaigns = \"campaigns.d/*.toml\"\n{budgets}\n"
    );
    configure_exchange(folder, &(budgets + dsp_table));
}

/// An exchange with notices and a record, and these tables.
pub fn configure_exchange(folder: &Path, tables: &str) {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let record = folder.join("record");
    let text = format!(
        "[runtime]\nshards = 2\n[admin]\nlisten = \"127.0.0.1:0\"\n\
         [record]\ndirectory = {record:?}\n\
         [exchange]\nlisten = \"{port}\"\ntmax_max = \"5s\"\nanswer_reserve = \"200ms\"\n\
         [exchange.notices]\nurl = \"http://{port}/n/\"\n{tables}"
    );
    std::fs::write(folder.join("vickrey.toml"), text).unwrap();
}

/// The table of a DSP that has [`SEAT`]. It is called over this version of HTTP.
pub fn dsp_table(id: &str, dsp: SocketAddr, http: &str) -> String {
    format!(
        "[[dsp]]\nid = {id:?}\nurl = \"http://{dsp}/bid\"\nhttp = {http:?}\nseats = [{SEAT:?}]\n\
         timeout = \"5s\"\n"
    )
}

/// Defines the accounts and campaigns from the next start on.
pub fn define(folder: &Path, text: &str) {
    std::fs::write(folder.join("campaigns.d/all.toml"), text).unwrap();
}

/// A campaign of `account` that starts at once, with these further keys.
pub fn campaign(id: &str, account: &str, keys: &str) -> String {
    format!(
        "[[campaign]]\nid = {id:?}\naccount = {account:?}\nstart = \"2026-01-01\"\nend = \"2126-01-01\"\n\
         strategy = {{ name = \"asap\" }}\n{keys}\n\
         creative = [{{ id = \"c\", format = \"banner\", size = \"300x250\", markup = \"<p>\", \
         domains = [\"a.example\"] }}]\n"
    )
}

/// A process that is starting, and its output.
pub struct Starting {
    child: Child,
    lines: std::io::Lines<BufReader<ChildStderr>>,
}

impl Starting {
    pub fn new(folder: &Path) -> Self {
        let mut command = vickrey(&["serve", "--config"]);
        command.arg(folder.join("vickrey.toml"));
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        Self { child, lines }
    }

    /// Kills it after `said` lines of output, or once it accepts requests.
    pub fn kill_after(mut self, said: usize) {
        for line in self.lines.by_ref().take(said) {
            if line.unwrap().contains("http://") {
                break;
            }
        }
        kill(&mut self.child);
    }

    /// Waits until it accepts requests.
    #[expect(clippy::print_stderr, reason = "a test that fails is told why")]
    pub fn ready(mut self) -> Life {
        let mut log = Vec::new();
        let mut after = |before: &str| {
            for line in self.lines.by_ref().map_while(Result::ok) {
                if let Some((_, after)) = line.split_once(before) {
                    return after.split(['/', ',']).next().unwrap().to_owned();
                }
                log.push(line);
            }
            panic!("it has ended: {}", log.join("\n"));
        };
        let callers = after("taking bid requests at http://");
        let admin = after("metrics and health at http://");
        // Reads its further output, lest it block, and prints its complaints.
        let lines = self.lines;
        std::thread::spawn(move || {
            let complaints = lines.map_while(Result::ok).filter(|line| line.contains("ERROR"));
            complaints.for_each(|line| eprintln!("{line}"));
        });
        Life { child: self.child, callers, admin }
    }
}

/// A process that accepts requests.
pub struct Life {
    child: Child,
    callers: String,
    admin: String,
}

impl Life {
    pub fn begin(folder: &Path) -> Self {
        Starting::new(folder).ready()
    }

    pub fn kill(mut self) {
        kill(&mut self.child);
    }

    /// Stops it as an operator does.
    pub fn stop(mut self) {
        signal(&self.child, "-TERM");
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status}");
    }

    /// Another connection of a caller.
    pub fn caller(&self) -> Caller {
        Caller(TcpStream::connect(&self.callers).ok())
    }

    /// The admin API's view of an account or a campaign.
    pub fn told(&self, kind: &str, of: &str, what: &str) -> Value {
        serde_json::from_str(&self.admin_page(&format!("/v1/{kind}s/{of}/{what}"))).unwrap()
    }

    /// A metric without labels, by its name without prefix.
    pub fn metric(&self, name: &str) -> u64 {
        let page = self.admin_page("/metrics");
        let line = page.lines().find_map(|line| line.strip_prefix(&format!("vickrey_{name} ")));
        line.unwrap_or_else(|| panic!("no {name} in {page}")).parse().unwrap()
    }

    fn admin_page(&self, path: &str) -> String {
        let mut caller = Caller(TcpStream::connect(&self.admin).ok());
        let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n");
        let (head, body) = caller.send(&request).expect("an answer");
        assert!(head.starts_with("http/1.1 200"), "{head} {body}");
        body
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        // It may have ended already.
        let _ended = (self.child.kill(), self.child.wait());
    }
}

/// An amount in the format of files.
pub fn money(nanos: u64) -> String {
    format!("\"{}.{:09}\"", nanos / 1_000_000_000, nanos % 1_000_000_000)
}

/// A win: the campaign or seat, its price, and its beacon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sold {
    pub winner: String,
    pub nanos: u64,
    pub beacon: String,
}

/// A caller that requests ads, over one connection as long as it lives.
pub struct Caller(Option<TcpStream>);

impl Caller {
    /// None if there is no response any more.
    fn send(&mut self, request: &str) -> Option<(String, String)> {
        let answered = self.0.take().and_then(|mut stream| {
            stream.set_read_timeout(Some(PATIENCE)).ok()?;
            stream.write_all(request.as_bytes()).ok()?;
            message(&mut stream).map(|answer| (answer, stream))
        });
        let (answer, stream) = answered?;
        self.0 = Some(stream);
        Some(answer)
    }

    /// The winner of an auction, if any. None if there is no response.
    pub fn auction(&mut self) -> Option<Option<Sold>> {
        let body = r#"{"id":"r","at":1,"imp":[{"id":"1","banner":{"w":300,"h":250}}]}"#;
        let head = format!(
            "POST /openrtb2/auction HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n",
            body.len()
        );
        let (head, answer) = self.send(&format!("{head}{body}"))?;
        if head.starts_with("http/1.1 204") {
            return Some(None);
        }
        assert!(head.starts_with("http/1.1 200"), "{head} {answer}");
        let answer: Value = serde_json::from_str(&answer).unwrap();
        let bid = &answer["seatbid"][0]["bid"][0];
        let winner = bid["cid"].as_str().unwrap_or(SEAT).to_owned();
        let cpm = units::Cpm::parse(&bid["price"].to_string(), units::Rounding::Up).unwrap();
        let nanos = cpm.micros();
        let (_, beacon) = bid["adm"].as_str().unwrap().split_once("/n/").unwrap();
        let beacon = beacon.split(['"', '\\']).next().unwrap().to_owned();
        Some(Some(Sold { winner, nanos, beacon }))
    }

    /// Calls a beacon. None if there is no response.
    pub fn bill(&mut self, beacon: &str) -> Option<()> {
        let (head, _) = self.send(&format!("GET /n/{beacon} HTTP/1.1\r\nhost: x\r\n\r\n"))?;
        assert!(head.starts_with("http/1.1 200"), "{head}");
        Some(())
    }
}
