//! A stored resource and a purge as bytes, for a store that outlives the process: messages of Protocol
//! Buffers.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use prost::Message as _;

use super::head::StoredHead;
use super::purges::{Purge, PurgeEffect, PurgeNumber, PurgeScope};
use super::response::{COPIED_BYTES_MAX, Resource, StoredBody, StoredResponse};
use crate::fields::dates::{Seconds, UnixSeconds};
use crate::fields::surrogate::SurrogateKeys;
use crate::key::CacheKey;
use crate::rules::control::ResponseControl;
use crate::rules::freshness::InitialAge;
use crate::rules::vary::Variant;

#[derive(Clone, PartialEq, prost::Message)]
struct EncodedResource {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(message, repeated, tag = "2")]
    responses: Vec<EncodedResponse>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct EncodedResponse {
    /// What the request had in the fields that `Vary` names.
    #[prost(message, repeated, tag = "1")]
    variant: Vec<EncodedField>,
    #[prost(uint32, tag = "2")]
    status: u32,
    #[prost(message, repeated, tag = "3")]
    head: Vec<EncodedField>,
    #[prost(bytes = "bytes", tag = "4")]
    surrogate_keys: Bytes,
    #[prost(uint64, tag = "5")]
    purged_through: u64,
    #[prost(uint64, tag = "6")]
    lifetime_s: u64,
    #[prost(uint64, tag = "7")]
    age_s: u64,
    /// When it had that age, in Unix seconds.
    #[prost(uint64, tag = "8")]
    age_at: u64,
    #[prost(uint64, tag = "9")]
    date: u64,
    #[prost(uint64, optional, tag = "10")]
    last_modified: Option<u64>,
    #[prost(bool, tag = "11")]
    is_invalidated: bool,
    #[prost(bytes = "bytes", tag = "12")]
    body: Bytes,
}

#[derive(Clone, PartialEq, prost::Message)]
struct EncodedField {
    #[prost(bytes = "bytes", tag = "1")]
    name: Bytes,
    #[prost(bytes = "bytes", optional, tag = "2")]
    value: Option<Bytes>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct EncodedPurge {
    #[prost(oneof = "EncodedScope", tags = "1, 2, 3")]
    scope: Option<EncodedScope>,
    /// In Unix seconds. None if what it concerns is gone.
    #[prost(uint64, optional, tag = "4")]
    stale_since: Option<u64>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum EncodedScope {
    #[prost(string, tag = "1")]
    Key(String),
    #[prost(string, tag = "2")]
    Prefix(String),
    #[prost(string, tag = "3")]
    SurrogateKey(String),
}

impl Purge {
    /// As bytes.
    pub fn encode(&self) -> Vec<u8> {
        let scope = match &self.scope {
            PurgeScope::Key(key) => EncodedScope::Key(key.as_str().to_owned()),
            PurgeScope::Prefix(prefix) => EncodedScope::Prefix(prefix.to_string()),
            PurgeScope::SurrogateKey(name) => EncodedScope::SurrogateKey(name.to_string()),
        };
        let stale_since = match self.effect {
            PurgeEffect::Stale(since) => Some(since.0),
            PurgeEffect::Gone => None,
        };
        EncodedPurge { scope: Some(scope), stale_since }.encode_to_vec()
    }

    /// Of bytes that [`Self::encode`] wrote. None if they are no such bytes.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let EncodedPurge { scope, stale_since } = EncodedPurge::decode(bytes).ok()?;
        let scope = match scope? {
            EncodedScope::Key(key) => PurgeScope::Key(CacheKey::written(&key)),
            EncodedScope::Prefix(prefix) => PurgeScope::Prefix(prefix.into()),
            EncodedScope::SurrogateKey(name) => PurgeScope::SurrogateKey(name.into()),
        };
        let effect =
            stale_since.map_or(PurgeEffect::Gone, |since| PurgeEffect::Stale(UnixSeconds(since)));
        Some(Self { scope, effect })
    }
}

impl Resource {
    /// As bytes, with its key.
    pub fn encode(&self, key: &str) -> Vec<u8> {
        let responses = self.responses.iter().map(encoded_response).collect();
        EncodedResource { key: key.to_owned(), responses }.encode_to_vec()
    }

    /// The key and the resource of bytes that [`Self::encode`] wrote. Large bodies share them. None if
    /// they are no such bytes.
    pub fn decode(bytes: Bytes, targets: &[HeaderName]) -> Option<(String, Self)> {
        let shared_min = bytes.len() / 2;
        let EncodedResource { key, responses } = EncodedResource::decode(bytes).ok()?;
        let responses = responses.into_iter().map(|mut response| {
            if response.body.len() < shared_min {
                // It must not keep all of the bytes in memory.
                response.body = Bytes::copy_from_slice(&response.body);
            }
            decoded_response(response, targets)
        });
        Some((key, Self { responses: responses.collect::<Option<_>>()? }))
    }
}

fn encoded_response(response: &StoredResponse) -> EncodedResponse {
    let headers = response.head.to_headers();
    let field = |name: &HeaderName, value: Option<&[u8]>| EncodedField {
        name: Bytes::copy_from_slice(name.as_str().as_bytes()),
        value: value.map(Bytes::copy_from_slice),
    };
    EncodedResponse {
        variant: response.variant.fields().map(|(name, value)| field(name, value)).collect(),
        status: response.status.as_u16().into(),
        head: headers.iter().map(|(name, value)| field(name, Some(value.as_bytes()))).collect(),
        surrogate_keys: Bytes::copy_from_slice(response.surrogate_keys.as_bytes()),
        purged_through: response.purged_through.0,
        lifetime_s: response.lifetime.0,
        age_s: response.age.age.0,
        age_at: response.age.at.0,
        date: response.date.0,
        last_modified: response.last_modified.map(|time| time.0),
        is_invalidated: response.is_invalidated,
        body: match &response.body {
            StoredBody::Copied(bytes) => Bytes::copy_from_slice(bytes),
            StoredBody::Shared(pieces) => match &**pieces {
                [one] => one.clone(),
                pieces => pieces.concat().into(),
            },
        },
    }
}

fn decoded_response(encoded: EncodedResponse, targets: &[HeaderName]) -> Option<StoredResponse> {
    let name = |name: &Bytes| HeaderName::from_bytes(name).ok();
    let variant = encoded.variant.iter().map(|field| {
        Some((name(&field.name)?, field.value.as_ref().map(|value| Box::from(&value[..]))))
    });
    let mut headers = HeaderMap::new();
    for field in &encoded.head {
        let value = HeaderValue::from_bytes(field.value.as_ref()?).ok()?;
        headers.try_append(name(&field.name)?, value).ok()?;
    }
    let body = match encoded.body.len() <= COPIED_BYTES_MAX {
        true => StoredBody::Copied(encoded.body.as_ref().into()),
        false => StoredBody::Shared([encoded.body].into()),
    };
    Some(StoredResponse {
        variant: Variant::from_fields(variant.collect::<Option<_>>()?),
        status: StatusCode::from_u16(encoded.status.try_into().ok()?).ok()?,
        control: ResponseControl::of(&headers, targets),
        head: StoredHead::new(&headers),
        surrogate_keys: SurrogateKeys::listed(&encoded.surrogate_keys),
        purged_through: PurgeNumber(encoded.purged_through),
        lifetime: Seconds(encoded.lifetime_s),
        age: InitialAge { age: Seconds(encoded.age_s), at: UnixSeconds(encoded.age_at) },
        date: UnixSeconds(encoded.date),
        last_modified: encoded.last_modified.map(UnixSeconds),
        is_invalidated: encoded.is_invalidated,
        body,
    })
}

#[cfg(test)]
mod tests;
