//! `[cache]`: its listener, its memory, and the routes to origins.

mod disk;
mod puts;
mod route;
mod routes;

use std::net::SocketAddr;
use std::sync::Arc;

use runtime::config::{Required, Section};
use runtime::service::{ClientCertificates, ClientTimeouts, HeadLimits, read_server};
use rustls::ServerConfig;

pub use disk::DiskConfig;
pub use puts::PutsConfig;
pub(crate) use route::TARGETS;
pub use route::{CacheRoute, OriginPlace};
pub use routes::CacheRoutes;

/// The table `[cache]`.
#[derive(Clone, Debug)]
pub struct CacheConfig {
    /// Address for clients.
    pub listen: SocketAddr,
    /// None: clients connect without TLS.
    pub tls: Option<Arc<ServerConfig>>,
    /// Name of this cache, in `Via`, `CDN-Loop` and `Cache-Status`.
    pub name: String,
    /// Limits on what is kept.
    pub limits: CacheLimits,
    /// Most bytes of a request's body.
    pub request_max: usize,
    /// Most connections to origins, over all shards.
    pub connections: u64,
    /// Limits on the head of a request.
    pub heads: HeadLimits,
    /// How long clients are waited for.
    pub timeouts: ClientTimeouts,
    /// The store behind the memory. None: memory is all there is.
    pub disk: Option<DiskConfig>,
    /// Values that clients store. None if they may not.
    pub puts: Option<PutsConfig>,
    /// Which requests go to which origin.
    pub routes: CacheRoutes,
}

/// Limits on what is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheLimits {
    /// Most bytes of stored responses.
    pub memory: usize,
    /// Most bytes of a stored body.
    pub object_max: usize,
    /// Most bytes of bodies that are being fetched.
    pub fetching_max: usize,
    /// Most responses of one key.
    pub variants_max: usize,
}

impl CacheConfig {
    /// Reads the keys of `[cache]`.
    pub fn read(s: &mut Section<'_>) -> Self {
        let listen = s.socket_address(
            "listen",
            Required("127.0.0.1:7300"),
            "Address for clients. See docs/cache.md.",
        );
        let name = s.text(
            "name",
            "vickrey",
            "Name of this cache in Via, CDN-Loop and Cache-Status. Caches that pass requests to each \
             other need different ones.",
        );
        if !is_token(&name) {
            s.problem("name", &name, "needs a letter, then letters, digits, `-`, `.` or `_`");
        }
        let limits = CacheLimits::read(s);
        let request_max = s.bytes(
            "request_max",
            "16MiB",
            0..=1 << 40,
            "Maximum size of the body of a request, which is passed on as it comes.",
        );
        let connections = s.integer(
            "connections",
            1_024,
            1..=1_000_000_u64,
            "Maximum number of connections to origins, over all shards.",
        );
        let heads = read_heads(s);
        let idle = "A connection without a request for this long is closed.";
        let timeouts = ClientTimeouts::read(s, idle);
        let about = "TLS towards clients, with HTTP/2.";
        let tls = s.table("tls", about, |s| {
            read_server(s, &["h2", "http/1.1"], ClientCertificates::Configurable)
        });
        let about =
            "A second store on disk, behind the memory, which survives the process. Absent: none.";
        let disk = s.table("disk", about, DiskConfig::read);
        let about = "Values that clients store by POST and ask for by UUID: the interface of Prebid \
                     Cache. Absent: none.";
        let puts = s.table("puts", about, PutsConfig::read);
        let about = "Requests of a host, below a path, and their origin. The most specific route \
                     counts: host first, then the longest path.";
        let routes = s.tables("route", about, CacheRoute::read);
        if routes.is_empty() && puts.is_none() {
            s.problem("route", "…", "nothing is served: add a [[cache.route]] or [cache.puts]");
        }
        check_routes(s, &routes);
        let (tls, routes) = (tls.flatten(), CacheRoutes::new(routes));
        Self {
            listen,
            tls,
            name,
            limits,
            request_max,
            connections,
            heads,
            timeouts,
            disk,
            puts,
            routes,
        }
    }

    /// The scheme of its URLs.
    pub const fn scheme(&self) -> &'static str {
        match self.tls {
            Some(_) => "https",
            None => "http",
        }
    }
}

impl CacheLimits {
    fn read(s: &mut Section<'_>) -> Self {
        let memory = s.bytes(
            "memory",
            "256MiB",
            1 << 20..=1 << 40,
            "Maximum size of stored responses, with what the store needs for itself.",
        );
        let object_max = s.bytes(
            "object_max",
            "16MiB",
            1 << 10..=1 << 32,
            "Maximum size of a stored body. A larger one is passed on and not stored.",
        );
        if object_max > memory {
            s.problem("object_max", object_max, "must not be more than `memory`");
        }
        let fetching_max = s.bytes(
            "fetching_max",
            "128MiB",
            1 << 20..=1 << 40,
            "Maximum size of bodies that are being fetched for the store. Beyond it, responses are \
             passed on and not stored.",
        );
        let variants_max = s.integer(
            "variants_max",
            16,
            1..=1_024_usize,
            "Maximum number of responses to one URL that differ by request headers (Vary).",
        );
        Self { memory, object_max, fetching_max, variants_max }
    }
}

fn read_heads(s: &mut Section<'_>) -> HeadLimits {
    HeadLimits {
        bytes_max: s.bytes(
            "head_bytes",
            "64KiB",
            8 << 10..=1 << 20,
            "Maximum size of a request's head, with the request line.",
        ),
        fields_max: s.integer(
            "head_fields",
            100,
            16..=1_000_usize,
            "Maximum number of header fields of a request.",
        ),
    }
}

fn check_routes(s: &mut Section<'_>, routes: &[CacheRoute]) {
    for (at, route) in routes.iter().enumerate() {
        let is_met = |other: &&CacheRoute| other.host == route.host && other.path == route.path;
        if routes[..at].iter().any(|other| is_met(&other)) {
            s.problem("route", &route.path, "two routes have the same `host` and `path`");
        }
        if routes[..at].iter().any(|other| other.id == route.id) {
            s.problem("route", &route.id, "two routes have the same `id`");
        }
    }
}

/// A structured field's token that is one of RFC 9110 too (RFC 9651, section 3.3.4).
fn is_token(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
}
