//! A DSP: its address, the prebuilt head of every call to it, and its idle connections.

use std::collections::VecDeque;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use rustls::RootCertStore;

use crate::tls::Peer;

/// Settings of the calls to all DSPs.
pub(crate) struct Terms {
    /// Whether calls accept gzip.
    pub(crate) gzip: bool,
    /// Authorities trusted for DSPs at `https`.
    pub(crate) roots: Option<Arc<RootCertStore>>,
}

/// A DSP, called in every auction.
pub(crate) struct Dsp {
    pub(crate) address: SocketAddr,
    /// The TLS peer. None for plain text.
    pub(crate) peer: Option<Peer>,
    /// Everything of a call up to the digits of its content length.
    pub(crate) head: Vec<u8>,
    /// `host:port`, path and encoding, for calls over HTTP/2.
    pub(crate) authority: String,
    pub(crate) path: String,
    pub(crate) accepts_gzip: bool,
    /// Idle links. Last in, first out: the warmest is used next.
    pub(crate) idle: Vec<usize>,
    /// Clients whose calls wait for a link. While there are any, a link is being opened.
    pub(crate) waiting: VecDeque<usize>,
    pub(crate) is_opening: bool,
}

impl Dsp {
    /// Parses `[http[s]://]HOST:PORT[/path]`, and resolves the host once.
    pub(crate) fn resolve(url: &str, terms: &Terms) -> Result<Self> {
        let Url { secure, host, port, path } = split(url)?;
        let authority = format!("{host}:{port}");
        let address = authority.to_socket_addrs().ok().and_then(|mut found| found.next());
        let address = address.with_context(|| format!("DSP `{url}`: no address for `{host}`"))?;
        let peer = if secure {
            let roots = terms.roots.as_ref();
            let roots = roots.with_context(|| format!("DSP `{url}`: https needs --ca FILE"))?;
            let name = host.trim_matches(['[', ']']);
            Some(Peer::new(name, roots).with_context(|| format!("DSP `{url}`: `{name}`"))?)
        } else {
            None
        };
        let accepted = if terms.gzip { "accept-encoding: gzip\r\n" } else { "" };
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: {authority}\r\ncontent-type: application/json\r\n\
             {accepted}x-openrtb-version: 2.6\r\ncontent-length: "
        );
        Ok(Self {
            address,
            peer,
            head: head.into_bytes(),
            path: path.to_owned(),
            authority,
            accepts_gzip: terms.gzip,
            idle: Vec::new(),
            waiting: VecDeque::new(),
            is_opening: false,
        })
    }
}

/// The parts of a URL.
#[derive(Debug, PartialEq, Eq)]
struct Url<'u> {
    secure: bool,
    host: &'u str,
    port: &'u str,
    path: &'u str,
}

fn split(url: &str) -> Result<Url<'_>> {
    let secure = url.strip_prefix("https://");
    let rest = secure.unwrap_or_else(|| url.strip_prefix("http://").unwrap_or(url));
    ensure!(!rest.contains("://"), "DSP `{url}`: only http and https are spoken here");
    // A control character or blank would break the head that is built from it.
    ensure!(rest.bytes().all(|b| b.is_ascii_graphic()), "DSP `{url}`: not a URL");
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let (host, port) = authority
        .rsplit_once(':')
        .with_context(|| format!("DSP `{url}`: needs a port, for example `{authority}:8080`"))?;
    let path = if path.is_empty() { "/" } else { path };
    Ok(Url { secure: secure.is_some(), host, port, path })
}

#[cfg(test)]
mod tests {
    use super::{Url, split};

    #[test]
    fn urls() {
        let check = |url, want: Option<(bool, &str, &str, &str)>| {
            let want = want.map(|(secure, host, port, path)| Url { secure, host, port, path });
            assert_eq!(split(url).ok(), want, "{url}");
        };
        check("127.0.0.1:80", Some((false, "127.0.0.1", "80", "/")));
        check("http://dsp:80/bid?x=1", Some((false, "dsp", "80", "/bid?x=1")));
        check("[::1]:80/", Some((false, "[::1]", "80", "/")));
        check("https://dsp:443/bid", Some((true, "dsp", "443", "/bid")));
        check("dsp/bid", None);
        check("https://dsp/bid:443", None);
        check("ftp://dsp:21/bid", None);
        check("dsp:80/a b", None);
        check("dsp:80/\r\nx:y", None);
    }
}
