//! The program under test: runs it, waits for it, stops it and queries it; and the checkout that it
//! was built from.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// Longer than any step takes.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The folder of the workspace.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).expect("the package is two folders down").to_path_buf()
}

/// The program, without stdin.
pub fn vickrey(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vickrey"));
    command.args(args).stdin(Stdio::null());
    command
}

/// Exit code, stdout and stderr.
pub fn run(command: &mut Command) -> (Option<i32>, String, String) {
    let output = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// Runs a command, checks its exit code and texts, and returns its output.
#[track_caller]
pub fn check(
    command: &mut Command,
    exit: i32,
    stdout: &[&str],
    stderr: &[&str],
) -> (String, String) {
    let (code, out, err) = run(command);
    assert_eq!(code, Some(exit), "{command:?}\n{out}\n{err}");
    for want in stdout {
        assert!(out.contains(want), "{command:?}: no `{want}` in stdout:\n{out}");
    }
    for want in stderr {
        assert!(err.contains(want), "{command:?}: no `{want}` in stderr:\n{err}");
    }
    (out, err)
}

/// Sends a signal, as `-TERM`.
pub fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill").args([name, &child.id().to_string()]).status();
    assert!(sent.unwrap().success());
}

/// A process that is killed if the test fails before its end.
pub struct Running(pub Child);

impl Running {
    pub fn start(command: &mut Command) -> Self {
        let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Self(command.spawn().unwrap())
    }

    pub fn signal(&self, name: &str) {
        signal(&self.0, name);
    }

    /// Exit code and the rest of stdout.
    pub fn wait(mut self) -> (Option<i32>, String) {
        let mut out = String::new();
        if let Some(stdout) = self.0.stdout.as_mut() {
            stdout.read_to_string(&mut out).unwrap();
        }
        (self.0.wait().unwrap().code(), out)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _ended = (self.0.kill(), self.0.wait());
    }
}

/// Waits for a condition that another thread or process brings about.
#[track_caller]
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < PATIENCE, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Nanos of an amount of the API.
#[track_caller]
pub fn nanos(amount: &Value) -> u64 {
    let text = amount.as_str().unwrap_or_else(|| panic!("{amount} is no amount"));
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    format!("{whole}{part:0<9}").parse().unwrap_or_else(|_| panic!("{text} is no amount"))
}

/// The next HTTP message: its head in lower case, and its body by content length. None if the
/// connection ends.
pub fn message(stream: &mut TcpStream) -> Option<(String, String)> {
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

/// The complete response to a one-line request, such as `GET /metrics`.
pub fn ask(address: &str, line: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "{line} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

pub fn get(address: &str, path: &str) -> String {
    ask(address, &format!("GET {path}"))
}
