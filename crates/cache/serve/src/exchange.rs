//! A request that the store does not answer: by a fetch that others share, or passed on.

use std::pin::pin;
use std::rc::Rc;

use bytes::Bytes;
use cache_core::cache_status::{CacheStatus, ForwardReason, ForwardedRequest};
use cache_core::fields::forwarding::via_member;
use cache_core::fields::surrogate::SURROGATE_KEY;
use cache_core::key::CacheKey;
use cache_core::rules::control::RequestControl;
use cache_core::rules::freshness::{ExchangeTimes, origin_date};
use cache_core::rules::invalidation::invalidated;
use cache_core::rules::ranges::{ByteRange, RequestedRanges};
use cache_core::rules::validation::freshening::head_agrees;
use cache_core::rules::validation::validators::{Condition, Validators, evaluate};
use cache_core::store::answer::{ClientRequest, ReadyAnswer};
use cache_core::store::purges::PurgeNumber;
use cache_core::store::response::{Freshening, StoredResponse};
use http_body_util::{Either, Full, Limited};
use http_kit::client::RequestBody;
use http_kit::interim::InterimSlot;
use hyper::body::Incoming;
use hyper::header::{CONTENT_LENGTH, CONTENT_RANGE, HeaderValue, RANGE, RETRY_AFTER, VIA};
use hyper::{Method, Response, StatusCode, Uri};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::sync::oneshot;
use tokio::time::Instant;
use url::Url;

use crate::answers::body::{CacheBody, PassedBody, SharedBody};
use crate::answers::{CACHE_STATUS, error, plain, ready, set_status};
use crate::fetch::{FetchRequest, Recipients, UnsharedAnswer, fetch};
use crate::fill::{FailedFetch, FillOutcome, FillPlace, FillReader, Lead, SharedHead};
use crate::origin::{ForwardedHead, InterimHead, InterimSender, OriginError};
use crate::routed::{Missing, RoutedRequest};

/// Fetches of others that a request waits for.
const WAITS_MAX: usize = 2;

/// What a client gets of an answer that is fetched.
enum SharedPart {
    Whole,
    /// Its conditions say that it has it.
    Unmodified,
    /// This part of so many bytes.
    Range(ByteRange, u64),
}

/// A request that the store did not answer, with what a fetch needs.
pub(crate) struct ClientExchange<'e> {
    pub routed: RoutedRequest<'e>,
    pub key: CacheKey,
    /// Takes interim answers for the client. None if it cannot have any.
    pub interim: Option<InterimSlot>,
}

impl ClientExchange<'_> {
    /// Answers a GET or HEAD.
    pub async fn miss(&self, missing: Missing, control: RequestControl) -> Response<CacheBody> {
        let Ok(_in_flight) = self.routed.shard.admission.enter() else {
            return self.overloaded();
        };
        let missing = match self.load(missing, &control).await {
            Ok(answer) => return answer,
            Err(missing) => missing,
        };
        match missing {
            Missing::Unavailable => self.unavailable(),
            _ if self.routed.head.method == Method::HEAD => {
                let purged_through = self.routed.shard.newest_purge();
                let response = self.pass_without_body().await;
                self.take_over_head(&response, purged_through);
                response
            }
            Missing::Conditions => self.pass_without_body().await,
            Missing::Miss(reason) => self.fetch(control, reason).await,
        }
    }

    /// Asks the disk where memory has nothing.
    async fn load(
        &self,
        missing: Missing,
        control: &RequestControl,
    ) -> Result<Response<CacheBody>, Missing> {
        if !matches!(missing, Missing::Miss(ForwardReason::UriMiss) | Missing::Unavailable) {
            return Err(missing);
        }
        let answer = self.routed.load(&self.key, control).await?;
        if answer.is_validated_meanwhile {
            self.validate_meanwhile(control);
        }
        Ok(self.routed.hit(answer))
    }

    /// Hits are answered all the same: they cost no more than this.
    fn overloaded(&self) -> Response<CacheBody> {
        self.routed.counts().failed.increment();
        let text = "the cache is overloaded: try again in a second";
        let mut response = error(self.routed.name(), StatusCode::SERVICE_UNAVAILABLE, text);
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
        response
    }

    fn unavailable(&self) -> Response<CacheBody> {
        self.routed.counts().failed.increment();
        let text = "nothing that is stored answers the request";
        error(self.routed.name(), StatusCode::GATEWAY_TIMEOUT, text)
    }

    /// Asks the origin while the client already has the stale answer, unless somebody does so.
    pub fn validate_meanwhile(&self, control: &RequestControl) {
        if let FillPlace::Leads(lead, _) = self.join() {
            let (client, _) = oneshot::channel();
            self.spawn_fetch(control, Recipients { lead, client }, None);
        }
    }

    fn join(&self) -> FillPlace {
        let shard = self.routed.shard;
        shard.with_purges(self.key.as_str(), |purges| {
            shard.store.fills.join(&self.key, purges, shard.now())
        })
    }

    fn is_purged(&self, reader: &FillReader) -> bool {
        self.routed.shard.with_purges(self.key.as_str(), |purges| reader.is_purged(purges))
    }

    fn fetch_request(
        &self,
        control: RequestControl,
        interim: Option<InterimSender>,
    ) -> FetchRequest {
        FetchRequest {
            interim,
            route: self.routed.at,
            version: self.routed.head.version,
            headers: self.routed.head.headers.clone(),
            control,
            stored: self.routed.shard.stored(&self.key, &self.routed.head.headers),
        }
    }

    /// Fetches, or waits for somebody's fetch. Where that turns out to be for another client alone, or
    /// purged since, the second one is waited for at most.
    async fn fetch(&self, control: RequestControl, reason: ForwardReason) -> Response<CacheBody> {
        let forwarded =
            ForwardedRequest { reason, status: None, is_stored: false, is_collapsed: false };
        if control.no_store {
            return self.pass_without_body().await;
        }
        for _ in 0..WAITS_MAX {
            match self.join() {
                FillPlace::Alone => break,
                FillPlace::Leads(lead, reader) => {
                    return self.lead(lead, reader, &control, forwarded).await;
                }
                FillPlace::Waits(reader) => {
                    let forwarded = ForwardedRequest { is_collapsed: true, ..forwarded };
                    match reader.outcome().await {
                        FillOutcome::NotSharedNow => (),
                        FillOutcome::NotShared => break,
                        _ if self.is_purged(&reader) => (),
                        outcome => return self.answer(outcome, reader, &control, forwarded).await,
                    }
                }
            }
        }
        self.pass_without_body().await
    }

    /// Makes the fetch. It goes on when this client goes: others may wait, and the store wants it.
    async fn lead(
        &self,
        lead: Lead,
        reader: FillReader,
        control: &RequestControl,
        forwarded: ForwardedRequest,
    ) -> Response<CacheBody> {
        let (client, unshared) = oneshot::channel();
        let (interim, received) = unbounded_channel();
        self.spawn_fetch(control, Recipients { lead, client }, Some(interim));
        match self.passing_interim(received, reader.outcome()).await {
            FillOutcome::NotShared | FillOutcome::NotSharedNow => {
                self.unshared(unshared, forwarded).await
            }
            outcome => self.answer(outcome, reader, control, forwarded).await,
        }
    }

    fn spawn_fetch(
        &self,
        control: &RequestControl,
        recipients: Recipients,
        interim: Option<InterimSender>,
    ) {
        let request = self.fetch_request(control.clone(), interim);
        let shard = Rc::clone(self.routed.shard);
        self.routed.shard.tasks.spawn_isolated(fetch(shard, request, recipients));
    }

    /// What all who wait get, unless it is not for them.
    async fn answer(
        &self,
        outcome: FillOutcome,
        reader: FillReader,
        control: &RequestControl,
        forwarded: ForwardedRequest,
    ) -> Response<CacheBody> {
        match outcome {
            FillOutcome::Shared(head) if head.variant.matches(&self.routed.head.headers) => {
                let counts = self.routed.counts();
                if forwarded.is_collapsed { &counts.collapsed } else { &counts.misses }.increment();
                self.shared(&head, reader, self.routed.client_request(control), forwarded)
            }
            FillOutcome::Validated(stored) => self.validated(&stored, control, forwarded).await,
            FillOutcome::Failed(failed) => self.failed(&failed, control, forwarded).await,
            FillOutcome::Shared(_) | FillOutcome::NotShared | FillOutcome::NotSharedNow => {
                self.pass_without_body().await
            }
        }
    }

    /// The answer that is fetched, as it comes: whole, or the part that the client asks for.
    fn shared(
        &self,
        head: &SharedHead,
        reader: FillReader,
        request: ClientRequest<'_>,
        forwarded: ForwardedRequest,
    ) -> Response<CacheBody> {
        let headers = if forwarded.is_collapsed { &head.for_others } else { &head.headers };
        let mut response = Response::new(CacheBody::empty());
        *response.status_mut() = head.status;
        *response.headers_mut() = headers.clone();
        match self.part_of(head, request) {
            SharedPart::Whole => {
                *response.body_mut() = SharedBody::whole(reader, head.length).into();
            }
            SharedPart::Unmodified => {
                *response.status_mut() = StatusCode::NOT_MODIFIED;
                response.headers_mut().remove(CONTENT_LENGTH);
            }
            SharedPart::Range(range, length) => {
                *response.status_mut() = StatusCode::PARTIAL_CONTENT;
                let content_range = HeaderValue::try_from(range.content_range(length));
                let content_range = content_range.expect("it has visible characters alone");
                response.headers_mut().insert(CONTENT_RANGE, content_range);
                response.headers_mut().insert(CONTENT_LENGTH, range.bytes().into());
                *response.body_mut() = SharedBody::part(reader, range).into();
            }
        }
        let status = Some(head.status);
        self.forwarded(&mut response, ForwardedRequest { status, is_stored: true, ..forwarded });
        response
    }

    /// What a client gets of an answer that is fetched. Several parts, or one that it has not got, are
    /// the whole: a server may ignore ranges (RFC 9110, section 14.2).
    fn part_of(&self, head: &SharedHead, request: ClientRequest<'_>) -> SharedPart {
        if !head.status.is_success() {
            return SharedPart::Whole;
        }
        let now = self.routed.shard.now();
        let times = ExchangeTimes { requested: now, received: now };
        let validators = Validators::of(&head.headers, origin_date(&head.headers, times));
        if let Condition::Fails(_) = evaluate(request.headers, &validators, now) {
            return SharedPart::Unmodified;
        }
        let length = head.length.filter(|_| head.status == StatusCode::OK);
        let ranges = length.map(|length| (request.ranges(&validators, length, now), length));
        match ranges {
            Some((RequestedRanges::Parts(parts), length)) if parts.len() == 1 => {
                SharedPart::Range(parts[0], length)
            }
            _ => SharedPart::Whole,
        }
    }

    /// What the origin has just validated, whatever the request wants.
    async fn validated(
        &self,
        stored: &StoredResponse,
        control: &RequestControl,
        forwarded: ForwardedRequest,
    ) -> Response<CacheBody> {
        if !stored.matches(&self.routed.head.headers) {
            return self.pass_without_body().await;
        }
        let Some(answer) = self.stored_answer(stored, control) else {
            return self.pass_without_body().await;
        };
        let counts = self.routed.counts();
        if forwarded.is_collapsed { &counts.collapsed } else { &counts.revalidated }.increment();
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
        let (shard, rules) = (self.routed.shard, self.routed.route.reuse);
        let stored = failed.stored.as_ref();
        if let Some(stored) = stored.filter(|stored| stored.matches(&self.routed.head.headers))
            && let Some(stored) = shard.serves_errors(&self.key, stored, control, rules)
            && let Some(answer) = self.stored_answer(&stored, control)
        {
            return self.routed.hit(answer);
        }
        match failed.error {
            // The error of a fetch that another wanted validated.
            OriginError::Status(_) => self.pass_without_body().await,
            _ => self.bad_gateway(&failed.error, forwarded),
        }
    }

    fn stored_answer(
        &self,
        stored: &StoredResponse,
        control: &RequestControl,
    ) -> Option<ReadyAnswer> {
        let request = self.routed.client_request(control);
        self.routed.shard.answer_with(&self.key, stored, request, self.routed.route.reuse)
    }

    async fn unshared(
        &self,
        unshared: oneshot::Receiver<UnsharedAnswer>,
        forwarded: ForwardedRequest,
    ) -> Response<CacheBody> {
        match unshared.await {
            // The whole is more than the client asks for.
            Ok(answer)
                if answer.status() == StatusCode::OK
                    && self.routed.head.headers.contains_key(RANGE) =>
            {
                drop(answer);
                self.pass_without_body().await
            }
            Ok(answer) => {
                self.routed.counts().passed.increment();
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
        let counts = self.routed.counts();
        let config = &self.routed.shard.store.config;
        let head = ForwardedHead {
            method: &self.routed.head.method,
            version: self.routed.head.version,
            key: &self.key,
            headers: &self.routed.head.headers,
            name: &config.name,
        };
        let request = head.with_body(self.routed.route, body);
        let forwarded =
            ForwardedRequest { reason, status: None, is_stored: false, is_collapsed: false };
        let (interim, received) = unbounded_channel();
        let sent = self.routed.shard.origins.send(self.routed.at, request, Some(interim));
        let begun = Instant::now();
        let sent = self.passing_interim(received, sent).await;
        if !matches!(sent, Err(OriginError::LeftAlone(_))) {
            counts.count_fetch(begun.elapsed(), sent.is_err());
        }
        match sent {
            Ok(mut answer) => {
                counts.passed.increment();
                answer.headers_mut().remove(&SURROGATE_KEY);
                let timeout = self.routed.route.body_timeout;
                let mut response = answer.map(|body| {
                    let counts = self.routed.shard.shared_counts(self.routed.at);
                    CacheBody::Passed(Box::new(PassedBody::new(body, timeout, counts)))
                });
                let status = Some(response.status());
                self.forwarded(&mut response, ForwardedRequest { status, ..forwarded });
                response
            }
            Err(error) => self.bad_gateway(&error, forwarded),
        }
    }

    /// Waits for an answer, and passes on the interim ones before it.
    async fn passing_interim<T>(
        &self,
        mut received: UnboundedReceiver<InterimHead>,
        answer: impl Future<Output = T>,
    ) -> T {
        let Some(slot) = &self.interim else { return answer.await };
        let mut answer = pin!(answer);
        let answer = loop {
            tokio::select! {
                biased;
                Some(head) = received.recv() => self.push_interim(slot, head),
                answer = &mut answer => break answer,
            }
        };
        while let Ok(head) = received.try_recv() {
            self.push_interim(slot, head);
        }
        if !slot.is_empty() {
            // The connection sends what is in the slot while this waits.
            tokio::task::yield_now().await;
        }
        answer
    }

    fn push_interim(&self, slot: &InterimSlot, InterimHead { status, mut headers }: InterimHead) {
        headers.append(VIA, self.routed.shard.via.clone());
        slot.push(status, &headers);
    }

    /// A method that the store does not answer.
    pub async fn other(&self, body: Incoming) -> Response<CacheBody> {
        let Ok(_in_flight) = self.routed.shard.admission.enter() else {
            return self.overloaded();
        };
        let reason =
            if self.routed.route.is_cached { ForwardReason::Method } else { ForwardReason::Bypass };
        let limited = Limited::new(body, self.routed.shard.store.config.request_max);
        let response = self.pass(Either::Right(limited), reason).await;
        if let Ok(target) = Url::parse(self.key.as_str()) {
            let stale = invalidated(
                &self.routed.head.method,
                &target,
                response.status(),
                response.headers(),
            );
            let uris = stale.iter().filter_map(|url| Uri::try_from(url.as_str()).ok());
            for key in uris.filter_map(|uri| CacheKey::of(&uri, &self.routed.route.query)) {
                self.routed.shard.invalidate(&key);
            }
        }
        response
    }

    /// What an answer to HEAD says of the stored answer to GET (RFC 9111, section 4.3.5).
    fn take_over_head(&self, response: &Response<CacheBody>, purged_through: PurgeNumber) {
        let Some(stored) = self.routed.shard.stored(&self.key, &self.routed.head.headers) else {
            return;
        };
        if response.status() != StatusCode::OK {
            return;
        }
        let mut known = stored.head.to_headers();
        known.insert(CONTENT_LENGTH, stored.body.length().into());
        if !head_agrees(response.headers(), &known) {
            self.routed.shard.invalidate(&self.key);
            return;
        }
        let now = self.routed.shard.now();
        let freshening = Freshening {
            request: &self.routed.head.headers,
            targets: self.routed.route.targets(),
            times: ExchangeTimes { requested: now, received: now },
            purged_through,
            rules: self.routed.route.lifetime,
            storing: self.routed.route.storing,
        };
        let mut newer = response.headers().clone();
        newer.remove(&CACHE_STATUS);
        newer.remove(VIA);
        match stored.freshened(&newer, &freshening) {
            Some(freshened) => {
                let headers = &self.routed.head.headers;
                self.routed.shard.put(self.routed.at, &self.key, freshened, headers);
            }
            None => self.routed.shard.invalidate(&self.key),
        }
    }

    fn forwarded(&self, response: &mut Response<CacheBody>, forwarded: ForwardedRequest) {
        let version = via_member(response.version(), &self.routed.shard.store.config.name);
        let via = HeaderValue::try_from(version).expect("a name is a token");
        response.headers_mut().append(VIA, via);
        set_status(response, self.routed.name(), CacheStatus::Forwarded(forwarded));
    }

    fn bad_gateway(&self, error: &OriginError, forwarded: ForwardedRequest) -> Response<CacheBody> {
        self.routed.counts().failed.increment();
        let status = match error {
            OriginError::TimedOut => StatusCode::GATEWAY_TIMEOUT,
            OriginError::LeftAlone(_) | OriginError::TooManyConnections => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            _ => StatusCode::BAD_GATEWAY,
        };
        let mut response = plain(status, &error.to_string());
        if status == StatusCode::SERVICE_UNAVAILABLE {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        set_status(&mut response, self.routed.name(), CacheStatus::Forwarded(forwarded));
        response
    }
}
