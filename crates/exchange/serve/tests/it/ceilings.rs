//! Ceilings of one auction with ten DSPs, over either version of HTTP: allocations, and system calls of
//! the shard's thread.
//!
//! Counts, never times. The tests' DSPs and caller allocate nothing during the measurement, so the
//! allocator's counts are the exchange's; strace counts system calls.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use exchange_serve::Exchange;
use faults::process::isolated;
use http2::frame::{self, FrameHeader, FrameType};
use record::RecordService;
use runtime::service::{LoneOptions, LoneService, Ports, RunningService as _};
use runtime::shards::ShardsOptions;
use runtime::shutdown::Shutdown;
use runtime::traces::Tracer;
use stats_alloc::{Region, Stats};
use testbed::dsp::{self, DspProfile, Fleet};
use testbed::server::{ServerOptions, ServerTls};

use crate::ALLOCATOR;
use crate::fixtures::{offer_record, sections};

const DSPS: usize = 10;
const BIDDERS: usize = 3;
/// Auctions before the measurement: connections open and buffers grow.
const WARM_UP: usize = 50;

/// Allocations, reallocations included, of one auction.
const ALLOCATIONS_MAX: f64 = 85.0;
/// Bytes allocated for one auction.
const BYTES_MAX: f64 = 37_000.0;
/// System calls of one auction: a write and a read for each DSP and the caller, and at worst a
/// wait before each read.
const CALLS_MAX: f64 = 34.0;
/// The same under TLS, whose DSPs respond one by one, so that there are more waits.
const TLS_CALLS_MAX: f64 = 40.0;

/// How DSPs are spoken to.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Version {
    Http1,
    Http2,
    /// HTTP/1.1 under TLS, to simulated DSPs, for system calls only: they allocate.
    Tls,
}

impl Version {
    const ALL: [Self; 3] = [Self::Http1, Self::Http2, Self::Tls];

    /// As `[[dsp]] http` names it.
    fn label(self) -> &'static str {
        if self == Self::Http2 { "2" } else { "1.1" }
    }
}

/// Ten DSPs on one thread: all are called before the first responds.
struct Dsps {
    /// Their tables.
    tables: String,
    thread: Option<JoinHandle<()>>,
    _fleet: Option<Fleet>,
}

impl Dsps {
    fn start(request: &serde_json::Value, version: Version) -> Self {
        if version == Version::Tls {
            return Self::start_tls();
        }
        let bind = |_| TcpListener::bind("127.0.0.1:0").expect("a free port");
        let listeners: Vec<_> = (0..DSPS).map(bind).collect();
        let address = |listener: &TcpListener| listener.local_addr().expect("an address");
        let urls = listeners.iter().map(|listener| format!("http://{}/bid", address(listener)));
        let tables = tables(urls, version, "");
        let answers: Vec<_> = (0..DSPS).map(|dsp| Answer::new(request, dsp, version)).collect();
        let thread = std::thread::spawn(move || answer_all(&listeners, answers, version));
        Self { tables, thread: Some(thread), _fleet: None }
    }

    fn start_tls() -> Self {
        let local = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let (tls, authority) = ServerTls::generated(local).expect("a certificate");
        let seats = vec!["s".to_owned()];
        let profile = |seed| DspProfile {
            seed,
            no_bid_ppm: 0,
            seats: seats.clone(),
            ..DspProfile::default()
        };
        let options = ServerOptions { tls: Some(tls), ..ServerOptions::default() };
        let fleet = dsp::start((0..DSPS as u64).map(profile).collect(), &options);
        let fleet = fleet.expect("a fleet");
        let urls = (0..DSPS).map(|dsp| fleet.url(dsp));
        let tables =
            tables(urls, Version::Tls, &format!("seats = [\"s\"]\nca = '''{authority}'''\n"));
        Self { tables, thread: None, _fleet: Some(fleet) }
    }
}

/// Tables of DSPs, each with these keys.
fn tables(urls: impl Iterator<Item = String>, version: Version, keys: &str) -> String {
    let http = version.label();
    let table = |(index, url): (usize, String)| {
        format!("[[dsp]]\nid = \"d{index}\"\nurl = {url:?}\nhttp = {http:?}\n{keys}")
    };
    urls.enumerate().map(table).collect()
}

/// A response with space for the auction's id, and over HTTP/2 for that of the stream.
struct Answer {
    bytes: Vec<u8>,
    id_at: Option<usize>,
    /// Where the stream's id is.
    streams_at: Vec<usize>,
}

const ID_BYTES: usize = 32;
/// Place of the stream's id in a frame.
const STREAM_AT: usize = 5;

impl Answer {
    fn new(request: &serde_json::Value, dsp: usize, version: Version) -> Self {
        let body = if dsp < BIDDERS { Self::body(request, dsp) } else { String::new() };
        let (mut bytes, mut streams_at) = (Vec::new(), Vec::new());
        match (version, body.is_empty()) {
            (Version::Http1 | Version::Tls, true) => {
                bytes.extend(b"HTTP/1.1 204 No Content\r\n\r\n");
            }
            (Version::Http1 | Version::Tls, false) => {
                let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
                bytes.extend((head + &body).as_bytes());
            }
            // `:status` 204 and 200 of the static table.
            (Version::Http2, true) => {
                streams_at.push(STREAM_AT);
                frame::write_headers(&mut bytes, 0, &[0x89], true);
            }
            (Version::Http2, false) => {
                streams_at.push(STREAM_AT);
                frame::write_headers(&mut bytes, 0, &[0x88], false);
                streams_at.push(bytes.len() + STREAM_AT);
                frame::write_data(&mut bytes, 0, body.as_bytes(), true);
            }
        }
        let key = r#"{"id":""#;
        let id_at = find(&bytes, key.as_bytes()).map(|at| at + key.len());
        Self { bytes, id_at, streams_at }
    }

    fn body(request: &serde_json::Value, dsp: usize) -> String {
        let imp = &request["imp"][0];
        let (id, blank) = (&imp["id"], "-".repeat(ID_BYTES));
        let size = &imp["banner"]["format"][0];
        let (w, h) = (&size["w"], &size["h"]);
        let price = 20 + dsp;
        let markup = "m".repeat(900);
        let bid = format!(
            r#"{{"id":"b{dsp}","impid":{id},"price":{price}.5,"adm":"{markup}","crid":"c","w":{w},"h":{h},"mtype":1,"adomain":["advertiser.example"]}}"#
        );
        format!(r#"{{"id":"{blank}","seatbid":[{{"bid":[{bid}]}}]}}"#)
    }
}

fn answer_all(listeners: &[TcpListener], mut answers: Vec<Answer>, version: Version) {
    let accept = |listener: &TcpListener| listener.accept().expect("a connection").0;
    let mut streams: Vec<_> = listeners.iter().map(accept).collect();
    for stream in &mut streams {
        stream.set_nodelay(true).expect("a socket option");
        if version == Version::Http2 {
            let mut greeting = Vec::new();
            let settings = [(frame::SETTING_INITIAL_WINDOW_SIZE, 1 << 20)];
            frame::write_settings(&mut greeting, &settings);
            // Enough for all requests of a test.
            frame::write_window_update(&mut greeting, 0, 1 << 30);
            stream.write_all(&greeting).expect("an open connection");
        }
    }
    let mut buffer = vec![0; 64 * 1024];
    loop {
        for (stream, answer) in streams.iter_mut().zip(&mut answers) {
            let read = match version {
                Version::Http1 | Version::Tls => read_message(stream, &mut buffer),
                Version::Http2 => read_stream(stream, &mut buffer),
            };
            let Some((body, end)) = read else { return };
            for at in &answer.streams_at {
                let id = body - frame::FRAME_HEADER_BYTES + STREAM_AT;
                answer.bytes[*at..at + 4].copy_from_slice(&buffer[id..id + 4]);
            }
            if let Some(at) = answer.id_at {
                let key = b"\"id\":\"";
                let found =
                    find(&buffer[body..end], key).expect("a request has an id, and it comes first");
                let id = body + found + key.len();
                answer.bytes[at..at + ID_BYTES].copy_from_slice(&buffer[id..id + ID_BYTES]);
            }
        }
        for (stream, answer) in streams.iter_mut().zip(&answers) {
            if stream.write_all(&answer.bytes).is_err() {
                return;
            }
        }
    }
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}

/// Reads the frames of one request, and those that come with it. Returns the bounds of its body.
/// Allocates nothing.
fn read_stream(stream: &mut TcpStream, buffer: &mut [u8]) -> Option<(usize, usize)> {
    let mut filled = 0;
    loop {
        let is_first = buffer[..filled].starts_with(frame::PREFACE);
        let (mut at, mut found) = (if is_first { frame::PREFACE.len() } else { 0 }, None);
        while let Some(header) = FrameHeader::read(&buffer[at..filled]) {
            let body = at + frame::FRAME_HEADER_BYTES;
            at = body + header.length;
            if header.kind == FrameType::Data as u8 {
                assert!(found.is_none(), "one request at a time");
                found = Some((body, at));
            }
            if filled <= at {
                break;
            }
        }
        if at == filled && found.is_some() {
            return found;
        }
        match stream.read(&mut buffer[filled..]) {
            Ok(0) | Err(_) => return None,
            Ok(read) => filled += read,
        }
    }
}

/// Reads one message with a content length. Returns the bounds of its body. Allocates nothing.
fn read_message(stream: &mut TcpStream, buffer: &mut [u8]) -> Option<(usize, usize)> {
    let mut filled = 0;
    loop {
        if let Some(body) = find(&buffer[..filled], b"\r\n\r\n").map(|end| end + 4) {
            let head = &buffer[..body];
            let length = find(head, b"content-length: ").map_or(0, |at| {
                let digits = head[at + 16..].iter().take_while(|byte| byte.is_ascii_digit());
                digits.fold(0, |length, digit| length * 10 + usize::from(digit - b'0'))
            });
            if body + length <= filled {
                assert_eq!(filled, body + length, "one message at a time");
                return Some((body, filled));
            }
        }
        match stream.read(&mut buffer[filled..]) {
            Ok(0) | Err(_) => return None,
            Ok(read) => filled += read,
        }
    }
}

/// An exchange, its DSPs and its caller.
struct Rig {
    caller: TcpStream,
    request: Vec<u8>,
    buffer: Vec<u8>,
    exchange: LoneService<Exchange>,
    record: Option<Arc<RecordService>>,
    shutdown: Shutdown,
    dsps: Dsps,
}

impl Rig {
    /// With a record at this path, or without one.
    fn start(record: Option<&Path>, version: Version) -> Self {
        let body = testbed::traffic::reference_request();
        let dsps = Dsps::start(&serde_json::from_slice(&body).expect("JSON"), version);
        // strace slows everything down.
        let body = String::from_utf8(body).expect("UTF-8");
        let body = body.replacen("\"tmax\":250", "\"tmax\":20000", 1);
        let mut text =
            "[exchange]\ntmax_max = \"20s\"\n[currency]\nrates = { EUR = \"1.08\" }\n".to_owned();
        if let Some(directory) = record {
            text.push_str(&format!("[record]\ndirectory = {directory:?}\n"));
        }
        text.push_str(&dsps.tables);
        let (config, record) = sections(&text);
        let mut ports = Ports::default();
        let record = offer_record(record.as_ref(), &mut ports).expect("it opens");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        listener.set_nonblocking(true).expect("a socket option");
        let address = listener.local_addr().expect("an address");
        let shutdown = Shutdown::new(Duration::from_secs(20));
        let options = ShardsOptions { connections_max: 10, ..ShardsOptions::default() };
        let options = LoneOptions {
            shards: options,
            listeners: vec![listener],
            shutdown: shutdown.clone(),
            tracer: Tracer::off(),
            ports,
        };
        let exchange = LoneService::start(config, options).expect("it starts");
        let caller = TcpStream::connect(address).expect("it listens");
        caller.set_nodelay(true).expect("a socket option");
        let head = "POST /openrtb2/auction HTTP/1.1\r\nhost: x\r\ncontent-type: application/json";
        let request = format!("{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        let (request, buffer) = (request.into_bytes(), vec![0; 64 * 1024]);
        Self { caller, request, buffer, exchange, record, shutdown, dsps }
    }

    fn auctions(&mut self, count: usize) {
        for _ in 0..count {
            self.caller.write_all(&self.request).expect("an open connection");
            read_message(&mut self.caller, &mut self.buffer).expect("an answer");
            assert!(self.buffer.starts_with(b"HTTP/1.1 200"), "it is sold");
        }
    }

    fn finish(self) {
        drop(self.caller);
        self.shutdown.begin();
        self.exchange.join().expect("no shard panics");
        if let Some(record) = self.record {
            record.close().expect("it is closed");
        }
        if let Some(thread) = self.dsps.thread {
            thread.join().expect("the DSPs end with their connections");
        }
    }
}

/// A record is written into a reused buffer, and waits in a ring.
#[test]
fn a_record_allocates_nothing() {
    isolated(|| {
        let directory = tempfile::tempdir().expect("a directory");
        let without = allocated(None, Version::Http1);
        let with = allocated(Some(directory.path()), Version::Http1);
        // Many auctions share the allocations of the log's thread per group.
        assert!(with - without < 0.5, "{with} allocations with a record, {without} without");
    });
}

#[test]
fn allocations() {
    isolated(|| {
        for version in [Version::Http1, Version::Http2] {
            let allocations = allocated(None, version);
            assert!(allocations <= ALLOCATIONS_MAX, "{version:?}: {allocations} allocations");
        }
    });
}

/// Allocations of one auction.
#[expect(clippy::print_stdout, reason = "the measured numbers")]
#[expect(clippy::cast_precision_loss, reason = "small counts")]
fn allocated(record: Option<&Path>, version: Version) -> f64 {
    const AUCTIONS: usize = 700;
    let mut rig = Rig::start(record, version);
    rig.auctions(WARM_UP);
    // The log's buffer grows once, at a pause of the disk; auctions' leaks would recur in every
    // round.
    let kept = |counted: &Stats| counted.bytes_allocated as f64 - counted.bytes_deallocated as f64;
    let rounds = [(); 3].map(|()| {
        let region = Region::new(ALLOCATOR);
        rig.auctions(AUCTIONS);
        region.change()
    });
    let is_steady = |counted: &Stats| kept(counted) / (AUCTIONS as f64) < 16.0;
    let steady = rounds.into_iter().filter(is_steady);
    let counted = steady.min_by_key(|counted| counted.allocations + counted.reallocations);
    let counted = counted.expect("auctions leave nothing behind");
    rig.finish();
    let allocations = (counted.allocations + counted.reallocations) as f64 / AUCTIONS as f64;
    let bytes = counted.bytes_allocated as f64 / AUCTIONS as f64;
    println!(
        "one auction, {DSPS} DSPs, {version:?}: {allocations:.1} allocations, {bytes:.0} bytes"
    );
    assert!(bytes <= BYTES_MAX, "{bytes} bytes allocated");
    allocations
}

/// The variable with the number of auctions of the traced process.
const AUCTIONS_KEY: &str = "CEILINGS_AUCTIONS";
/// That with the name of the version.
const VERSION_KEY: &str = "CEILINGS_VERSION";

#[test]
#[expect(clippy::print_stdout, reason = "the measured numbers")]
#[expect(clippy::print_stderr, reason = "says that it has not run")]
#[expect(clippy::cast_precision_loss, reason = "small counts")]
fn system_calls() {
    if Command::new("strace").arg("-V").output().is_err() {
        eprintln!("SKIPPED: strace is not on the PATH, no system calls were counted");
        return;
    }
    // The difference of two runs leaves out start, warm-up and end.
    const FEW: usize = 100;
    const MANY: usize = 300;
    for version in Version::ALL {
        let more = traced(MANY, version) as f64 - traced(FEW, version) as f64;
        let calls = more / (MANY - FEW) as f64;
        println!("one auction, {DSPS} DSPs, {version:?}: {calls:.1} system calls");
        let most = if version == Version::Tls { TLS_CALLS_MAX } else { CALLS_MAX };
        assert!(calls <= most, "{version:?}: {calls} system calls");
    }
}

/// System calls of the shard's thread in a process that runs this many auctions.
fn traced(auctions: usize, version: Version) -> usize {
    let folder = std::env::temp_dir().join(format!("ceilings-{}-{auctions}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for the trace");
    let output = Command::new("strace")
        .args(["-ff", "-qq", "-e", "signal=none", "-o"])
        .arg(folder.join("trace"))
        .arg(std::env::current_exe().expect("a test binary"))
        .args(["--ignored", "--exact", "ceilings::hold_auctions", "--nocapture"])
        .env(AUCTIONS_KEY, auctions.to_string())
        .env(VERSION_KEY, format!("{version:?}"))
        .output()
        .expect("strace runs");
    let text = String::from_utf8_lossy(&output.stdout);
    let thread = text.lines().find_map(|line| line.split_once("shard thread ")).map(|(_, id)| id);
    let thread = thread.unwrap_or_else(|| panic!("strace cannot trace here: {output:?}"));
    let calls = lines_of(&folder.join(format!("trace.{thread}")));
    std::fs::remove_dir_all(&folder).expect("our own folder");
    calls
}

fn lines_of(path: &Path) -> usize {
    std::fs::read_to_string(path).expect("a trace").lines().count()
}

/// The traced process: not a test of its own.
#[test]
#[ignore = "run under strace by `system_calls`"]
#[expect(clippy::print_stdout, reason = "tells the tracer which thread is the shard's")]
fn hold_auctions() {
    let auctions = std::env::var(AUCTIONS_KEY).expect("set by the tracer");
    let name = std::env::var(VERSION_KEY).expect("set by the tracer");
    let version = Version::ALL.into_iter().find(|version| format!("{version:?}") == name);
    let mut rig = Rig::start(None, version.expect("one of them"));
    rig.auctions(WARM_UP + auctions.parse::<usize>().expect("a number"));
    println!("shard thread {}", shard_thread());
    rig.finish();
}

/// The shard's thread id.
fn shard_thread() -> String {
    let tasks = std::fs::read_dir("/proc/self/task").expect("procfs");
    let is_shard = |path: &Path| {
        std::fs::read_to_string(path.join("comm")).is_ok_and(|name| name.trim() == "shard-0")
    };
    let mut paths = tasks.map(|task| task.expect("a task").path());
    let path = paths.find(|path| is_shard(path)).expect("the shard runs");
    path.file_name().expect("a thread id").to_string_lossy().into_owned()
}
