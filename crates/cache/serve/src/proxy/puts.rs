//! Values that clients store and ask for by UUID: the interface of Prebid Cache, on the cache's listener
//! and in its memory.

use std::rc::Rc;

use bytes::Bytes;
use cache_core::puts::parse_puts;
use cache_core::rules::control::RequestControl;
use cache_core::rules::reuse::ReuseRules;
use cache_core::store::answer::{CacheAnswer, ClientRequest};
use http_kit::query::query_value;
use hyper::body::Incoming;
use hyper::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, ALLOW, CONTENT_TYPE, HeaderValue, ORIGIN, VARY,
    X_CONTENT_TYPE_OPTIONS,
};
use hyper::http::request::Parts;
use hyper::{Method, Response, StatusCode};
use serde_json::json;

use crate::answers::body::CacheBody;
use crate::answers::error;
use crate::config::PutsConfig;
use crate::shard::CacheShard;
use crate::shard::values::key_of;

const METHODS: HeaderValue = HeaderValue::from_static("GET, HEAD, POST, OPTIONS");

/// Letters of a UUID.
const UUID_LENGTH: usize = 36;

/// A request for the path of puts.
pub(super) struct PutsRequest<'r> {
    pub shard: &'r Rc<CacheShard>,
    pub config: &'r PutsConfig,
    pub head: &'r Parts,
}

impl PutsRequest<'_> {
    pub(super) async fn answer(&self, body: Incoming) -> Response<CacheBody> {
        let mut response = match self.head.method {
            Method::POST => self.put(body).await,
            Method::GET | Method::HEAD => self.get().await,
            Method::OPTIONS => preflight(),
            _ => self.method_not_allowed(),
        };
        // Prebid.js asks from pages of any site, with credentials.
        if let Some(origin) = self.head.headers.get(ORIGIN) {
            let headers = response.headers_mut();
            headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
            headers.insert(ACCESS_CONTROL_ALLOW_CREDENTIALS, HeaderValue::from_static("true"));
            headers.append(VARY, HeaderValue::from_static("origin"));
        }
        response
    }

    async fn put(&self, body: Incoming) -> Response<CacheBody> {
        let counts = self.shard.put_counts();
        let read = http_kit::body::read(&self.head.headers, body, self.config.body).await;
        let body = match read {
            Ok(body) => body,
            Err(problem) => {
                counts.refused.increment();
                return self.refuse(problem.status(), &problem.to_string());
            }
        };
        match parse_puts(&body, self.config.limits) {
            Ok(values) => {
                counts.stored.add(values.len() as u64);
                let uuids =
                    values.into_iter().map(|value| json!({ "uuid": self.shard.put_value(value) }));
                let answer = json!({ "responses": uuids.collect::<Vec<_>>() });
                let mut response = Response::new(CacheBody::from(Bytes::from(answer.to_string())));
                let json = HeaderValue::from_static("application/json");
                response.headers_mut().insert(CONTENT_TYPE, json);
                response
            }
            Err(refusal) => {
                counts.refused.increment();
                self.refuse(StatusCode::BAD_REQUEST, &refusal.to_string())
            }
        }
    }

    async fn get(&self) -> Response<CacheBody> {
        let uuid = query_value(self.head.uri.query().unwrap_or_default(), "uuid");
        let (status, text) = match uuid.ok().flatten().filter(|uuid| !uuid.is_empty()) {
            None => (StatusCode::BAD_REQUEST, ": Missing required parameter uuid".to_owned()),
            Some(uuid) if !is_uuid(&uuid) => {
                (StatusCode::NOT_FOUND, ": invalid uuid length".to_owned())
            }
            Some(uuid) => match self.stored(&uuid).await {
                Some(response) => {
                    self.shard.put_counts().served.increment();
                    return response;
                }
                None => (StatusCode::NOT_FOUND, format!(" uuid={uuid}: Key not found")),
            },
        };
        self.shard.put_counts().missed.increment();
        self.refuse(status, &format!("GET {}{text}", self.config.path))
    }

    /// None if it was never stored, has expired, or was evicted or purged.
    async fn stored(&self, uuid: &str) -> Option<Response<CacheBody>> {
        let Parts { method, headers, .. } = self.head;
        let request = ClientRequest { method, headers, control: &RequestControl::of(headers) };
        let key = key_of(uuid);
        let rules = ReuseRules::default();
        let mut found = self.shard.look_up(key.as_str(), request, rules);
        if found.is_none() {
            found = self.shard.load(None, &key, request, rules).await;
        }
        match found {
            Some(CacheAnswer::Ready(answer)) => Some(self.shard.hit(answer)),
            _ => None,
        }
    }

    fn method_not_allowed(&self) -> Response<CacheBody> {
        let mut response = self.refuse(StatusCode::METHOD_NOT_ALLOWED, "only GET, HEAD and POST");
        response.headers_mut().insert(ALLOW, METHODS);
        response
    }

    fn refuse(&self, status: StatusCode, text: &str) -> Response<CacheBody> {
        let mut response = error(&self.shard.store.config.name, status, text);
        let nosniff = HeaderValue::from_static("nosniff");
        response.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, nosniff);
        response
    }
}

/// The answer to the question whether a page of another origin may ask (Fetch Standard).
fn preflight() -> Response<CacheBody> {
    let mut response = Response::new(CacheBody::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, METHODS);
    headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static("content-type"));
    response
}

fn is_uuid(text: &str) -> bool {
    text.len() == UUID_LENGTH && text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
}
