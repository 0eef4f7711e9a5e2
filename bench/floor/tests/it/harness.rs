//! The floor as a child process, and a blocking client.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, setrlimit};
use tempfile::NamedTempFile;

use crate::stub::Dsp;
use crate::wire::Tls;

/// Longer than any answer takes: a test fails instead of hanging.
const PATIENCE: Duration = Duration::from_secs(30);

/// A running floor; killed when dropped.
pub(crate) struct Floor {
    child: Child,
    pub(crate) address: SocketAddr,
    /// The floor reads it at its start.
    _authority: NamedTempFile,
}

impl Floor {
    pub(crate) fn start(dsps: &[Dsp]) -> Self {
        Self::of(dsps.iter().map(|dsp| dsp.url.clone()), &[])
    }

    /// Starts a floor with these DSPs, the tests' authority, and these arguments.
    pub(crate) fn of(urls: impl IntoIterator<Item = String>, more: &[&str]) -> Self {
        Self::trusting(&Tls::authority(), urls, more)
    }

    /// Starts a floor that trusts another authority, as PEM.
    pub(crate) fn trusting(
        authority: &str,
        urls: impl IntoIterator<Item = String>,
        more: &[&str],
    ) -> Self {
        let authority = file_of(authority);
        let dsps: Vec<_> = urls.into_iter().map(|url| format!("--dsp={url}")).collect();
        let mut command = command(&dsps);
        if dsps.iter().any(|dsp| dsp.contains("https://")) {
            command.arg("--ca").arg(authority.path());
        }
        let mut child = command.args(more).spawn().expect("the floor was built");
        let mut line = String::new();
        let stdout = child.stdout.as_mut().expect("it is piped");
        BufReader::new(stdout).read_line(&mut line).expect("the floor says where it listens");
        let address = line.trim().strip_prefix("listening on ").expect("one known line");
        let address = address.parse().expect("an address");
        Self { child, address, _authority: authority }
    }

    /// Stops it by a signal, and returns its counts by name.
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

/// The floor with these arguments, its output piped.
fn command(arguments: &[impl AsRef<OsStr>]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bench-floor"));
    command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// The message of a floor that does not start with these arguments.
pub(crate) fn refusal(arguments: &[&str]) -> String {
    let mut child = command(arguments).spawn().expect("the floor was built");
    let stdout = child.stdout.as_mut().expect("it is piped");
    let is_up = BufReader::new(stdout).read_line(&mut String::new()).expect("text") > 0;
    // A floor that does start would not stop.
    let _ = child.kill();
    let done = child.wait_with_output().expect("it ends");
    assert!(!is_up && !done.status.success(), "{arguments:?} is refused");
    String::from_utf8(done.stderr).expect("text")
}

/// A file with this text, removed on drop.
pub(crate) fn file_of(text: &str) -> NamedTempFile {
    let mut file = NamedTempFile::new().expect("a temporary folder");
    file.write_all(text.as_bytes()).expect("room for a few bytes");
    file
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

    /// A second handle for sending while another thread reads.
    pub(crate) fn sender(&self) -> Self {
        Self(BufReader::new(self.0.get_ref().try_clone().expect("descriptors are left")))
    }

    pub(crate) fn send(&self, bytes: &[u8]) {
        self.0.get_ref().write_all(bytes).expect("the floor reads");
    }

    /// The body of the next answer. None for 204.
    pub(crate) fn answer(&mut self) -> Option<String> {
        let answer = read_message(&mut self.0).expect("the floor answers");
        match answer.head[0].as_str() {
            "HTTP/1.1 200 OK" => Some(answer.body),
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

    /// Whether the floor closed the connection, cleanly or not.
    pub(crate) fn is_closed(&mut self) -> bool {
        read_message(&mut self.0).is_none()
    }

    /// Whether the floor closes the connection instead of answering `body`.
    pub(crate) fn is_closed_to(&mut self, body: &str) -> bool {
        self.0.get_ref().write_all(request(body).as_bytes()).is_err() || self.is_closed()
    }
}

pub(crate) fn request(body: &str) -> String {
    format!("POST /openrtb2/auction HTTP/1.1\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

/// An HTTP message.
pub(crate) struct Message {
    /// Its lines.
    head: Vec<String>,
    body: String,
}

impl Message {
    pub(crate) fn has(&self, line: &str) -> bool {
        self.head.iter().any(|own| own == line)
    }
}

/// The next message. None if the peer is gone.
pub(crate) fn read_message(reader: &mut BufReader<impl Read>) -> Option<Message> {
    let mut head = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if line.trim().is_empty() {
            break;
        }
        head.push(line.trim().to_owned());
    }
    let length = head.iter().find_map(|line| {
        line.to_ascii_lowercase().strip_prefix("content-length:")?.trim().parse().ok()
    });
    let mut body = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut body).ok()?;
    Some(Message { head, body: String::from_utf8(body).ok()? })
}

/// Allows the descriptors for the test of the connection limit.
pub(crate) fn raise_descriptor_limit() {
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).expect("up to the maximum");
}
