//! What requests say about a query.

use std::time::Duration;

use http_kit::query::{query_names, query_value};
use hyper::StatusCode;
use lookup_core::schedule::CallClass;
use serde::Deserialize;

use super::document::Page;

/// Rows of a page that does not say how many.
const ROWS_DEFAULT: usize = 100;
/// Most rows of a page.
const ROWS_MAX: usize = 10_000;

/// Why a request is refused.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub status: StatusCode,
    pub code: &'static str,
    pub message: String,
}

impl Refusal {
    pub fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into() }
    }

    /// A malformed request.
    pub fn bad(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad_request", message)
    }
}

/// What a request says.
#[derive(Clone, Debug, Default)]
pub(crate) struct LookupParameters {
    pub query: String,
    pub timeout: Option<Duration>,
    pub is_background: bool,
    /// How long the client waits for the end.
    pub wait: Option<Duration>,
    first: usize,
    rows: Option<usize>,
}

/// The body of `POST /lookup`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LookupBodyJson {
    query: String,
    timeout: Option<String>,
    class: Option<String>,
    wait: Option<String>,
    idx: Option<usize>,
    limit: Option<usize>,
}

const OF_TEXT: [&str; 5] = ["timeout", "class", "wait", "idx", "limit"];
const OF_QUERY: [&str; 6] = ["query", "timeout", "class", "wait", "idx", "limit"];
const OF_POLL: [&str; 3] = ["wait", "idx", "limit"];

impl LookupParameters {
    /// Of `GET /lookup`.
    pub fn of_uri(uri: &str) -> Result<Self, Refusal> {
        check_names(uri, &OF_QUERY)?;
        let query = value(uri, "query")?.ok_or_else(|| {
            Refusal::bad("the query is missing: GET /lookup?query=…, percent-encoded, or POST it")
        })?;
        Self::of(query, uri)
    }

    /// Of `POST /lookup` with a body that is a query.
    pub fn of_text(body: &[u8], uri: &str) -> Result<Self, Refusal> {
        check_names(uri, &OF_TEXT)?;
        let query = str::from_utf8(body).map_err(|_| Refusal::bad("the query is not UTF-8"))?;
        Self::of(query.trim().to_owned(), uri)
    }

    /// Of a query, with the other parameters of the URI.
    fn of(query: String, uri: &str) -> Result<Self, Refusal> {
        let class = value(uri, "class")?;
        Ok(Self {
            query,
            timeout: value(uri, "timeout")?.map(|text| duration("timeout", &text)).transpose()?,
            is_background: is_background(class.as_deref())?,
            ..Self::paging(uri)?
        })
    }

    /// Of `GET /lookup/{id}`.
    pub fn of_poll(uri: &str) -> Result<Self, Refusal> {
        check_names(uri, &OF_POLL)?;
        Self::paging(uri)
    }

    fn paging(uri: &str) -> Result<Self, Refusal> {
        let number = |name| value(uri, name)?.map(|text| number(name, &text)).transpose();
        Ok(Self {
            wait: value(uri, "wait")?.map(|text| duration("wait", &text)).transpose()?,
            first: number("idx")?.unwrap_or(0),
            rows: number("limit")?,
            ..Self::default()
        })
    }

    /// A query, and nothing else.
    pub fn of_query(query: String) -> Self {
        Self { query, ..Self::default() }
    }

    /// Of a body in JSON.
    pub fn of_json(body: &[u8], uri: &str) -> Result<Self, Refusal> {
        check_names(uri, &[])?;
        let read = serde_json::from_slice::<LookupBodyJson>(body);
        let LookupBodyJson { query, timeout, class, wait, idx, limit } = read.map_err(|error| {
            let form = r#"{"query": "…", "timeout": "10s", "class": "background"}"#;
            Refusal::bad(format!("the body is not of the form {form}: {error}"))
        })?;
        Ok(Self {
            query,
            timeout: timeout.map(|text| duration("timeout", &text)).transpose()?,
            is_background: is_background(class.as_deref())?,
            wait: wait.map(|text| duration("wait", &text)).transpose()?,
            first: idx.unwrap_or(0),
            rows: limit,
        })
    }

    /// The rows of an answer without pages.
    pub fn rows(&self) -> usize {
        self.rows.unwrap_or(usize::MAX)
    }

    /// The rows that are asked for.
    pub fn page(&self) -> Page {
        Page { first: self.first, rows: self.rows.unwrap_or(ROWS_DEFAULT).min(ROWS_MAX) }
    }
}

fn check_names(uri: &str, known: &[&str]) -> Result<(), Refusal> {
    match query_names(uri).find(|name| !known.contains(&&**name)) {
        None => Ok(()),
        Some(name) => {
            let shown: String = name.chars().take(40).collect();
            let known = match known {
                [] => "the body has them".to_owned(),
                known => format!("there are {}", known.join(", ")),
            };
            Err(Refusal::bad(format!("there is no parameter `{shown}`: {known}")))
        }
    }
}

/// A parameter of the URI.
pub(super) fn value(uri: &str, name: &str) -> Result<Option<String>, Refusal> {
    query_value(uri, name).map_err(|error| Refusal::bad(format!("`{name}` {error}")))
}

/// A whole number.
pub(super) fn number(name: &str, text: &str) -> Result<usize, Refusal> {
    text.parse().map_err(|_| Refusal::bad(format!("`{name}` is a whole number, such as 100")))
}

/// `10s`, `500ms`, `2m`, or a number of seconds.
fn duration(name: &str, text: &str) -> Result<Duration, Refusal> {
    let digits = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let millis = match unit {
        "ms" => Some(1),
        "s" | "" => Some(1_000),
        "m" => Some(60_000),
        _ => None,
    };
    let read = number.parse::<u64>().ok().zip(millis);
    let read = read.and_then(|(number, millis)| number.checked_mul(millis));
    let wrong = || Refusal::bad(format!("`{name}` is a time, such as 500ms, 10s or 2m"));
    read.map(Duration::from_millis).ok_or_else(wrong)
}

fn is_background(class: Option<&str>) -> Result<bool, Refusal> {
    match class {
        None | Some("operator") => Ok(false),
        Some("background") => Ok(true),
        Some(_) => Err(Refusal::bad("`class` is operator or background")),
    }
}

/// The class of calls.
impl From<&LookupParameters> for CallClass {
    fn from(parameters: &LookupParameters) -> Self {
        if parameters.is_background { Self::Background } else { Self::Operator }
    }
}
