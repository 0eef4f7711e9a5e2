//! The listener: which requests are refused, and the route and key of the others.

use std::rc::Rc;
use std::sync::Arc;

use cache_core::fields::forwarding::passes;
use cache_core::key::CacheKey;
use http_kit::head::MalformedHead;
use hyper::header::{ALLOW, HOST, HeaderValue};
use hyper::http::request::Parts;
use hyper::http::uri::{PathAndQuery, Scheme};
use hyper::{Method, Response, StatusCode, Uri};
use runtime::service::{
    ClientConnection, ConnectionOptions, HttpRequest, HttpService, LocalFuture, ServiceShard,
};

use crate::answers::body::CacheBody;
use crate::answers::error;
use crate::exchange::ClientExchange;
use crate::shard::CacheShard;

/// Requests that go round in circles (RFC 5842, section 7.2).
const LOOP_DETECTED: StatusCode = StatusCode::LOOP_DETECTED;

impl ServiceShard for CacheShard {
    fn connection_options(&self, _listener: usize) -> ConnectionOptions {
        let config = &self.store.config;
        ConnectionOptions {
            tls: config.tls.clone(),
            timeouts: config.timeouts,
            write_timeout: config.write_timeout,
            unsent_max: None,
        }
    }

    fn serve(self: Rc<Self>, connection: ClientConnection) -> LocalFuture<'static, ()> {
        let heads = self.store.config.heads;
        let scheme = match self.store.config.tls {
            Some(_) => Scheme::HTTPS,
            None => Scheme::HTTP,
        };
        Box::pin(connection.serve_http(heads, CacheHttp { shard: self, scheme }))
    }
}

struct CacheHttp {
    shard: Rc<CacheShard>,
    scheme: Scheme,
}

impl HttpService for CacheHttp {
    type Body = CacheBody;

    const PASSES_ON: bool = true;

    async fn answer(&self, request: HttpRequest) -> Response<CacheBody> {
        let HttpRequest { head, body, .. } = request;
        let name = &self.shard.store.config.name;
        if matches!(head.method, Method::CONNECT | Method::TRACE) {
            let mut response =
                error(name, StatusCode::METHOD_NOT_ALLOWED, "this method is not served");
            let allowed = HeaderValue::from_static("GET, HEAD, POST, PUT, DELETE, PATCH, OPTIONS");
            response.headers_mut().insert(ALLOW, allowed);
            return response;
        }
        if passes(&head.headers, name) > 0 {
            let text = "the request has passed this cache before: an origin is the cache itself";
            return error(name, LOOP_DETECTED, text);
        }
        let Some(host) = host_of(&head) else {
            return error(name, StatusCode::BAD_REQUEST, "the request names no host");
        };
        let host_alone = host.rsplit_once(':').map_or(&*host, |(host, _)| host);
        let Some(at) = self.shard.route(host_alone, head.uri.path()) else {
            let text = format!("no route has the host `{host_alone}` and this path");
            return error(name, StatusCode::NOT_FOUND, &text);
        };
        let route = Arc::clone(self.shard.route_at(at));
        let uri = absolute(&self.scheme, &host, &head.uri);
        let Some(key) = uri.as_ref().and_then(|uri| CacheKey::of(uri, &route.query)) else {
            return error(name, StatusCode::BAD_REQUEST, "the request's URI is malformed");
        };
        let target = target_of(&key);
        let exchange = ClientExchange { shard: &self.shard, at, route: &route, key, target, head };
        match exchange.head.method {
            Method::GET if route.is_cached => exchange.get().await,
            Method::HEAD if route.is_cached => exchange.head().await,
            _ => exchange.other(body).await,
        }
    }

    fn malformed(&self, problem: &MalformedHead) -> Response<CacheBody> {
        let name = &self.shard.store.config.name;
        error(name, StatusCode::BAD_REQUEST, &problem.to_string())
    }
}

/// Of HTTP/2 and of absolute URIs, else of the header. None if it is not text.
fn host_of(head: &Parts) -> Option<String> {
    if let Some(authority) = head.uri.authority() {
        return Some(authority.as_str().to_owned());
    }
    let host = head.headers.get(HOST)?.to_str().ok()?;
    (!host.is_empty()).then(|| host.to_owned())
}

/// The target URI of a request (RFC 9110, section 7.1).
fn absolute(scheme: &Scheme, host: &str, uri: &Uri) -> Option<Uri> {
    let target = uri.path_and_query().map_or("/", PathAndQuery::as_str);
    // `*` of OPTIONS is of the server.
    let target = if target == "*" { "/" } else { target };
    Uri::builder().scheme(scheme.clone()).authority(host).path_and_query(target).build().ok()
}

/// The path and query of a key.
fn target_of(key: &CacheKey) -> PathAndQuery {
    let uri = Uri::try_from(key.as_str()).ok();
    let target = uri.and_then(|uri| uri.path_and_query().cloned());
    target.unwrap_or_else(|| PathAndQuery::from_static("/"))
}
