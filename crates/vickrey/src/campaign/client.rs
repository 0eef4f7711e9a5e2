//! Asks an admin listener: one request, one connection, JSON both ways.
//!
//! Owns what a refusal is to a person. Knows no paths. The listener speaks HTTP/1.1 and closes the
//! connection when it is asked to; a proxy in front of it may add TLS and send its answer in chunks.

use std::fmt::Write as _;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::time::Duration;

use runtime::config::masked_url;
use serde_json::Value;

use super::Asking;
use super::tls::Tls;
use crate::exit::{Exit, Failure};

/// Longest wait for an answer: longer than the ledger's.
const PATIENCE: Duration = Duration::from_secs(30);

/// Most that is read of an answer: a thousand definitions of the largest size would be more, and are
/// asked for in smaller pages.
const ANSWER_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// The variable that has the admin token.
const TOKEN: &str = "VICKREY_ADMIN_TOKEN";

/// The variable that names who asks, for the audit.
const ACTOR: &str = "VICKREY_ACTOR";

/// An admin listener.
pub(super) struct Client {
    /// As it was given.
    url: String,
    authority: String,
    /// `None` if the URL begins with `http:`.
    tls: Option<Tls>,
    token: Option<String>,
    /// Who asks, for the audit.
    actor: Option<String>,
}

/// A refusal: its status and code, and what is wrong, with fields and remedies.
#[derive(Debug)]
pub(super) struct Refusal {
    status: u16,
    code: String,
    message: String,
}

impl Refusal {
    /// Whether nothing has the id that was asked for.
    pub(super) fn is_not_found(&self) -> bool {
        self.code == "not_found"
    }

    /// Of a request that nobody has answered.
    pub(super) fn unanswered(error: &anyhow::Error) -> Self {
        Self { status: 503, code: String::new(), message: error.to_string() }
    }

    /// What is wrong, with fields and remedies.
    pub(super) fn message(&self) -> &str {
        &self.message
    }

    /// With its exit code.
    pub(super) fn into_failure(self) -> anyhow::Error {
        Failure::with_exit(self.exit(), self.message)
    }

    /// The code that a command exits with for it.
    pub(super) fn exit(&self) -> Exit {
        match (self.status, self.code.as_str()) {
            (429 | 500.., _) | (_, "not_configured") => Exit::Unavailable,
            (_, "not_found") => Exit::NotFound,
            (_, "conflict" | "idempotency_key_reused") => Exit::Conflict,
            (_, "precondition_failed") => Exit::Stale,
            _ => Exit::Usage,
        }
    }
}

impl Client {
    /// For a listener at `http://host:port` or `https://host:port`.
    pub(super) fn new(asking: &Asking) -> anyhow::Result<Self> {
        let url = asking.admin.trim_end_matches('/');
        let (is_tls, rest) = match url.split_once("://") {
            Some(("http", rest)) => (false, rest),
            Some(("https", rest)) => (true, rest),
            _ => (false, ""),
        };
        let fits = |byte: u8| byte.is_ascii_graphic() && !b"/?#@".contains(&byte);
        if rest.is_empty() || !rest.bytes().all(fits) {
            let message = format!(
                "--admin {}: needs the form http://127.0.0.1:9464 or https://admin.example",
                masked_url(url)
            );
            return Err(Failure::usage(message));
        }
        let port = rest.rsplit_once(':').filter(|(_, port)| !port.ends_with(']'));
        let host = port.map_or(rest, |(host, _)| host);
        let authority = match (port, is_tls) {
            (Some(_), _) => rest.to_owned(),
            (None, true) => format!("{rest}:443"),
            (None, false) => format!("{rest}:80"),
        };
        let ca = asking.ca.as_deref();
        if ca.is_some() && !is_tls {
            return Err(Failure::usage(format!("--ca goes with https, but --admin is {url}")));
        }
        let tls = is_tls.then(|| Tls::new(host, ca)).transpose()?;
        let token = std::env::var(TOKEN).ok().filter(|token| !token.is_empty());
        if token.as_ref().is_some_and(|token| !token.bytes().all(|b| b.is_ascii_graphic())) {
            return Err(Failure::usage(format!("{TOKEN} has letters that no header can bear")));
        }
        Ok(Self { url: url.to_owned(), authority, tls, token, actor: actor() })
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
        if method != "GET"
            && let Some(actor) = &self.actor
        {
            put("vickrey-actor", actor);
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
                "the admin listener at {} does not answer: {error}; is the exchange running? \
                 --admin names another",
                self.url
            ))
        })?;
        parsed(&answer, self.token.is_some())
    }

    fn exchange(&self, request: &[u8]) -> std::io::Result<Vec<u8>> {
        let mut last = std::io::Error::other("the name has no address");
        for address in self.authority.to_socket_addrs()? {
            let stream = match TcpStream::connect_timeout(&address, PATIENCE) {
                Ok(stream) => stream,
                Err(error) => {
                    last = error;
                    continue;
                }
            };
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.set_write_timeout(Some(PATIENCE))?;
            return match &self.tls {
                Some(tls) => answer_of(tls.over(stream)?, request),
                None => answer_of(stream, request),
            };
        }
        Err(last)
    }
}

/// Who asks: as the variable says, else the user.
fn actor() -> Option<String> {
    let named = [ACTOR, "USER", "LOGNAME"].into_iter().find_map(|name| std::env::var(name).ok());
    let fits = |byte: u8| (b' '..=b'~').contains(&byte);
    let letters = named?.bytes().filter(|byte| fits(*byte)).map(char::from).take(64).collect();
    Some(letters).filter(|letters: &String| !letters.is_empty())
}

/// Sends a request and reads until the other side closes.
fn answer_of(mut stream: impl Read + Write, request: &[u8]) -> std::io::Result<Vec<u8>> {
    stream.write_all(request)?;
    stream.flush()?;
    let mut answer = Vec::new();
    match stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer) {
        // A proxy may close without the alert that ends TLS. Whether the JSON is whole shows in itself.
        Err(error) if error.kind() != ErrorKind::UnexpectedEof || answer.is_empty() => Err(error),
        _ => Ok(answer),
    }
}

/// `has_token` says whether the request had one.
fn parsed(answer: &[u8], has_token: bool) -> anyhow::Result<Result<Value, Refusal>> {
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n");
    let (head, body) = answer.split_at(end.unwrap_or(answer.len()));
    let (head, body) = (String::from_utf8_lossy(head), body.get(4..).unwrap_or_default());
    let line = head.lines().next().unwrap_or_default();
    let status = line.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)?.parse().ok());
    let is_chunked = head.lines().any(|line| {
        let line = line.to_ascii_lowercase();
        line.strip_prefix("transfer-encoding:").is_some_and(|value| value.contains("chunked"))
    });
    let body = if is_chunked { joined(body) } else { Some(body.to_vec()) };
    let body = body.and_then(|body| serde_json::from_slice::<Value>(&body).ok());
    let (Some(status), Some(body)) = (status, body) else {
        return Err(Failure::unavailable(format!(
            "this is no admin listener: it answers `{line}`"
        )));
    };
    if (200..300).contains(&status) {
        return Ok(Ok(body));
    }
    let error = &body["error"];
    let code = error["code"].as_str().unwrap_or_default().to_owned();
    let message = match (status, has_token) {
        (401, false) => format!("the admin listener asks for its token: set {TOKEN}"),
        (401, true) => {
            format!("the admin listener refuses the token in {TOKEN}: it is not its `admin.token`")
        }
        _ => message(error),
    };
    Ok(Err(Refusal { status, code, message }))
}

/// A body without its chunks (RFC 9112, section 7.1); `None` if it is cut short.
fn joined(mut chunks: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let end = chunks.windows(2).position(|window| window == b"\r\n")?;
        let size = str::from_utf8(&chunks[..end]).ok()?.split(';').next()?.trim();
        let size = usize::from_str_radix(size, 16).ok()?;
        if size == 0 {
            return Some(body);
        }
        let (chunk, rest) = chunks[end + 2..].split_at_checked(size)?;
        body.extend_from_slice(chunk);
        chunks = rest.strip_prefix(b"\r\n")?;
    }
}

/// What was refused, and every field that is wrong with its remedy.
fn message(error: &Value) -> String {
    let mut message = error["message"].as_str().unwrap_or("refused without a reason").to_owned();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_joined() {
        let check = |chunks: &str, want: Option<&str>| {
            let found = joined(chunks.as_bytes());
            assert_eq!(found.as_deref(), want.map(str::as_bytes), "{chunks:?}");
        };
        check("0\r\n\r\n", Some(""));
        check("3\r\nabc\r\nA;x=1\r\n0123456789\r\n0\r\n\r\n", Some("abc0123456789"));
        for cut in
            ["", "3\r\nab", "3\r\nabc\r\n", "3\r\nabcd\r\n0\r\n", "x\r\n", "ffffffffffffffff\r\na"]
        {
            check(cut, None);
        }
    }
}
