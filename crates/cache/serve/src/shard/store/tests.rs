//! The store under threads that fetch, purge, sweep and look up at once: nobody gets what was purged
//! before the look-up began, a response to another request, or a body of another key.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use cache_core::fields::dates::UnixSeconds;
use cache_core::rules::control::{RequestControl, ResponseControl};
use cache_core::rules::freshness::ExchangeTimes;
use cache_core::rules::reuse::ReuseRules;
use cache_core::store::answer::{AnswerBody, AnswerContext, CacheAnswer, ClientRequest};
use cache_core::store::purges::{PurgeEffect, PurgeNumber};
use cache_core::store::response::{LifetimeRules, ReceivedResponse, StoredBody};
use cache_disk::{DiskAdmission, DiskLimits};
use eventlog::disk::DiskFolder;
use hyper::header::{HeaderName, HeaderValue};
use hyper::{Method, StatusCode};
use runtime::config::parse;
use runtime::service::Service as _;
use tokio::runtime::{Builder, Runtime};

use super::*;
use crate::service::Cache as CacheService;

const KEYS: usize = 32;
const NOW: UnixSeconds = UnixSeconds(1_000_000);

fn config() -> CacheConfig {
    let text = "[cache]\nlisten = \"127.0.0.1:0\"\nmemory = \"1MiB\"\nobject_max = \"64KiB\"\n\
                [[cache.route]]\nid = \"all\"\norigin = \"http://127.0.0.1:9\"\n";
    parse("test.toml", text, CacheService::read).unwrap().unwrap()
}

fn key(at: usize) -> CacheKey {
    CacheKey::written(&format!("http://cdn.example/{at}"))
}

/// The request that selects one of two variants.
fn request(variant: usize) -> HeaderMap {
    let value = HeaderValue::from(variant);
    HeaderMap::from_iter([(HeaderName::from_static("x-variant"), value)])
}

/// A response that says what it is; some 50 of them fill the store.
fn response(at: usize, variant: usize, version: usize, through: PurgeNumber) -> StoredResponse {
    let mut headers = HeaderMap::new();
    let name = format!("odd/{}", at % 2);
    for (field, value) in
        [("cache-control", "max-age=600"), ("vary", "x-variant"), ("surrogate-key", &name)]
    {
        headers.insert(HeaderName::from_static(field), HeaderValue::from_str(value).unwrap());
    }
    let received = ReceivedResponse {
        status: StatusCode::OK,
        headers: &headers,
        control: &ResponseControl::of(&headers, &[]),
        times: ExchangeTimes { requested: NOW, received: NOW },
        purged_through: through,
    };
    let text = format!("{at} {variant} {version} ");
    let body = StoredBody::Shared([Bytes::from(text), Bytes::from(vec![b'x'; 20 << 10])].into());
    StoredResponse::new(&received, &request(variant), body, LifetimeRules::default()).unwrap()
}

/// What a look-up finds in memory, else on the disk, as its body says. None if it is not served.
fn look_up(
    store: &SharedStore,
    (handle, view): (&mut Handle, &mut PurgesView),
    runtime: &Runtime,
    at: usize,
    variant: usize,
) -> Option<[usize; 3]> {
    let (headers, control) = (request(variant), RequestControl::default());
    let request = ClientRequest { method: &Method::GET, headers: &headers, control: &control };
    let key = key(at);
    let rules = ReuseRules::default();
    let purges = Arc::clone(view.load());
    let context = AnswerContext {
        now: NOW,
        rules,
        boundary: "b",
        name: "cache",
        purges: purges.of(key.as_str()),
    };
    let answer = |resource: &Resource| resource.answer(request, context, &mut BytesMut::new());
    let mut found = store.probe(handle, key.as_str(), answer);
    if found.is_none()
        && let Some(disk) = &store.disk
        && let Some(loaded) = runtime.block_on(disk.load(key.as_str()))
    {
        found = store.take_over(handle, key.as_str(), loaded, answer).0;
    }
    let Some(CacheAnswer::Ready(answer)) = found else { return None };
    let AnswerBody::Pieces(pieces) = answer.body else { panic!("it is shared") };
    let text = str::from_utf8(&pieces[0]).unwrap();
    let numbers = text.split_whitespace().take(3).map(|it| it.parse().unwrap());
    Some(numbers.collect::<Vec<usize>>().try_into().unwrap())
}

struct StoreUnderLoad {
    store: Arc<SharedStore>,
    /// What an origin would answer next: later versions are greater.
    versions: AtomicUsize,
    /// By key: what was there before this version is purged.
    purged_before: [AtomicUsize; KEYS],
    is_over: AtomicBool,
    /// Look-ups that were served, and responses that were purged on their way.
    served: AtomicUsize,
    purged_on_their_way: AtomicUsize,
}

impl StoreUnderLoad {
    fn read(&self, mut handle: Handle, seed: u32) {
        let (mut random, mut view) = (Random(seed), self.store.purges_view());
        let runtime = Builder::new_current_thread().enable_time().build().unwrap();
        while !self.is_over.load(SeqCst) {
            let (at, variant) = (random.below(KEYS), random.below(2));
            let purged_before = self.purged_before[at].load(SeqCst);
            let found = look_up(&self.store, (&mut handle, &mut view), &runtime, at, variant);
            if let Some([of_key, of_variant, version]) = found {
                assert_eq!((of_key, of_variant), (at, variant));
                assert!(version >= purged_before, "key {at}: {version} before {purged_before}");
                self.served.fetch_add(1, SeqCst);
            }
        }
    }

    fn fetch(&self, mut handle: Handle, seed: u32) {
        let mut random = Random(seed);
        while !self.is_over.load(SeqCst) {
            let (at, variant) = (random.below(KEYS), random.below(2));
            let through = self.store.purges().newest();
            let version = self.versions.fetch_add(1, SeqCst);
            for _ in 0..random.below(8) {
                thread::yield_now();
            }
            let response = response(at, variant, version, through);
            let put = self.store.put(&mut handle, &key(at), response, &request(variant));
            self.purged_on_their_way.fetch_add(usize::from(put.is_none()), SeqCst);
        }
    }

    fn sweep(&self, mut handle: Handle) {
        while !self.is_over.load(SeqCst) {
            let purges = self.store.purges();
            let mut cursor = Some(0).filter(|_| purges.pending() > 0);
            while let Some(at) = cursor {
                cursor = self.store.sweep(&mut handle, &purges, at, 16);
            }
            let mut cursor = Some(0);
            while let Some(at) = cursor {
                cursor = self.store.write_reused(&mut handle, at, 16);
            }
            thread::yield_now();
        }
    }

    /// Look-ups served, responses purged on their way, and responses purged in the store.
    fn counts(&self) -> [u64; 3] {
        let loads =
            [&self.served, &self.purged_on_their_way].map(|count| count.load(SeqCst) as u64);
        [loads[0], loads[1], self.store.purged_count()]
    }

    /// So many purges, and more until enough has happened beside them.
    fn purge(&self, seed: u32, count: usize) {
        let mut random = Random(seed);
        let is_enough = || self.counts().iter().all(|count| *count > 20);
        for _ in (0..100_000).take_while(|at| *at < count || !is_enough()) {
            let at = random.below(KEYS);
            let (scope, concerns): (_, fn(usize, usize) -> bool) = match random.below(4) {
                0 => (PurgeScope::SurrogateKey(format!("odd/{}", at % 2).into()), |at, other| {
                    at % 2 == other % 2
                }),
                // Also those that it begins: 1 and 10.
                1 => (PurgeScope::Prefix(key(at).as_str().into()), |at, other| {
                    other.to_string().starts_with(&at.to_string())
                }),
                _ => (PurgeScope::Key(key(at)), |at, other| at == other),
            };
            let effect = match random.below(2) {
                0 => PurgeEffect::Gone,
                _ => PurgeEffect::Stale(NOW),
            };
            let version = self.versions.load(SeqCst);
            if self.store.purge(&Purge { scope, effect }).is_ok() {
                for other in (0..KEYS).filter(|other| concerns(at, *other)) {
                    self.purged_before[other].fetch_max(version, SeqCst);
                }
            }
            for _ in 0..random.below(16) {
                thread::yield_now();
            }
        }
        self.is_over.store(true, SeqCst);
    }
}

/// Xorshift.
struct Random(u32);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 17;
        self.0 ^= self.0 << 5;
        self.0 as usize % end
    }
}

/// Returns the store after the load, with what it counted.
fn under_load(disk: Option<DiskTier>) -> Arc<SharedStore> {
    let (store, mut handles) = SharedStore::new(config(), disk, 5);
    let load = StoreUnderLoad {
        store,
        versions: AtomicUsize::new(1),
        purged_before: Default::default(),
        is_over: AtomicBool::new(false),
        served: AtomicUsize::new(0),
        purged_on_their_way: AtomicUsize::new(0),
    };
    let mut handle = || handles.pop().unwrap();
    thread::scope(|scope| {
        let load = &load;
        for (seed, handle) in [(1, handle()), (2, handle())] {
            scope.spawn(move || load.read(handle, seed));
        }
        for (seed, handle) in [(3, handle()), (4, handle())] {
            scope.spawn(move || load.fetch(handle, seed));
        }
        let handle = handle();
        scope.spawn(move || load.sweep(handle));
        load.purge(5, 400);
    });
    let counts = load.counts();
    assert!(counts.iter().all(|count| *count > 20), "too little happened: {counts:?}");
    load.store
}

#[test]
fn nothing_that_was_purged_is_served_while_all_work_at_once() {
    under_load(None);
}

#[test]
fn nor_with_a_disk_behind_the_memory() {
    let directory = tempfile::tempdir().unwrap();
    let limits = DiskLimits {
        bytes_max: 64 << 20,
        waiting_max: 1 << 20,
        read_timeout: Duration::from_secs(10),
        readers: 2,
        admission: DiskAdmission::Repeated,
    };
    let folder = DiskFolder::new(directory.path()).unwrap();
    let store = under_load(Some(DiskTier::open(folder, limits, &[]).unwrap()));
    let figures = store.disk.as_ref().unwrap().figures();
    store.close_disk();
    assert!(figures.read > 20 && figures.written > 20, "too little happened: {figures:?}");
}
