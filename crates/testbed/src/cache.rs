//! The load of a cache in front of a simulated origin: GET over HTTP/1.1. Every body is checked: it
//! must be the one of its URL, whole.

mod answer;
mod connection;
mod keys;

use std::cell::RefCell;
use std::fmt;
use std::io::Write as _;
use std::net::SocketAddr;

use serde::Serialize;

use crate::load::report::row;
use crate::load::target::{HttpLoadError, HttpTarget};
use crate::load::{CallAnswer as _, CallFailure, LoadReport, Verdict, Workload};
use crate::origin::{OBJECT_BYTES_MAX, ObjectBody};
pub use answer::{CacheHandling, CacheLoadAnswer};
pub use connection::GetConnection;
pub use keys::CacheKeys;
pub(crate) use keys::KeyDraws;

/// What a load asks for.
#[derive(Clone, Debug)]
pub struct CacheLoadOptions {
    /// `http://host:port/path/`, in front of the numbers of keys.
    pub url: String,
    /// The host of the requests. None: the URL's.
    pub host: Option<String>,
    /// Which numbers.
    pub keys: CacheKeys,
    /// Of each body.
    pub bytes: usize,
    /// The field of requests by which the origin varies, and how many different values it has.
    pub vary: Option<(String, usize)>,
    /// Of the choices.
    pub seed: u64,
}

/// GET requests to one cache.
#[derive(Debug)]
pub struct CacheLoad {
    options: CacheLoadOptions,
    address: SocketAddr,
    host: String,
    /// Of the URL.
    path: String,
    draws: RefCell<KeyDraws>,
    variants: RefCell<KeyDraws>,
    outcomes: RefCell<CacheOutcomes>,
}

/// A request, and the body that is its answer.
#[derive(Debug)]
pub struct CacheLoadRequest {
    bytes: Vec<u8>,
    body: ObjectBody,
}

/// How the cache handled the measured requests that it answered rightly.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CacheOutcomes {
    /// Answered from the store, fresh.
    pub hits: u64,
    /// Answered from the store, stale.
    pub stale: u64,
    /// Answered by a request to the origin.
    pub forwarded: u64,
    /// Answered by the request of another client.
    pub collapsed: u64,
    /// Without `Cache-Status`.
    pub unknown: u64,
}

impl CacheLoad {
    /// A load of a cache.
    ///
    /// # Errors
    ///
    /// If the options make no sense, or the URL's name does not resolve.
    pub fn new(options: CacheLoadOptions) -> Result<Self, HttpLoadError> {
        let has_keys = match options.keys {
            CacheKeys::Zipf { count } | CacheKeys::Scan { count } => count > 0,
            CacheKeys::One | CacheKeys::New => true,
        };
        if !has_keys || options.vary.as_ref().is_some_and(|(_, count)| *count == 0) {
            return Err(HttpLoadError::Options("at least one key and one variant"));
        }
        if options.bytes > OBJECT_BYTES_MAX {
            return Err(HttpLoadError::Options("bodies of at most 64 MiB"));
        }
        let target = HttpTarget::resolve(&options.url).and_then(|target| {
            let has_query = target.path.contains('?');
            if has_query { Err("numbers follow it: no query".to_owned()) } else { Ok(target) }
        });
        let HttpTarget { address, host, path } = target.map_err(|problem| {
            HttpLoadError::url(&options.url, problem, "http://host:port/path/")
        })?;
        let variants = options.vary.as_ref().map_or(1, |(_, count)| *count);
        Ok(Self {
            address,
            host: options.host.clone().unwrap_or(host),
            path,
            draws: RefCell::new(KeyDraws::new(options.keys, options.seed)),
            variants: RefCell::new(KeyDraws::new(CacheKeys::Scan { count: variants }, 0)),
            outcomes: RefCell::default(),
            options,
        })
    }
}

impl Workload for CacheLoad {
    type Connection = GetConnection;
    type Request = CacheLoadRequest;
    type Answer = CacheLoadAnswer;
    type Outcomes = CacheOutcomes;

    fn request(&self) -> CacheLoadRequest {
        let CacheLoadOptions { bytes, vary, .. } = &self.options;
        let path = format!("{}{}", self.path, self.draws.borrow_mut().next());
        let mut request = Vec::with_capacity(192);
        let host = &self.host;
        write!(request, "GET {path}?bytes={bytes} HTTP/1.1\r\nhost: {host}\r\n").expect("memory");
        let mut variant = None;
        if let Some((name, _)) = vary {
            let value = self.variants.borrow_mut().next().to_string();
            write!(request, "{name}: {value}\r\n").expect("memory");
            variant = Some(value);
        }
        request.extend_from_slice(b"\r\n");
        let body = ObjectBody::new(&path, variant.as_deref(), *bytes);
        CacheLoadRequest { bytes: request, body }
    }

    fn request_bytes(request: &CacheLoadRequest) -> u64 {
        request.bytes.len() as u64
    }

    async fn open(&self, connection: &mut GetConnection) -> Result<(), CallFailure> {
        connection.open(self.address).await
    }

    async fn call(
        &self,
        connection: &mut GetConnection,
        request: CacheLoadRequest,
    ) -> Result<CacheLoadAnswer, CallFailure> {
        let CacheLoadRequest { bytes, body } = request;
        let judge = |head: &answer::GetHead, content: &[u8]| CacheLoadAnswer {
            status: head.status,
            bytes: content.len() as u64,
            handling: head.handling,
            is_right: body.is(content),
        };
        connection.get(self.address, &bytes, judge).await
    }

    fn count(&self, answer: &CacheLoadAnswer) {
        if answer.verdict() != Verdict::Valid {
            return;
        }
        let mut outcomes = self.outcomes.borrow_mut();
        *match answer.handling {
            CacheHandling::Hit => &mut outcomes.hits,
            CacheHandling::Stale => &mut outcomes.stale,
            CacheHandling::Forwarded => &mut outcomes.forwarded,
            CacheHandling::Collapsed => &mut outcomes.collapsed,
            CacheHandling::Unknown => &mut outcomes.unknown,
        } += 1;
    }

    fn outcomes(&self) -> CacheOutcomes {
        self.outcomes.borrow().clone()
    }
}

impl fmt::Display for LoadReport<CacheOutcomes> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CacheOutcomes { hits, stale, forwarded, collapsed, unknown } = &self.counts.outcomes;
        self.write_load(f)?;
        row(f, "  from the store", format_args!("{hits} fresh, {stale} stale"))?;
        row(f, "  forwarded", format_args!("{forwarded}, and {collapsed} collapsed"))?;
        if *unknown > 0 {
            row(f, "  unknown", format_args!("{unknown} without Cache-Status"))?;
        }
        self.write_failures(f)?;
        self.write_latency(f)
    }
}
