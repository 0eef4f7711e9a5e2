//! A cache with a disk that is killed again and again in the midst of its work: every body is whole and of
//! its URL, and none is older than a purge that was answered.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::thread;

use faults::Chance;
use faults::process::kills;
use serde_json::json;

use crate::operations::fixtures::Server;

const KEYS: usize = 32;

/// Requests that are answered between two kills.
const ANSWERED_MIN: usize = 500;

/// The body of a key: later serial numbers are newer.
fn body(at: usize, serial: u64) -> String {
    format!("{at} {serial} {}", "x".repeat(30_000 + at * 2_000))
}

/// The serial number of a body, which must be whole.
fn serial(at: usize, text: &str) -> u64 {
    let serial = text.split(' ').nth(1).and_then(|serial| serial.parse().ok());
    let serial = serial.unwrap_or_else(|| panic!("{at}: {text:.40}"));
    assert!(text == body(at, serial), "the body of {at} is not whole: {text:.40}");
    serial
}

/// An origin whose every answer is newer than the one before.
fn origin(serials: Arc<AtomicU64>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    // It ends with the test's process.
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let serials = Arc::clone(&serials);
            thread::spawn(move || answer_all(stream, &serials));
        }
    });
    address
}

fn answer_all(stream: TcpStream, serials: &AtomicU64) -> Option<()> {
    let mut lines = BufReader::new(stream);
    let mut target = String::new();
    loop {
        let mut line = String::new();
        if lines.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if let Some(path) = line.strip_prefix("GET /") {
            path.split(' ').next()?.clone_into(&mut target);
        }
        if line.trim_end().is_empty() {
            let body = body(target.parse().ok()?, serials.fetch_add(1, SeqCst));
            let length = body.len();
            let answer = format!(
                "HTTP/1.1 200 OK\r\ncache-control: max-age=600\r\nsurrogate-key: of/{target}\r\n\
                 content-length: {length}\r\n\r\n{body}"
            );
            lines.get_mut().write_all(answer.as_bytes()).ok()?;
        }
    }
}

#[derive(Default)]
struct Model {
    serials: Arc<AtomicU64>,
    /// By key: older bodies are purged.
    purged_before: [AtomicU64; KEYS],
    answered: AtomicUsize,
    purged: AtomicUsize,
    is_over: AtomicBool,
}

impl Model {
    /// Until the server is gone.
    fn ask(&self, address: &str, seed: u64) -> Option<()> {
        let mut chance = Chance::new(seed);
        let mut stream = BufReader::new(TcpStream::connect(address).ok()?);
        while !self.is_over.load(SeqCst) {
            let at = chance.index(KEYS);
            let purged_before = self.purged_before[at].load(SeqCst);
            let request = format!("GET /{at} HTTP/1.1\r\nhost: cdn.example\r\n\r\n");
            stream.get_mut().write_all(request.as_bytes()).ok()?;
            let text = answer(&mut stream)?;
            let serial = serial(at, &text);
            assert!(serial >= purged_before, "{at}: {serial} was purged before {purged_before}");
            self.answered.fetch_add(1, SeqCst);
        }
        None
    }

    fn purge(&self, admin: &str, seed: u64) -> Option<()> {
        let mut chance = Chance::new(seed);
        while !self.is_over.load(SeqCst) {
            let at = chance.index(KEYS);
            let serial = self.serials.load(SeqCst);
            let (body, keys) = match chance.below(6) {
                0 => (json!({ "prefix": "http://cdn.example/1" }), "1"),
                1..3 => (json!({ "surrogate_key": format!("of/{at}") }), ""),
                _ => (json!({ "url": format!("http://cdn.example/{at}") }), ""),
            };
            let body = body.to_string();
            let length = body.len();
            let mut stream = BufReader::new(TcpStream::connect(admin).ok()?);
            let request = format!(
                "POST /v1/cache/purges HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\n\r\n{body}"
            );
            stream.get_mut().write_all(request.as_bytes()).ok()?;
            answer(&mut stream)?;
            let is_met = |other: &usize| match keys {
                "" => *other == at,
                prefix => other.to_string().starts_with(prefix),
            };
            for other in (0..KEYS).filter(is_met) {
                self.purged_before[other].fetch_max(serial, SeqCst);
            }
            self.purged.fetch_add(1, SeqCst);
        }
        None
    }
}

/// The body of an answer 200. None if the connection ends before.
fn answer(stream: &mut BufReader<TcpStream>) -> Option<String> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if stream.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length?.parse().ok()?];
    stream.read_exact(&mut body).ok()?;
    Some(String::from_utf8(body).expect("text"))
}

#[test]
fn a_killed_cache_serves_nothing_damaged_and_nothing_that_was_purged() {
    let model = Model::default();
    let origin = origin(Arc::clone(&model.serials));
    let mut server = Server::start_without_exchange(&format!(
        "[runtime]\nshards = 2\n[cache]\nlisten = \"127.0.0.1:0\"\nmemory = \"1MiB\"\n\
         object_max = \"512KiB\"\n[cache.disk]\nsize = \"64MiB\"\nwrite_all = true\n\
         [[cache.route]]\nid = \"all\"\norigin = \"http://{origin}\"\n"
    ));
    let mut loaded = 0;
    for round in 0..kills(5) {
        let address = server.logged("the cache is at ");
        let admin = server.logged("metrics and health at http://");
        model.is_over.store(false, SeqCst);
        let answered = model.answered.load(SeqCst);
        thread::scope(|scope| {
            let (model, address, admin) = (&model, &address, &admin);
            let asking: Vec<_> =
                (0..4).map(|at| scope.spawn(move || model.ask(address, round * 10 + at))).collect();
            let purging = scope.spawn(move || model.purge(admin, round * 10 + 5));
            while model.answered.load(SeqCst) < answered + ANSWERED_MIN {
                assert!(!asking.iter().any(thread::ScopedJoinHandle::is_finished), "round {round}");
                thread::yield_now();
            }
            loaded += server.scraped("cache_loaded_total{route=\"all\"}");
            server.kill_and_restart();
            model.is_over.store(true, SeqCst);
            for thread in asking.into_iter().chain([purging]) {
                thread.join().expect("what it got was right");
            }
        });
    }
    assert!(loaded > 100 && model.purged.load(SeqCst) > 20, "{loaded} loaded");
}
