//! A DSP's address and the fixed head of its requests.

use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use http2::RequestHead;
use runtime::config::Secret;
use units::Currency;

use super::sockets::tls::{HttpVersions, TlsOptions, TlsPeer};

/// Addresses of a DSP's host name: the resolver writes them, new connections read them.
#[derive(Clone, Debug, Default)]
pub struct Addresses(Arc<Mutex<Arc<[SocketAddr]>>>);

impl Addresses {
    pub fn set(&self, addresses: Vec<SocketAddr>) {
        *self.0.lock().expect("nothing panics while it holds the addresses") = addresses.into();
    }

    /// The last addresses; empty before the first answer.
    pub fn current(&self) -> Arc<[SocketAddr]> {
        self.0.lock().expect("nothing panics while it holds the addresses").clone()
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointOptions {
    /// `host:port` as in the URL.
    pub authority: String,
    /// Path and query, starting with a slash. Secret: queries carry keys.
    pub path: Secret,
    /// Extra header fields, validated.
    pub headers: Vec<(String, Secret)>,
    pub currencies: Vec<Currency>,
    /// Largest answer body, also once decompressed.
    pub response_bytes_max: usize,
    pub gzip: bool,
    pub gzip_requests: bool,
    /// Versions of HTTP to speak.
    pub http: HttpVersions,
    /// None: no TLS.
    pub tls: Option<TlsOptions>,
}

pub struct Endpoint {
    /// Head of every request, up to the value of `content-length`.
    pub(crate) head: Box<str>,
    pub(crate) cur: Box<str>,
    pub(crate) addresses: Addresses,
    pub(crate) response_bytes_max: usize,
    pub(crate) gzip: bool,
    pub(super) gzip_requests: bool,
    /// Head of every request over HTTP/2, without `content-length`.
    pub(super) http2_head: RequestHead,
    pub(super) http: HttpVersions,
    pub(super) tls: Option<TlsPeer>,
}

impl fmt::Debug for Endpoint {
    /// Omits the head, which may contain secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").field("addresses", &self.addresses).finish_non_exhaustive()
    }
}

impl Endpoint {
    /// Whether its connections are expected to carry several calls at a time.
    pub(super) fn may_multiplex(&self) -> bool {
        match self.http {
            HttpVersions::Auto => self.tls.is_some(),
            HttpVersions::Http1 => false,
            HttpVersions::Http2 => true,
        }
    }

    /// `addresses` may be filled later.
    pub fn new(options: &EndpointOptions, addresses: Addresses) -> Self {
        let mut fields = vec![
            ("content-type", "application/json"),
            ("accept", "application/json"),
            ("x-openrtb-version", "2.6"),
        ];
        let own = options.headers.iter();
        fields.extend(own.map(|(name, value)| (name.as_str(), value.expose())));
        if options.gzip {
            fields.push(("accept-encoding", "gzip"));
        }
        if options.gzip_requests {
            fields.push(("content-encoding", "gzip"));
        }
        let path = options.path.expose();
        let mut head = format!("POST {path} HTTP/1.1\r\nhost: {}\r\n", options.authority);
        for (name, value) in &fields {
            head.extend([name, ": ", value, "\r\n"]);
        }
        head.push_str("content-length: ");
        let pseudo = [
            (":method", "POST"),
            (":scheme", if options.tls.is_some() { "https" } else { "http" }),
            (":authority", &options.authority),
            (":path", path),
        ];
        let http2_head = RequestHead::new(pseudo.into_iter().chain(fields));
        let codes: Vec<_> =
            options.currencies.iter().map(|currency| format!("\"{currency}\"")).collect();
        Self {
            head: head.into(),
            cur: format!("[{}]", codes.join(",")).into(),
            addresses,
            response_bytes_max: options.response_bytes_max,
            gzip: options.gzip,
            gzip_requests: options.gzip_requests,
            http2_head,
            http: options.http,
            tls: options.tls.as_ref().map(|tls| TlsPeer::new(tls, options.http)),
        }
    }
}
