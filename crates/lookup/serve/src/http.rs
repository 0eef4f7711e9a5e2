//! Requests to the listener.

mod abandoned;
mod answer;
mod das;
mod document;
mod explained;
mod lines;
mod parameters;
mod start;

use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{Either, Full};
use http_kit::body::BodyLimits;
use http_kit::head::MalformedHead;
use hyper::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, IF_NONE_MATCH};
use hyper::http::request::Parts;
use hyper::{Method, Response, StatusCode};
use lookup_core::query::QueryLimits;
use runtime::admin::names_listener;
use runtime::service::{
    ClientConnection, ConnectionOptions, HttpRequest, HttpService, LocalFuture, ServiceShard,
};
use runtime::shards::RequestActivity;
use runtime::shutdown::Shutdown;
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::timeout;

use crate::config::LookupConfig;
use crate::queries::entry::{QueryEntry, QueryId};
use crate::thread::{LookupShared, LookupTask};
use abandoned::AbandonedQuery;
use answer::{LookupBody, NDJSON, allowed, document, failure, located, not_modified};
use document::{Page, etag, keys, write};
use lines::FollowedQuery;
use parameters::{LookupParameters, Refusal};
use start::Starter;

/// Path of queries.
const LOOKUP_PATH: &str = "/lookup";
/// Path of the plans of queries.
const PLAN_PATH: &str = "/lookup/plan";
/// Path of the keys that queries may name.
const KEYS_PATH: &str = "/lookup/keys";
/// Path of the page for people.
const PAGE_PATH: &str = "/query";
/// The page: one file, without anything from elsewhere.
const PAGE: &str = include_str!("http/page.html");
/// What a browser says of the page that asks (Fetch Metadata).
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
/// How long a body may take.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// The service on one shard.
pub(crate) struct LookupShard {
    pub config: Arc<LookupConfig>,
    pub shared: Arc<LookupShared>,
    pub tasks: UnboundedSender<LookupTask>,
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
        let answered = if let Err(refusal) = self.check_origin(&request.head) {
            Err(refusal)
        } else if path == LOOKUP_PATH {
            self.queries(request).await
        } else if path == PLAN_PATH {
            self.plan(&request).await
        } else if path == KEYS_PATH || path == PAGE_PATH {
            Ok(self.read_only(&path, &request.head.method))
        } else if let Some(id) = path.strip_prefix("/lookup/") {
            self.query(id, &request).await
        } else if matches!(&*path, das::CACHE_PATH | das::REQUEST_PATH) {
            Ok(das::answer(&self.starter(request.peer), &request.head).await)
        } else {
            let text = "nothing is served here: see /query, /lookup, /das/cache and /das/request";
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
        let LookupShard { config, shared, tasks, .. } = &*self.0;
        Starter { limits: config.queries, shared, tasks, peer }
    }

    /// Refuses what pages of other sites ask for: providers may answer only to this process.
    fn check_origin(&self, head: &Parts) -> Result<(), Refusal> {
        let site = head.headers.get(&SEC_FETCH_SITE).map(HeaderValue::as_bytes);
        let is_foreign = matches!(site, Some(b"cross-site" | b"same-site"));
        let is_local = self.0.config.listen.ip().is_loopback();
        if is_foreign || is_local && !names_listener(head, &[]) {
            let text =
                "pages of other sites, and names of this machine that others chose, are refused";
            return Err(Refusal::new(StatusCode::FORBIDDEN, "foreign_origin", text));
        }
        Ok(())
    }

    /// The page, and what it knows of the map.
    fn read_only(&self, path: &str, method: &Method) -> Response<LookupBody> {
        if *method != Method::GET {
            return allowed("GET");
        }
        if path == PAGE_PATH {
            let mut response = Response::new(Either::Left(Full::from(PAGE)));
            http_kit::server::page::set_headers(response.headers_mut());
            return response;
        }
        let text = keys(&self.0.shared.maps.map, &self.0.shared.vocabulary);
        document(StatusCode::OK, text.to_string().into(), None)
    }

    /// `GET /lookup?query=…` and `POST /lookup`.
    async fn queries(&self, request: HttpRequest) -> Result<Response<LookupBody>, Refusal> {
        let under_way = request.under_way();
        let HttpRequest { head, body, peer, .. } = request;
        let starter = self.starter(peer);
        let uri = head.uri.query().unwrap_or_default();
        let (parameters, wait) = match head.method {
            Method::GET => {
                let parameters = LookupParameters::of_uri(uri)?;
                let wait = parameters.wait.unwrap_or(Duration::MAX);
                (parameters, wait)
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
                    true => LookupParameters::of_text(&body, uri)?,
                    false => LookupParameters::of_json(&body, uri)?,
                };
                let wait = parameters.wait.unwrap_or(Duration::ZERO);
                (parameters, wait)
            }
            _ => return Ok(allowed("GET, POST")),
        };
        let entry = starter.start(&parameters)?;
        if wants_lines(&head.headers) {
            let abandoned = AbandonedQuery(Some(Arc::clone(&entry)));
            return Ok(self.lines(entry, abandoned, &parameters, under_way));
        }
        // Nobody else knows its id yet.
        let abandoned = AbandonedQuery(Some(Arc::clone(&entry)));
        self.wait(entry.ended(), wait).await;
        abandoned.keep();
        let mut response = shown(&entry, parameters.page());
        located(&mut response, entry.id);
        Ok(response)
    }

    /// `GET /lookup/plan?query=…`.
    async fn plan(&self, request: &HttpRequest) -> Result<Response<LookupBody>, Refusal> {
        if request.head.method != Method::GET {
            return Ok(allowed("GET"));
        }
        let uri = request.head.uri.query().unwrap_or_default();
        let parameters = LookupParameters::of_uri(uri)?;
        let text = self.starter(request.peer).explain(&parameters).await?.to_string();
        Ok(document(StatusCode::OK, text.into(), None))
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
            Method::GET if wants_lines(&head.headers) => {
                let abandoned = AbandonedQuery(None);
                Ok(self.lines(entry, abandoned, &parameters, request.under_way()))
            }
            Method::GET => Ok(self.polled(&entry, &head.headers, &parameters).await),
            Method::DELETE => {
                entry.cancelled.notify_one();
                self.wait(entry.ended(), Duration::MAX).await;
                Ok(document(StatusCode::OK, write(&entry, parameters.page()).into(), None))
            }
            _ => Ok(allowed("GET, DELETE")),
        }
    }

    /// A query as it is. Who has seen this version waits for another, who has seen none for the end.
    async fn polled(
        &self,
        entry: &QueryEntry,
        headers: &HeaderMap,
        parameters: &LookupParameters,
    ) -> Response<LookupBody> {
        let (page, wait) = (parameters.page(), parameters.wait.unwrap_or(Duration::ZERO));
        let version = entry.version();
        let tag = etag(entry.id, version, page);
        if !headers.contains_key(IF_NONE_MATCH) {
            self.wait(entry.ended(), wait).await;
        } else if names_tag(headers, &tag) {
            if !entry.status().is_final() {
                self.wait(entry.changed_from(version), wait).await;
            }
            if entry.version() == version {
                return not_modified(&tag);
            }
        }
        shown(entry, page)
    }

    /// A query as lines of JSON.
    fn lines(
        &self,
        entry: Arc<QueryEntry>,
        abandoned: AbandonedQuery,
        parameters: &LookupParameters,
        under_way: RequestActivity,
    ) -> Response<LookupBody> {
        let (first, rows) = (parameters.page().first, parameters.rows());
        let shutdown = self.0.shutdown.clone();
        let query = FollowedQuery { entry, first, rows, shutdown };
        // The connection is not idle meanwhile.
        lines::response(query, (under_way, abandoned))
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

/// The document of a query as it is.
fn shown(entry: &QueryEntry, page: Page) -> Response<LookupBody> {
    // The document may be newer than its tag, never older.
    let tag = etag(entry.id, entry.version(), page);
    let is_final = entry.status().is_final();
    let status = if is_final { StatusCode::OK } else { StatusCode::ACCEPTED };
    let text = entry.document([page.first, page.rows], || write(entry, page));
    document(status, text, Some(&tag))
}

fn wants_lines(headers: &HeaderMap) -> bool {
    let accept = headers.get(ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
    let kinds = accept.split(',').filter_map(|range| range.split(';').next());
    kinds.into_iter().any(|kind| kind.trim().eq_ignore_ascii_case(NDJSON))
}

/// Whether `If-None-Match` has a tag (RFC 9110, section 13.1.2). A proxy that compresses makes it weak.
fn names_tag(headers: &HeaderMap, tag: &str) -> bool {
    let lines = headers.get_all(IF_NONE_MATCH).iter().filter_map(|line| line.to_str().ok());
    let mut tags = lines.flat_map(|line| line.split(','));
    tags.any(|of| matches!(of.trim(), "*") || of.trim().trim_start_matches("W/") == tag)
}
