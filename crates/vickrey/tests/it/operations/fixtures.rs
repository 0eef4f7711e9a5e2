//! A `vickrey serve` for a test, with one DSP that never bids, and a simple client.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::program::{self, PATIENCE, message, until, vickrey};

/// The operators' token.
pub const TOKEN: &str = "operators-know-this";

/// A DSP that responds to every request with 204, for the life of the test process.
pub fn dsp() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || no_bids(stream));
        }
    });
    address
}

fn no_bids(mut stream: TcpStream) {
    while message(&mut stream).is_some() {
        if stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").is_err() {
            return;
        }
    }
}

/// A DSP that answers each request with one bid, which this makes, for the life of the test process.
pub fn bidder(bid: fn(&Value) -> Value) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || bids(stream, bid));
        }
    });
    address
}

fn bids(mut stream: TcpStream, bid: fn(&Value) -> Value) {
    while let Some((_, body)) = message(&mut stream) {
        let request: Value = serde_json::from_str(&body).unwrap();
        let body = json!({ "id": request["id"], "seatbid": [bid(&request)] }).to_string();
        let length = body.len();
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length";
        if write!(stream, "{head}: {length}\r\n\r\n{body}").is_err() {
            return;
        }
    }
}

/// The tables of a DSP.
pub fn table(id: &str, address: &str, keys: &str) -> String {
    format!("[[dsp]]\nid = {id:?}\nurl = \"http://{address}/bid\"\n{keys}\n")
}

/// A running exchange; ended when dropped.
pub struct Server {
    child: Child,
    folder: tempfile::TempDir,
    log: Arc<Mutex<String>>,
    admin: String,
    callers: String,
}

/// An answer.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Answer {
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }
}

impl Server {
    /// With a token, one shard, and these tables.
    pub fn start(tables: &str) -> Self {
        Self::start_with("", tables)
    }

    /// Without an exchange: with `[admin]` and these tables.
    pub fn start_without_exchange(tables: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let admin = "[admin]\nlisten = \"127.0.0.1:0\"\n";
        std::fs::write(folder.path().join("vickrey.toml"), format!("{admin}{tables}")).unwrap();
        Self::spawn(folder, Command::new(env!("CARGO_BIN_EXE_vickrey")))
    }

    /// The same, with a file beside the configuration.
    pub fn start_without_exchange_beside(tables: &str, (name, text): (&str, &str)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(name), text).unwrap();
        let admin = "[admin]\nlisten = \"127.0.0.1:0\"\n";
        std::fs::write(folder.path().join("vickrey.toml"), format!("{admin}{tables}")).unwrap();
        Self::spawn(folder, Command::new(env!("CARGO_BIN_EXE_vickrey")))
    }

    /// With more keys of `[runtime]` too.
    pub fn start_with(runtime: &str, tables: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("vickrey.toml");
        std::fs::write(&path, text(runtime, tables)).unwrap();
        Self::run(folder, vickrey(&[]))
    }

    /// With a limit of descriptors.
    pub fn start_within(descriptors: usize, tables: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("vickrey.toml");
        std::fs::write(&path, text("", tables)).unwrap();
        let mut shell = Command::new("sh");
        let script = format!("ulimit -n {descriptors} && exec \"$0\" \"$@\"");
        shell.args(["-c", &script, env!("CARGO_BIN_EXE_vickrey")]);
        Self::run(folder, shell)
    }

    /// An exchange, by a command that takes the arguments of `vickrey`.
    fn run(folder: tempfile::TempDir, command: Command) -> Self {
        let mut server = Self::spawn(folder, command);
        server.callers = server.logged("taking bid requests at http://");
        server
    }

    /// Returns once the admin listener responds.
    fn spawn(folder: tempfile::TempDir, command: Command) -> Self {
        let (child, log) = Self::process(&folder.path().join("vickrey.toml"), command);
        let mut server = Self { child, folder, log, admin: String::new(), callers: String::new() };
        server.admin = server.logged("metrics and health at http://");
        server
    }

    /// Kills the process as it stands, and starts another one in its folder.
    pub fn kill_and_restart(&mut self) {
        self.signal("-KILL");
        self.child.wait().unwrap();
        let command = Command::new(env!("CARGO_BIN_EXE_vickrey"));
        (self.child, self.log) = Self::process(&self.config_file(), command);
        self.admin = self.logged("metrics and health at http://");
    }

    fn process(path: &Path, mut command: Command) -> (Child, Arc<Mutex<String>>) {
        let mut child = command
            .args(["serve", "--config"])
            .arg(path)
            .env("OPERATORS_TOKEN", TOKEN)
            .current_dir(path.parent().expect("it is in a folder"))
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (log, lines) = (Arc::new(Mutex::new(String::new())), child.stderr.take().unwrap());
        let written = Arc::clone(&log);
        std::thread::spawn(move || {
            for line in BufReader::new(lines).lines().map_while(Result::ok) {
                let mut log = written.lock().unwrap();
                log.push_str(&line);
                log.push('\n');
            }
        });
        (child, log)
    }

    /// Waits for a log line with `before`, and returns the word after it.
    #[track_caller]
    pub fn logged(&self, before: &str) -> String {
        until(before, || self.log().contains(before));
        let log = self.log();
        let (_, after) = log.split_once(before).unwrap();
        after.split(['/', ',', '\n']).next().unwrap().to_owned()
    }

    /// The log so far.
    pub fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    pub fn config_file(&self) -> PathBuf {
        self.folder.path().join("vickrey.toml")
    }

    /// Replaces the configuration atomically.
    pub fn configure(&self, runtime: &str, tables: &str) {
        let next = self.folder.path().join("next.toml");
        std::fs::write(&next, text(runtime, tables)).unwrap();
        std::fs::rename(next, self.config_file()).unwrap();
    }

    /// Waits for its end. Returns whether it succeeded.
    pub fn ends_well(&mut self) -> bool {
        self.child.wait().unwrap().success()
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, signal: &str) {
        program::signal(&self.child, signal);
    }

    /// Stops all threads, until `SIGCONT`: the signal is sent before they are stopped.
    pub fn stop(&self) {
        self.signal("-STOP");
        let threads = format!("/proc/{}/task", self.child.id());
        let is_stopped = |thread: std::io::Result<std::fs::DirEntry>| {
            let stat = std::fs::read_to_string(thread.unwrap().path().join("stat")).unwrap();
            // The process state follows the name.
            stat.rsplit_once(") ").unwrap().1.starts_with('T')
        };
        until("all threads are stopped", || std::fs::read_dir(&threads).unwrap().all(is_stopped));
    }

    /// Sends a request with the operators' token and further header lines.
    pub fn ask(&self, method: &str, path: &str, headers: &str) -> Answer {
        self.ask_as(&format!("authorization: Bearer {TOKEN}\r\n{headers}"), method, path)
    }

    /// Sends a request with exactly these header lines.
    pub fn ask_as(&self, headers: &str, method: &str, path: &str) -> Answer {
        send(&self.admin, &format!("{method} {path} HTTP/1.1\r\n{headers}"), "")
    }

    /// Sends JSON with the operators' token.
    pub fn send(&self, method: &str, path: &str, body: &Value) -> Answer {
        let body = body.to_string();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nauthorization: Bearer {TOKEN}\r\ncontent-type: \
             application/json\r\ncontent-length: {}\r\n",
            body.len()
        );
        send(&self.admin, &head, &body)
    }

    #[track_caller]
    pub fn get(&self, path: &str) -> Value {
        let answer = self.ask("GET", path, "");
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()
    }

    /// The address for operators.
    pub fn admin(&self) -> &str {
        &self.admin
    }

    /// The address for bid requests.
    pub fn callers(&self) -> &str {
        &self.callers
    }

    /// The value of a metric, by its name without prefix, with its labels as they are on the page.
    #[track_caller]
    pub fn scraped(&self, metric: &str) -> u64 {
        self.metric(metric).parse().unwrap()
    }

    /// The same as text, because it may be a fraction.
    #[track_caller]
    pub fn metric(&self, metric: &str) -> String {
        let page = self.ask("GET", "/metrics", "").body;
        let wanted = format!("vickrey_{metric} ");
        let line = page.lines().find_map(|line| line.strip_prefix(&wanted));
        line.unwrap_or_else(|| panic!("no {metric} in {page}")).to_owned()
    }

    /// Runs one auction and returns the response's status.
    pub fn auction(&self) -> u16 {
        let mut stream = connect(&self.callers);
        ask_for_bids(&mut stream, "");
        answer(&mut stream).status
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            std::io::stderr().write_all(self.log().as_bytes()).unwrap();
        }
    }
}

/// The whole file.
fn text(runtime: &str, tables: &str) -> String {
    format!(
        "[runtime]\nshards = 1\n{runtime}\n[admin]\nlisten = \"127.0.0.1:0\"\n\
         token = \"env:OPERATORS_TOKEN\"\n[exchange]\nlisten = \"127.0.0.1:0\"\n\
         tmax_max = \"20s\"\n{tables}"
    )
}

pub fn send(address: &str, head: &str, body: &str) -> Answer {
    let mut stream = connect(address);
    let host = if head.contains("\r\nhost: ") { "" } else { "host: localhost\r\n" };
    write!(stream, "{head}{host}connection: close\r\n\r\n{body}").unwrap();
    answer(&mut stream)
}

pub fn connect(address: &str) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Sends a bid request for one banner; `more` are further members, each after a comma.
pub fn ask_for_bids(stream: &mut TcpStream, more: &str) {
    let body = format!(r#"{{"id":"1","imp":[{{"id":"1","banner":{{"w":300,"h":250}}}}]{more}}}"#);
    write!(
        stream,
        "POST /openrtb2/auction HTTP/1.1\r\ncontent-type: application/json\r\n\
         content-length: {}\r\nhost: x\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
}

/// Reads the response until the connection ends.
pub fn answer(stream: &mut TcpStream) -> Answer {
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head[9..12].parse().unwrap();
    Answer { status, head: head.to_owned(), body: body.to_owned() }
}

/// A file system of a few megabytes, mounted for the life of this value.
pub struct SmallDisk(PathBuf);

impl SmallDisk {
    /// None if mounting is not permitted: then the test is skipped, which stderr says.
    pub fn mount(at: &Path) -> Option<Self> {
        let size = ["-t", "tmpfs", "-o", "size=6m", "tmpfs"];
        let mounted = Command::new("mount").args(size).arg(at).output().ok()?;
        if !mounted.status.success() {
            let why = "SKIPPED: file systems cannot be mounted here, no disk was full\n";
            std::io::stderr().write_all(why.as_bytes()).unwrap();
            return None;
        }
        Some(Self(at.to_owned()))
    }

    /// Fills the file system with one file.
    pub fn fill(&self) -> PathBuf {
        let path = self.0.join("ballast");
        let mut ballast = File::create(&path).unwrap();
        while ballast.write_all(&[0; 4096]).is_ok() {}
        path
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}
