//! Targets of loads over HTTP/1.1.

use std::net::{SocketAddr, ToSocketAddrs};

use hyper::Uri;
use hyper::http::uri::InvalidUri;

/// Why a load over HTTP cannot begin. The caller can fix either.
#[derive(Debug, thiserror::Error)]
pub enum HttpLoadError {
    /// The URL has not the required form, or its name does not resolve.
    #[error("url `{url}`: {problem}; give it as {form}")]
    Url {
        /// As given.
        url: String,
        /// What is wrong.
        problem: String,
        /// As it should be.
        form: &'static str,
    },
    /// The options make no sense.
    #[error("a load needs {0}")]
    Options(&'static str),
}

impl HttpLoadError {
    pub(crate) fn url(url: &str, problem: String, form: &'static str) -> Self {
        Self::Url { url: url.to_owned(), problem, form }
    }
}

/// `http://host:port/path`, with its address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HttpTarget {
    pub(crate) address: SocketAddr,
    /// Host and port, as in the `Host` of requests.
    pub(crate) host: String,
    /// Path and query.
    pub(crate) path: String,
}

impl HttpTarget {
    /// The error is the problem.
    pub(crate) fn resolve(url: &str) -> Result<Self, String> {
        let url: Uri = url.parse().map_err(|error: InvalidUri| error.to_string())?;
        if url.scheme_str() != Some("http") {
            return Err("only http is supported".to_owned());
        }
        let authority = url.authority().ok_or("the host is missing")?;
        let host = authority.host().trim_start_matches('[').trim_end_matches(']');
        let port = authority.port_u16().unwrap_or(80);
        let mut addresses = (host, port).to_socket_addrs().map_err(|error| error.to_string())?;
        let address = addresses.next().ok_or("the host has no address")?;
        let path = url.path_and_query().map_or("/", |path| path.as_str()).to_owned();
        Ok(Self { address, host: authority.to_string(), path })
    }
}
