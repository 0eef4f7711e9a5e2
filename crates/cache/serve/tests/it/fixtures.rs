//! A cache on shards of its own, and a client that reads bytes.

mod origin;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use cache_serve::{Cache, CacheConfig};
use runtime::config::parse;
use runtime::service::{LoneOptions, LoneService, Ports, Service as _};
use runtime::shards::{AdmissionLimits, ShardsOptions};
use runtime::shutdown::Shutdown;
use runtime::traces::Tracer;

use origin::Origin;

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

/// A running cache in front of one origin.
pub struct Proxy {
    pub address: SocketAddr,
    pub origin: Origin,
    shutdown: Shutdown,
    service: Option<LoneService<Cache>>,
}

impl Proxy {
    /// With one route, whose keys may be more than the origin's.
    pub fn start(keys: &str) -> Self {
        Self::with("", keys)
    }

    /// With keys of `[cache]` too.
    pub fn with(cache_keys: &str, route_keys: &str) -> Self {
        let origin = Origin::start();
        let address = origin.address;
        Self::start_before(address, origin, cache_keys, route_keys)
    }

    /// Likewise, before an origin that is not scripted.
    pub fn before(address: SocketAddr, cache_keys: &str, route_keys: &str) -> Self {
        Self::start_before(address, Origin::start(), cache_keys, route_keys)
    }

    /// Before the origin of a URL.
    pub fn before_url(url: &str, route_keys: &str) -> Self {
        Self::start_on(two_shards(), url, Origin::start(), "", route_keys)
    }

    /// Ends the process, and begins another before the same origin.
    pub fn restarted(mut self, cache_keys: &str, route_keys: &str) -> Self {
        let unused = Origin::start();
        let origin = std::mem::replace(&mut self.origin, unused);
        drop(self);
        let address = origin.address;
        Self::start_before(address, origin, cache_keys, route_keys)
    }

    /// On one shard, with at most so many requests under way.
    pub fn within(in_flight_max: usize) -> Self {
        let origin = Origin::start();
        let overload = AdmissionLimits { in_flight_max, ..AdmissionLimits::default() };
        let shards = ShardsOptions { overload, outbound_max: 100, ..ShardsOptions::default() };
        let url = format!("http://{}", origin.address);
        Self::start_on(shards, &url, origin, "", "")
    }

    /// On one shard, with at most so many connections to the origin.
    pub fn with_connections(outbound_max: usize, route_keys: &str) -> Self {
        let origin = Origin::start();
        let shards = ShardsOptions { outbound_max, ..ShardsOptions::default() };
        let url = format!("http://{}", origin.address);
        Self::start_on(shards, &url, origin, "", route_keys)
    }

    /// On two shards.
    fn start_before(
        address: SocketAddr,
        origin: Origin,
        cache_keys: &str,
        route_keys: &str,
    ) -> Self {
        let url = format!("http://{address}");
        Self::start_on(two_shards(), &url, origin, cache_keys, route_keys)
    }

    fn start_on(
        shards: ShardsOptions,
        url: &str,
        origin: Origin,
        cache_keys: &str,
        route_keys: &str,
    ) -> Self {
        let text = format!(
            "[cache]\nlisten = \"127.0.0.1:0\"\n{cache_keys}\n[[cache.route]]\nid = \"all\"\n\
             origin = \"{url}\"\n{route_keys}\n",
        );
        let config: CacheConfig = parse("test.toml", &text, Cache::read)
            .unwrap_or_else(|problems| panic!("{problems}"))
            .expect("there is a cache");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        listener.set_nonblocking(true).expect("a socket option");
        let address = listener.local_addr().expect("an address");
        let shutdown = Shutdown::new(Duration::from_secs(5));
        let options = LoneOptions {
            shards,
            listeners: vec![listener],
            shutdown: shutdown.clone(),
            tracer: Tracer::off(),
            ports: Ports::default(),
        };
        let service = LoneService::start(config, options).expect("it starts");
        Self { address, origin, shutdown, service: Some(service) }
    }

    pub fn cache(&self) -> &Cache {
        self.service.as_ref().expect("it runs").service()
    }

    pub fn client(&self) -> Client {
        Client::connect(self.address)
    }

    /// The answer to a GET with these header lines.
    pub fn get(&self, target: &str, lines: &[&str]) -> Answer {
        self.client().send("GET", target, lines)
    }
}

fn two_shards() -> ShardsOptions {
    ShardsOptions { shards: 2, outbound_max: 100, ..ShardsOptions::default() }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shutdown.begin();
        let ended = self.service.take().expect("it runs").join();
        if !std::thread::panicking() {
            ended.expect("no shard panics");
        }
    }
}

/// A connection to the cache.
pub struct Client(BufReader<TcpStream>);

impl Client {
    pub fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket option");
        Self(BufReader::new(stream))
    }

    pub fn write(&mut self, bytes: &str) {
        self.0.get_mut().write_all(bytes.as_bytes()).expect("an open connection");
    }

    pub fn send(&mut self, method: &str, target: &str, lines: &[&str]) -> Answer {
        let lines: String = lines.iter().map(|line| format!("{line}\r\n")).collect();
        self.write(&format!("{method} {target} HTTP/1.1\r\nhost: cdn.example\r\n{lines}\r\n"));
        self.answer(method)
    }

    /// The head of the next answer.
    pub fn head(&mut self) -> Answer {
        self.try_head().expect("the connection ends without an answer")
    }

    /// None if the connection ends before it.
    fn try_head(&mut self) -> Option<Answer> {
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            let read = self.0.read_line(&mut line).expect("a line in time");
            if read == 0 {
                return None;
            }
            match line.trim_end() {
                "" => break,
                line => lines.push(line.to_owned()),
            }
        }
        let status = lines
            .remove(0)
            .split(' ')
            .nth(1)
            .and_then(|status| status.parse().ok())
            .expect("a status");
        Some(Answer { status, lines, body: Vec::new(), is_complete: false })
    }

    pub fn answer(&mut self, method: &str) -> Answer {
        self.try_answer(method).expect("the connection ends without an answer")
    }

    /// None if the connection ends before its head.
    pub fn try_answer(&mut self, method: &str) -> Option<Answer> {
        let mut answer = self.try_head()?;
        while answer.status < 200 {
            answer = self.try_head()?;
        }
        let is_empty = method == "HEAD" || matches!(answer.status, 204 | 304);
        if is_empty {
            answer.is_complete = true;
        } else if let Some(length) = answer.field("content-length") {
            let length: usize = length.parse().expect("a number");
            answer.body = vec![0; length];
            let mut read = 0;
            while read < length {
                match self.0.read(&mut answer.body[read..]) {
                    Ok(0) | Err(_) => break,
                    Ok(count) => read += count,
                }
            }
            answer.body.truncate(read);
            answer.is_complete = read == length;
        } else if answer.field("transfer-encoding").is_some() {
            answer.is_complete = self.chunks(&mut answer.body);
        } else {
            self.0.read_to_end(&mut answer.body).expect("the end in time");
            answer.is_complete = true;
        }
        Some(answer)
    }

    /// Whether the last chunk came.
    fn chunks(&mut self, body: &mut Vec<u8>) -> bool {
        loop {
            let mut size = String::new();
            if self.0.read_line(&mut size).unwrap_or(0) == 0 {
                return false;
            }
            let size = usize::from_str_radix(size.trim_end(), 16).expect("a size");
            let mut chunk = vec![0; size + 2];
            if self.0.read_exact(&mut chunk).is_err() {
                return false;
            }
            body.extend_from_slice(&chunk[..size]);
            if size == 0 {
                return true;
            }
        }
    }

    /// So many bytes, as they come.
    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        self.0.read_exact(&mut bytes).expect("bytes in time");
        bytes
    }
}

/// An answer of the cache.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    lines: Vec<String>,
    pub body: Vec<u8>,
    /// Whether the body came to its end.
    pub is_complete: bool,
}

impl Answer {
    /// The values of a field, joined. None if it is absent.
    pub fn field(&self, name: &str) -> Option<String> {
        field(&self.lines, name)
    }

    /// All lines of the head in their order by the alphabet, without what time changes.
    pub fn sorted_lines(&self) -> Vec<String> {
        let without_time = |line: &String| match line.split_once("; ttl=") {
            Some((line, _)) => line.to_owned(),
            None if line.starts_with("age: ") => "age".to_owned(),
            None => line.clone(),
        };
        let mut lines: Vec<_> = self.lines.iter().map(without_time).collect();
        lines.sort_unstable();
        lines
    }

    pub fn text(&self) -> &str {
        str::from_utf8(&self.body).expect("text")
    }

    /// How the cache handled the request, without times.
    pub fn cache(&self) -> String {
        let field = self.field("cache-status").expect("the cache says what it did");
        field.split("; ttl").next().unwrap_or_default().replace("vickrey; ", "")
    }
}

/// The values of a field among lines of a head, joined. None if it is absent.
fn field(lines: &[String], name: &str) -> Option<String> {
    let fields = lines.iter().filter_map(|line| line.split_once(':'));
    let values: Vec<_> = fields
        .filter(|(field, _)| field.eq_ignore_ascii_case(name))
        .map(|(_, value)| value.trim().to_owned())
        .collect();
    (!values.is_empty()).then(|| values.join(", "))
}
