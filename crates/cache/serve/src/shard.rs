//! The cache's part of a shard: its handle of the store, its connections to origins.

pub(crate) mod store;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use bravo::Handle;
use bytes::BytesMut;
use cache_core::fields::dates::UnixSeconds;
use cache_core::key::{CacheKey, QueryRules, TargetUri};
use cache_core::store::answer::{AnswerContext, CacheAnswer, ClientRequest, ReadyAnswer};
use cache_core::store::response::{Resource, StoredResponse};
use hyper::HeaderMap;
use hyper::header::HeaderValue;
use runtime::metrics::Padded;
use runtime::shards::Tasks;

use crate::config::CacheRoute;
use crate::counters::RouteCounts;
use crate::origin::Origins;
use store::SharedStore;

/// What one answer from the store is copied into; several share it.
const BUFFER_BYTES: usize = 64 << 10;

/// The cache on one shard.
pub(crate) struct CacheShard {
    pub store: Arc<SharedStore>,
    pub origins: Rc<Origins>,
    pub tasks: Tasks,
    /// What this cache appends to `Via`.
    pub via: HeaderValue,
    handle: RefCell<Handle>,
    buffer: RefCell<BytesMut>,
    /// The key of the request that is looked up.
    key: RefCell<String>,
    /// Separates parts of an answer with several ranges: random, so that no body contains it.
    boundary: String,
    /// By route.
    counts: Vec<Arc<Padded<RouteCounts>>>,
}

/// What a shard begins with.
pub(crate) struct CacheShardParts {
    pub store: Arc<SharedStore>,
    pub handle: Handle,
    pub tasks: Tasks,
    pub counts: Vec<Arc<Padded<RouteCounts>>>,
    /// Connections to origins.
    pub connections_max: usize,
}

impl CacheShard {
    /// Must run on the shard.
    pub fn new(parts: CacheShardParts) -> Rc<Self> {
        let CacheShardParts { store, handle, tasks, counts, connections_max } = parts;
        let via = format!("1.1 {}", store.config.name);
        Rc::new(Self {
            store,
            origins: Origins::new(connections_max),
            tasks,
            via: HeaderValue::try_from(via).expect("a name is a token"),
            handle: RefCell::new(handle),
            buffer: RefCell::new(BytesMut::with_capacity(BUFFER_BYTES)),
            key: RefCell::default(),
            boundary: format!("{:032x}", rand::random::<u128>()),
            counts,
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
        context: AnswerContext<'_>,
    ) -> Option<CacheAnswer> {
        let mut buffer = self.buffer.borrow_mut();
        self.store.probe(&mut self.handle.borrow_mut(), key, |resource| {
            resource.answer(request, context, &mut buffer)
        })
    }

    /// The answer of a response that the origin has just validated, or that may stand in for an
    /// error. None if only the origin can answer.
    pub fn answer_with(
        &self,
        stored: &StoredResponse,
        request: ClientRequest<'_>,
        context: AnswerContext<'_>,
    ) -> Option<ReadyAnswer> {
        let served = stored.freshness().at(context.now);
        stored.answer(request, context, &mut self.buffer.borrow_mut(), served)
    }

    /// A copy of the stored response that answers a request. None if none does.
    pub fn stored(&self, key: &CacheKey, request: &HeaderMap) -> Option<StoredResponse> {
        let select = |resource: &Resource| resource.select(request).cloned();
        self.store.probe(&mut self.handle.borrow_mut(), key.as_str(), select).flatten()
    }

    /// Stores a response to a request.
    pub fn put(&self, route: usize, key: &CacheKey, response: StoredResponse, request: &HeaderMap) {
        let gone = self.store.put(&mut self.handle.borrow_mut(), key, response, request);
        self.counts(route).stored.increment();
        self.counts(route).evicted.add(gone.len() as u64);
    }

    /// Makes all responses of a key stale.
    pub fn invalidate(&self, key: &CacheKey) {
        self.store.invalidate(&mut self.handle.borrow_mut(), key);
    }

    /// Separates parts of an answer with several ranges.
    pub fn boundary(&self) -> &str {
        &self.boundary
    }

    /// The time.
    pub fn now(&self) -> UnixSeconds {
        UnixSeconds(runtime::process::unix_ms() / 1000)
    }
}
