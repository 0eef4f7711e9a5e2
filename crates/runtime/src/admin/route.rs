//! Selects the function that answers a request: tables of methods and paths, one per part of the
//! API. It must not know what a route does, nor who has access: server.rs does.

pub(super) mod operation;

use std::fmt;
use std::sync::Arc;

use http_kit::query::{percent_decoded, query_names, query_values};
use hyper::HeaderMap;
use hyper::body::Bytes;

use super::allowance::ChangeAllowance;
use super::reply::{ErrorCode, ErrorField, Reply, ReplyResult};
use operation::Operation;

/// Largest body, unless a part of the API allows more: 64 KiB.
pub(super) const BODY_BYTES_MAX: usize = 64 * 1024;

/// The method of a route. [`Get`](Self::Get) also answers `HEAD`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "UPPERCASE")]
pub enum Method {
    /// Reads the resource.
    Get,
    /// Replaces the resource.
    Put,
    /// Performs an action.
    Post,
    /// Changes a part of the resource.
    Patch,
    /// Removes the resource.
    Delete,
}

impl Method {
    /// Its name in a request line.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Its names in an `allow` header.
    fn allowed(self) -> &'static str {
        match self {
            Self::Get => "GET, HEAD",
            other => other.name(),
        }
    }

    fn answers(self, method: &hyper::Method) -> bool {
        method.as_str() == self.name() || (self == Self::Get && method == hyper::Method::HEAD)
    }
}

/// One resource and one method.
pub struct Route<S> {
    /// The method.
    pub method: Method,
    /// The resource's path; a segment in braces matches any text, as in `/v1/dsps/{id}`.
    pub path: &'static str,
    /// Answers with the state of its part of the API. It may block; a panic is answered with 500.
    pub answer: fn(&S, &ApiCall) -> ReplyResult,
    /// Its description in the API's document.
    pub operation: Operation,
}

/// A request with a matching route.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApiCall {
    parameters: Vec<(&'static str, String)>,
    query: String,
    headers: HeaderMap,
    body: Bytes,
}

impl ApiCall {
    /// The decoded path segment in the place of `{name}`.
    ///
    /// # Panics
    /// If the route has no such segment.
    pub fn parameter(&self, name: &str) -> &str {
        let found = self.parameters.iter().find(|(known, _)| *known == name);
        &found.expect("the route's path has the parameter that its function asks for").1
    }

    /// The first value of a name in the query, form-decoded: `+` is a space.
    ///
    /// # Errors
    /// The response, 400, if the decoded value is not UTF-8.
    pub fn query(&self, name: &str) -> Result<Option<String>, Reply> {
        let value = query_values(&self.query, name).next().transpose();
        value.map_err(|error| Reply::error(ErrorCode::BadRequest, &format!("`{name}` {error}")))
    }

    /// All values of a name in the query, likewise.
    ///
    /// # Errors
    /// As [`Self::query`].
    pub fn queries(&self, name: &str) -> Result<Vec<String>, Reply> {
        let values: Result<Vec<_>, _> = query_values(&self.query, name).collect();
        values.map_err(|error| Reply::error(ErrorCode::BadRequest, &format!("`{name}` {error}")))
    }

    /// The names in the query, decoded as far as possible.
    pub fn query_names(&self) -> impl Iterator<Item = String> {
        query_names(&self.query)
    }

    /// The value of the first header of this name.
    ///
    /// # Errors
    /// The response, 400, if it is not ASCII: it must not count as absent.
    pub fn header(&self, name: &str) -> Result<Option<&str>, Reply> {
        let Some(value) = self.headers.get(name) else { return Ok(None) };
        value.to_str().map(Some).map_err(|_| {
            let message = format!("the header {name} is not ASCII: write it so");
            Reply::error_with(ErrorCode::BadRequest, &message, ErrorField::at(name))
        })
    }

    pub(super) fn headers(&self, name: &str) -> impl Iterator<Item = &str> {
        self.headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok())
    }

    /// The body, empty if there was none.
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    pub(super) fn with_request(self, query: &str, headers: HeaderMap, body: Bytes) -> Self {
        Self { query: query.to_owned(), headers, body, ..self }
    }
}

struct RouteHandler {
    method: Method,
    path: &'static str,
    answer: Box<dyn Fn(&ApiCall) -> ReplyResult + Send + Sync>,
    operation: Operation,
}

/// One part of the API: its routes and their state.
pub struct Api {
    handlers: Vec<RouteHandler>,
    body_bytes_max: usize,
    /// Limits methods other than GET. None if they have no limit.
    changes: Option<ChangeAllowance>,
}

impl Api {
    /// An API that answers `routes` with `state`.
    pub fn new<S: Send + Sync + 'static>(state: S, routes: Vec<Route<S>>) -> Self {
        let state = Arc::new(state);
        Self::answering(routes, |answer| {
            let state = Arc::clone(&state);
            Box::new(move |call| answer(&state, call))
        })
    }

    /// An API that answers all `routes` with the error that their service is not configured.
    pub fn unconfigured<S>(routes: Vec<Route<S>>, message: &'static str) -> Self {
        Self::answering(routes, |_| {
            Box::new(move |_| Err(Reply::error(ErrorCode::NotConfigured, message)))
        })
    }

    fn answering<S>(
        routes: Vec<Route<S>>,
        by: impl Fn(
            fn(&S, &ApiCall) -> ReplyResult,
        ) -> Box<dyn Fn(&ApiCall) -> ReplyResult + Send + Sync>,
    ) -> Self {
        let handler = |Route { method, path, answer, operation }| {
            let answer = by(answer);
            RouteHandler { method, path, answer, operation }
        };
        let handlers = routes.into_iter().map(handler).collect();
        Self { handlers, body_bytes_max: BODY_BYTES_MAX, changes: None }
    }

    /// Allows bodies of up to `bytes_max` bytes instead of 64 KiB.
    #[must_use]
    pub fn with_bodies(self, bytes_max: usize) -> Self {
        Self { body_bytes_max: bytes_max, ..self }
    }

    /// Limits changes (all methods but GET) by `allowance`.
    #[must_use]
    pub fn limited(self, allowance: &ChangeAllowance) -> Self {
        Self { changes: Some(allowance.clone()), ..self }
    }

    pub(super) fn body_bytes_max(&self) -> usize {
        self.body_bytes_max
    }

    pub(super) fn is_limited(&self) -> bool {
        self.changes.is_some()
    }

    pub(super) fn operations(&self) -> impl Iterator<Item = (Method, &'static str, &Operation)> {
        self.handlers.iter().map(|it| (it.method, it.path, &it.operation))
    }

    pub(super) fn answer(&self, index: usize, call: &ApiCall) -> ReplyResult {
        let handler = &self.handlers[index];
        if let Some(changes) = &self.changes
            && handler.method != Method::Get
        {
            changes.take()?;
        }
        (handler.answer)(call)
    }
}

impl fmt::Debug for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.handlers.iter().map(|it| (it.method, it.path))).finish()
    }
}

/// The indices of a request's API and route, and its path parameters.
#[derive(Debug)]
pub(super) struct FoundRoute {
    pub(super) api: usize,
    pub(super) route: usize,
    pub(super) call: ApiCall,
}

/// Finds the route for `method` at `path`, which is still encoded. Without one, returns the
/// response: 404, 405 with the allowed methods, or 400 if a path segment cannot be decoded.
pub(super) fn find<'a>(
    apis: impl Iterator<Item = &'a Api>,
    method: &hyper::Method,
    path: &str,
) -> Result<FoundRoute, Reply> {
    let mut allowed = Vec::new();
    for (api, handlers) in apis.map(|api| &api.handlers).enumerate() {
        for (route, known) in handlers.iter().enumerate() {
            match (matched(known.path, path), known.method.answers(method)) {
                (None, _) => (),
                (Some(_), false) => allowed.push(known.method.allowed()),
                (Some(Ok(parameters)), true) => {
                    return Ok(FoundRoute {
                        api,
                        route,
                        call: ApiCall { parameters, ..ApiCall::default() },
                    });
                }
                (Some(Err(Undecodable)), true) => {
                    let message = "the path is not UTF-8 once its `%` are decoded";
                    return Err(Reply::error(ErrorCode::BadRequest, message));
                }
            }
        }
    }
    if allowed.is_empty() {
        let message = "nothing is here; GET /v1/openapi.json says what is where";
        return Err(Reply::error(ErrorCode::NotFound, message));
    }
    let allowed = allowed.join(", ");
    let message = format!("only {allowed}");
    Err(Reply::error(ErrorCode::MethodNotAllowed, &message).with_allow(&allowed))
}

/// A path segment that does not decode to text.
#[derive(Debug, PartialEq, Eq)]
struct Undecodable;

type Parameters = Vec<(&'static str, String)>;

/// The values of the braces of `pattern` in `path`. None if `path` does not match.
fn matched(pattern: &'static str, path: &str) -> Option<Result<Parameters, Undecodable>> {
    let mut parameters = Ok(Vec::new());
    let (mut wanted, mut given) = (pattern.split('/'), path.split('/'));
    loop {
        let (wanted, given) = match (wanted.next(), given.next()) {
            (None, None) => return Some(parameters),
            (None, Some(_)) | (Some(_), None) => return None,
            (Some(wanted), Some(given)) => (wanted, given),
        };
        let name = wanted.strip_prefix('{').and_then(|wanted| wanted.strip_suffix('}'));
        match name {
            None if wanted != given => return None,
            None => (),
            Some(_) if given.is_empty() => return None,
            Some(name) => match (percent_decoded(given), &mut parameters) {
                (Some(text), Ok(parameters)) => parameters.push((name, text)),
                (None, _) => parameters = Err(Undecodable),
                (_, Err(_)) => (),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pattern: &'static str, path: &str, want: Option<&[(&str, &str)]>) {
        let found = matched(pattern, path).map(|found| found.expect("a path that can be decoded"));
        let found = found.as_ref().map(|found| {
            found.iter().map(|(name, text)| (*name, text.as_str())).collect::<Vec<_>>()
        });
        assert_eq!(found.as_deref(), want, "{pattern} {path}");
    }

    #[test]
    fn paths() {
        check("/v1/dsps", "/v1/dsps", Some(&[]));
        check("/v1/dsps", "/v1/dsps/", None);
        check("/v1/dsps", "/v1/%64sps", None);
        check("/v1/dsps/{id}", "/v1/dsps/a", Some(&[("id", "a")]));
        check("/v1/dsps/{id}", "/v1/dsps/", None);
        check("/v1/dsps/{id}", "/v1/dsps", None);
        check("/v1/dsps/{id}", "/v1/dsps/a/pause", None);
        check("/v1/dsps/{id}/pause", "/v1/dsps/a/pause", Some(&[("id", "a")]));
        check("/v1/dsps/{id}", "/v1/dsps/a%2Fb%20%c3%a9+c", Some(&[("id", "a/b é+c")]));
    }

    #[test]
    fn what_cannot_be_decoded() {
        for segment in ["%", "%4", "a%zz", "%+4", "%ff", "%é"] {
            assert_eq!(percent_decoded(segment), None, "{segment}");
            let path = format!("/v1/dsps/{segment}");
            assert_eq!(matched("/v1/dsps/{id}", &path), Some(Err(Undecodable)), "{segment}");
        }
    }
}
