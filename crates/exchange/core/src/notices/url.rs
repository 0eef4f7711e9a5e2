//! The URL of a notice, taken apart strictly: what two readers could take for two hosts is refused.
//! Which addresses a host may resolve to is checked when a connection is opened, not here.

use crate::domains::is_within;

/// Longest URL of a notice, macros replaced.
pub const URL_BYTES_MAX: usize = 4096;

/// An absolute URL of a notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoticeTarget<'a> {
    /// Whether it is `https`.
    pub is_tls: bool,
    /// A name, or an IP address; without the brackets of IPv6.
    pub host: &'a str,
    /// 80 and 443 where it says none.
    pub port: u16,
    /// What follows the authority, a fragment apart: empty, or from its `/` or `?` on.
    pub path_and_query: &'a str,
}

impl<'a> NoticeTarget<'a> {
    /// Reads `http` and `https` URLs (RFC 3986) of printable ASCII. Refused: user information, a
    /// backslash, which browsers take for a slash, an empty port or port 0, and hosts of anything
    /// but letters, digits, hyphens, underscores and dots, percent-encoding included.
    pub fn parse(url: &'a str) -> Option<Self> {
        let printable = |byte: u8| byte.is_ascii_graphic() && byte != b'\\';
        if url.len() > URL_BYTES_MAX || !url.bytes().all(printable) {
            return None;
        }
        let (scheme, rest) = url.split_once("://")?;
        let is_tls = scheme.eq_ignore_ascii_case("https");
        if !is_tls && !scheme.eq_ignore_ascii_case("http") {
            return None;
        }
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, rest) = rest.split_at(end);
        let (host, port) = split_authority(authority)?;
        let default = if is_tls { 443 } else { 80 };
        Some(Self {
            is_tls,
            host,
            port: port.map_or(Some(default), parse_port)?,
            path_and_query: rest.split('#').next().unwrap_or_default(),
        })
    }

    /// Whether `hosts` declares the host: a domain stands for itself and its subdomains, an IP
    /// address, in brackets or not, for itself as it is written.
    pub fn is_declared(&self, hosts: &[Box<str>]) -> bool {
        let bare = |declared: &str| {
            let inside = declared.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
            inside.is_some_and(|inside| inside.eq_ignore_ascii_case(self.host))
        };
        let is_address = is_address(self.host);
        hosts.iter().any(|declared| {
            declared.eq_ignore_ascii_case(self.host)
                || bare(declared)
                || (!is_address && is_within(self.host, declared))
        })
    }
}

fn split_authority(authority: &str) -> Option<(&str, Option<&str>)> {
    if let Some(rest) = authority.strip_prefix('[') {
        let (host, rest) = rest.split_once(']')?;
        let is_v6 = |byte: u8| byte.is_ascii_hexdigit() || matches!(byte, b':' | b'.');
        if !host.contains(':') || !host.bytes().all(is_v6) {
            return None;
        }
        return match rest {
            "" => Some((host, None)),
            rest => Some((host, Some(rest.strip_prefix(':')?))),
        };
    }
    let (host, port) = match authority.split_once(':') {
        Some((host, port)) => (host, Some(port)),
        None => (authority, None),
    };
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let is_label = |label: &str| (1..=63).contains(&label.len()) && label.bytes().all(is_plain);
    (host.len() <= 253 && host.split('.').all(is_label)).then_some((host, port))
}

fn parse_port(port: &str) -> Option<u16> {
    if port.is_empty() || !port.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    port.parse().ok().filter(|port| *port != 0)
}

/// Whether resolvers might take `host` for an address: a colon, or a number at its end, in any of
/// the forms that they read (`127.1`, `0x7f000001`, `2130706433`).
fn is_address(host: &str) -> bool {
    let last = host.rsplit('.').next().unwrap_or_default();
    let is_hex = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    host.contains(':')
        || last.bytes().all(|byte| byte.is_ascii_digit())
        || last.strip_prefix("0x").or(last.strip_prefix("0X")).is_some_and(is_hex)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(url: &str, want: Option<(bool, &str, u16, &str)>) {
        let got = NoticeTarget::parse(url)
            .map(|target| (target.is_tls, target.host, target.port, target.path_and_query));
        assert_eq!(got, want, "{url}");
    }

    #[test]
    fn urls_come_apart() {
        check("http://a.example", Some((false, "a.example", 80, "")));
        check("HTTPS://A.Example:8443/p?q#f", Some((true, "A.Example", 8443, "/p?q")));
        check("https://a_b-c.example?q=${X}|", Some((true, "a_b-c.example", 443, "?q=${X}|")));
        check("https://a#@b/", Some((true, "a", 443, "")));
        check("http://127.0.0.1:80/", Some((false, "127.0.0.1", 80, "/")));
        check("http://[::1]/", Some((false, "::1", 80, "/")));
        check("http://[::ffff:1.2.3.4]:81", Some((false, "::ffff:1.2.3.4", 81, "")));
        check("http://a/http://b@c", Some((false, "a", 80, "/http://b@c")));
    }

    #[test]
    fn what_readers_might_disagree_on_is_refused() {
        for url in [
            "",
            "a.example/",
            "//a.example/",
            "ftp://a.example/",
            "javascript:alert(1)",
            "http:/a.example",
            "http:///a.example",
            "http://",
            "http://user@a.example/",
            "http://user:pass@a.example/",
            "http://good.example\\@evil.example/",
            "http://a.example:/",
            "http://a.example:0/",
            "http://a.example:65536/",
            "http://a.example:+80/",
            "http://a.example:80:80/",
            "http://a..example/",
            "http://.example/",
            "http://a.example./",
            "http://a%2eexample/",
            "http://a.exa mple/",
            "http://a.example/ x",
            "http://a.example/\\x",
            "http://a.example/\r\nHost: b",
            "http://a.example/\u{e9}",
            "http://\u{430}.example/",
            "http://a${AUCTION_IMP_TS}.example/",
            "http://[::1/",
            "http://[a.example]/",
            "http://[::1]x/",
            "http://[fe80::1%25eth0]/",
            " http://a.example/",
        ] {
            check(url, None);
        }
        let long = format!("http://a.example/{}", "x".repeat(URL_BYTES_MAX));
        check(&long, None);
        assert!(NoticeTarget::parse(&long[..URL_BYTES_MAX]).is_some());
    }

    #[test]
    fn hosts_are_declared_with_their_subdomains_and_addresses_alone() {
        let hosts: Vec<Box<str>> =
            ["dsp.example", "127.0.0.1", "::1", "[::2]", "1", "7f", "x1"].map(Into::into).to_vec();
        for (host, want) in [
            ("dsp.example", true),
            ("DSP.example", true),
            ("n.eu.dsp.example", true),
            ("xdsp.example", false),
            ("dsp.example.evil", false),
            ("example", false),
            ("127.0.0.1", true),
            ("9.127.0.0.1", false),
            ("127.0.0.2", false),
            ("10.0.0.1", false),
            ("evil.1", false),
            ("2130706433", false),
            ("0x7f.1", false),
            ("a.0x7f", false),
            ("a.x1", true),
            ("[::1]", true),
            ("[::2]", true),
            ("[::3]", false),
            ("[::1:1]", false),
        ] {
            let url = format!("http://{host}/");
            let target = NoticeTarget::parse(&url).unwrap();
            assert_eq!(target.is_declared(&hosts), want, "{host}");
            assert!(!target.is_declared(&[]));
        }
    }
}
