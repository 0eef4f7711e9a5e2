//! A campaign's targeting, as its definition has it. Knows no catalogue.

use super::creative::Creative;
use crate::market::targeting::Region;

/// Longest name of a host, with a port.
const HOST_BYTES_MAX: usize = 253 + ":65535".len();
/// Directories that pages are found by, and bytes of a path that these are in.
const DIRECTORIES_MAX: usize = 8;
const DIRECTORY_BYTES_MAX: usize = 256;

/// A campaign's targeting; by default everything that its creatives fit. A request without an attribute
/// does not match a list of its values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct CampaignTargeting {
    /// Formats, as a set of [`openrtb::codes::MediaType::bit`]; 0: any.
    pub formats: u8,
    /// Of banners these sizes, in DIPS; empty: any.
    pub sizes: Vec<(u32, u32)>,
    /// Countries (ISO 3166-1 alpha-3).
    pub countries: MatchList,
    /// Of each country named here, only these regions; other countries are not restricted.
    pub regions: Vec<Region>,
    /// Regions in which it never bids.
    pub regions_blocked: Vec<Region>,
    /// Publishers, by id.
    pub publishers: MatchList,
    /// Domains of sites and applications, each with its subdomains.
    pub domains: MatchList,
    /// Applications, by store id.
    pub bundles: MatchList,
    /// Pages; empty: any, and requests without a page.
    pub pages: Vec<PagePrefix>,
    /// Keys that a request must all have, with one of these values each.
    pub key_values: Vec<KeyValues>,
    /// Deals under which it bids; empty: it bids under none.
    pub deals: Vec<Box<str>>,
    /// Types of device (AdCOM 1.0, List: Device Types), type n as bit n; 0: any.
    pub device_types: u16,
}

impl CampaignTargeting {
    /// Whether it allows the creative's format and size.
    pub(super) fn takes(&self, creative: &Creative) -> bool {
        let wanted = |size| self.sizes.is_empty() || self.sizes.contains(&size);
        (self.formats == 0 || self.formats & creative.format.bit() != 0)
            && creative.size.is_none_or(wanted)
    }
}

/// Values that are allowed, and values that are blocked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct MatchList {
    /// These only; empty: any.
    pub allowed: Vec<Box<str>>,
    /// Never these.
    pub blocked: Vec<Box<str>>,
}

/// A key, and the values of which one is wanted. Compared as they are written; of keywords the key
/// is `keywords`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct KeyValues {
    /// As in `ext.data`.
    pub key: Box<str>,
    /// Any of these.
    pub values: Vec<Box<str>>,
}

/// Pages of one host whose paths start alike.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PagePrefix {
    /// In small letters; `None`: any.
    scheme: Option<Box<str>>,
    /// In small letters, with its port if it has one.
    host: Box<str>,
    /// At least a slash.
    path: Box<str>,
}

impl PagePrefix {
    /// Reads `https://example.com/sport/`, or without a scheme `example.com/sport/`. The host is the
    /// whole host: not its subdomains, which have pages of their own.
    pub fn parse(prefix: &str) -> Option<Self> {
        let (scheme, rest) = match prefix.split_once("://") {
            Some((scheme, rest)) => (Some(scheme), rest),
            None => (None, prefix),
        };
        let url = PageUrl::after_scheme(scheme.unwrap_or_default(), rest)?;
        let is_scheme = |text: &str| ["http", "https"].iter().any(|s| s.eq_ignore_ascii_case(text));
        let is_host = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte);
        if !scheme.is_none_or(is_scheme) || !url.host.bytes().all(is_host) {
            return None;
        }
        Some(Self {
            scheme: scheme.map(|scheme| scheme.to_ascii_lowercase().into()),
            host: url.host.to_ascii_lowercase().into(),
            path: if url.path.is_empty() { "/".into() } else { url.path.into() },
        })
    }

    /// Its index key: the host and the last directory that its pages share.
    pub(super) fn key(&self) -> Box<str> {
        let directory = directories(&self.path).last().unwrap_or_default();
        format!("{}{directory}", self.host).into()
    }

    /// Whether `url` is one of the pages.
    pub(super) fn is_of(&self, url: &PageUrl<'_>) -> bool {
        self.host.eq_ignore_ascii_case(url.host)
            && self.scheme.as_deref().is_none_or(|scheme| scheme.eq_ignore_ascii_case(url.scheme))
            && (*self.path == *"/" || url.path.starts_with(&*self.path))
    }
}

/// The parts of a page's URL.
#[derive(Clone, Copy, Debug)]
pub(super) struct PageUrl<'u> {
    scheme: &'u str,
    host: &'u str,
    path: &'u str,
}

impl<'u> PageUrl<'u> {
    pub(super) fn parse(url: &'u str) -> Option<Self> {
        let (scheme, rest) = url.split_once("://")?;
        Self::after_scheme(scheme, rest)
    }

    /// The index keys under which it may be listed, written into `text`.
    pub(super) fn keys<'t>(&self, text: &'t mut String) -> impl Iterator<Item = &'t str> + Clone {
        text.clear();
        text.push_str(self.host);
        text.make_ascii_lowercase();
        let host = text.len();
        text.push_str(directories(self.path).last().unwrap_or_default());
        let text = text.as_str();
        directories(&text[host..]).map(move |directory| &text[..host + directory.len()])
    }

    fn after_scheme(scheme: &'u str, rest: &'u str) -> Option<Self> {
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
        let is_name = (1..=HOST_BYTES_MAX).contains(&host.len());
        is_name.then_some(Self { scheme, host, path })
    }
}

/// The directories of a path that are index keys, the root first. A host alone is its root.
fn directories(path: &str) -> impl Iterator<Item = &str> + Clone {
    let path = if path.starts_with('/') { path } else { "/" };
    let head = &path.as_bytes()[..path.len().min(DIRECTORY_BYTES_MAX)];
    let slashes = memchr::memchr_iter(b'/', head).take(DIRECTORIES_MAX);
    slashes.map(|slash| &path[..=slash])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_found(page: &PagePrefix, url: &str) -> bool {
        let mut text = String::new();
        let url = PageUrl::parse(url).expect("it is one");
        url.keys(&mut text).any(|key| *key == *page.key())
    }

    /// Else thousands of pages of one host would be gone through one by one.
    #[test]
    fn pages_are_found_by_the_directories_that_they_share() {
        let deep = "/d".repeat(DIRECTORIES_MAX + 2) + "/";
        let long = format!("/{}/", "d".repeat(DIRECTORY_BYTES_MAX));
        for (prefix, path, want) in [
            ("a.example/sport/", "/sport/1.html", true),
            ("a.example/sport/", "/news/1.html", false),
            ("a.example/sport/", "/sport", false),
            ("a.example/sport/te", "/sport/1.html", true),
            ("a.example/sport/te", "/sport/tennis/1.html", true),
            ("a.example/sp", "/news/1.html", true),
            ("a.example", "/news/1.html", true),
            ("a.example?x/y/", "?x/y/z", true),
            ("a.example/?x/y/", "/?x/y/z", true),
            (&format!("a.example{deep}"), &format!("{deep}1.html"), true),
            (&format!("a.example{long}"), &format!("{long}1.html"), true),
        ] {
            let page = PagePrefix::parse(prefix).unwrap();
            let url = format!("https://A.example{path}");
            assert_eq!(is_found(&page, &url), want, "{prefix} {url}");
        }
        let mut text = String::new();
        let url = format!("https://a.example{deep}{long}");
        let keys = PageUrl::parse(&url).unwrap();
        assert_eq!(keys.keys(&mut text).count(), DIRECTORIES_MAX);
        let host = |bytes| format!("https://{}/", "a".repeat(bytes));
        assert!(PageUrl::parse(&host(HOST_BYTES_MAX)).is_some());
        assert!(PageUrl::parse(&host(HOST_BYTES_MAX + 1)).is_none());
        assert!(text.len() <= "a.example".len() + DIRECTORY_BYTES_MAX);
    }

    #[test]
    fn pages_are_prefixes_on_one_host() {
        for (prefix, url, want) in [
            ("https://a.example/sport/", "https://a.example/sport/1.html", true),
            ("https://a.example/sport/", "https://a.example/sport", false),
            ("https://a.example/sport/", "http://a.example/sport/1.html", false),
            ("a.example/sport", "http://A.Example/sports?x=1", true),
            ("a.example/sport", "http://a.example/Sport", false),
            ("A.example", "https://a.example", true),
            ("a.example", "https://a.example?x", true),
            ("a.example", "https://u:p@a.example/x", true),
            ("a.example", "https://a.example.evil.example/", false),
            ("a.example", "https://www.a.example/", false),
            ("a.example", "https://a.example:8443/", false),
            ("a.example:8443", "https://a.example:8443/", true),
            ("a.example", "a.example/", false),
            ("a.example", "https://", false),
        ] {
            let page = PagePrefix::parse(prefix).unwrap();
            let got = PageUrl::parse(url).is_some_and(|url| page.is_of(&url));
            assert_eq!(got, want, "{prefix} {url}");
            assert!(!want || is_found(&page, url), "{prefix} {url}");
        }
        for bad in ["", "/sport", "ftp://a.example/", "https://", "a b.example/", "?x"] {
            assert!(PagePrefix::parse(bad).is_none(), "{bad}");
        }
    }
}
