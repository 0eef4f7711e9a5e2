//! A stored response, and the responses of one key, of which each answers other requests (`Vary`).

use std::sync::Arc;

use bytes::Bytes;
use http::header::{AGE, CONTENT_LENGTH, DATE, ETAG, LAST_MODIFIED};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};

use super::directory::Weigh;
use super::head::StoredHead;
use super::purges::{KeyPurges, PurgeEffect, PurgeNumber};
use crate::fields::dates::{Seconds, UnixSeconds, format_date, parse_date};
use crate::fields::surrogate::{SURROGATE_KEY, SurrogateKeys};
use crate::rules::control::{RequestControl, ResponseControl};
use crate::rules::freshness::{
    ExchangeTimes, HeuristicFreshness, InitialAge, explicit_lifetime, initial_age, lifetime,
    origin_date,
};
use crate::rules::reuse::StoredFreshness;
use crate::rules::storing::{ExchangeHeads, StoringRules, check_storing};
use crate::rules::validation::freshening::freshen;
use crate::rules::validation::validators::{EntityTag, Validators};
use crate::rules::vary::{RequestFields, Variant};

/// Longest body that a hit copies while it has the lock. Longer ones are shared by a count, which
/// costs little beside their bytes.
pub const COPIED_BYTES_MAX: usize = 16 << 10;

/// What an operator adds to what a response says of its freshness.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LifetimeRules {
    /// If the response says nothing.
    pub heuristic: HeuristicFreshness,
    /// Instead of a heuristic. None if the heuristic counts.
    pub default: Option<Seconds>,
    /// Whatever the response says. None if its own counts.
    pub forced: Option<Seconds>,
}

/// A complete response of an origin, without what connections concern.
#[derive(Clone, Debug)]
pub struct ReceivedResponse<'r> {
    /// Its status.
    pub status: StatusCode,
    /// Its header fields.
    pub headers: &'r HeaderMap,
    /// What they say to caches.
    pub control: &'r ResponseControl,
    /// When it was asked for and received.
    pub times: ExchangeTimes,
    /// The newest purge when it was asked for.
    pub purged_through: PurgeNumber,
}

/// How a newer response without content was received.
#[derive(Clone, Copy, Debug)]
pub struct Freshening<'f> {
    /// The client's request, which selects the response.
    pub request: &'f HeaderMap,
    /// Targeted fields, in their order of precedence.
    pub targets: &'f [HeaderName],
    /// When the newer response was asked for and received.
    pub times: ExchangeTimes,
    /// The newest purge when it was asked for.
    pub purged_through: PurgeNumber,
    /// The operator's rules.
    pub rules: LifetimeRules,
    /// Likewise.
    pub storing: StoringRules,
}

/// A response in the store.
#[derive(Clone, Debug)]
pub struct StoredResponse {
    pub(super) variant: Variant,
    /// Its status.
    pub status: StatusCode,
    /// Its header fields, except for `Age`, `Content-Length` and `Surrogate-Key`.
    pub head: StoredHead,
    pub(super) surrogate_keys: SurrogateKeys,
    /// Purges up to this one do not concern it, or are applied.
    pub(super) purged_through: PurgeNumber,
    pub(super) control: ResponseControl,
    pub(super) lifetime: Seconds,
    pub(super) age: InitialAge,
    /// When the origin made it.
    pub(super) date: UnixSeconds,
    pub(super) last_modified: Option<UnixSeconds>,
    pub(super) is_invalidated: bool,
    /// Its content.
    pub body: StoredBody,
}

/// The content of a stored response.
#[derive(Clone, Debug)]
pub enum StoredBody {
    /// Copied by each hit.
    Copied(Box<[u8]>),
    /// Shared with those who send it, in the pieces in which it came.
    Shared(Arc<[Bytes]>),
}

impl StoredBody {
    /// Of the pieces of a complete body.
    pub fn new(pieces: Vec<Bytes>) -> Self {
        let length: usize = pieces.iter().map(Bytes::len).sum();
        match length <= COPIED_BYTES_MAX {
            true => Self::Copied(pieces.concat().into()),
            false => Self::Shared(pieces.into()),
        }
    }

    /// In bytes.
    pub fn length(&self) -> u64 {
        match self {
            Self::Copied(bytes) => bytes.len() as u64,
            Self::Shared(pieces) => pieces.iter().map(|piece| piece.len() as u64).sum(),
        }
    }
}

impl StoredResponse {
    /// The response to a request. None if no other request may have it: `Vary: *`.
    pub fn new(
        received: &ReceivedResponse<'_>,
        request: &HeaderMap,
        body: StoredBody,
        rules: LifetimeRules,
    ) -> Option<Self> {
        let ReceivedResponse { status, headers, control, times, purged_through } = *received;
        let variant = Variant::of(headers, request)?;
        let mut kept = headers.clone();
        for name in control.private.fields() {
            kept.remove(name);
        }
        let age = initial_age(&kept, times);
        kept.remove(AGE);
        kept.remove(CONTENT_LENGTH);
        let surrogate_keys = SurrogateKeys::of(&kept);
        kept.remove(&SURROGATE_KEY);
        if !kept.contains_key(DATE) {
            let date = format_date(times.received);
            kept.insert(DATE, HeaderValue::try_from(date).expect("a date is a value"));
        }
        Some(Self {
            variant,
            status,
            age,
            lifetime: lifetime_of(received, rules),
            date: origin_date(&kept, times),
            last_modified: kept
                .get(LAST_MODIFIED)
                .and_then(|line| parse_date(line.to_str().ok()?, times.received)),
            head: StoredHead::new(&kept),
            surrogate_keys,
            purged_through,
            control: control.clone(),
            is_invalidated: false,
            body,
        })
    }

    /// With what a newer response without content says of it: a 304, or an answer to HEAD. None if it
    /// may not be stored any more.
    pub fn freshened(&self, newer: &HeaderMap, freshening: &Freshening<'_>) -> Option<Self> {
        let mut headers = self.head.to_headers();
        freshen(&mut headers, newer);
        let control = ResponseControl::of(&headers, freshening.targets);
        let Freshening { times, purged_through, .. } = *freshening;
        let status = self.status;
        let heads = ExchangeHeads {
            method: &Method::GET,
            request: freshening.request,
            request_control: &RequestControl::of(freshening.request),
            status,
            response: &headers,
            response_control: &control,
        };
        check_storing(&heads, freshening.storing).ok()?;
        let received = ReceivedResponse {
            status,
            headers: &headers,
            control: &control,
            times,
            purged_through,
        };
        let mut freshened =
            Self::new(&received, freshening.request, self.body.clone(), freshening.rules)?;
        if !newer.contains_key(&SURROGATE_KEY) {
            freshened.surrogate_keys = self.surrogate_keys.clone();
        }
        Some(freshened)
    }

    /// As it decides about its reuse. None if it is purged.
    pub fn freshness(&self, purges: KeyPurges<'_>) -> Option<StoredFreshness<'_>> {
        let lifetime = match self.effect_of(purges) {
            None => self.lifetime,
            Some(PurgeEffect::Stale(since)) => self.lifetime_until(since),
            Some(PurgeEffect::Gone) => return None,
        };
        Some(StoredFreshness {
            control: &self.control,
            lifetime,
            age: self.age,
            is_invalidated: self.is_invalidated,
        })
    }

    fn effect_of(&self, purges: KeyPurges<'_>) -> Option<PurgeEffect> {
        purges.effect_on(&self.surrogate_keys, self.purged_through)
    }

    /// Its lifetime, if it ends at this time at the latest.
    fn lifetime_until(&self, end: UnixSeconds) -> Seconds {
        self.lifetime.min(self.age.current(end))
    }

    /// A copy, with the purges that are not applied. None if one of them removes it.
    pub fn current(&self, purges: KeyPurges<'_>) -> Option<Self> {
        let mut copy = self.clone();
        copy.purged_through = purges.newest();
        self.effect_of(purges).is_none_or(|effect| copy.take(effect)).then_some(copy)
    }

    /// With all purges since it was asked for or copied. None if one of them removes it.
    pub fn purged(mut self, purges: KeyPurges<'_>) -> Option<Self> {
        let effect = purges.effect_since(Some(&self.surrogate_keys), self.purged_through);
        self.purged_through = purges.newest();
        effect.is_none_or(|effect| self.take(effect)).then_some(self)
    }

    /// Makes of it what a purge does. Returns false if it is gone.
    fn take(&mut self, effect: PurgeEffect) -> bool {
        if let PurgeEffect::Stale(since) = effect {
            self.lifetime = self.lifetime_until(since);
        }
        effect != PurgeEffect::Gone
    }

    /// The names by which it is purged.
    pub const fn surrogate_keys(&self) -> &SurrogateKeys {
        &self.surrogate_keys
    }

    /// What conditions are about.
    pub fn validators(&self) -> Validators<'_> {
        let etag = self.head.first(&ETAG).and_then(EntityTag::parse);
        Validators::new(etag, self.last_modified, self.date)
    }

    /// The fields that must not be sent before the origin has validated them.
    pub fn unvalidated_fields(&self) -> &[HeaderName] {
        self.control.no_cache.fields()
    }

    /// Whether it can ever answer a request: it is fresh at first, or the origin can validate it.
    pub fn is_useful(&self) -> bool {
        Seconds(0) < self.lifetime || self.validators().is_some()
    }

    /// Makes it stale: it must be validated before it is served.
    fn invalidate(&mut self) {
        self.is_invalidated = true;
    }

    /// Whether it may answer a request.
    pub fn matches(&self, request: &impl RequestFields) -> bool {
        self.variant.matches(request)
    }

    /// The requests that it answers.
    pub const fn variant(&self) -> &Variant {
        &self.variant
    }

    /// In memory.
    pub fn bytes(&self) -> usize {
        let body = match &self.body {
            StoredBody::Copied(bytes) => bytes.len(),
            StoredBody::Shared(pieces) => {
                pieces.iter().map(|piece| piece.len() + size_of::<Bytes>()).sum()
            }
        };
        size_of::<Self>()
            + self.variant.bytes()
            + self.head.bytes()
            + self.surrogate_keys.bytes()
            + body
    }
}

fn lifetime_of(received: &ReceivedResponse<'_>, rules: LifetimeRules) -> Seconds {
    let ReceivedResponse { status, headers, control, times, .. } = *received;
    let own = || match rules.default {
        None => lifetime(status, headers, control, times, rules.heuristic),
        Some(default) => explicit_lifetime(headers, control, times).unwrap_or(default),
    };
    rules.forced.unwrap_or_else(own)
}

/// All responses of one key, the newest first.
#[derive(Clone, Debug, Default)]
pub struct Resource {
    pub(super) responses: Vec<StoredResponse>,
}

impl Resource {
    /// The newest that answers a request (RFC 9111, section 4.1). None if none does.
    pub fn select(&self, request: &impl RequestFields) -> Option<&StoredResponse> {
        self.responses.iter().find(|response| response.matches(request))
    }

    /// All of them.
    pub fn responses(&self) -> &[StoredResponse] {
        &self.responses
    }

    /// The newest purge that all of them have been through.
    pub fn purged_through(&self) -> PurgeNumber {
        let numbers = self.responses.iter().map(|response| response.purged_through);
        numbers.min().unwrap_or_default()
    }

    /// Makes all of them stale.
    pub fn invalidate(&mut self) {
        self.responses.iter_mut().for_each(StoredResponse::invalidate);
    }

    /// Whether a purge that is not applied concerns one of them.
    pub fn has_pending(&self, purges: KeyPurges<'_>) -> bool {
        self.responses.iter().any(|response| response.effect_of(purges).is_some())
    }

    /// Applies the purges that are not applied. Returns how many responses they concern.
    pub fn take_pending(&mut self, purges: KeyPurges<'_>) -> usize {
        let mut count = 0;
        self.responses.retain_mut(|response| {
            let effect = response.effect_of(purges);
            response.purged_through = purges.newest();
            count += usize::from(effect.is_some());
            effect.is_none_or(|effect| response.take(effect))
        });
        count
    }

    /// With what purges since make of each response, up to a number. None if nothing is left.
    pub fn purged(
        mut self,
        newest: PurgeNumber,
        effect_on: impl Fn(&SurrogateKeys, PurgeNumber) -> Option<PurgeEffect>,
    ) -> Option<Self> {
        self.responses.retain_mut(|response| {
            let effect = effect_on(&response.surrogate_keys, response.purged_through);
            response.purged_through = response.purged_through.max(newest);
            effect.is_none_or(|effect| response.take(effect))
        });
        (!self.responses.is_empty()).then_some(self)
    }

    /// Applies a purge to all of them. Returns how many they were.
    pub fn take(&mut self, effect: PurgeEffect) -> usize {
        let count = self.responses.len();
        self.responses.retain_mut(|response| response.take(effect));
        count
    }

    /// Stores a response in place of those that answer the same request. Of more than `variants_max`
    /// the oldest go.
    pub fn put(&mut self, response: StoredResponse, request: &HeaderMap, variants_max: usize) {
        self.responses.retain(|stored| !stored.matches(request));
        let at = self.responses.iter().position(|stored| stored.date <= response.date);
        self.responses.insert(at.unwrap_or(self.responses.len()), response);
        self.responses.truncate(variants_max.max(1));
    }
}

impl Weigh for Resource {
    fn bytes(&self) -> usize {
        size_of::<Self>() + self.responses.iter().map(StoredResponse::bytes).sum::<usize>()
    }
}
