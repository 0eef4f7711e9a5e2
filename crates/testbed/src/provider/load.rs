//! The load of look-ups: queries over HTTP/1.1, each of which waits for its answer.

use std::cell::RefCell;
use std::fmt;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::cache::{CacheKeys, GetConnection, KeyDraws};
use crate::load::report::row;
use crate::load::target::{HttpLoadError, HttpTarget};
use crate::load::{CallAnswer, CallFailure, LoadReport, Verdict, Workload};

/// Stands in a query for the number of a request.
const NUMBER: &str = "{n}";

/// What a load asks.
#[derive(Clone, Debug)]
pub struct LookupLoadOptions {
    /// `http://host:port` of the look-ups.
    pub url: String,
    /// The query; `{n}` stands for a number.
    pub query: String,
    /// Which numbers.
    pub keys: CacheKeys,
    /// Records of an answer that are sent.
    pub records: usize,
    /// Of the choices.
    pub seed: u64,
}

/// Queries of one process.
#[derive(Debug)]
pub struct LookupLoad {
    options: LookupLoadOptions,
    address: SocketAddr,
    host: String,
    draws: RefCell<KeyDraws>,
    outcomes: RefCell<LookupOutcomes>,
}

/// What the measured queries came to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LookupOutcomes {
    /// Answered completely.
    pub done: u64,
    /// Answered in part: a provider is missing.
    pub partial: u64,
    /// Of these, answered without a call of a provider.
    pub known: u64,
    /// Records of all answers.
    pub records: u64,
}

/// An answer, judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LookupLoadAnswer {
    status: u16,
    bytes: u64,
    outcome: LookupOutcome,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum LookupOutcome {
    Answered {
        is_partial: bool,
        is_known: bool,
        records: u64,
    },
    /// The message, if there is one.
    Refused(String),
    /// No document of a query.
    Unreadable,
}

/// A query's document, as far as it counts.
#[derive(Deserialize)]
struct QueryDocument {
    status: Option<String>,
    total: Option<u64>,
    reason: Option<String>,
    #[serde(default)]
    providers: Vec<QueryProvider>,
    error: Option<QueryError>,
}

#[derive(Deserialize)]
struct QueryProvider {
    state: String,
}

#[derive(Deserialize)]
struct QueryError {
    message: String,
}

impl LookupLoad {
    /// A load of look-ups.
    ///
    /// # Errors
    ///
    /// If the options make no sense, or the URL's name does not resolve.
    pub fn new(options: LookupLoadOptions) -> Result<Self, HttpLoadError> {
        if matches!(options.keys, CacheKeys::Zipf { count: 0 } | CacheKeys::Scan { count: 0 }) {
            return Err(HttpLoadError::Options("at least one key"));
        }
        if !matches!(options.keys, CacheKeys::One) && !options.query.contains(NUMBER) {
            return Err(HttpLoadError::Options("`{n}` in the query, for the number of the key"));
        }
        let target = HttpTarget::resolve(&options.url).and_then(|target| match &*target.path {
            "/" => Ok(target),
            _ => Err("a path follows it".to_owned()),
        });
        let HttpTarget { address, host, .. } = target
            .map_err(|problem| HttpLoadError::url(&options.url, problem, "http://host:port"))?;
        let draws = RefCell::new(KeyDraws::new(options.keys, options.seed));
        Ok(Self { options, address, host, draws, outcomes: RefCell::default() })
    }
}

impl LookupLoadAnswer {
    fn of(status: u16, body: &[u8]) -> Self {
        let outcome = match serde_json::from_slice::<QueryDocument>(body) {
            Ok(QueryDocument { error: Some(error), .. }) => LookupOutcome::Refused(error.message),
            Ok(QueryDocument { status: Some(state), total, reason, providers, .. }) => {
                match &*state {
                    "done" | "partial" => LookupOutcome::Answered {
                        is_partial: state == "partial",
                        is_known: providers.iter().all(|of| of.state == "cached"),
                        records: total.unwrap_or(0),
                    },
                    _ => LookupOutcome::Refused(reason.unwrap_or(state)),
                }
            }
            _ => LookupOutcome::Unreadable,
        };
        Self { status, bytes: body.len() as u64, outcome }
    }
}

impl CallAnswer for LookupLoadAnswer {
    fn verdict(&self) -> Verdict<'_> {
        match &self.outcome {
            LookupOutcome::Answered { .. } => Verdict::Valid,
            LookupOutcome::Refused(_) => Verdict::Refused,
            LookupOutcome::Unreadable => Verdict::Invalid("no document of a query"),
        }
    }

    fn status(&self) -> u16 {
        self.status
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn quote(&self) -> String {
        match &self.outcome {
            LookupOutcome::Refused(message) => message.clone(),
            _ => format!("status {}", self.status),
        }
    }
}

impl Workload for LookupLoad {
    type Connection = GetConnection;
    type Request = Vec<u8>;
    type Answer = LookupLoadAnswer;
    type Outcomes = LookupOutcomes;

    fn request(&self) -> Vec<u8> {
        let number = self.draws.borrow_mut().next().to_string();
        let query = self.options.query.replace(NUMBER, &number);
        let query: String = query.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let (host, records) = (&self.host, self.options.records);
        format!("GET /lookup?limit={records}&query={query} HTTP/1.1\r\nhost: {host}\r\n\r\n").into()
    }

    fn request_bytes(request: &Vec<u8>) -> u64 {
        request.len() as u64
    }

    async fn open(&self, connection: &mut GetConnection) -> Result<(), CallFailure> {
        connection.open(self.address).await
    }

    async fn call(
        &self,
        connection: &mut GetConnection,
        request: Vec<u8>,
    ) -> Result<LookupLoadAnswer, CallFailure> {
        connection
            .get(self.address, &request, |head, body| LookupLoadAnswer::of(head.status, body))
            .await
    }

    fn count(&self, answer: &LookupLoadAnswer) {
        let LookupOutcome::Answered { is_partial, is_known, records } = answer.outcome else {
            return;
        };
        let mut outcomes = self.outcomes.borrow_mut();
        *if is_partial { &mut outcomes.partial } else { &mut outcomes.done } += 1;
        outcomes.known += u64::from(is_known);
        outcomes.records += records;
    }

    fn outcomes(&self) -> LookupOutcomes {
        self.outcomes.borrow().clone()
    }
}

impl fmt::Display for LoadReport<LookupOutcomes> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LookupOutcomes { done, partial, known, records } = &self.counts.outcomes;
        self.write_load(f)?;
        row(f, "  answered", format_args!("{done} completely, {partial} in part"))?;
        row(f, "  known", format_args!("{known} without a call of a provider"))?;
        row(f, "  records", format_args!("{records}"))?;
        self.write_failures(f)?;
        self.write_latency(f)
    }
}
