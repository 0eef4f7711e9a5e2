//! A client of an admin listener, or of look-ups, with JSON both ways.
//!
//! Owns the messages of refusals. Knows no paths.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use http_kit::client::{AddressRule, ClientOptions, HttpClient, RequestError};
use http_kit::dns::SystemNames;
use http_kit::tls::client_config;
use hyper::header::{AUTHORIZATION, CONNECTION, CONTENT_TYPE};
use hyper::{Request, Response};
use runtime::config::masked_url;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::Value;
use tokio::runtime::{Builder, Runtime};

use super::args::ApiArgs;
use super::exit::{CommandFailure, Exit};
use super::table::list_of;

/// Timeout of a request, longer than the ledger's.
const PATIENCE: Duration = Duration::from_secs(30);

/// Longest response: a thousand definitions of the largest size would exceed it, and need smaller
/// pages.
const ANSWER_BYTES_MAX: usize = 256 * 1024 * 1024;

const TOKEN: &str = "VICKREY_ADMIN_TOKEN";

/// Variable that names the actor for the audit.
const ACTOR: &str = "VICKREY_ACTOR";

/// What kind of listener a client asks, for messages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ListenerKind {
    noun: &'static str,
    /// The argument that names its URL.
    argument: &'static str,
    /// Its URL, by default and through a proxy.
    forms: &'static str,
    /// Whether it is sent the token of administrators.
    is_admin: bool,
}

impl ListenerKind {
    const ADMIN: Self = Self {
        noun: "admin listener",
        argument: "--admin",
        forms: "http://127.0.0.1:9464 or https://admin.example",
        is_admin: true,
    };
    /// That of look-ups.
    pub(crate) const LOOKUP: Self = Self {
        noun: "listener of look-ups",
        argument: "--server",
        forms: "http://127.0.0.1:7400 or https://lookup.example",
        is_admin: false,
    };
}

pub(crate) struct ApiClient {
    kind: ListenerKind,
    url: String,
    http: HttpClient,
    runtime: Runtime,
    token: Option<String>,
    actor: Option<String>,
}

/// A refusal: its status, code and message, with fields and remedies.
#[derive(Debug)]
pub(crate) struct ApiRefusal {
    status: u16,
    code: String,
    message: String,
}

impl ApiRefusal {
    pub(crate) fn is_not_found(&self) -> bool {
        self.code == "not_found"
    }

    /// The refusal for a request without a response.
    pub(crate) fn unanswered(error: &anyhow::Error) -> Self {
        Self { status: 503, code: String::new(), message: error.to_string() }
    }

    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    pub(crate) fn into_failure(self) -> anyhow::Error {
        CommandFailure::with_exit(self.exit(), self.message)
    }

    pub(crate) fn exit(&self) -> Exit {
        match (self.status, self.code.as_str()) {
            (429 | 500.., _) | (_, "not_configured") => Exit::Unavailable,
            (_, "not_found") => Exit::NotFound,
            (_, "conflict" | "idempotency_key_reused") => Exit::Conflict,
            (_, "precondition_failed") => Exit::Stale,
            _ => Exit::Usage,
        }
    }
}

impl ApiClient {
    /// For a listener at `http://host:port` or `https://host:port`.
    pub(crate) fn new(asking: &ApiArgs) -> anyhow::Result<Self> {
        Self::of(ListenerKind::ADMIN, &asking.admin, asking.ca.as_deref())
    }

    /// For a listener of any kind, verified by the authorities of a file.
    pub(crate) fn of(kind: ListenerKind, url: &str, ca: Option<&Path>) -> anyhow::Result<Self> {
        let ListenerKind { argument, forms, is_admin, .. } = kind;
        let url = url.trim_end_matches('/');
        let (is_tls, rest) = match url.split_once("://") {
            Some(("http", rest)) => (false, rest),
            Some(("https", rest)) => (true, rest),
            _ => (false, ""),
        };
        let fits = |byte: u8| byte.is_ascii_graphic() && !b"/?#@".contains(&byte);
        if rest.is_empty() || !rest.bytes().all(fits) {
            let message = format!("{argument} {}: needs the form {forms}", masked_url(url));
            return Err(CommandFailure::usage(message));
        }
        if ca.is_some() && !is_tls {
            return Err(CommandFailure::usage(format!(
                "--ca goes with https, but {argument} is {url}"
            )));
        }
        let authorities = ca.map(read_authorities).transpose()?;
        let token = std::env::var(TOKEN).ok().filter(|token| is_admin && !token.is_empty());
        if token.as_ref().is_some_and(|token| !token.bytes().all(|b| b.is_ascii_graphic())) {
            return Err(CommandFailure::usage(format!(
                "{TOKEN} has letters that no header can bear"
            )));
        }
        let options = ClientOptions {
            timeout: PATIENCE,
            idle_timeout: PATIENCE,
            idle_per_host_max: 1,
            connections_max: 2,
            addresses: AddressRule::Any,
            tls: Arc::new(client_config(authorities.as_deref())),
        };
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let http = {
            let _within = runtime.enter();
            HttpClient::new(options, Arc::new(SystemNames::new()))
        };
        Ok(Self { kind, url: url.to_owned(), http, runtime, token, actor: actor() })
    }

    pub(crate) fn get(&self, path: &str) -> anyhow::Result<Value> {
        self.ask("GET", path, &[], None)?.map_err(ApiRefusal::into_failure)
    }

    pub(crate) fn ask(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, String)],
        body: Option<&Value>,
    ) -> anyhow::Result<Result<Value, ApiRefusal>> {
        let body = body.map(ToString::to_string).unwrap_or_default();
        let mut request = Request::builder().method(method).uri(format!("{}{path}", self.url));
        // A command sends only a few requests.
        request = request.header(CONNECTION, "close");
        if let Some(token) = &self.token {
            request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        }
        if !body.is_empty() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        if self.kind.is_admin
            && method != "GET"
            && let Some(actor) = &self.actor
        {
            request = request.header("vickrey-actor", actor);
        }
        for (name, value) in headers {
            if !value.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
                return Err(CommandFailure::usage(format!(
                    "{value:?} has letters that no header can bear"
                )));
            }
            request = request.header(*name, value);
        }
        let request = request.body(Full::from(body)).map_err(|error| {
            let argument = self.kind.argument;
            CommandFailure::usage(format!("{argument} {}: {error}", masked_url(&self.url)))
        })?;
        let answer = self.runtime.block_on(self.http.request(request, ANSWER_BYTES_MAX));
        let ListenerKind { noun, argument, .. } = self.kind;
        let answer = answer.map_err(|error| match error {
            RequestError::Broken(cause) => {
                CommandFailure::unavailable(format!("this is no {noun}: {cause}"))
            }
            error => CommandFailure::unavailable(format!(
                "the {noun} at {} does not answer: {error}; is the process running? {argument} names \
                 another",
                self.url
            )),
        })?;
        parsed(noun, &answer, self.token.is_some())
    }
}

/// The actor: from the variable, or the user.
fn actor() -> Option<String> {
    let named = [ACTOR, "USER", "LOGNAME"].into_iter().find_map(|name| std::env::var(name).ok());
    let fits = |byte: u8| (b' '..=b'~').contains(&byte);
    let letters = named?.bytes().filter(|byte| fits(*byte)).map(char::from).take(64).collect();
    Some(letters).filter(|letters: &String| !letters.is_empty())
}

fn read_authorities(file: &Path) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let wrong = |why: &dyn std::fmt::Display| {
        CommandFailure::usage(format!("--ca {}: {why}", file.display()))
    };
    let pem = std::fs::read(file).map_err(|error| wrong(&error))?;
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    let authorities = read.map_err(|error| wrong(&error))?;
    if authorities.is_empty() {
        return Err(wrong(&"holds no certificate in PEM"));
    }
    Ok(authorities)
}

fn parsed(
    noun: &str,
    answer: &Response<Bytes>,
    has_token: bool,
) -> anyhow::Result<Result<Value, ApiRefusal>> {
    let status = answer.status().as_u16();
    let Ok(body) = serde_json::from_slice::<Value>(answer.body()) else {
        return Err(CommandFailure::unavailable(format!(
            "this is no {noun}: it answers {status} without JSON"
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
    Ok(Err(ApiRefusal { status, code, message }))
}

/// The message of a refusal, with each wrong field and its remedy.
fn message(error: &Value) -> String {
    let mut message = error["message"].as_str().unwrap_or("refused without a reason").to_owned();
    for problem in list_of(&error["problems"]) {
        let text = |key: &str| problem[key].as_str();
        let value = text("value").map(|value| format!(" = {value}")).unwrap_or_default();
        let (field, remedy) = (text("field").unwrap_or_default(), text("remedy"));
        let remedy = remedy.unwrap_or_default();
        write!(message, "\n  {field}{value}: {remedy}").expect("a String takes any text");
    }
    message
}

/// Percent-encodes a path segment or a query value.
pub(crate) fn encoded(text: &str) -> String {
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
