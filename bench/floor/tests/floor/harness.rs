//! The floor as a child process, and a blocking client to talk to it.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, setrlimit};

/// Longer than any answer takes: a test fails instead of hanging.
const PATIENCE: Duration = Duration::from_secs(30);

/// A running floor; killed when dropped.
pub(crate) struct Floor {
    child: Child,
    pub(crate) address: SocketAddr,
}

impl Floor {
    pub(crate) fn start(dsps: impl IntoIterator<Item = SocketAddr>) -> Self {
        let dsps = dsps.into_iter().map(|address| format!("--dsp=http://{address}/bid"));
        let mut child = Command::new(env!("CARGO_BIN_EXE_bench-floor"))
            .args(dsps)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the floor was built");
        let mut line = String::new();
        let stdout = child.stdout.as_mut().expect("it is piped");
        BufReader::new(stdout).read_line(&mut line).expect("the floor says where it listens");
        let address = line.trim().strip_prefix("listening on ").expect("one known line");
        Self { child, address: address.parse().expect("an address") }
    }

    /// Stops it by signal; what it counted, by name.
    pub(crate) fn stop(mut self) -> HashMap<String, u64> {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, Signal::TERM).expect("the floor runs");
        let mut report = String::new();
        let stderr = self.child.stderr.as_mut().expect("it is piped");
        stderr.read_to_string(&mut report).expect("the report is text");
        assert!(self.child.wait().expect("the floor ends").success(), "{report}");
        let words: Vec<_> = report.split_whitespace().collect();
        let pairs = words.chunks(2).filter_map(|pair| Some((pair[0], pair[1].parse().ok()?)));
        pairs.map(|(name, value)| (name.to_owned(), value)).collect()
    }
}

impl Drop for Floor {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A client connection.
pub(crate) struct Client(BufReader<TcpStream>);

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("the floor listens");
        stream.set_nodelay(true).expect("a TCP socket");
        stream.set_read_timeout(Some(PATIENCE)).expect("a positive time");
        Self(BufReader::new(stream))
    }

    /// The same connection, to send on while another reads.
    pub(crate) fn sender(&self) -> Self {
        Self(BufReader::new(self.0.get_ref().try_clone().expect("descriptors are left")))
    }

    pub(crate) fn send(&self, bytes: &[u8]) {
        self.0.get_ref().write_all(bytes).expect("the floor reads");
    }

    /// The body of the next answer, none for 204.
    pub(crate) fn answer(&mut self) -> Option<String> {
        let (status, body) = read_message(&mut self.0).expect("the floor answers");
        match status.as_str() {
            "HTTP/1.1 200 OK" => Some(body),
            "HTTP/1.1 204 No Content" => None,
            other => panic!("unexpected answer `{other}`"),
        }
    }

    pub(crate) fn auction(&mut self, body: &str) -> Option<String> {
        self.send(request(body).as_bytes());
        self.answer()
    }

    pub(crate) fn half_close(&self) {
        self.0.get_ref().shutdown(Shutdown::Write).expect("it is connected");
    }

    /// Whether the floor closed the connection, orderly or not.
    pub(crate) fn is_closed(&mut self) -> bool {
        read_message(&mut self.0).is_none()
    }

    /// Whether the floor closed the connection rather than answer this.
    pub(crate) fn is_closed_to(&mut self, body: &str) -> bool {
        self.0.get_ref().write_all(request(body).as_bytes()).is_err() || self.is_closed()
    }
}

pub(crate) fn request(body: &str) -> String {
    format!("POST /openrtb2/auction HTTP/1.1\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

/// The first line and the body of an HTTP message; none when the peer is gone.
pub(crate) fn read_message(reader: &mut BufReader<impl Read>) -> Option<(String, String)> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if line.trim().is_empty() {
            break;
        }
        lines.push(line.trim().to_owned());
    }
    let length = lines.iter().find_map(|line| {
        line.to_ascii_lowercase().strip_prefix("content-length:")?.trim().parse().ok()
    });
    let mut body = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut body).ok()?;
    Some((lines.swap_remove(0), String::from_utf8(body).ok()?))
}

/// Room for the connections that a test of the connection limit holds.
pub(crate) fn raise_descriptor_limit() {
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).expect("up to the maximum");
}
