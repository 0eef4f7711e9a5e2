//! Content that is no response to an HTTP request, by a key of its owner's.

use bytes::Bytes;
use cache_core::fields::dates::UnixSeconds;
use cache_core::rules::control::ResponseControl;
use cache_core::rules::freshness::ExchangeTimes;
use cache_core::store::response::{
    LifetimeRules, ReceivedResponse, Resource, StoredBody, StoredResponse,
};
use http::{HeaderMap, StatusCode};

use crate::tier::DiskTier;

impl DiskTier {
    /// Writes content, in these pieces: see [`Self::write`].
    pub fn write_content(&self, key: &str, pieces: Vec<Bytes>) {
        let headers = HeaderMap::new();
        let stored_at = UnixSeconds(0);
        let received = ReceivedResponse {
            status: StatusCode::OK,
            headers: &headers,
            control: &ResponseControl::of(&headers, &[]),
            times: ExchangeTimes { requested: stored_at, received: stored_at },
            purged_through: self.newest_purge(),
        };
        let body = StoredBody::new(pieces);
        let response = StoredResponse::new(&received, &headers, body, LifetimeRules::default());
        let mut resource = Resource::default();
        resource.put(response.expect("it varies by nothing"), &headers, 1);
        self.write(key, resource);
    }

    /// Reads content. None if it is not there, or is not there in time, or was replaced meanwhile.
    pub async fn load_content(&self, key: &str) -> Option<Bytes> {
        let loaded = self.load(key).await?;
        let resource = self.current(key, loaded)?;
        Some(match &resource.responses().first()?.body {
            StoredBody::Copied(bytes) => Bytes::copy_from_slice(bytes),
            StoredBody::Shared(pieces) if pieces.len() == 1 => pieces[0].clone(),
            StoredBody::Shared(pieces) => pieces.concat().into(),
        })
    }
}
