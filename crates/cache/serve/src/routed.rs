//! A request of a route, and the store's answer to it.

use std::rc::Rc;

use cache_core::cache_status::ForwardReason;
use cache_core::key::CacheKey;
use cache_core::rules::control::RequestControl;
use cache_core::store::answer::{CacheAnswer, ClientRequest, ReadyAnswer};
use hyper::Response;
use hyper::http::request::Parts;

use crate::answers::body::CacheBody;
use crate::config::CacheRoute;
use crate::counters::RouteCounts;
use crate::shard::CacheShard;

/// A request and its route.
#[derive(Clone, Copy)]
pub(crate) struct RoutedRequest<'r> {
    pub shard: &'r Rc<CacheShard>,
    /// Index of its route.
    pub at: usize,
    pub route: &'r CacheRoute,
    pub head: &'r Parts,
}

/// Why the store does not answer.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Missing {
    Miss(ForwardReason),
    /// Only the origin can tell whether the request's conditions hold.
    Conditions,
    Unavailable,
}

impl<'r> RoutedRequest<'r> {
    /// Of this cache.
    pub fn name(&self) -> &'r str {
        &self.shard.store.config.name
    }

    pub fn counts(&self) -> &'r RouteCounts {
        self.shard.counts(self.at)
    }

    pub fn client_request<'c>(&self, control: &'c RequestControl) -> ClientRequest<'c>
    where
        'r: 'c,
    {
        ClientRequest { method: &self.head.method, headers: &self.head.headers, control }
    }

    /// Asks the store.
    pub fn look_up(&self, key: &str, control: &RequestControl) -> Result<ReadyAnswer, Missing> {
        let found = self.shard.look_up(key, self.client_request(control), self.route.reuse);
        self.found(found, control)
    }

    /// Asks the disk, where memory has nothing.
    pub async fn load(
        &self,
        key: &CacheKey,
        control: &RequestControl,
    ) -> Result<ReadyAnswer, Missing> {
        let request = self.client_request(control);
        let found = self.shard.load(Some(self.at), key, request, self.route.reuse).await;
        self.found(found, control)
    }

    fn found(
        &self,
        found: Option<CacheAnswer>,
        control: &RequestControl,
    ) -> Result<ReadyAnswer, Missing> {
        let wants_only_stored = self.route.reuse.obeys_requests && control.only_if_cached;
        Err(match found {
            Some(CacheAnswer::Ready(answer)) => return Ok(answer),
            Some(CacheAnswer::AskOrigin) => Missing::Conditions,
            Some(CacheAnswer::Unavailable) => Missing::Unavailable,
            _ if wants_only_stored => Missing::Unavailable,
            None | Some(CacheAnswer::Purged) => Missing::Miss(ForwardReason::UriMiss),
            Some(CacheAnswer::NoVariant) => Missing::Miss(ForwardReason::VaryMiss),
            Some(CacheAnswer::Validate(_)) => Missing::Miss(ForwardReason::Stale),
        })
    }

    /// What the client gets of the store's answer.
    pub fn hit(&self, answer: ReadyAnswer) -> Response<CacheBody> {
        self.counts().count_hit(answer.served, answer.body.length());
        self.shard.hit(answer)
    }
}
