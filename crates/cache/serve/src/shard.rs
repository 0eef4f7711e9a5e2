//! The cache's part of a shard: its handle of the store, its connections to origins.

pub(crate) mod loads;
pub(crate) mod spooler;
pub(crate) mod store;
pub(crate) mod sweeper;
pub(crate) mod values;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

use bravo::Handle;
use bytes::BytesMut;
use cache_core::fields::dates::UnixSeconds;
use cache_core::key::{CacheKey, QueryRules, TargetUri};
use cache_core::puts::PutValue;
use cache_core::rules::control::RequestControl;
use cache_core::rules::reuse::ReuseRules;
use cache_core::rules::vary::RequestFields;
use cache_core::store::answer::{AnswerContext, CacheAnswer, ClientRequest, ReadyAnswer};
use cache_core::store::hot::HotKeys;
use cache_core::store::purges::{KeyPurges, PurgeNumber, Purges};
use cache_core::store::response::{Resource, StoredResponse};
use cache_core::store::wire::WrittenHit;
use hyper::header::{HeaderValue, VIA};
use hyper::{HeaderMap, Response};
use runtime::metrics::Padded;
use runtime::shards::{Admission, Tasks};

use crate::answers::body::CacheBody;
use crate::answers::{CACHE_STATUS, ready};
use crate::config::CacheRoute;
use crate::counters::{PutCounts, RouteCounts};
use crate::origin::Origins;
use loads::LoadPlace;
use store::{PurgesView, SharedStore};
use values::{key_of, random_uuid, value_response};

/// What one answer from the store is copied into; several share it.
const BUFFER_BYTES: usize = 64 << 10;

/// After the first requests, one of so many is counted for the hot keys.
const SAMPLED: u64 = 8;

/// So many first requests are all counted.
const COUNTED_FIRST: u64 = 1_024;

/// The cache on one shard.
pub(crate) struct CacheShard {
    pub store: Arc<SharedStore>,
    pub origins: Origins,
    pub tasks: Tasks,
    /// Of requests that memory does not answer.
    pub admission: Admission,
    /// What this cache appends to `Via`.
    pub via: HeaderValue,
    handle: RefCell<Handle>,
    buffer: RefCell<BytesMut>,
    /// The message of a hit that is written at once.
    message: RefCell<BytesMut>,
    purges: RefCell<PurgesView>,
    /// The key of the request that is looked up.
    key: RefCell<String>,
    /// Requests that were looked up.
    requests: Cell<u64>,
    hot: Arc<Padded<Mutex<HotKeys>>>,
    /// Separates parts of an answer with several ranges: random, so that no body contains it.
    boundary: String,
    /// By route.
    counts: Vec<Arc<Padded<RouteCounts>>>,
    put_counts: Arc<Padded<PutCounts>>,
}

/// What a shard begins with.
pub(crate) struct CacheShardParts {
    pub store: Arc<SharedStore>,
    pub handle: Handle,
    pub tasks: Tasks,
    pub admission: Admission,
    pub counts: Vec<Arc<Padded<RouteCounts>>>,
    pub put_counts: Arc<Padded<PutCounts>>,
    /// What it is asked for most.
    pub hot: Arc<Padded<Mutex<HotKeys>>>,
    /// Connections to origins.
    pub connections_max: usize,
}

impl CacheShard {
    /// Must run on the shard.
    pub fn new(parts: CacheShardParts) -> Rc<Self> {
        let CacheShardParts { store, handle, tasks, admission, counts, put_counts, .. } = parts;
        let via = format!("1.1 {}", store.config.name);
        Rc::new(Self {
            purges: RefCell::new(store.purges_view()),
            origins: Origins::new(
                store.config.routes.clone(),
                Arc::clone(&store.health),
                parts.connections_max,
            ),
            store,
            tasks,
            admission,
            via: HeaderValue::try_from(via).expect("a name is a token"),
            handle: RefCell::new(handle),
            buffer: RefCell::new(BytesMut::with_capacity(BUFFER_BYTES)),
            message: RefCell::default(),
            key: RefCell::default(),
            requests: Cell::default(),
            hot: parts.hot,
            boundary: format!("{:032x}", rand::random::<u128>()),
            counts,
            put_counts,
        })
    }

    /// A route by its index.
    pub fn route_at(&self, at: usize) -> &Arc<CacheRoute> {
        &self.store.config.routes.all()[at]
    }

    /// What this shard counts for a route.
    pub fn counts(&self, route: usize) -> &RouteCounts {
        &self.counts[route]
    }

    /// The same, for a body that outlives the request.
    pub fn shared_counts(&self, route: usize) -> Arc<Padded<RouteCounts>> {
        Arc::clone(&self.counts[route])
    }

    /// What this shard counts of values that clients store.
    pub fn put_counts(&self) -> &PutCounts {
        &self.put_counts
    }

    /// What a client gets of the store's answer.
    pub fn hit(&self, answer: ReadyAnswer) -> Response<CacheBody> {
        let cache_status = answer.cache_status.clone();
        let mut response = ready(answer);
        let headers = response.headers_mut();
        headers.append(VIA, self.via.clone());
        headers.append(&CACHE_STATUS, cache_status);
        response
    }

    /// Writes the key of a request into a reused buffer and reads it there. None if the URI is
    /// malformed.
    pub fn with_key<R>(
        &self,
        target: TargetUri<'_>,
        rules: &QueryRules,
        read: impl FnOnce(&str) -> R,
    ) -> Option<R> {
        let mut key = self.key.borrow_mut();
        key.clear();
        target.write_key(rules, &mut key).then(|| read(&key))
    }

    /// Asks the store. None if nothing is stored for the key.
    pub fn look_up(
        &self,
        key: &str,
        request: ClientRequest<'_>,
        rules: ReuseRules,
    ) -> Option<CacheAnswer> {
        self.count(key);
        self.look_up_again(key, request, rules)
    }

    /// Likewise, for a request that is counted.
    fn look_up_again(
        &self,
        key: &str,
        request: ClientRequest<'_>,
        rules: ReuseRules,
    ) -> Option<CacheAnswer> {
        let mut buffer = self.buffer.borrow_mut();
        self.with_purges(key, |purges| {
            let context = self.context(purges, rules);
            self.store.probe(&mut self.handle.borrow_mut(), key, |resource| {
                resource.answer(request, context, &mut buffer)
            })
        })
    }

    /// Writes the message of a hit that can be sent at once, and hands it to `send`. None if the
    /// request is to be answered otherwise.
    pub fn write_hit(
        &self,
        key: &str,
        request: &impl RequestFields,
        rules: ReuseRules,
        send: impl FnOnce(&[u8]),
    ) -> Option<WrittenHit> {
        let mut message = self.message.borrow_mut();
        message.clear();
        let written = self.with_purges(key, |purges| {
            let context = self.context(purges, rules);
            self.store.probe(&mut self.handle.borrow_mut(), key, |resource| {
                resource.write_hit(request, context, &mut message)
            })
        });
        let written = written.flatten()?;
        self.count(key);
        send(&message);
        Some(written)
    }

    /// The answer of a response that the origin has just validated, or that may stand in for an
    /// error. None if only the origin can answer.
    pub fn answer_with(
        &self,
        key: &CacheKey,
        stored: &StoredResponse,
        request: ClientRequest<'_>,
        rules: ReuseRules,
    ) -> Option<ReadyAnswer> {
        self.with_purges(key.as_str(), |purges| {
            let context = self.context(purges, rules);
            let served = stored.freshness(purges)?.at(context.now);
            stored.answer(request, context, &mut self.buffer.borrow_mut(), served)
        })
    }

    /// A copy of a stored response, with the purges since, if it may be served because the origin
    /// failed.
    pub fn serves_errors(
        &self,
        key: &CacheKey,
        stored: &StoredResponse,
        control: &RequestControl,
        rules: ReuseRules,
    ) -> Option<StoredResponse> {
        self.with_purges(key.as_str(), |purges| {
            let purged = stored.clone().purged(purges)?;
            let serves = purged.freshness(purges)?.serves_errors(control, self.now(), rules);
            serves.then_some(purged)
        })
    }

    /// A copy of the stored response that answers a request. None if none does.
    pub fn stored(&self, key: &CacheKey, request: &HeaderMap) -> Option<StoredResponse> {
        self.with_purges(key.as_str(), |purges| {
            let select = |resource: &Resource| resource.select(request)?.current(purges);
            self.store.probe(&mut self.handle.borrow_mut(), key.as_str(), select).flatten()
        })
    }

    /// Stores a response to a request, unless it was purged since it was asked for.
    pub fn put(&self, route: usize, key: &CacheKey, response: StoredResponse, request: &HeaderMap) {
        let put = self.store.put(&mut self.handle.borrow_mut(), key, response, request);
        if let Some(evicted) = put {
            self.counts(route).stored.increment();
            self.counts(route).evicted.add(evicted as u64);
        }
    }

    /// Stores what a client has put. Returns its UUID.
    pub fn put_value(&self, value: PutValue) -> String {
        let uuid = random_uuid();
        let response = value_response(value, self.now(), self.newest_purge());
        let handle = &mut self.handle.borrow_mut();
        self.store.put(handle, &key_of(&uuid), response, &HeaderMap::new());
        uuid
    }

    /// Makes all responses of a key stale.
    pub fn invalidate(&self, key: &CacheKey) {
        self.store.invalidate(&mut self.handle.borrow_mut(), key);
    }

    /// The purges, as they concern a key.
    pub fn with_purges<R>(&self, key: &str, read: impl FnOnce(KeyPurges<'_>) -> R) -> R {
        read(self.purges.borrow_mut().load().of(key))
    }

    /// The number of the newest purge.
    pub fn newest_purge(&self) -> PurgeNumber {
        self.purges.borrow_mut().load().newest()
    }

    /// Applies purges to some entries: see [`SharedStore::sweep`].
    fn sweep(&self, purges: &Purges, cursor: usize, count: usize) -> Option<usize> {
        self.store.sweep(&mut self.handle.borrow_mut(), purges, cursor, count)
    }

    /// Writes entries to the disk: see [`SharedStore::write_reused`].
    fn write_reused(&self, cursor: usize, count: usize) -> Option<usize> {
        self.store.write_reused(&mut self.handle.borrow_mut(), cursor, count)
    }

    /// Asks the disk, and keeps in memory what it has. None if it has nothing for the key.
    pub async fn load(
        &self,
        route: Option<usize>,
        key: &CacheKey,
        request: ClientRequest<'_>,
        rules: ReuseRules,
    ) -> Option<CacheAnswer> {
        let key = key.as_str();
        let disk = self.store.disk.as_ref().filter(|disk| disk.contains(key))?;
        let lead = match self.store.loads.join(key) {
            LoadPlace::Leads(lead) => Some(lead),
            LoadPlace::Waits(ended) => {
                // It always fails: nothing is sent. If memory has nothing even so, the one that read has
                // lost its client, or there is no room.
                let _ended = ended.await;
                None
            }
        };
        // Another may also have read it since this one asked the memory.
        let found = self.look_up_again(key, request, rules);
        if found.is_some() || !disk.contains(key) {
            return found;
        }
        let loaded = disk.load(key).await?;
        let mut buffer = self.buffer.borrow_mut();
        let (answer, evicted) = self.with_purges(key, |purges| {
            let context = self.context(purges, rules);
            self.store.take_over(&mut self.handle.borrow_mut(), key, loaded, |resource| {
                resource.answer(request, context, &mut buffer)
            })
        });
        drop(lead);
        if let Some(route) = route {
            self.counts(route).loaded.increment();
            self.counts(route).evicted.add(evicted as u64);
        }
        answer
    }

    fn context<'c>(&'c self, purges: KeyPurges<'c>, rules: ReuseRules) -> AnswerContext<'c> {
        let name = &self.store.config.name;
        AnswerContext { now: self.now(), rules, boundary: &self.boundary, name, purges }
    }

    /// Counts some requests of a key, each for those that are not counted.
    fn count(&self, key: &str) {
        let requests = self.requests.replace(self.requests.get() + 1);
        let weight = if requests < COUNTED_FIRST { 1 } else { SAMPLED };
        if requests.is_multiple_of(weight) {
            // Only an operator who asks for them takes this lock too.
            self.hot.lock().unwrap_or_else(PoisonError::into_inner).count(key, weight);
        }
    }

    /// The time.
    pub fn now(&self) -> UnixSeconds {
        UnixSeconds(runtime::process::unix_ms() / 1000)
    }
}
