//! A DSP's address and the fixed head of its requests.

use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use runtime::config::Secret;
use units::Currency;

use super::sockets::tls::{TlsOptions, TlsPeer};

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
    pub(super) tls: Option<TlsPeer>,
}

impl fmt::Debug for Endpoint {
    /// Omits the head, which may contain secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").field("addresses", &self.addresses).finish_non_exhaustive()
    }
}

impl Endpoint {
    /// `addresses` may be filled later.
    pub fn new(options: &EndpointOptions, addresses: Addresses) -> Self {
        let mut head = format!(
            "POST {} HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\n\
             accept: application/json\r\nx-openrtb-version: 2.6\r\n",
            options.path.expose(),
            options.authority
        );
        for (name, value) in &options.headers {
            head.extend([name, ": ", value.expose(), "\r\n"]);
        }
        if options.gzip {
            head.push_str("accept-encoding: gzip\r\n");
        }
        if options.gzip_requests {
            head.push_str("content-encoding: gzip\r\n");
        }
        head.push_str("content-length: ");
        let codes: Vec<_> =
            options.currencies.iter().map(|currency| format!("\"{currency}\"")).collect();
        Self {
            head: head.into(),
            cur: format!("[{}]", codes.join(",")).into(),
            addresses,
            response_bytes_max: options.response_bytes_max,
            gzip: options.gzip,
            gzip_requests: options.gzip_requests,
            tls: options.tls.as_ref().map(TlsPeer::new),
        }
    }
}
