//! A DSP: its address, the prebuilt head of every call to it, and its idle connections.

use std::net::{SocketAddr, ToSocketAddrs as _};

use anyhow::{Context as _, Result, ensure};

/// One DSP to ask in every auction.
pub(crate) struct Dsp {
    pub(crate) address: SocketAddr,
    /// Everything of a call up to the digits of its content length.
    pub(crate) head: Vec<u8>,
    /// Links waiting for work. Last in, first out: the warmest is used next.
    pub(crate) idle: Vec<usize>,
}

impl Dsp {
    /// Reads `[http://]HOST:PORT[/path]`, and looks the host up, once. With `gzip`, calls ask for
    /// answers in it.
    pub(crate) fn resolve(url: &str, gzip: bool) -> Result<Self> {
        let (host, path) = split(url)?;
        let address = host.to_socket_addrs().ok().and_then(|mut found| found.next());
        let address = address.with_context(|| format!("DSP `{url}`: no address for `{host}`"))?;
        let accepted = if gzip { "accept-encoding: gzip\r\n" } else { "" };
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\n\
             {accepted}x-openrtb-version: 2.6\r\ncontent-length: "
        );
        Ok(Self { address, head: head.into_bytes(), idle: Vec::new() })
    }
}

/// `host:port` and the path of a URL.
fn split(url: &str) -> Result<(&str, &str)> {
    let rest = url.strip_prefix("http://").unwrap_or(url);
    ensure!(!rest.contains("://"), "DSP `{url}`: only http is spoken here");
    // A control character or blank would break the head that is built from it.
    ensure!(rest.bytes().all(|b| b.is_ascii_graphic()), "DSP `{url}`: not a URL");
    let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    ensure!(host.contains(':'), "DSP `{url}`: needs a port, for example `{host}:8080`");
    Ok((host, if path.is_empty() { "/" } else { path }))
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn urls() {
        let check = |url, want: Option<(&str, &str)>| assert_eq!(split(url).ok(), want, "{url}");
        check("127.0.0.1:80", Some(("127.0.0.1:80", "/")));
        check("http://dsp:80/bid?x=1", Some(("dsp:80", "/bid?x=1")));
        check("[::1]:80/", Some(("[::1]:80", "/")));
        check("dsp/bid", None);
        check("https://dsp:443/bid", None);
        check("dsp:80/a b", None);
        check("dsp:80/\r\nx:y", None);
    }
}
