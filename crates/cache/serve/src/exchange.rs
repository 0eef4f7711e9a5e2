//! One request of a client: answered from the store, by a fetch that others share, or passed on.

use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use cache_core::cache_status::{CacheStatus, ForwardReason, ForwardedRequest};
use cache_core::fields::forwarding::via_member;
use cache_core::key::CacheKey;
use cache_core::rules::control::RequestControl;
use cache_core::rules::freshness::{ExchangeTimes, origin_date};
use cache_core::rules::invalidation::invalidated;
use cache_core::rules::reuse::ReuseRules;
use cache_core::rules::validation::freshening::head_agrees;
use cache_core::rules::validation::validators::{Condition, Validators, evaluate};
use cache_core::store::answer::{AnswerContext, CacheAnswer, ClientRequest, ReadyAnswer};
use cache_core::store::response::{Freshening, StoredResponse};
use http_body_util::{Either, Full, Limited};
use http_kit::client::RequestBody;
use hyper::body::Incoming;
use hyper::header::{CONTENT_LENGTH, HeaderValue, VIA};
use hyper::http::request::Parts;
use hyper::http::uri::PathAndQuery;
use hyper::{Response, StatusCode, Uri};
use tokio::sync::oneshot;
use url::Url;

use crate::answers::body::{CacheBody, PassedBody};
use crate::answers::{CACHE_STATUS, error, plain, ready, set_status};
use crate::config::CacheRoute;
use crate::counters::RouteCounts;
use crate::fetch::{FetchRequest, Recipients, UnsharedAnswer, fetch};
use crate::fill::{FailedFetch, FillPlace, FillReader, Outcome, SharedHead};
use crate::origin::{ForwardedHead, OriginError};
use crate::shard::CacheShard;

/// One request and all that its answer needs.
pub(crate) struct ClientExchange<'e> {
    pub shard: &'e Rc<CacheShard>,
    /// Index of its route.
    pub at: usize,
    pub route: &'e CacheRoute,
    pub key: CacheKey,
    pub target: PathAndQuery,
    pub head: Parts,
}

/// Why the store does not answer.
enum Missing {
    Miss(ForwardReason),
    /// Only the origin can tell whether the request's conditions hold.
    Conditions,
    Unavailable,
}

impl ClientExchange<'_> {
    /// Of this cache.
    fn name(&self) -> &str {
        &self.shard.store.config.name
    }

    fn counts(&self) -> &RouteCounts {
        self.shard.counts(self.at)
    }

    pub async fn get(&self) -> Response<CacheBody> {
        let control = RequestControl::of(&self.head.headers);
        let missing = match self.look_up(&control) {
            Ok(response) => return response,
            Err(missing) => missing,
        };
        match missing {
            Missing::Unavailable => self.unavailable(),
            Missing::Conditions => self.pass_without_body().await,
            Missing::Miss(reason) => self.fetch(control, reason).await,
        }
    }

    pub async fn head(&self) -> Response<CacheBody> {
        let control = RequestControl::of(&self.head.headers);
        match self.look_up(&control) {
            Ok(response) => response,
            Err(Missing::Unavailable) => self.unavailable(),
            Err(Missing::Conditions | Missing::Miss(_)) => {
                let response = self.pass_without_body().await;
                self.take_over_head(&response);
                response
            }
        }
    }

    /// The store's answer.
    fn look_up(&self, control: &RequestControl) -> Result<Response<CacheBody>, Missing> {
        let found = self.shard.look_up(&self.key, self.request(control), self.context());
        match found {
            Some(CacheAnswer::Ready(answer)) => {
                if answer.is_validated_meanwhile {
                    self.validate_meanwhile(control);
                }
                let counts = self.counts();
                match answer.served.fresh_for {
                    Some(_) => counts.hits.increment(),
                    None => counts.stale.increment(),
                }
                Ok(self.hit(answer))
            }
            Some(CacheAnswer::Unavailable) => Err(Missing::Unavailable),
            Some(CacheAnswer::AskOrigin) => Err(Missing::Conditions),
            None | Some(CacheAnswer::NoVariant | CacheAnswer::Validate(_))
                if self.wants_only_stored(control) =>
            {
                Err(Missing::Unavailable)
            }
            None => Err(Missing::Miss(ForwardReason::UriMiss)),
            Some(CacheAnswer::NoVariant) => Err(Missing::Miss(ForwardReason::VaryMiss)),
            Some(CacheAnswer::Validate(_)) => Err(Missing::Miss(ForwardReason::Stale)),
        }
    }

    fn wants_only_stored(&self, control: &RequestControl) -> bool {
        self.route.reuse.obeys_requests && control.only_if_cached
    }

    fn request<'r>(&'r self, control: &'r RequestControl) -> ClientRequest<'r> {
        ClientRequest { method: &self.head.method, headers: &self.head.headers, control }
    }

    fn context(&self) -> AnswerContext<'_> {
        self.context_with(self.route.reuse)
    }

    fn context_with(&self, rules: ReuseRules) -> AnswerContext<'_> {
        AnswerContext { now: self.shard.now(), rules, boundary: self.shard.boundary() }
    }

    fn hit(&self, answer: ReadyAnswer) -> Response<CacheBody> {
        let served = answer.served;
        let mut response = ready(answer);
        response.headers_mut().append(VIA, self.shard.via.clone());
        set_status(&mut response, self.name(), CacheStatus::Hit(served));
        response
    }

    fn unavailable(&self) -> Response<CacheBody> {
        self.counts().failed.increment();
        error(
            self.name(),
            StatusCode::GATEWAY_TIMEOUT,
            "nothing that is stored answers the request",
        )
    }

    /// Asks the origin while the client already has the stale answer, unless somebody does so.
    fn validate_meanwhile(&self, control: &RequestControl) {
        if let FillPlace::Leads(lead, _) = self.shard.store.fills.join(&self.key, self.shard.now())
        {
            let request = self.fetch_request(control.clone());
            let (client, _) = oneshot::channel();
            let shard = Rc::clone(self.shard);
            self.shard.tasks.spawn_isolated(fetch(shard, request, Recipients { lead, client }));
        }
    }

    fn fetch_request(&self, control: RequestControl) -> FetchRequest {
        FetchRequest {
            route: self.at,
            version: self.head.version,
            target: self.target.clone(),
            headers: self.head.headers.clone(),
            control,
            stored: self.shard.stored(&self.key, &self.head.headers),
        }
    }

    /// Fetches, or waits for somebody's fetch.
    async fn fetch(&self, control: RequestControl, reason: ForwardReason) -> Response<CacheBody> {
        let place = self.shard.store.fills.join(&self.key, self.shard.now());
        let (reader, unshared, is_collapsed) = match place {
            FillPlace::Alone => return self.pass_without_body().await,
            FillPlace::Waits(reader) => (reader, None, true),
            FillPlace::Leads(lead, reader) => {
                let (client, unshared) = oneshot::channel();
                let request = self.fetch_request(control.clone());
                let shard = Rc::clone(self.shard);
                // It goes on when this client goes: others may wait, and the store wants it.
                self.shard.tasks.spawn_isolated(fetch(shard, request, Recipients { lead, client }));
                (reader, Some(unshared), false)
            }
        };
        let forwarded = ForwardedRequest { reason, status: None, is_stored: false, is_collapsed };
        match reader.outcome().await {
            Outcome::Shared(head) if head.variant.matches(&self.head.headers) => {
                let counts = self.counts();
                if is_collapsed { &counts.collapsed } else { &counts.misses }.increment();
                self.shared(&head, reader, forwarded)
            }
            Outcome::Validated(stored) => self.validated(&stored, &control, forwarded).await,
            Outcome::Failed(failed) => self.failed(&failed, &control, forwarded).await,
            Outcome::Shared(_) => self.pass_without_body().await,
            Outcome::NotShared => match unshared {
                Some(unshared) => self.unshared(unshared, forwarded).await,
                None => self.pass_without_body().await,
            },
        }
    }

    /// The answer that is fetched, as it comes.
    fn shared(
        &self,
        head: &SharedHead,
        reader: FillReader,
        forwarded: ForwardedRequest,
    ) -> Response<CacheBody> {
        let now = self.shard.now();
        let times = ExchangeTimes { requested: now, received: now };
        let validators = Validators::of(&head.headers, origin_date(&head.headers, times));
        let condition = match head.status.is_success() {
            true => evaluate(&self.head.headers, &validators, now),
            false => Condition::Holds,
        };
        let is_unmodified = matches!(condition, Condition::Fails(_));
        let body = match is_unmodified {
            true => CacheBody::empty(),
            false => CacheBody::Shared(reader, head.length),
        };
        let mut response = Response::new(body);
        *response.status_mut() = if is_unmodified { StatusCode::NOT_MODIFIED } else { head.status };
        *response.headers_mut() = head.headers.clone();
        if is_unmodified {
            response.headers_mut().remove(CONTENT_LENGTH);
        }
        let status = Some(head.status);
        self.forwarded(&mut response, ForwardedRequest { status, is_stored: true, ..forwarded });
        response
    }

    /// What the origin has just validated, whatever the request wants.
    async fn validated(
        &self,
        stored: &StoredResponse,
        control: &RequestControl,
        forwarded: ForwardedRequest,
    ) -> Response<CacheBody> {
        if !stored.matches(&self.head.headers) {
            return self.pass_without_body().await;
        }
        let Some(answer) = self.shard.answer_with(stored, self.request(control), self.context())
        else {
            return self.pass_without_body().await;
        };
        let mut response = ready(answer);
        let status = Some(StatusCode::NOT_MODIFIED);
        self.forwarded(&mut response, ForwardedRequest { status, is_stored: true, ..forwarded });
        response
    }

    /// A stale answer in place of an error, if that is allowed.
    async fn failed(
        &self,
        failed: &FailedFetch,
        control: &RequestControl,
        forwarded: ForwardedRequest,
    ) -> Response<CacheBody> {
        let now = self.shard.now();
        let serves = |stored: &&Arc<StoredResponse>| {
            stored.matches(&self.head.headers)
                && stored.freshness().serves_errors(control, now, self.route.reuse)
        };
        if let Some(stored) = failed.stored.as_ref().filter(serves)
            && let Some(answer) =
                self.shard.answer_with(stored, self.request(control), self.context())
        {
            self.counts().stale.increment();
            return self.hit(answer);
        }
        match failed.error {
            // The error of a fetch that another wanted validated.
            OriginError::Status(_) => self.pass_without_body().await,
            _ => self.bad_gateway(&failed.error, forwarded),
        }
    }

    async fn unshared(
        &self,
        unshared: oneshot::Receiver<UnsharedAnswer>,
        forwarded: ForwardedRequest,
    ) -> Response<CacheBody> {
        match unshared.await {
            Ok(answer) => {
                self.counts().passed.increment();
                let mut response = answer.map(|body| CacheBody::Passed(Box::new(body)));
                let status = Some(response.status());
                self.forwarded(&mut response, ForwardedRequest { status, ..forwarded });
                response
            }
            Err(_) => self.bad_gateway(&OriginError::Abandoned, forwarded),
        }
    }

    /// Passes the request on and its answer back.
    async fn pass_without_body(&self) -> Response<CacheBody> {
        self.pass(Either::Left(Full::new(Bytes::new())), ForwardReason::Bypass).await
    }

    async fn pass(&self, body: RequestBody, reason: ForwardReason) -> Response<CacheBody> {
        let counts = self.counts();
        counts.fetches.increment();
        let config = &self.shard.store.config;
        let head = ForwardedHead {
            method: &self.head.method,
            version: self.head.version,
            target: &self.target,
            headers: &self.head.headers,
            name: &config.name,
        };
        let request = head.with_body(self.route, body);
        let forwarded =
            ForwardedRequest { reason, status: None, is_stored: false, is_collapsed: false };
        match self.shard.origins.send(self.route, request).await {
            Ok(answer) => {
                counts.passed.increment();
                let timeout = self.route.body_timeout;
                let mut response =
                    answer.map(|body| CacheBody::Passed(Box::new(PassedBody::new(body, timeout))));
                let status = Some(response.status());
                self.forwarded(&mut response, ForwardedRequest { status, ..forwarded });
                response
            }
            Err(error) => {
                counts.fetch_failures.increment();
                self.bad_gateway(&error, forwarded)
            }
        }
    }

    /// A method that the store does not answer.
    pub async fn other(&self, body: Incoming) -> Response<CacheBody> {
        let reason =
            if self.route.is_cached { ForwardReason::Method } else { ForwardReason::Bypass };
        let limited = Limited::new(body, self.shard.store.config.request_max);
        let response = self.pass(Either::Right(limited), reason).await;
        if let Ok(target) = Url::parse(self.key.as_str()) {
            let stale =
                invalidated(&self.head.method, &target, response.status(), response.headers());
            let uris = stale.iter().filter_map(|url| Uri::try_from(url.as_str()).ok());
            for key in uris.filter_map(|uri| CacheKey::of(&uri, &self.route.query)) {
                self.shard.invalidate(&key);
            }
        }
        response
    }

    /// What an answer to HEAD says of the stored answer to GET (RFC 9111, section 4.3.5).
    fn take_over_head(&self, response: &Response<CacheBody>) {
        let Some(stored) = self.shard.stored(&self.key, &self.head.headers) else { return };
        if response.status() != StatusCode::OK {
            return;
        }
        let mut known = stored.head.to_headers();
        known.insert(CONTENT_LENGTH, stored.body.length().into());
        if !head_agrees(response.headers(), &known) {
            self.shard.invalidate(&self.key);
            return;
        }
        let now = self.shard.now();
        let freshening = Freshening {
            request: &self.head.headers,
            targets: self.route.targets(),
            times: ExchangeTimes { requested: now, received: now },
            rules: self.route.lifetime,
        };
        let mut newer = response.headers().clone();
        newer.remove(&CACHE_STATUS);
        newer.remove(VIA);
        if let Some(freshened) = stored.freshened(&newer, &freshening) {
            self.shard.put(self.at, &self.key, freshened, &self.head.headers);
        }
    }

    fn forwarded(&self, response: &mut Response<CacheBody>, forwarded: ForwardedRequest) {
        let version = via_member(response.version(), &self.shard.store.config.name);
        let via = HeaderValue::try_from(version).expect("a name is a token");
        response.headers_mut().append(VIA, via);
        set_status(response, self.name(), CacheStatus::Forwarded(forwarded));
    }

    fn bad_gateway(&self, error: &OriginError, forwarded: ForwardedRequest) -> Response<CacheBody> {
        self.counts().failed.increment();
        let status = match error {
            OriginError::TimedOut => StatusCode::GATEWAY_TIMEOUT,
            _ => StatusCode::BAD_GATEWAY,
        };
        let mut response = plain(status, &error.to_string());
        set_status(&mut response, self.name(), CacheStatus::Forwarded(forwarded));
        response
    }
}
