//! Budgets from end to end: two campaigns of the house and a DSP's seat with an account, in a process that
//! is killed in the middle. All that is billed is counted here as well, by whoever calls the beacons.

#![expect(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

const PATIENCE: Duration = Duration::from_secs(60);

/// A CPM of 3, 2.5 and 2: the seat's, and the campaigns', of which each may spend so many nanos.
const SEAT: (&str, u64, u64) = ("buyer", 3_000_000, 9_000_000);
const SUMMER: (&str, u64, u64) = ("summer", 2_500_000, 10_000_000);
const AUTUMN: (&str, u64, u64) = ("autumn", 2_000_000, 6_000_000);

const ACCOUNTS: &str = r#"
[[account]]
id = "acme"
currency = "USD"
time_zone = "Asia/Kathmandu"
budget = "0.016"

[[account]]
id = "buyer"
currency = "USD"
budget = "0.009"
seats = ["d/buyer"]

[[campaign]]
id = "summer"
account = "acme"
start = "2026-01-01"
end = "2126-01-01"
budget = "0.01"
bid = { value = "2.5" }
strategy = { name = "asap" }
creative = [{ id = "c", format = "banner", size = "300x250", markup = "<p>", domains = ["a.example"] }]

[[campaign]]
id = "autumn"
account = "acme"
start = "2026-01-01"
end = "2126-01-01"
budget = "0.006"
bid = { price = "2" }
strategy = { name = "asap" }
creative = [{ id = "c", format = "banner", size = "300x250", markup = "<p>", domains = ["a.example"] }]
"#;

/// A DSP that bids 3.00 on every request.
fn dsp() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || bid(stream));
        }
    });
    address
}

fn bid(mut stream: TcpStream) {
    while let Some((_, body)) = message(&mut stream) {
        let request: Value = serde_json::from_str(&body).unwrap();
        let bid = r#"{"id":"b","impid":"1","price":3.0,"adm":"<p>","crid":"c","w":300,"h":250}"#;
        let id = request["id"].as_str().unwrap();
        let body = format!(r#"{{"id":"{id}","seatbid":[{{"seat":"buyer","bid":[{bid}]}}]}}"#);
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
        if stream.write_all(format!("{head}{body}").as_bytes()).is_err() {
            return;
        }
    }
}

/// The next message: its head, and its body as long as it says.
fn message(stream: &mut TcpStream) -> Option<(String, String)> {
    let (mut bytes, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            let length = length.map_or(0, |length| length.trim().parse().unwrap());
            if bytes.len() >= end + 4 + length {
                let body = String::from_utf8_lossy(&bytes[end + 4..end + 4 + length]);
                return Some((head, body.into_owned()));
            }
        }
        match stream.read(&mut buffer) {
            Ok(read @ 1..) => bytes.extend_from_slice(&buffer[..read]),
            Ok(0) | Err(_) => return None,
        }
    }
}

/// One life of the process.
struct Life {
    child: Child,
    callers: String,
    admin: String,
}

impl Life {
    fn begin(folder: &Path) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_vickrey"))
            .args(["serve", "--config"])
            .arg(folder.join("vickrey.toml"))
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        let mut log = Vec::new();
        let mut after = |before: &str| {
            for line in lines.by_ref() {
                if let Some((_, after)) = line.split_once(before) {
                    return after.split(['/', ',']).next().unwrap().to_owned();
                }
                log.push(line);
            }
            panic!("it has ended: {}", log.join("\n"));
        };
        let callers = after("taking bid requests at http://");
        let admin = after("metrics and health at http://");
        // What it says from here on is read, so that it may go on.
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, callers, admin }
    }

    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    fn send(&self, address: &str, request: &str) -> (String, String) {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        message(&mut stream).expect("an answer")
    }

    /// Who wins an auction, and where it is billed; nobody where nobody may spend.
    fn auction(&self) -> Option<(String, String)> {
        let body = r#"{"id":"r","at":1,"imp":[{"id":"1","banner":{"w":300,"h":250}}]}"#;
        let head = format!(
            "POST /openrtb2/auction HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n",
            body.len()
        );
        let (head, answer) = self.send(&self.callers, &format!("{head}{body}"));
        if head.starts_with("http/1.1 204") {
            return None;
        }
        let answer: Value = serde_json::from_str(&answer).unwrap();
        let bid = &answer["seatbid"][0]["bid"][0];
        let winner = bid["cid"].as_str().unwrap_or(SEAT.0).to_owned();
        let (_, beacon) = bid["adm"].as_str().unwrap().split_once("/n/").unwrap();
        let token = beacon.split(['"', '\\']).next().unwrap();
        Some((winner, format!("/n/{token}")))
    }

    fn bill(&self, beacon: &str) {
        let (head, _) =
            self.send(&self.callers, &format!("GET {beacon} HTTP/1.1\r\nhost: x\r\n\r\n"));
        assert!(head.starts_with("http/1.1 200"), "{head}");
    }

    fn spent(&self, of: &str) -> u64 {
        let path = if of == SEAT.0 { "accounts" } else { "campaigns" };
        let request = format!("GET /v1/{path}/{of}/spend HTTP/1.1\r\nhost: x\r\n\r\n");
        let (head, body) = self.send(&self.admin, &request);
        assert!(head.starts_with("http/1.1 200"), "{head} {body}");
        let spend: Value = serde_json::from_str(&body).unwrap();
        let (whole, part) = spend["life"].as_str().unwrap().split_once('.').unwrap_or(("0", ""));
        let nanos: u64 = format!("{part:0<9}").parse().unwrap();
        whole.parse::<u64>().unwrap() * 1_000_000_000 + nanos
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        // It may have ended already.
        let _ended = (self.child.kill(), self.child.wait());
    }
}

fn configure(folder: &Path, dsp: SocketAddr) {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let at = |name: &str| folder.join(name).display().to_string();
    let (record, budgets) = (at("record"), at("budgets"));
    std::fs::create_dir(folder.join("campaigns.d")).unwrap();
    std::fs::write(folder.join("campaigns.d/all.toml"), ACCOUNTS).unwrap();
    let text = format!(
        "[runtime]\nshards = 2\n[admin]\nlisten = \"127.0.0.1:0\"\n\
         [record]\ndirectory = {record:?}\n\
         [exchange]\nlisten = \"{port}\"\ntmax_max = \"5s\"\n\
         [exchange.notices]\nurl = \"http://{port}/n/\"\n\
         [budgets]\ndirectory = {budgets:?}\ncampaigns = \"campaigns.d/*.toml\"\n\
         lease_period = \"20ms\"\nreservation_max = \"2s\"\n\
         [[dsp]]\nid = \"d\"\nurl = \"http://{dsp}/bid\"\nseats = [\"buyer\"]\ntimeout = \"5s\"\n"
    );
    std::fs::write(folder.join("vickrey.toml"), text).unwrap();
}

#[test]
fn all_is_spent_and_no_more_whatever_happens_to_the_process() {
    let folder = tempfile::tempdir().unwrap();
    configure(folder.path(), dsp());
    let mut life = Life::begin(folder.path());
    let mut billed = BTreeMap::from([SEAT, SUMMER, AUTUMN].map(|(id, ..)| (id.to_owned(), 0)));
    let (mut unbilled, mut wins, began) = (Vec::new(), 0, Instant::now());
    let price = |id: &str| [SEAT, SUMMER, AUTUMN].into_iter().find(|it| it.0 == id).unwrap().1;
    while billed != BTreeMap::from([SEAT, SUMMER, AUTUMN].map(|(id, _, all)| (id.to_owned(), all)))
    {
        assert!(began.elapsed() < PATIENCE, "{billed:?} of {wins} wins");
        let Some((winner, beacon)) = life.auction() else {
            std::thread::sleep(Duration::from_millis(5));
            continue;
        };
        wins += 1;
        // Some are never shown: what they hold comes back.
        if wins % 4 == 1 {
            unbilled.push((winner, beacon));
            continue;
        }
        life.bill(&beacon);
        life.bill(&beacon);
        *billed.get_mut(&winner).unwrap() += price(&winner);
        if wins == 6 {
            life.kill();
            life = Life::begin(folder.path());
            // Shown before the end, and told after it: once, however often.
            let (winner, beacon) = unbilled.remove(0);
            life.bill(&beacon);
            life.bill(&beacon);
            *billed.get_mut(&winner).unwrap() += price(&winner);
        }
    }
    assert!(wins > 10 && !unbilled.is_empty(), "{wins}");
    for (id, _, all) in [SEAT, SUMMER, AUTUMN] {
        while life.spent(id) < all {
            assert!(began.elapsed() < PATIENCE, "{id} has spent {} of {all}", life.spent(id));
        }
        assert_eq!(life.spent(id), all, "{id}");
    }
    assert_eq!(life.auction(), None, "nothing is left");
    drop(life);
    let replayed = Command::new(env!("CARGO_BIN_EXE_vickrey"))
        .args(["log", "replay", "--dir"])
        .arg(folder.path().join("record"))
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&replayed.stdout);
    assert!(replayed.status.success(), "{told}");
    assert!(!told.starts_with("0 auctions"), "{told}");
}
