//! The listener: which requests are refused, and the route and key of the others.

mod puts;

use std::rc::Rc;

use cache_core::fields::forwarding::passes;
use cache_core::key::{CacheKey, TargetUri};
use cache_core::rules::control::RequestControl;
use cache_core::rules::vary::RequestFields;
use cache_core::store::wire::WrittenHit;
use http_kit::head::MalformedHead;
use http_kit::plain::PlainGet;
use hyper::header::{ALLOW, HOST, HeaderName, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Response, StatusCode};
use runtime::service::{
    ClientConnection, ConnectionOptions, HttpRequest, HttpService, LocalFuture, ServiceShard,
};

use crate::answers::body::CacheBody;
use crate::answers::error;
use crate::exchange::ClientExchange;
use crate::routed::RoutedRequest;
use crate::shard::CacheShard;
use puts::PutsRequest;

impl ServiceShard for CacheShard {
    fn connection_options(&self, _listener: usize) -> ConnectionOptions {
        let config = &self.store.config;
        ConnectionOptions {
            tls: config.tls.clone(),
            timeouts: config.timeouts.connection,
            write_timeout: config.timeouts.write,
            unsent_max: None,
            dates_arrivals: false,
        }
    }

    fn serve(self: Rc<Self>, connection: ClientConnection) -> LocalFuture<'static, ()> {
        let heads = self.store.config.heads;
        let scheme = self.store.config.scheme();
        Box::pin(connection.serve_http(heads, CacheHttp { shard: self, scheme }))
    }
}

struct CacheHttp {
    shard: Rc<CacheShard>,
    scheme: &'static str,
}

impl HttpService for CacheHttp {
    type Body = CacheBody;

    const PASSES_ON: bool = true;

    async fn answer(&self, request: HttpRequest) -> Response<CacheBody> {
        let HttpRequest { head, body, interim, .. } = request;
        let name = &self.shard.store.config.name;
        if matches!(head.method, Method::CONNECT | Method::TRACE) {
            let mut response =
                error(name, StatusCode::METHOD_NOT_ALLOWED, "this method is not served");
            let allowed = HeaderValue::from_static("GET, HEAD, POST, PUT, DELETE, PATCH, OPTIONS");
            response.headers_mut().insert(ALLOW, allowed);
            return response;
        }
        if let Some(config) = &self.shard.store.config.puts
            && head.uri.path() == config.path
        {
            return PutsRequest { shard: &self.shard, config, head: &head }.answer(body).await;
        }
        if passes(&head.headers, name) > 0 {
            let text = "the request has passed this cache before: an origin is the cache itself";
            return error(name, StatusCode::LOOP_DETECTED, text);
        }
        let Some(target) = target_of(self.scheme, &head) else {
            return error(name, StatusCode::BAD_REQUEST, "the request names no host");
        };
        let Some(at) = self.shard.store.config.routes.find(target.host(), target.path) else {
            let text = format!("no route has the host `{}` and this path", target.host());
            return error(name, StatusCode::NOT_FOUND, &text);
        };
        let route = self.shard.route_at(at);
        let routed = RoutedRequest { shard: &self.shard, at, route, head: &head };
        let is_stored = route.is_cached && matches!(head.method, Method::GET | Method::HEAD);
        let control = RequestControl::of(&head.headers);
        let looked_up = self.shard.with_key(target, &route.query, |key| {
            let answer = is_stored.then(|| routed.look_up(key, &control));
            // Most hits need no key of their own.
            let is_enough = matches!(&answer, Some(Ok(answer)) if !answer.is_validated_meanwhile);
            (answer, (!is_enough).then(|| CacheKey::written(key)))
        });
        let Some((answer, key)) = looked_up else {
            return error(name, StatusCode::BAD_REQUEST, "the request's URI is malformed");
        };
        let exchange = key.map(|key| ClientExchange { routed, key, interim });
        match (answer, exchange) {
            (Some(Ok(answer)), exchange) => {
                if let Some(exchange) = exchange {
                    exchange.validate_meanwhile(&control);
                }
                routed.hit(answer)
            }
            // What a fetch needs is large, and a hit must not have room for it.
            (Some(Err(missing)), Some(exchange)) => Box::pin(exchange.miss(missing, control)).await,
            (None, Some(exchange)) => Box::pin(exchange.other(body)).await,
            (_, None) => unreachable!("only hits have no key"),
        }
    }

    fn answer_plain(&self, request: PlainGet<'_>, send: impl FnOnce(&[u8])) -> bool {
        let PlainGet { authority, path, query, .. } = request;
        let config = &self.shard.store.config;
        if config.puts.as_ref().is_some_and(|puts| puts.path == path) {
            return false;
        }
        let target = TargetUri { scheme: self.scheme, authority, path, query };
        let Some(at) = config.routes.find(target.host(), path) else { return false };
        let route = self.shard.route_at(at);
        if !route.is_cached {
            return false;
        }
        let written = self.shard.with_key(target, &route.query, |key| {
            self.shard.write_hit(key, &PlainGetFields(request), route.reuse, send)
        });
        let Some(WrittenHit { served, body_bytes }) = written.flatten() else { return false };
        self.shard.counts(at).count_hit(served, body_bytes);
        true
    }

    fn malformed(&self, problem: &MalformedHead) -> Response<CacheBody> {
        let name = &self.shard.store.config.name;
        error(name, StatusCode::BAD_REQUEST, &problem.to_string())
    }
}

/// The fields of a plain GET, by which stored responses vary.
struct PlainGetFields<'r>(PlainGet<'r>);

impl RequestFields for PlainGetFields<'_> {
    fn lines(&self, name: &HeaderName) -> impl Iterator<Item = &[u8]> {
        self.0.lines(name.as_str())
    }
}

/// The target URI of a request (RFC 9110, section 7.1): with the authority of HTTP/2 and of absolute
/// URIs, else of the header. None if that is missing or not text.
fn target_of<'h>(scheme: &'h str, head: &'h Parts) -> Option<TargetUri<'h>> {
    let authority = match head.uri.authority() {
        Some(authority) => authority.as_str(),
        None => head.headers.get(HOST)?.to_str().ok().filter(|host| !host.is_empty())?,
    };
    // `*` of OPTIONS is of the server.
    let path = if head.uri.path() == "*" { "/" } else { head.uri.path() };
    Some(TargetUri { scheme, authority, path, query: head.uri.query() })
}
