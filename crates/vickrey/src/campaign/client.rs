//! Asks an admin listener: one request, one connection, JSON both ways.
//!
//! Owns what a refusal is to a person. Knows no paths. The listener speaks HTTP/1.1 without TLS and
//! closes where it is asked to, so that a socket is all it takes.

use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::time::Duration;

use serde_json::Value;

use crate::exit::Failure;

/// Longest wait for an answer: longer than the ledger's.
const PATIENCE: Duration = Duration::from_secs(30);

/// Most that is read of an answer: a thousand definitions of the largest size would be more, and are
/// asked for in smaller pages.
const ANSWER_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// The variable that has the admin token.
const TOKEN: &str = "VICKREY_ADMIN_TOKEN";

/// An admin listener.
pub(super) struct Client {
    authority: String,
    token: Option<String>,
}

/// A refusal: its status, and what is wrong, with fields and remedies.
#[derive(Debug)]
pub(super) struct Refusal {
    status: u16,
    message: String,
}

impl Refusal {
    /// With its exit code.
    pub(super) fn into_failure(self) -> anyhow::Error {
        match self.status {
            500.. => Failure::unavailable(self.message),
            _ => Failure::usage(self.message),
        }
    }
}

impl Client {
    /// For a listener at `http://host:port`.
    pub(super) fn new(url: &str) -> anyhow::Result<Self> {
        let rest = url.strip_prefix("http://").map(|rest| rest.trim_end_matches('/'));
        let fits = |rest: &&str| {
            !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_graphic() && !b"/?#@".contains(&b))
        };
        let Some(authority) = rest.filter(fits) else {
            let message = format!("--admin {url}: needs the form http://127.0.0.1:9464");
            return Err(Failure::usage(message));
        };
        let has_port = authority.rsplit_once(':').is_some_and(|(_, port)| !port.ends_with(']'));
        let authority = if has_port { authority.to_owned() } else { format!("{authority}:80") };
        let token = std::env::var(TOKEN).ok().filter(|token| !token.is_empty());
        if token.as_ref().is_some_and(|token| !token.bytes().all(|b| b.is_ascii_graphic())) {
            return Err(Failure::usage(format!("{TOKEN} has letters that no header can bear")));
        }
        Ok(Self { authority, token })
    }

    /// What stands at a path.
    pub(super) fn get(&self, path: &str) -> anyhow::Result<Value> {
        self.ask(("GET", path), &[], None)?.map_err(Refusal::into_failure)
    }

    /// Asks, and returns the answer or the refusal.
    pub(super) fn ask(
        &self,
        (method, path): (&str, &str),
        headers: &[(&str, String)],
        body: Option<&Value>,
    ) -> anyhow::Result<Result<Value, Refusal>> {
        let body = body.map(ToString::to_string).unwrap_or_default();
        let mut head = format!("{method} {path} HTTP/1.1\r\nhost: {}\r\n", self.authority);
        head.push_str("connection: close\r\n");
        let mut put = |name: &str, value: &str| {
            writeln!(head, "{name}: {value}\r").expect("a String takes any text");
        };
        if let Some(token) = &self.token {
            put("authorization", &format!("Bearer {token}"));
        }
        if !body.is_empty() {
            put("content-type", "application/json");
        }
        for (name, value) in headers {
            if !value.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
                return Err(Failure::usage(format!(
                    "{value:?} has letters that no header can bear"
                )));
            }
            put(name, value);
        }
        put("content-length", &body.len().to_string());
        head.push_str("\r\n");
        let answer = self.exchange(&[head.as_bytes(), body.as_bytes()].concat());
        let answer = answer.map_err(|error| {
            Failure::unavailable(format!(
                "the admin listener at http://{} does not answer: {error}; is the exchange \
                 running? --admin names another",
                self.authority
            ))
        })?;
        parsed(&answer)
    }

    fn exchange(&self, request: &[u8]) -> std::io::Result<Vec<u8>> {
        let mut last = std::io::Error::other("the name has no address");
        for address in self.authority.to_socket_addrs()? {
            let mut stream = match TcpStream::connect_timeout(&address, PATIENCE) {
                Ok(stream) => stream,
                Err(error) => {
                    last = error;
                    continue;
                }
            };
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.set_write_timeout(Some(PATIENCE))?;
            stream.write_all(request)?;
            let mut answer = Vec::new();
            stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer)?;
            return Ok(answer);
        }
        Err(last)
    }
}

fn parsed(answer: &[u8]) -> anyhow::Result<Result<Value, Refusal>> {
    let text = String::from_utf8_lossy(answer);
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let line = head.lines().next().unwrap_or_default();
    let status = line.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)?.parse().ok());
    let (Some(status), Ok(body)) = (status, serde_json::from_str::<Value>(body)) else {
        return Err(Failure::unavailable(format!(
            "this is no admin listener: it answers `{line}`"
        )));
    };
    if (200..300).contains(&status) {
        return Ok(Ok(body));
    }
    Ok(Err(Refusal { status, message: message(status, &body["error"]) }))
}

/// What was refused, and every field that is wrong with its remedy.
fn message(status: u16, error: &Value) -> String {
    let mut message = error["message"].as_str().unwrap_or("refused without a reason").to_owned();
    if status == 401 {
        message = format!("the admin listener asks for its token: set {TOKEN}");
    }
    for problem in error["problems"].as_array().into_iter().flatten() {
        let text = |key: &str| problem[key].as_str();
        let value = text("value").map(|value| format!(" = {value}")).unwrap_or_default();
        let (field, remedy) = (text("field").unwrap_or_default(), text("remedy"));
        let remedy = remedy.unwrap_or_default();
        write!(message, "\n  {field}{value}: {remedy}").expect("a String takes any text");
    }
    message
}

/// A segment of a path, or a value of a query, with `%` where it needs them.
pub(super) fn encoded(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            write!(encoded, "%{byte:02X}").expect("a String takes any text");
        }
    }
    encoded
}
