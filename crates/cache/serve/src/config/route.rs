//! `[[cache.route]]`: requests of a host and below a path, their origin, and the operator's rules.

use std::fmt::{self, Display, Formatter};
use std::path::PathBuf;
use std::time::Duration;

use cache_core::fields::dates::Seconds;
use cache_core::key::QueryRules;
use cache_core::origin_health::HealthRules;
use cache_core::rules::reuse::ReuseRules;
use cache_core::rules::storing::StoringRules;
use cache_core::store::response::LifetimeRules;
use http_kit::tls::Authorities;
use hyper::header::{HeaderName, HeaderValue};
use runtime::config::{Optional, Required, Section, ms, secs};
use runtime::service::read_authorities;
use url::Url;

/// Longest span of the configuration that is not a timeout: a year.
const SPAN_MAX: Duration = secs(366 * 86_400);

/// Targeted fields that count, in their order (RFC 9213, section 2.2).
pub(crate) static TARGETS: [HeaderName; 1] = [HeaderName::from_static("cdn-cache-control")];

/// Where answers come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OriginPlace {
    /// `http://host:port` or `https://…`, without a path.
    Server(Url),
    /// The files below a folder.
    Folder(PathBuf),
}

impl OriginPlace {
    fn parse(text: &str) -> Result<Self, String> {
        if let Some(folder) = text.strip_prefix("file:").filter(|folder| !folder.is_empty()) {
            return Ok(Self::Folder(folder.into()));
        }
        let is_origin = |url: &Url| {
            let is_plain = url.path() == "/" && url.query().is_none() && url.fragment().is_none();
            let has_user = !url.username().is_empty() || url.password().is_some();
            matches!(url.scheme(), "http" | "https") && url.has_host() && is_plain && !has_user
        };
        let form = "needs the form \"http://host:port\" or \"https://host\", without a path, or \
                    \"file:folder\"";
        Url::parse(text).ok().filter(is_origin).map(Self::Server).ok_or_else(|| form.to_owned())
    }
}

impl Display for OriginPlace {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Server(url) => f.write_str(url.as_str().trim_end_matches('/')),
            Self::Folder(folder) => write!(f, "file:{}", folder.display()),
        }
    }
}

/// A table `[[cache.route]]`.
#[derive(Clone, Debug)]
pub struct CacheRoute {
    /// Its name, in metrics.
    pub id: String,
    /// Host of its requests, in lower case. None: of any.
    pub host: Option<String>,
    /// Its requests' paths begin with this.
    pub path: String,
    /// Where its answers come from.
    pub origin: OriginPlace,
    /// The host that origins see. None: the client's.
    pub origin_host: Option<String>,
    /// Whether answers are stored.
    pub is_cached: bool,
    /// What the key counts of queries.
    pub query: QueryRules,
    /// How long answers are fresh.
    pub lifetime: LifetimeRules,
    /// When stale answers are served, and whether directives of clients count.
    pub reuse: ReuseRules,
    /// What is stored beyond the standard.
    pub storing: StoringRules,
    /// Trusted signers of the origin's certificate. None: the system's.
    pub authorities: Option<Authorities>,
    /// When the origin is left alone.
    pub health: HealthRules,
    /// Longest wait for a connection and the head of an answer.
    pub answer_timeout: Duration,
    /// Longest wait for the next bytes of a body.
    pub body_timeout: Duration,
}

impl CacheRoute {
    pub(super) fn read(s: &mut Section<'_>) -> Self {
        let id = s.text("id", Required("creatives"), "Name of the route, in metrics.");
        let host = s.text(
            "host",
            Optional("cdn.example.com"),
            "Host of the requests, as clients write it, without a port. Absent: any host.",
        );
        let path = s.parsed(
            "path",
            "/",
            |path| match path.starts_with('/') {
                true => Ok(path.to_owned()),
                false => Err("must begin with `/`".to_owned()),
            },
            "Beginning of the requests' paths.",
        );
        let origin = s.parsed(
            "origin",
            Required("http://127.0.0.1:8080"),
            OriginPlace::parse,
            "Where answers come from: a server, or the files below a folder, for example \
             \"file:creatives\", relative to the configuration file.",
        );
        let origin_host = s.parsed(
            "origin_host",
            Optional("origin.example.com"),
            |host| match HeaderValue::from_str(host) {
                Ok(_) => Ok(host.to_owned()),
                Err(_) => Err("needs the form \"host\" or \"host:port\"".to_owned()),
            },
            "Host header of requests to the origin. Absent: the client's.",
        );
        let is_cached = s.boolean("cached", true, "Whether answers are stored.");
        Self {
            id,
            host: host.map(|host| host.to_ascii_lowercase()),
            path,
            origin,
            origin_host,
            is_cached,
            query: read_query(s),
            lifetime: read_lifetime(s),
            reuse: read_reuse(s),
            storing: StoringRules {
                may_set_cookies: s.boolean(
                    "set_cookie",
                    false,
                    "Whether answers that set cookies are stored: each client then gets the same \
                     cookie.",
                ),
            },
            authorities: read_authorities(s),
            health: read_health(s),
            answer_timeout: s.duration(
                "answer_timeout",
                "10s",
                ms(10)..=secs(600),
                "Maximum time to connect and to receive the head of an answer.",
            ),
            body_timeout: s.duration(
                "body_timeout",
                "30s",
                ms(10)..=secs(3_600),
                "Maximum wait for the next bytes of an answer's body.",
            ),
        }
    }

    /// Targeted fields that count.
    pub fn targets(&self) -> &'static [HeaderName] {
        &TARGETS
    }
}

fn read_query(s: &mut Section<'_>) -> QueryRules {
    let allowed: Option<Vec<String>> = s.texts(
        "query_allowed",
        Optional(&["w", "h"]),
        |name| Ok(name.to_owned()),
        "Parameters of the query that count; others are dropped, towards the origin too. Absent: all \
         count.",
    );
    QueryRules {
        allowed: allowed.map(|names| names.into_iter().collect()),
        is_sorted: s.boolean(
            "query_sorted",
            false,
            "Whether the order of different parameters makes no difference.",
        ),
    }
}

fn read_lifetime(s: &mut Section<'_>) -> LifetimeRules {
    let range = || secs(0)..=SPAN_MAX;
    let default = s.duration(
        "ttl_default",
        Optional("60s"),
        range(),
        "How long answers are fresh that do not say so. Absent: a tenth of the time since their last \
         modification, at most a day.",
    );
    let forced = s.duration(
        "ttl",
        Optional("5m"),
        range(),
        "How long answers are fresh, whatever they say. What must not be stored is not.",
    );
    LifetimeRules {
        default: default.map(seconds),
        forced: forced.map(seconds),
        ..LifetimeRules::default()
    }
}

fn read_reuse(s: &mut Section<'_>) -> ReuseRules {
    let range = || secs(0)..=SPAN_MAX;
    ReuseRules {
        obeys_requests: s.boolean(
            "obey_clients",
            false,
            "Whether Cache-Control of clients counts. If it does, clients can make the origin answer \
             every request.",
        ),
        stale_while_revalidate: seconds(s.duration(
            "stale_while_revalidate",
            "0s",
            range(),
            "How stale an answer may be while it is validated, if it does not say so (RFC 5861).",
        )),
        stale_if_error: seconds(s.duration(
            "stale_if_error",
            "0s",
            range(),
            "How stale an answer may be if the origin fails, if it does not say so (RFC 5861).",
        )),
    }
}

fn read_health(s: &mut Section<'_>) -> HealthRules {
    HealthRules {
        failures_max: s.integer(
            "failures_max",
            10,
            0..=1_000,
            "After so many requests in a row without an answer, the origin is left alone: requests get \
             a stale answer where that is allowed, else status 503. 0: it is always asked.",
        ),
        pause: s.duration(
            "failure_pause",
            "1s",
            ms(10)..=secs(600),
            "How long an origin is left alone before one request tries it.",
        ),
    }
}

fn seconds(span: Duration) -> Seconds {
    Seconds(span.as_secs())
}
