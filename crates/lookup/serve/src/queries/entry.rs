//! One query, as its clients see it.

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use bytes::Bytes;
use lookup_core::map::{CallId, ProviderMap};
use lookup_core::query::LookupQuery;
use tokio::sync::{Notify, watch};

use super::rows::AnswerRows;

/// An id that nobody guesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct QueryId(u128);

impl QueryId {
    pub fn random() -> Self {
        Self(rand::random())
    }
}

impl Display for QueryId {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl FromStr for QueryId {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let is_id =
            text.len() == 32 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        let id = u128::from_str_radix(text, 16);
        id.ok().filter(|_| is_id).map(Self).ok_or(())
    }
}

/// Largest document that is kept.
const DOCUMENT_BYTES_MAX: usize = 64 << 10;

/// How far a query is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum QueryStatus {
    #[default]
    Queued,
    Running,
    Done,
    Partial,
    Failed,
    Cancelled,
}

impl QueryStatus {
    pub const fn is_final(self) -> bool {
        !matches!(self, Self::Queued | Self::Running)
    }

    pub const fn name(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Done => "done",
            Self::Partial => "partial",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

/// What one call of the plan has given, by all of its requests together.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProviderCallProgress {
    pub provider: String,
    pub call: String,
    pub instance: String,
    /// Requests that are to be made, or are answered from the cache.
    pub begun: u64,
    /// Those that ended well.
    pub answered: u64,
    /// Those of them that the cache answered.
    pub cached: u64,
    /// Those of them that were stale.
    pub stale: u64,
    pub timeouts: u64,
    pub shed: u64,
    pub errors: u64,
    pub rows: u64,
    pub attempts: u64,
    /// From the first request to the last answer or failure.
    pub ms: u64,
    /// When the oldest of the records were fetched, in milliseconds since 1970.
    pub fetched_unix_ms: Option<u64>,
    /// Until when all of the records count, in milliseconds since 1970.
    pub expires_unix_ms: Option<u64>,
    /// Why an attempt failed, of a request that was or is to be made again.
    pub attempt_failure: Option<Arc<str>>,
    /// Why the first one that failed did.
    pub reason: Option<Arc<str>>,
}

impl ProviderCallProgress {
    /// Of a call that is to be made, at an instance or the default one.
    pub fn new(map: &ProviderMap, id: CallId, instance: Option<&str>) -> Self {
        let provider = &map.providers[id.provider];
        Self {
            provider: provider.name.clone(),
            call: map.call(id).name.clone(),
            instance: instance.unwrap_or(&provider.instances[0].0).to_owned(),
            ..Self::default()
        }
    }

    pub const fn failures(&self) -> u64 {
        self.timeouts + self.shed + self.errors
    }

    /// The worst that happened to it, of a query that has ended or not.
    pub const fn state(&self, is_ended: bool) -> &'static str {
        if self.errors > 0 {
            "error"
        } else if self.timeouts > 0 {
            "timeout"
        } else if self.shed > 0 {
            "shed"
        } else if self.begun == 0 && !is_ended {
            "queued"
        } else if self.answered < self.begun {
            "running"
        } else if self.stale > 0 {
            "stale"
        } else if self.answered > 0 && self.cached == self.answered {
            "cached"
        } else {
            "ok"
        }
    }
}

/// How far a query is, and what it gave.
#[derive(Debug, Default)]
pub(crate) struct QueryProgress {
    pub status: QueryStatus,
    pub calls: Vec<ProviderCallProgress>,
    /// Of a query that has ended with some.
    pub rows: Arc<AnswerRows>,
    /// Why it failed.
    pub reason: Option<String>,
    /// The query whose answer contained its own.
    pub reuses: Option<String>,
}

/// A query.
pub(crate) struct QueryEntry {
    pub id: QueryId,
    pub query: LookupQuery,
    /// As it is printed.
    pub text: String,
    progress: Mutex<QueryProgress>,
    /// How often it changed.
    version: watch::Sender<u64>,
    pub cancelled: Notify,
    /// The document that was asked for first, once the query had ended.
    document: OnceLock<EndedDocument>,
}

/// A page of a query that has ended, written.
#[derive(Clone)]
pub(crate) struct EndedDocument {
    /// The first row, and how many.
    pub page: [usize; 2],
    pub text: Bytes,
}

impl QueryEntry {
    pub fn new(query: LookupQuery) -> Arc<Self> {
        Arc::new(Self {
            id: QueryId::random(),
            text: query.to_string(),
            query,
            progress: Mutex::default(),
            version: watch::Sender::new(0),
            cancelled: Notify::new(),
            document: OnceLock::new(),
        })
    }

    /// Bytes of memory that it takes with these rows, about.
    pub fn bytes(&self, rows: &AnswerRows) -> usize {
        // The text stands for the query that it is of, too.
        let calls = self.progress().calls.len() * size_of::<ProviderCallProgress>();
        let document = rows.bytes().min(DOCUMENT_BYTES_MAX);
        size_of::<Self>() + 4 * self.text.len() + 2 * calls + rows.bytes() + document
    }

    pub fn progress(&self) -> MutexGuard<'_, QueryProgress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes its progress, and tells those who wait.
    pub fn change<R>(&self, change: impl FnOnce(&mut QueryProgress) -> R) -> R {
        let changed = change(&mut self.progress());
        self.version.send_modify(|version| *version += 1);
        changed
    }

    /// A page, which `write` writes. Of a query that has ended, many may ask for the same.
    pub fn document(&self, page: [usize; 2], write: impl FnOnce() -> String) -> Bytes {
        if let Some(kept) = self.document.get().filter(|kept| kept.page == page) {
            return kept.text.clone();
        }
        let is_final = self.status().is_final();
        let text = Bytes::from(write());
        if is_final && text.len() <= DOCUMENT_BYTES_MAX {
            // Another page may be kept already.
            let _kept = self.document.set(EndedDocument { page, text: text.clone() });
        }
        text
    }

    pub fn version(&self) -> u64 {
        *self.version.borrow()
    }

    pub fn status(&self) -> QueryStatus {
        self.progress().status
    }

    /// Waits until it changes from a version.
    pub async fn changed_from(&self, version: u64) {
        // The sender lives as long as the entry.
        let mut versions = self.version.subscribe();
        let _changed = versions.wait_for(|now| *now != version).await;
    }

    /// Waits until it has ended.
    pub async fn ended(&self) {
        let mut version = self.version.subscribe();
        while !self.status().is_final() {
            let _changed = version.changed().await;
        }
    }
}
