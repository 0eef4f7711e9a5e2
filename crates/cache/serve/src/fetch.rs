//! A fetch of a key for the store and for all who wait for it.

use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use cache_core::fields::dates::UnixSeconds;
use cache_core::fields::surrogate::{SURROGATE_KEY, SurrogateKeys};
use cache_core::key::CacheKey;
use cache_core::rules::combining::IncompleteResponse;
use cache_core::rules::control::{FieldScope, RequestControl, ResponseControl};
use cache_core::rules::freshness::{ExchangeTimes, origin_date};
use cache_core::rules::storing::{ExchangeHeads, StoringRefusal, check_storing};
use cache_core::rules::validation::freshening::FresheningTarget;
use cache_core::rules::validation::validators::Validators;
use cache_core::rules::vary::Variant;
use cache_core::store::purges::PurgeNumber;
use cache_core::store::response::{Freshening, ReceivedResponse, StoredBody, StoredResponse};
use hyper::header::{IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, RANGE};
use hyper::{HeaderMap, Method, Response, StatusCode, Version};
use tokio::sync::oneshot;
use tokio::time::Instant;
use tracing::debug;

use crate::answers::body::PassedBody;
use crate::config::CacheRoute;
use crate::fill::{FailedFetch, FillOutcome, Lead, SharedHead};
use crate::origin::body::OriginBody;
use crate::origin::{ForwardedHead, InterimSender, OriginError};
use crate::shard::CacheShard;

/// A body that breaks off is completed by so many requests at most.
const COMPLETIONS_MAX: usize = 2;

/// A request for a key, as a fetch needs it after its client may have gone.
pub(crate) struct FetchRequest {
    pub route: usize,
    pub version: Version,
    pub headers: HeaderMap,
    pub control: RequestControl,
    /// What is validated. None if nothing is stored.
    pub stored: Option<StoredResponse>,
    /// Where interim answers go. None if nobody waits for them.
    pub interim: Option<InterimSender>,
}

/// An answer that only the client gets whose request it was.
pub(crate) type UnsharedAnswer = Response<PassedBody>;

/// Who gets the answer.
pub(crate) struct Recipients {
    /// All who wait for the key.
    pub lead: Lead,
    /// The client whose request it is, if the answer is not shared.
    pub client: oneshot::Sender<UnsharedAnswer>,
}

/// Fetches, and tells all who wait what came of it. `client` gets an answer that is not shared.
pub(crate) async fn fetch(
    shard: Rc<CacheShard>,
    mut request: FetchRequest,
    recipients: Recipients,
) {
    let route = Arc::clone(shard.route_at(request.route));
    let purged_through = recipients.lead.purged_through();
    let fetch = Fetch { shard: &shard, route: &route, purged_through };
    let key = recipients.lead.key();
    let mut requested = shard.now();
    let mut sent = fetch.send(&request, key, Wanted::Whole).await;
    if let (Ok(response), Some(stored)) = (&sent, &request.stored)
        && response.status() == StatusCode::NOT_MODIFIED
    {
        let times = ExchangeTimes { requested, received: shard.now() };
        if let Some(freshened) = fetch.freshened(&request, stored, response.headers(), times) {
            shard.counts(request.route).validations.increment();
            shard.put(request.route, key, freshened.clone(), &request.headers);
            recipients.lead.decide(FillOutcome::Validated(Arc::new(freshened)));
            return;
        }
        // What is stored may not be, or the 304 is about another response.
        shard.invalidate(key);
        request.stored = None;
        requested = shard.now();
        sent = fetch.send(&request, key, Wanted::Whole).await;
    }
    let times = ExchangeTimes { requested, received: shard.now() };
    match sent {
        Ok(response) => fetch.received(&request, response, times, recipients).await,
        Err(error) => {
            debug!(route = route.id, %error, "no answer of the origin");
            let stored = request.stored.map(Arc::new);
            recipients.lead.decide(FillOutcome::Failed(FailedFetch { error, stored }));
        }
    }
}

/// Whether a 304 is about the stored response.
fn is_about(headers: &HeaderMap, stored: &StoredResponse, now: UnixSeconds) -> bool {
    let times = ExchangeTimes { requested: now, received: now };
    let newer = Validators::of(headers, origin_date(headers, times));
    let has_none = newer.etag.is_none() && newer.last_modified.is_none();
    // One without validators answers the validators of the request: those of the stored one.
    has_none || FresheningTarget::of(&newer).admits(&newer, &stored.validators())
}

/// What is asked for.
#[derive(Clone, Copy)]
enum Wanted<'w> {
    /// The response, or that what is stored is valid.
    Whole,
    /// What is missing of a response that broke off.
    Rest(&'w IncompleteResponse),
}

/// The head of a part.
struct PartHead {
    headers: HeaderMap,
    times: ExchangeTimes,
}

/// The rest of a response that broke off.
struct FetchedRest {
    head: PartHead,
    body: PassedBody,
    /// Length of the whole.
    end: u64,
}

struct Fetch<'f> {
    shard: &'f CacheShard,
    route: &'f CacheRoute,
    /// The newest purge when it began.
    purged_through: PurgeNumber,
}

impl Fetch<'_> {
    async fn send(
        &self,
        request: &FetchRequest,
        key: &CacheKey,
        wanted: Wanted<'_>,
    ) -> Result<Response<OriginBody>, OriginError> {
        let head = ForwardedHead {
            method: &Method::GET,
            version: request.version,
            key,
            headers: &request.headers,
            name: &self.shard.store.config.name,
        };
        let mut forwarded = head.for_store(self.route);
        match wanted {
            Wanted::Whole => {
                let lines = request.stored.as_ref().map(StoredResponse::validator_lines);
                let lines = lines.unwrap_or_default();
                for (name, line) in
                    [(IF_NONE_MATCH, lines.etag), (IF_MODIFIED_SINCE, lines.last_modified)]
                {
                    line.map(|line| forwarded.headers_mut().insert(name, line));
                }
            }
            Wanted::Rest(incomplete) => {
                forwarded.headers_mut().insert(RANGE, incomplete.range());
                forwarded.headers_mut().insert(IF_RANGE, incomplete.if_range().clone());
            }
        }
        let begun = Instant::now();
        let sent = self.shard.origins.send(request.route, forwarded, request.interim.clone()).await;
        let is_failure = sent.as_ref().map_or(true, |response| response.status().is_server_error());
        if !matches!(sent, Err(OriginError::LeftAlone(_))) {
            self.shard.counts(request.route).count_fetch(begun.elapsed(), is_failure);
        }
        sent
    }

    async fn received(
        &self,
        request: &FetchRequest,
        response: Response<OriginBody>,
        times: ExchangeTimes,
        Recipients { lead, client }: Recipients,
    ) {
        let (mut head, body) = response.into_parts();
        if head.status == StatusCode::NOT_MODIFIED {
            let error = OriginError::Malformed("304 to a request without conditions".into());
            lead.decide(FillOutcome::Failed(FailedFetch { error, stored: None }));
            return;
        }
        if let Some(stored) = self.stands_in(request, lead.key(), head.status) {
            let error = OriginError::Status(head.status);
            lead.decide(FillOutcome::Failed(FailedFetch { error, stored: Some(Arc::new(stored)) }));
            return;
        }
        let counts = self.shard.shared_counts(request.route);
        let body = PassedBody::new(body, self.route.body_timeout, counts);
        let control = ResponseControl::of(&head.headers, self.route.targets());
        let received = ReceivedResponse {
            status: head.status,
            headers: &head.headers,
            control: &control,
            times,
            purged_through: self.purged_through,
        };
        match self.shared_head(request, &received, &body, &lead) {
            Ok(shared) => {
                lead.decide(FillOutcome::Shared(Arc::new(shared)));
                self.fill(request, &received, body, lead).await;
            }
            Err(refusal) => {
                debug!(route = self.route.id, ?refusal, "an answer is not shared");
                match refusal {
                    // Another request's answer may be: what a client sends must not keep the key of
                    // others from being stored.
                    NotShared::Refused(
                        StoringRefusal::Authorization | StoringRefusal::RequestNoStore,
                    ) => lead.decide(FillOutcome::NotSharedNow),
                    _ => lead.decide_unshared(times.received),
                }
                head.headers.remove(&SURROGATE_KEY);
                // The client may have gone.
                let _gone = client.send(Response::from_parts(head, body));
            }
        }
    }

    /// What a 304 makes of the stored response. None if it is about another, or this may not be stored
    /// any more (RFC 9111, section 4.3.4).
    fn freshened(
        &self,
        request: &FetchRequest,
        stored: &StoredResponse,
        headers: &HeaderMap,
        times: ExchangeTimes,
    ) -> Option<StoredResponse> {
        let freshening = self.freshening(request, times);
        is_about(headers, stored, times.received).then(|| stored.freshened(headers, &freshening))?
    }

    fn freshening<'r>(&'r self, request: &'r FetchRequest, times: ExchangeTimes) -> Freshening<'r> {
        Freshening {
            request: &request.headers,
            targets: self.route.targets(),
            times,
            purged_through: self.purged_through,
            rules: self.route.lifetime,
            storing: self.route.storing,
        }
    }

    /// The stored response, if it may be served instead of this error.
    fn stands_in(
        &self,
        request: &FetchRequest,
        key: &CacheKey,
        status: StatusCode,
    ) -> Option<StoredResponse> {
        let stored =
            request.stored.as_ref().filter(|_| matches!(status.as_u16(), 500 | 502..=504))?;
        self.shard.serves_errors(key, stored, &request.control, self.route.reuse)
    }

    /// The head, if the answer may be stored and has room.
    fn shared_head(
        &self,
        request: &FetchRequest,
        received: &ReceivedResponse<'_>,
        body: &PassedBody,
        lead: &Lead,
    ) -> Result<SharedHead, NotShared> {
        let ReceivedResponse { status, headers, control, .. } = *received;
        let heads = ExchangeHeads {
            method: &Method::GET,
            request: &request.headers,
            request_control: &request.control,
            status,
            response: headers,
            response_control: control,
        };
        check_storing(&heads, self.route.storing).map_err(NotShared::Refused)?;
        let length = body.length();
        let object_max = self.shard.store.config.limits.object_max as u64;
        if length.is_some_and(|length| length > object_max) || !lead.has_room(length.unwrap_or(0)) {
            return Err(NotShared::TooLarge);
        }
        let variant = Variant::of(headers, &request.headers)
            .ok_or(NotShared::Refused(StoringRefusal::VaryAny))?;
        let surrogate_keys = SurrogateKeys::of(headers);
        let mut headers = headers.clone();
        headers.remove(&SURROGATE_KEY);
        let mut for_others = headers.clone();
        let of_one = [&control.private, &control.no_cache];
        for name in of_one.into_iter().flat_map(FieldScope::fields) {
            for_others.remove(name);
        }
        Ok(SharedHead { status, headers, for_others, variant, surrogate_keys, length })
    }

    /// Reads the body to its end, for those who wait, and stores it.
    async fn fill(
        &self,
        request: &FetchRequest,
        received: &ReceivedResponse<'_>,
        mut body: PassedBody,
        mut lead: Lead,
    ) {
        let object_max = self.shard.store.config.limits.object_max;
        let mut whole = body.length();
        let (mut length, mut completions) = (0, 0);
        let mut newer = None;
        while let Some(piece) = body.piece().await {
            let piece: Bytes = match piece {
                Ok(piece) => piece,
                Err(error) => {
                    debug!(route = self.route.id, %error, "an answer is not complete");
                    self.shard.counts(request.route).fetch_failures.increment();
                    let ReceivedResponse { status, headers, .. } = *received;
                    let incomplete = IncompleteResponse::of(status, headers, length as u64, whole);
                    completions += 1;
                    let incomplete = incomplete.filter(|_| completions <= COMPLETIONS_MAX);
                    // Its connection makes room for another.
                    drop(body);
                    let rest = match incomplete {
                        Some(incomplete) => self.rest(request, &incomplete, lead.key()).await,
                        None => None,
                    };
                    let Some(rest) = rest else { return lead.finish(Err(error)) };
                    (whole, body, newer) = (Some(rest.end), rest.body, Some(rest.head));
                    continue;
                }
            };
            length += piece.len();
            let is_kept = length <= object_max && lead.has_room(piece.len() as u64);
            lead.append(piece);
            if !is_kept {
                self.pass_on(body, lead).await;
                return;
            }
        }
        let body = StoredBody::new(lead.body());
        let stored = StoredResponse::new(received, &request.headers, body, self.route.lifetime);
        let stored = stored.and_then(|stored| match &newer {
            // Fields of the last part are newer (RFC 9111, section 3.4).
            Some(PartHead { headers, times }) => {
                stored.freshened(headers, &self.freshening(request, *times))
            }
            None => Some(stored),
        });
        if let Some(stored) = stored.filter(StoredResponse::is_useful) {
            self.shard.put(request.route, lead.key(), stored, &request.headers);
        }
        lead.finish(Ok(()));
    }

    /// Asks for the rest of a response that broke off. None if the origin has not got it.
    async fn rest(
        &self,
        request: &FetchRequest,
        incomplete: &IncompleteResponse,
        key: &CacheKey,
    ) -> Option<FetchedRest> {
        let requested = self.shard.now();
        let response = self.send(request, key, Wanted::Rest(incomplete)).await.ok()?;
        let times = ExchangeTimes { requested, received: self.shard.now() };
        let range = incomplete.rest(response.status(), response.headers())?;
        let (head, body) = response.into_parts();
        let counts = self.shard.shared_counts(request.route);
        let body = PassedBody::new(body, self.route.body_timeout, counts);
        Some(FetchedRest {
            head: PartHead { headers: head.headers, times },
            body: body.of_length(range.bytes()),
            end: range.end,
        })
    }

    /// A body that turned out too large: only those who read it now get it.
    async fn pass_on(&self, mut body: PassedBody, mut lead: Lead) {
        while lead.pass_on().await {
            match body.piece().await {
                Some(Ok(piece)) => lead.append(piece),
                Some(Err(error)) => return lead.finish(Err(error)),
                None => return lead.finish(Ok(())),
            }
        }
    }
}

/// Why an answer is for one client.
#[derive(Clone, Copy, Debug)]
enum NotShared {
    /// It may not be stored.
    Refused(StoringRefusal),
    /// It does not fit.
    TooLarge,
}
