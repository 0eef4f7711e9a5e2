//! Calls to providers: through their lanes, once for all who ask the same, and kept for as long as
//! their answers count.

pub(crate) mod answers;
mod client;
pub(crate) mod clock;
mod database;
pub(crate) mod disk;
mod flights;
mod folder;
pub(crate) mod gate;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_kit::client::{AddressRule, ClientOptions, HttpClient};
use http_kit::dns::SystemNames;
use http_kit::tls::client_config;
use lookup_core::map::{CallId, FOLDER, ProviderCall};
use lookup_core::records::{self, RecordLimits, RecordSchema, RecordSet, UnreadableRecords};
use lookup_core::schedule::{
    AttemptOutcome, CallClass, CallRefusal, LaneStatus, LookupUser, ProviderLaneOptions,
};
use quick_cache::Weighter;
use quick_cache::unsync::Cache;
use runtime::process::unix_ms;
use tokio::sync::Semaphore;
use tokio::task::coop::consume_budget;

use crate::config::ProviderCallLimits;
use crate::counters::LookupCounts;
use crate::maps::LoadedMaps;
use answers::{
    AnswerSource, CallKey, CallRecords, FailureKind, ProviderCallAnswer, ProviderCallFailure,
};
use client::{AnswerLimits, AttemptFailure};
use clock::LookupClock;
use database::Database;
use disk::DiskAnswers;
use flights::{FlightNews, FlightResult, Flights};
use gate::{LaneCaller, LaneGate};

/// Idle connections to one provider.
const IDLE_PER_PROVIDER_MAX: usize = 256;
/// An idle connection is closed after this time. Many servers keep theirs for longer.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// Larger answers are read on another thread, so that other calls go on.
const READ_INLINE_MAX: usize = 16 << 10;
/// How long an answer is waited for that replaces a stale one.
const REFRESH_TIMEOUT: Duration = Duration::from_secs(60);
/// How far the clock may have been ahead when an answer was written to disk.
const CLOCK_AHEAD_MAX_MS: u64 = 5_000;
/// Who refreshes stale answers.
const REFRESHER: LookupUser = LookupUser(0);

/// All calls of the process, on the look-up thread.
pub(crate) struct ProviderCalls {
    maps: Arc<LoadedMaps>,
    limits: ProviderCallLimits,
    clock: LookupClock,
    client: HttpClient,
    /// By provider. None for those that are no databases.
    databases: Vec<Option<Rc<Database>>>,
    /// For calls at a time. The client has room for as many idle connections besides.
    places: Semaphore,
    /// For files that are read at a time.
    file_places: Arc<Semaphore>,
    /// By provider and instance.
    gates: Vec<Vec<Rc<LaneGate>>>,
    /// By provider and call.
    schemas: Vec<Vec<Arc<RecordSchema>>>,
    /// By provider and call, what answers on disk are of besides their URLs.
    origins: Vec<Vec<u32>>,
    flights: Rc<Flights>,
    cache: RefCell<Cache<CallKey, CallRecords, RecordsWeight>>,
    /// Behind the cache.
    disk: Option<Arc<DiskAnswers>>,
    counts: Arc<LookupCounts>,
}

/// Which answers a call may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WantedAnswer {
    /// One on disk too.
    Known,
    New,
}

impl ProviderCalls {
    /// Must run on the look-up thread.
    pub fn new(
        maps: Arc<LoadedMaps>,
        limits: ProviderCallLimits,
        disk: Option<Arc<DiskAnswers>>,
        counts: Arc<LookupCounts>,
    ) -> Rc<Self> {
        let timeouts = maps.map.providers.iter().map(|provider| provider.timeout);
        let options = ClientOptions {
            // Also of connections whose request has found another one.
            timeout: timeouts.max().unwrap_or_default(),
            idle_timeout: IDLE_TIMEOUT,
            idle_per_host_max: IDLE_PER_PROVIDER_MAX,
            connections_max: limits.connections.saturating_mul(2),
            addresses: AddressRule::Any,
            tls: Arc::new(client_config(None)),
        };
        let names = Arc::new(SystemNames::new());
        let databases = maps.databases.iter();
        let databases =
            databases.map(|of| of.as_ref().map(|of| Database::new(of, &options.tls, &names)));
        let databases = databases.collect();
        let clock = LookupClock::new();
        let gates = maps.map.providers.iter().map(|provider| {
            let options = || ProviderLaneOptions {
                concurrency_max: provider.concurrency_max,
                rate_max: provider.rate_max,
                waiting_max: limits.waiting_max,
                seed: rand::random(),
            };
            provider.instances.iter().map(|_| LaneGate::new(options(), clock)).collect()
        });
        let schemas = maps.map.providers.iter().map(|provider| {
            let schema = |call| Arc::new(RecordSchema::of(&maps.map, call));
            provider.calls.iter().map(schema).collect()
        });
        let origins = (0..maps.map.providers.len()).map(|provider| {
            let calls = maps.map.providers[provider].calls.iter();
            calls.map(|call| DiskAnswers::origin(&maps, provider, call)).collect()
        });
        let origins = origins.collect();
        let items = limits.cache_bytes / RECORDS_BYTES_TYPICAL;
        Rc::new(Self {
            places: Semaphore::new(limits.connections),
            file_places: Arc::new(Semaphore::new(folder::READS_MAX)),
            databases,
            client: HttpClient::new(options, names),
            gates: gates.collect(),
            schemas: schemas.collect(),
            origins,
            flights: Rc::default(),
            cache: RefCell::new(Cache::with_weighter(
                items,
                limits.cache_bytes as u64,
                RecordsWeight,
            )),
            clock,
            maps,
            limits,
            disk,
            counts,
        })
    }

    pub const fn clock(&self) -> LookupClock {
        self.clock
    }

    /// What the lanes do, by provider and instance.
    pub fn lanes(&self) -> impl Iterator<Item = (usize, usize, LaneStatus)> {
        self.gates.iter().enumerate().flat_map(|(provider, gates)| {
            let status =
                move |(instance, gate): (_, &Rc<LaneGate>)| (provider, instance, gate.status());
            gates.iter().enumerate().map(status)
        })
    }

    /// Makes a call, or answers it from the cache. `failed` learns why attempts before the last one
    /// failed.
    pub async fn call(
        self: &Rc<Self>,
        key: CallKey,
        caller: LaneCaller,
        failed: impl Fn(&Arc<str>),
    ) -> FlightResult {
        let answer = match self.cached(&key, unix_ms()) {
            Some(answer) => {
                // Many in a row must not keep others waiting.
                consume_budget().await;
                answer
            }
            None => self.fetch_in_time(&key, caller, failed).await?,
        };
        if answer.source != AnswerSource::Provider {
            self.counts.cached.add(1);
        }
        if answer.source == AnswerSource::Stale {
            self.refresh(key);
        }
        Ok(answer)
    }

    /// Replaces a stale answer, unless somebody does so.
    fn refresh(self: &Rc<Self>, key: CallKey) {
        let class = CallClass::Background;
        if self.flights.has(&(key.clone(), class)) {
            return;
        }
        let deadline = self.clock.now().after(REFRESH_TIMEOUT);
        let caller = LaneCaller { class, user: REFRESHER, deadline };
        let calls = Rc::clone(self);
        tokio::task::spawn_local(async move {
            calls.fetch(key, caller, WantedAnswer::New, |_| ()).await
        });
    }

    async fn fetch_in_time(
        self: &Rc<Self>,
        key: &CallKey,
        caller: LaneCaller,
        failed: impl Fn(&Arc<str>),
    ) -> FlightResult {
        loop {
            let result = self.fetch(key.clone(), caller, WantedAnswer::Known, &failed).await;
            // The one who began it had less time.
            let is_late = matches!(&result, Err(failure) if failure.is_late);
            if !is_late || caller.deadline <= self.clock.now() {
                return result;
            }
        }
    }

    /// The answer in memory, if it counts.
    pub fn cached(&self, key: &CallKey, now: u64) -> Option<ProviderCallAnswer> {
        let records = self.cache.borrow().get(key)?.clone();
        self.counted(key, records, now)
    }

    /// Records that were kept, if they count.
    fn counted(&self, key: &CallKey, records: CallRecords, now: u64) -> Option<ProviderCallAnswer> {
        let stale_ttl = self.maps.map.call(key.call).stale_ttl;
        let source = if now < records.expires_unix_ms {
            AnswerSource::Cache
        } else if now < records.expires_unix_ms.saturating_add(millis(stale_ttl)) {
            AnswerSource::Stale
        } else {
            return None;
        };
        Some(ProviderCallAnswer { records, source, attempts: 0 })
    }

    /// Asks the provider, together with all who ask the same.
    async fn fetch(
        self: &Rc<Self>,
        key: CallKey,
        caller: LaneCaller,
        wanted: WantedAnswer,
        failed: impl FnMut(&Arc<str>),
    ) -> FlightResult {
        let flight_key = (key, caller.class);
        let begin = |news| {
            let (calls, key) = (Rc::clone(self), flight_key.0.clone());
            async move {
                if wanted == WantedAnswer::Known
                    && let Some(answer) = calls.load(&key).await
                {
                    return Ok(answer);
                }
                calls.attempts(key, caller, news).await
            }
        };
        self.flights.join(&flight_key, begin).ended(failed).await
    }

    /// Attempts of a call, until one succeeds or there are to be no more.
    async fn attempts(
        self: Rc<Self>,
        key: CallKey,
        caller: LaneCaller,
        news: Rc<FlightNews>,
    ) -> FlightResult {
        let gate = &self.gates[key.call.provider][key.instance];
        let mut turn = gate.enter(caller).await;
        let mut last: Option<ProviderCallFailure> = None;
        loop {
            let permit = match turn {
                Ok(permit) => permit,
                Err(refusal) => return Err(refused(refusal, last)),
            };
            let attempt = permit.attempt();
            self.counts.attempts.add(1);
            let asked = self.ask(&key).await;
            let (outcome, failure) = match asked {
                Ok(read) => {
                    let records = self.keep(&key, read, unix_ms());
                    let again = permit.end(AttemptOutcome::Answered).await;
                    assert!(again.is_none(), "what is answered is not asked again");
                    let source = AnswerSource::Provider;
                    return Ok(ProviderCallAnswer { records, source, attempts: attempt });
                }
                Err(AttemptFailure::Busy(after, reason)) => {
                    let failure = ProviderCallFailure::new(FailureKind::Shed, reason, attempt);
                    (AttemptOutcome::Busy(after), failure)
                }
                Err(AttemptFailure::Failed(reason)) => {
                    let failure = ProviderCallFailure::new(FailureKind::Error, reason, attempt);
                    (AttemptOutcome::Failed, failure)
                }
                Err(AttemptFailure::TimedOut) => {
                    let timeout = self.maps.map.providers[key.call.provider].timeout;
                    let reason = format!("no answer within {timeout:?}");
                    let failure = ProviderCallFailure::new(FailureKind::Timeout, reason, attempt);
                    (AttemptOutcome::Failed, failure)
                }
                Err(AttemptFailure::Declined(reason)) => {
                    let failure = ProviderCallFailure::new(FailureKind::Error, reason, attempt);
                    (AttemptOutcome::Answered, failure)
                }
                Err(AttemptFailure::Unasked(reason)) => {
                    let failure = ProviderCallFailure::new(FailureKind::Shed, reason, attempt);
                    (AttemptOutcome::Cancelled, failure)
                }
            };
            self.counts.failures.add(1);
            news.failed(&failure.reason);
            let wait = match outcome {
                AttemptOutcome::Busy(after) => after.unwrap_or_default(),
                _ => Duration::ZERO,
            };
            match permit.end(outcome).await {
                None => {
                    // Others who wait for it may have more time.
                    let is_late = outcome != AttemptOutcome::Answered
                        && caller.deadline <= self.clock.now().after(wait);
                    return Err(ProviderCallFailure { is_late, ..failure });
                }
                Some(next) => (turn, last) = (next, Some(failure)),
            }
        }
    }

    /// One attempt. Returns the records, and their bytes in memory.
    async fn ask(&self, key: &CallKey) -> Result<ReadAnswer, AttemptFailure> {
        let _place = self.places.acquire().await.expect("it is never closed");
        let provider = &self.maps.map.providers[key.call.provider];
        let url = self.url(key);
        let headers = &self.maps.headers[key.call.provider];
        let limits =
            AnswerLimits { bytes_max: self.limits.answer_bytes, timeout: provider.timeout };
        let call = self.maps.map.call(key.call);
        let body = match (&self.databases[key.call.provider], url.strip_prefix(FOLDER)) {
            (Some(database), _) => database.ask(call, &key.target, limits).await?,
            (None, Some(path)) => folder::read(path, limits, &self.file_places).await?,
            (None, None) => client::get(&self.client, &url, headers, limits).await?,
        };
        let disk = self.disk.as_ref().filter(|_| call.is_kept() && !url.starts_with(FOLDER));
        let Some(body) = body else {
            if let Some(disk) = disk {
                disk.forget(&self.disk_key(key));
            }
            return Ok(ReadAnswer::default());
        };
        let read = self.read(key, body.clone()).await;
        let read = read.map_err(|error| AttemptFailure::Failed(error.to_string()))?;
        if let Some(disk) = disk {
            disk.write(&self.disk_key(key), unix_ms(), body);
        }
        Ok(read)
    }

    /// Another provider, query or database may give another answer at the same URL.
    fn disk_key(&self, key: &CallKey) -> String {
        let CallId { provider, call } = key.call;
        let (name, origin) =
            (&self.maps.map.providers[provider].name, self.origins[provider][call]);
        format!("{name} {origin:08x} {}", self.url(key))
    }

    fn url(&self, key: &CallKey) -> String {
        let provider = &self.maps.map.providers[key.call.provider];
        format!("{}{}", provider.instances[key.instance].1, key.target)
    }

    /// Asks the disk for an answer of an earlier process, and keeps it.
    async fn load(&self, key: &CallKey) -> Option<ProviderCallAnswer> {
        let disk = self.disk.as_ref().filter(|_| self.maps.map.call(key.call).is_kept())?;
        let (fetched_unix_ms, body) = disk.load(&self.disk_key(key)).await?;
        // Of a clock that was ahead, nothing says how old it is.
        if unix_ms().saturating_add(CLOCK_AHEAD_MAX_MS) < fetched_unix_ms {
            return None;
        }
        // It may have been written for another map.
        let read = self.read(key, body).await.ok()?;
        let now = unix_ms();
        let answer = self.counted(key, self.records(key, read, fetched_unix_ms), now)?;
        // A newer one may have come meanwhile.
        if let Some(newer) = self.cached(key, now) {
            return Some(newer);
        }
        self.counts.loaded.add(1);
        self.cache.borrow_mut().insert(key.clone(), answer.records.clone());
        Some(answer)
    }

    /// Reads an answer, a large one on another thread.
    async fn read(&self, key: &CallKey, body: Bytes) -> Result<ReadAnswer, UnreadableRecords> {
        let schema = Arc::clone(&self.schemas[key.call.provider][key.call.call]);
        let (maps, call) = (Arc::clone(&self.maps), key.call);
        let is_large = READ_INLINE_MAX < body.len();
        let read = move || {
            let form = &maps.map.call(call).form;
            let set = records::read(form, &schema, &body, RecordLimits::default())?;
            Ok(ReadAnswer { bytes: set.bytes(), set })
        };
        if !is_large {
            return read();
        }
        tokio::task::spawn_blocking(read).await.expect("reading does not panic")
    }

    /// Keeps the records of an answer for as long as they count.
    fn keep(&self, key: &CallKey, read: ReadAnswer, fetched_unix_ms: u64) -> CallRecords {
        let records = self.records(key, read, fetched_unix_ms);
        if self.maps.map.call(key.call).is_kept() {
            self.cache.borrow_mut().insert(key.clone(), records.clone());
        }
        records
    }

    fn records(&self, key: &CallKey, read: ReadAnswer, fetched_unix_ms: u64) -> CallRecords {
        let ReadAnswer { set, bytes } = read;
        let ProviderCall { ttl, empty_ttl, .. } = self.maps.map.call(key.call);
        let ttl = if set.rows.is_empty() { *empty_ttl } else { *ttl };
        let expires_unix_ms = fetched_unix_ms.saturating_add(millis(ttl));
        CallRecords { set: Arc::new(set), bytes, fetched_unix_ms, expires_unix_ms }
    }
}

/// The records of an answer, and their bytes in memory.
#[derive(Default)]
struct ReadAnswer {
    set: RecordSet,
    bytes: usize,
}

fn refused(refusal: CallRefusal, last: Option<ProviderCallFailure>) -> ProviderCallFailure {
    let attempts = last.as_ref().map_or(0, |failure| failure.attempts);
    match (refusal, last) {
        (CallRefusal::TooLate, Some(last)) => ProviderCallFailure { is_late: true, ..last },
        (CallRefusal::TooLate, None) => {
            let reason = "the deadline passed while the call waited for its turn";
            let failure = ProviderCallFailure::new(FailureKind::Timeout, reason, 0);
            ProviderCallFailure { is_late: true, ..failure }
        }
        (CallRefusal::Full(wait), _) => {
            let reason = format!("too many calls wait: there may be room in {wait:.1?}");
            ProviderCallFailure::new(FailureKind::Shed, reason, attempts)
        }
        (CallRefusal::LeftAlone(wait), _) => {
            let reason = format!("the provider failed again and again: it is tried in {wait:.1?}");
            ProviderCallFailure::new(FailureKind::Shed, reason, attempts)
        }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// For how many answers the cache makes room at first.
const RECORDS_BYTES_TYPICAL: usize = 16 << 10;

/// Bytes of a key and its records.
#[derive(Clone)]
struct RecordsWeight;

impl Weighter<CallKey, CallRecords> for RecordsWeight {
    fn weight(&self, key: &CallKey, records: &CallRecords) -> u64 {
        let bytes = size_of::<(CallKey, CallRecords)>() + key.target.len() + records.bytes;
        bytes as u64
    }
}
