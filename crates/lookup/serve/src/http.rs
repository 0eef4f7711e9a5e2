//! Requests to the listener.

mod answer;
mod das;
mod document;
mod lines;
mod parameters;
mod start;

use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use http_kit::body::BodyLimits;
use http_kit::head::MalformedHead;
use hyper::header::{ACCEPT, CONTENT_TYPE, HeaderMap, IF_NONE_MATCH};
use hyper::{Method, Response, StatusCode};
use lookup_core::query::QueryLimits;
use runtime::service::{
    ClientConnection, ConnectionOptions, HttpRequest, HttpService, LocalFuture, ServiceShard,
};
use runtime::shutdown::Shutdown;
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::timeout;

use crate::config::LookupConfig;
use crate::queries::entry::{QueryEntry, QueryId};
use crate::queries::execution::QueryRun;
use crate::thread::LookupShared;
use answer::{LookupBody, NDJSON, allowed, document, failure, not_modified, redirected};
use document::{Page, etag, write};
use parameters::{LookupParameters, Refusal};
use start::Starter;

/// Path of queries.
const LOOKUP_PATH: &str = "/lookup";
/// How long a body may take.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// The service on one shard.
pub(crate) struct LookupShard {
    pub config: Arc<LookupConfig>,
    pub shared: Arc<LookupShared>,
    pub queries: UnboundedSender<QueryRun>,
    pub shutdown: Shutdown,
}

impl ServiceShard for LookupShard {
    fn connection_options(&self, _listener: usize) -> ConnectionOptions {
        ConnectionOptions {
            tls: self.config.tls.clone(),
            timeouts: self.config.timeouts.connection,
            write_timeout: self.config.timeouts.write,
            unsent_max: None,
            dates_arrivals: false,
        }
    }

    fn serve(self: Rc<Self>, connection: ClientConnection) -> LocalFuture<'static, ()> {
        Box::pin(connection.serve_http(LookupConfig::HEADS, LookupHttp(self)))
    }
}

struct LookupHttp(Rc<LookupShard>);

impl HttpService for LookupHttp {
    type Body = LookupBody;

    async fn answer(&self, request: HttpRequest) -> Response<LookupBody> {
        let path = request.head.uri.path().to_owned();
        let answered = if path == LOOKUP_PATH {
            self.queries(request).await
        } else if let Some(id) = path.strip_prefix("/lookup/") {
            self.query(id, &request).await
        } else if matches!(&*path, das::CACHE_PATH | das::REQUEST_PATH) {
            Ok(das::answer(&self.starter(request.peer), &request.head).await)
        } else {
            let text = "nothing is served here: see /lookup, /das/cache and /das/request";
            Err(Refusal::new(StatusCode::NOT_FOUND, "not_found", text))
        };
        answered.unwrap_or_else(|refusal| failure(&refusal))
    }

    fn malformed(&self, problem: &MalformedHead) -> Response<LookupBody> {
        failure(&Refusal::bad(problem.to_string()))
    }
}

impl LookupHttp {
    fn starter(&self, peer: IpAddr) -> Starter<'_> {
        let LookupShard { config, shared, queries, .. } = &*self.0;
        Starter { limits: config.queries, shared, queries, peer }
    }

    /// `GET /lookup?query=…` and `POST /lookup`.
    async fn queries(&self, request: HttpRequest) -> Result<Response<LookupBody>, Refusal> {
        let HttpRequest { head, body, peer, .. } = request;
        let starter = self.starter(peer);
        let uri = head.uri.query().unwrap_or_default();
        match head.method {
            Method::GET => {
                let parameters = LookupParameters::of_uri(uri)?;
                let entry = starter.start(&parameters)?;
                let wait = parameters.wait.unwrap_or(Duration::MAX);
                Ok(self.shown(&entry, &head.headers, parameters.page(), wait).await)
            }
            Method::POST => {
                let bytes_max = 2 * QueryLimits::default().bytes_max;
                let limits = BodyLimits { bytes_max, timeout: BODY_TIMEOUT };
                let body = http_kit::body::read(&head.headers, body, limits).await;
                let body = body.map_err(|error| {
                    Refusal::new(error.status(), "bad_request", error.to_string())
                })?;
                let is_text = head.headers.get(CONTENT_TYPE).is_some_and(|of| {
                    of.as_bytes().get(..10).is_some_and(|of| of.eq_ignore_ascii_case(b"text/plain"))
                });
                let parameters = match is_text {
                    true => LookupParameters::of_text(&body)?,
                    false => LookupParameters::of_json(&body)?,
                };
                let entry = starter.start(&parameters)?;
                let wait = parameters.wait.unwrap_or(Duration::ZERO);
                let mut response = self.shown(&entry, &head.headers, parameters.page(), wait).await;
                redirected(&mut response, entry.id);
                Ok(response)
            }
            _ => Ok(allowed("GET, POST")),
        }
    }

    /// `GET /lookup/{id}` and `DELETE /lookup/{id}`.
    async fn query(
        &self,
        id: &str,
        request: &HttpRequest,
    ) -> Result<Response<LookupBody>, Refusal> {
        let head = &request.head;
        let found = id.parse::<QueryId>().ok().and_then(|id| self.0.shared.table.get(id));
        let unknown = || {
            let text = "there is no query of this id; answers are kept for a limited time";
            Refusal::new(StatusCode::NOT_FOUND, "not_found", text)
        };
        let entry = found.ok_or_else(unknown)?;
        let parameters = LookupParameters::of_poll(head.uri.query().unwrap_or_default())?;
        match head.method {
            Method::GET => {
                let wait = parameters.wait.unwrap_or(Duration::ZERO);
                Ok(self.shown(&entry, &head.headers, parameters.page(), wait).await)
            }
            Method::DELETE => {
                entry.cancelled.notify_one();
                self.wait(entry.ended(), Duration::MAX).await;
                Ok(document(StatusCode::OK, write(&entry, parameters.page()), None))
            }
            _ => Ok(allowed("GET, DELETE")),
        }
    }

    /// A query as it is once it has ended, or after `wait`. Who has seen a version waits for the next.
    async fn shown(
        &self,
        entry: &Arc<QueryEntry>,
        headers: &HeaderMap,
        page: Page,
        wait: Duration,
    ) -> Response<LookupBody> {
        if headers.get(ACCEPT).is_some_and(|accept| accept == NDJSON) {
            return lines::response(Arc::clone(entry), page);
        }
        let seen = headers.get(IF_NONE_MATCH).map(|tag| tag.as_bytes().to_vec());
        let version = entry.version();
        if seen.as_deref() == Some(etag(version, page).as_bytes()) {
            self.wait(entry.changed_from(version), wait).await;
            if entry.version() == version {
                return not_modified(&etag(version, page));
            }
        } else {
            self.wait(entry.ended(), wait).await;
        }
        // The document may be newer than its tag, never older.
        let tag = etag(entry.version(), page);
        let is_final = entry.status().is_final();
        let status = if is_final { StatusCode::OK } else { StatusCode::ACCEPTED };
        document(status, write(entry, page), Some(&tag))
    }

    /// Waits, but not for longer than the process runs.
    async fn wait(&self, what: impl Future<Output = ()>, most: Duration) {
        if most.is_zero() {
            return;
        }
        let most = most.min(self.0.config.queries.timeout_max);
        tokio::select! {
            _waited = timeout(most, what) => (),
            () = async { self.0.shutdown.started().await; } => (),
        }
    }
}
