//! The admin API of the cache: what it has, what is asked for most, and purges.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use cache_core::fields::dates::UnixSeconds;
use cache_core::fields::surrogate::is_surrogate_key;
use cache_core::key::{CacheKey, QueryRules, TargetUri};
use cache_core::origin_health::OriginHealth;
use cache_core::store::hot::{HotKeys, KeyCount};
use cache_core::store::purges::{KeyPurges, Purge, PurgeEffect, PurgeScope};
use cache_core::store::response::StoredResponse;
use cache_disk::DiskFigures;
use hyper::Uri;
use runtime::admin::{
    Api, ApiCall, CountsByLabel, ErrorCode, ErrorField, Method, Operation, Reply, ReplyResult,
    Route, counts_schema,
};
use runtime::metrics::PerShard;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::metrics::{COUNTS, PUT_COUNTS, PutCount, RouteCount};
use crate::config::CacheRoute;
use crate::counters::{CountsByRoute, PutCounts, RouteCounts};
use crate::shard::store::SharedStore;

const JSON: &[&str] = &["application/json"];
const UNCONFIGURED: &str = "The configuration has no `[cache]`.";
/// Keys of a list of hot ones, unless the query says otherwise, and at most.
const HOT_DEFAULT: usize = 20;
const HOT_MAX: usize = 1_000;

/// What the API works on.
pub(crate) struct CacheApi {
    pub listen: SocketAddr,
    pub store: Arc<SharedStore>,
    pub counts: CountsByRoute,
    pub put_counts: PerShard<PutCounts>,
    pub hot: PerShard<Mutex<HotKeys>>,
}

/// The cache. Counters start with the process.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Cache")]
struct CacheView {
    listen: String,
    /// Resources in the store.
    entries: usize,
    /// Of the store, in bytes.
    bytes: usize,
    /// `memory` of the configuration, in bytes.
    bytes_max: usize,
    /// Of bodies that are being fetched.
    fetching_bytes: usize,
    /// Purges that were asked for.
    purges: u64,
    /// Of these, those that are being applied. What they concern is not served any more.
    purges_pending: usize,
    /// Responses that purges removed or made stale.
    purged: u64,
    /// The store behind the memory. Null without `[cache.disk]`.
    disk: Option<DiskView>,
    /// Values that clients store. Null if they may not.
    #[schemars(schema_with = "put_counts")]
    puts: Option<CountsByLabel>,
    /// In the order of the configuration.
    routes: Vec<RouteView>,
}

/// The store on disk.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "CacheDisk")]
struct DiskView {
    /// Resources in it.
    entries: usize,
    /// Of its files, in bytes.
    bytes: u64,
    /// `size` of the configuration, in bytes.
    bytes_max: u64,
    /// Resources that were read for a request.
    read: u64,
    /// Reads that came too late or to nothing.
    unread: u64,
    /// Resources that were written.
    written: u64,
    /// Resources that were not: the disk is slow or fails, or they are too large.
    unwritten: u64,
    /// Why nothing is written to it. Null while it is well.
    failure: Option<String>,
}

/// A route and its counts.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "CacheRoute")]
struct RouteView {
    id: String,
    origin: String,
    /// False while it is left alone, since it failed too often.
    is_origin_up: bool,
    #[schemars(schema_with = "route_counts")]
    counts: CountsByLabel,
}

fn route_counts(_: &mut SchemaGenerator) -> Schema {
    counts_schema(&COUNTS.map(|(name, _, _)| label(name)))
}

fn put_counts(_: &mut SchemaGenerator) -> Schema {
    let mut schema = counts_schema(&PUT_COUNTS.map(|(name, _, _)| put_label(name)));
    schema.insert("type".to_owned(), json!(["object", "null"]));
    schema
}

/// What is stored for a URL.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "CachedResource")]
struct ResourceView {
    /// The normalised URL.
    key: String,
    /// Whether the disk has it too, or will.
    is_on_disk: bool,
    /// The newest first. They differ by fields of the request (`Vary`).
    responses: Vec<ResponseView>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "CachedResponse")]
struct ResponseView {
    status: u16,
    /// Of the body.
    length: u64,
    /// In memory.
    bytes: usize,
    age_s: u64,
    /// For how much longer it is fresh. Null if it is stale.
    fresh_for_s: Option<u64>,
    /// Fields of the request by which it was chosen, with their values; null where the request had
    /// none.
    vary: BTreeMap<String, Option<String>>,
    /// Names by which it is purged.
    surrogate_keys: Vec<String>,
    /// Fields of the response, in their order: name and value.
    headers: Vec<[String; 2]>,
}

/// What is asked for most.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "HotCacheKeys")]
struct HotView {
    /// Requests by which the shares are measured: the latest count most.
    requests: u64,
    /// The most frequent first.
    keys: Vec<HotKeyView>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "HotCacheKey")]
struct HotKeyView {
    key: String,
    /// About so many.
    requests: u64,
    /// It may be fewer by so many.
    error: u64,
}

/// What is purged: one of `url`, `prefix`, `surrogate_key` and `all`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct PurgeBody {
    /// One resource, with all its variants.
    url: Option<String>,
    /// Every resource whose normalised URL begins so. Needs scheme and host.
    prefix: Option<String>,
    /// Every response to which its origin gave this name, in `Surrogate-Key`.
    surrogate_key: Option<String>,
    /// Everything.
    all: bool,
    /// Whether responses are kept, and are stale from now on: the origin may find them valid.
    soft: bool,
}

/// A purge that is in force.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "CachePurge")]
struct PurgeView {
    /// How many responses in memory it concerned. Null if they are still being visited.
    responses: Option<usize>,
}

fn routes() -> Vec<Route<CacheApi>> {
    let operation = |id, summary| {
        Operation::new("cache", id, summary).error(ErrorCode::NotConfigured, UNCONFIGURED)
    };
    let (text, integer) = (json!({ "type": "string" }), json!({ "type": "integer" }));
    let wrong = "A field is wrong.";
    let stat = operation("cache", "The cache: what it holds, and its routes with their counts.")
        .json::<CacheView>(200, "The cache.");
    let get = operation("cachedResource", "What is stored for a URL.")
        .parameter("query", "url", &text, "Of the resource, with its scheme and host.")
        .json::<ResourceView>(200, "The resource.")
        .error(ErrorCode::BadRequest, wrong)
        .error(ErrorCode::NotFound, "Nothing is stored for it, or it has no route.");
    let hot = operation("hotCacheKeys", "What is asked for most: estimates, the latest first.")
        .parameter("query", "count", &integer, "How many: 20, at most 1000.")
        .json::<HotView>(200, "The keys.")
        .error(ErrorCode::BadRequest, wrong);
    let purge = operation(
        "purgeCache",
        "Purges. What it concerns is served no more, on all shards, once this is answered.",
    )
    .body(JSON, SchemaGenerator::subschema_for::<PurgeBody>)
    .json::<PurgeView>(200, "The purge is in force.")
    .error(ErrorCode::BadRequest, wrong)
    .error(ErrorCode::NotFound, "The URL has no route.")
    .error(
        ErrorCode::Unavailable,
        "Too many purges are being applied; or it is in force, but not on disk.",
    );
    vec![
        Route { method: Method::Get, path: "/v1/cache", answer: stat_cache, operation: stat },
        Route { method: Method::Get, path: "/v1/cache/resource", answer: resource, operation: get },
        Route { method: Method::Get, path: "/v1/cache/hot", answer: hot_keys, operation: hot },
        Route {
            method: Method::Post,
            path: "/v1/cache/purges",
            answer: purge_cache,
            operation: purge,
        },
    ]
}

/// The API of a cache.
pub(crate) fn api(cache: CacheApi) -> Api {
    Api::new(cache, routes())
}

/// The API without a cache: says how to configure it.
pub(crate) fn unconfigured() -> Api {
    let message = "there is no cache here: add [cache] to the configuration file and restart";
    Api::unconfigured(routes(), message)
}

type RouteState<'s> = ((&'s Arc<CacheRoute>, &'s OriginHealth), &'s PerShard<RouteCounts>);

fn stat_cache(cache: &CacheApi, _: &ApiCall) -> ReplyResult {
    let CacheApi { listen, store, counts, put_counts, .. } = cache;
    let put = |(name, _, count): PutCount| {
        let values = put_counts.iter().map(|shard| count(shard).value());
        (put_label(name), values.fold(0, u64::wrapping_add))
    };
    let occupancy = store.occupancy();
    let route = |((route, health), shards): RouteState<'_>| {
        let sum = |(name, _, count): RouteCount| {
            let values = shards.iter().map(|shard| count(shard).value());
            (label(name), values.fold(0, u64::wrapping_add))
        };
        RouteView {
            id: route.id.clone(),
            origin: route.origin.to_string(),
            is_origin_up: health.is_up(),
            counts: COUNTS.map(sum).into(),
        }
    };
    Ok(Reply::json(&CacheView {
        listen: listen.to_string(),
        entries: occupancy.entries,
        bytes: occupancy.bytes,
        bytes_max: store.config.limits.memory,
        fetching_bytes: store.fills.bytes(),
        purges: store.purge_count(),
        purges_pending: store.purges().pending(),
        purged: store.purged_count(),
        disk: disk_view(store),
        puts: store.config.puts.as_ref().map(|_| PUT_COUNTS.map(put).into()),
        routes: store
            .config
            .routes
            .all()
            .iter()
            .zip(store.health.all())
            .zip(counts)
            .map(route)
            .collect(),
    }))
}

fn disk_view(store: &SharedStore) -> Option<DiskView> {
    let (config, disk) = (store.config.disk.as_ref()?, store.disk.as_ref()?);
    let DiskFigures { entries, bytes, read, unread, written, unwritten, failure } = disk.figures();
    let bytes_max = config.limits.bytes_max;
    Some(DiskView { entries, bytes, bytes_max, read, unread, written, unwritten, failure })
}

/// The name of a count without the service's.
fn label(metric: &'static str) -> &'static str {
    metric.trim_start_matches("cache_")
}

fn put_label(metric: &'static str) -> &'static str {
    label(metric).trim_start_matches("puts_")
}

fn resource(cache: &CacheApi, call: &ApiCall) -> ReplyResult {
    let Some(url) = call.query("url")? else { return Err(wrong("url", "it is missing")) };
    let key = cache.key_of("url", &url)?;
    let purges = cache.store.purges();
    let (purges, now) = (purges.of(key.as_str()), now());
    let found = cache.store.visit(key.as_str(), |resource| {
        let responses = resource.responses().iter();
        responses.filter_map(|stored| response_view(stored, purges, now)).collect::<Vec<_>>()
    });
    match found.filter(|responses| !responses.is_empty()) {
        Some(responses) => {
            let is_on_disk = cache.store.is_on_disk(key.as_str());
            Ok(Reply::json(&ResourceView { key: key.as_str().to_owned(), is_on_disk, responses }))
        }
        None => Err(Reply::error(ErrorCode::NotFound, &format!("nothing is stored for {url}"))),
    }
}

/// None if it is purged.
fn response_view(
    stored: &StoredResponse,
    purges: KeyPurges<'_>,
    now: UnixSeconds,
) -> Option<ResponseView> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let served = stored.freshness(purges)?.at(now);
    let headers = stored.head.to_headers();
    Some(ResponseView {
        status: stored.status.as_u16(),
        length: stored.body.length(),
        bytes: stored.bytes(),
        age_s: served.age.0,
        fresh_for_s: served.fresh_for.map(|left| left.0),
        vary: stored
            .variant()
            .fields()
            .map(|(name, value)| (name.to_string(), value.map(text)))
            .collect(),
        surrogate_keys: stored.surrogate_keys().iter().map(text).collect(),
        headers: headers
            .iter()
            .map(|(name, line)| [name.to_string(), text(line.as_bytes())])
            .collect(),
    })
}

fn hot_keys(cache: &CacheApi, call: &ApiCall) -> ReplyResult {
    let count = match call.query("count")?.map(|count| count.parse()) {
        None => HOT_DEFAULT,
        Some(Ok(count @ 1..=HOT_MAX)) => count,
        Some(_) => return Err(wrong("count", "needs a number from 1 to 1000")),
    };
    let mut merged: BTreeMap<String, KeyCount> = BTreeMap::new();
    let mut requests = 0;
    for shard in cache.hot.iter() {
        let shard = shard.lock().unwrap_or_else(PoisonError::into_inner).clone();
        requests += shard.requests();
        for (key, count) in shard.iter() {
            let sum = merged.entry(key.to_owned()).or_default();
            sum.requests += count.requests;
            sum.error += count.error;
        }
    }
    let view = |(key, count): (String, KeyCount)| HotKeyView {
        key,
        requests: count.requests,
        error: count.error,
    };
    let mut keys: Vec<_> = merged.into_iter().map(view).collect();
    keys.sort_by_key(|key| Reverse(key.requests));
    keys.truncate(count);
    Ok(Reply::json(&HotView { requests, keys }))
}

fn purge_cache(cache: &CacheApi, call: &ApiCall) -> ReplyResult {
    let body: PurgeBody = serde_json::from_slice(call.body()).map_err(|error| {
        Reply::error(ErrorCode::BadRequest, &format!("the body is wrong: {error}"))
    })?;
    let effect = if body.soft { PurgeEffect::Stale(now()) } else { PurgeEffect::Gone };
    let purge = Purge { scope: cache.scope(body)?, effect };
    match cache.store.purge(&purge) {
        Ok(responses) => Ok(Reply::json(&PurgeView { responses })),
        Err(error) => Err(Reply::error(ErrorCode::Unavailable, &error.to_string())),
    }
}

impl CacheApi {
    fn scope(&self, body: PurgeBody) -> Result<PurgeScope, Reply> {
        match body {
            PurgeBody { url: Some(url), prefix: None, surrogate_key: None, all: false, .. } => {
                self.key_of("url", &url).map(PurgeScope::Key)
            }
            PurgeBody {
                url: None, prefix: Some(prefix), surrogate_key: None, all: false, ..
            } => {
                let uri = absolute("prefix", &prefix)?;
                let key =
                    self.target_of(&uri).and_then(|target| written(target, &QueryRules::default()));
                let key = key.ok_or_else(|| wrong("prefix", "the URL is malformed"))?;
                Ok(PurgeScope::Prefix(key.as_str().into()))
            }
            PurgeBody {
                url: None, prefix: None, surrogate_key: Some(name), all: false, ..
            } => match is_surrogate_key(&name) {
                true => Ok(PurgeScope::SurrogateKey(name.into())),
                false => Err(wrong("surrogate_key", "needs one name, without spaces")),
            },
            PurgeBody { url: None, prefix: None, surrogate_key: None, all: true, .. } => {
                Ok(PurgeScope::Prefix("".into()))
            }
            _ => {
                let message = "the body needs one of `url`, `prefix`, `surrogate_key` and `all`";
                Err(Reply::error(ErrorCode::BadRequest, message))
            }
        }
    }

    /// The key of a URL, by its route's rules.
    fn key_of(&self, field: &str, url: &str) -> Result<CacheKey, Reply> {
        let uri = absolute(field, url)?;
        let target = self.target_of(&uri).ok_or_else(|| wrong(field, "the URL is malformed"))?;
        let config = &self.store.config;
        let Some(route) = config.routes.find(target.host(), target.path) else {
            let message = format!("no route has the host `{}` and this path", target.host());
            return Err(Reply::error(ErrorCode::NotFound, &message));
        };
        let key = written(target, &config.routes.all()[route].query);
        key.ok_or_else(|| wrong(field, "the URL is malformed"))
    }

    /// With the scheme by which clients reach the cache, whichever the operator wrote: behind a proxy
    /// that ends TLS, they differ.
    fn target_of<'u>(&self, uri: &'u Uri) -> Option<TargetUri<'u>> {
        let target = TargetUri::of(uri)?;
        let default = if target.scheme == "https" { ":443" } else { ":80" };
        let authority = target.authority.strip_suffix(default).unwrap_or(target.authority);
        Some(TargetUri { scheme: self.store.config.scheme(), authority, ..target })
    }
}

fn absolute(field: &str, url: &str) -> Result<Uri, Reply> {
    let uri = Uri::try_from(url).ok().filter(|uri| TargetUri::of(uri).is_some());
    uri.ok_or_else(|| wrong(field, "needs the form \"http://host/path\""))
}

fn written(target: TargetUri<'_>, rules: &QueryRules) -> Option<CacheKey> {
    let mut key = String::new();
    target.write_key(rules, &mut key).then(|| CacheKey::written(&key))
}

fn wrong(field: &str, remedy: &str) -> Reply {
    let message = format!("`{field}`: {remedy}");
    Reply::error_with(ErrorCode::BadRequest, &message, ErrorField::at(field))
}

fn now() -> UnixSeconds {
    UnixSeconds(runtime::process::unix_ms() / 1000)
}
