//! Values that are stored by UUID: those of clients, and those of other services of the process.

use std::sync::Arc;
use std::time::Duration;

use cache_core::fields::dates::{Seconds, UnixSeconds};
use cache_core::key::CacheKey;
use cache_core::puts::PutValue;
use cache_core::rules::control::ResponseControl;
use cache_core::rules::freshness::ExchangeTimes;
use cache_core::store::purges::PurgeNumber;
use cache_core::store::response::{LifetimeRules, ReceivedResponse, StoredBody, StoredResponse};
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use hyper::{HeaderMap, StatusCode};
use runtime::service::Port;

use super::store::{SharedStore, VALUE_SCHEME};

/// Port at which a cache with `[cache.puts]` offers its store of values.
pub const CACHE_VALUES: Port<ValueStore> = Port::new("cache-values");

/// A store of values that clients read at the path of `[cache.puts]`. Clones share it.
#[derive(Clone, Debug)]
pub struct ValueStore(pub(crate) Arc<SharedStore>);

impl ValueStore {
    /// Stores a text of a media type for this long at most. Returns its UUID; None if it is larger than
    /// `object_max` of the cache. It does not block.
    pub fn put(&self, content_type: &'static str, text: &str, ttl: Duration) -> Option<String> {
        if text.len() > self.0.config.limits.object_max {
            return None;
        }
        let (ttl, content) = (Seconds(ttl.as_secs()), text.as_bytes().to_vec());
        let value = PutValue { content_type, ttl, content };
        let (uuid, now) = (random_uuid(), UnixSeconds(runtime::process::unix_ms() / 1000));
        let response = value_response(value, now, self.0.purges().newest());
        self.0.put_value(&key_of(&uuid), response);
        Some(uuid)
    }
}

/// What is stored of a value.
pub(crate) fn value_response(
    value: PutValue,
    now: UnixSeconds,
    purged_through: PurgeNumber,
) -> StoredResponse {
    let lifetime = HeaderValue::from_str(&format!("max-age={}", value.ttl.0));
    let headers = HeaderMap::from_iter([
        (CONTENT_TYPE, HeaderValue::from_static(value.content_type)),
        (CACHE_CONTROL, lifetime.expect("a number")),
        (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    ]);
    let received = ReceivedResponse {
        status: StatusCode::OK,
        headers: &headers,
        control: &ResponseControl::of(&headers, &[]),
        times: ExchangeTimes { requested: now, received: now },
        purged_through,
    };
    let body = StoredBody::new(vec![value.content.into()]);
    let stored = StoredResponse::new(&received, &HeaderMap::new(), body, LifetimeRules::default());
    stored.expect("it varies by nothing")
}

/// No URI, so that no request for an origin has it.
pub(crate) fn key_of(uuid: &str) -> CacheKey {
    CacheKey::written(&format!("{VALUE_SCHEME}{uuid}"))
}

/// Of version 4 (RFC 9562, section 5.4).
pub(crate) fn random_uuid() -> String {
    let bits = rand::random::<u128>() & !(0xf << 76) & !(0b11 << 62) | 0x4 << 76 | 0b10 << 62;
    let hex = format!("{bits:032x}");
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}
