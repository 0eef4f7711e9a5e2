//! The definition of a campaign's targeting. Knows no catalogue.

use super::creative::Creative;
use crate::market::size::AdSize;
use crate::market::targeting::Region;

const HOST_BYTES_MAX: usize = 253 + ":65535".len();
/// Limits of the indexed directories of a page, and of their bytes.
const DIRECTORIES_MAX: usize = 8;
const DIRECTORY_BYTES_MAX: usize = 256;

/// A campaign's targeting. The default matches everything that its creatives fit. A request without
/// an attribute does not match a list of its values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct CampaignTargeting {
    /// Formats, as a set of [`openrtb::codes::MediaType::bit`]; 0 if any.
    pub formats: u8,
    /// Banner sizes in DIPS. Empty if any.
    pub sizes: Vec<AdSize>,
    /// Countries (ISO 3166-1 alpha-3).
    pub countries: MatchList,
    /// Regions by country: a listed country matches only in these. Others are unrestricted.
    pub regions: Vec<Region>,
    /// Blocked regions.
    pub regions_blocked: Vec<Region>,
    /// Publishers, by id.
    pub publishers: MatchList,
    /// Domains of sites and applications, including subdomains.
    pub domains: MatchList,
    /// Applications, by store id.
    pub bundles: MatchList,
    /// Pages. Empty if any page matches, or a request without one.
    pub pages: Vec<PagePrefix>,
    /// Keys that a request must all have, each with one of its values.
    pub key_values: Vec<KeyValues>,
    /// Deals under which it bids. Empty if it bids under none.
    pub deals: Vec<Box<str>>,
    /// Device types (AdCOM 1.0, List: Device Types), type n as bit n; 0 if any.
    pub device_types: u16,
}

impl CampaignTargeting {
    pub(super) fn allows(&self, creative: &Creative) -> bool {
        let wanted = |size| self.sizes.is_empty() || self.sizes.contains(&size);
        (self.formats == 0 || self.formats & creative.format.bit() != 0)
            && creative.size.is_none_or(wanted)
    }
}

/// Allowed and blocked values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct MatchList {
    /// Only these match. Empty if all do.
    pub allowed: Vec<Box<str>>,
    /// These never match.
    pub blocked: Vec<Box<str>>,
}

/// A key and its accepted values, compared as written. The key of keywords is `keywords`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct KeyValues {
    /// As in `ext.data`.
    pub key: Box<str>,
    /// Accepted values.
    pub values: Vec<Box<str>>,
}

/// Pages of one host with a common path prefix.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PagePrefix {
    /// In lower case. None if any.
    scheme: Option<Box<str>>,
    /// In lower case, with its port if it has one.
    host: Box<str>,
    /// At least a slash.
    path: Box<str>,
}

impl PagePrefix {
    /// Parses `https://example.com/sport/`, or without a scheme `example.com/sport/`. The host
    /// excludes its subdomains, which have pages of their own.
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

    pub(super) fn is_of(&self, url: &PageUrl<'_>) -> bool {
        self.host.eq_ignore_ascii_case(url.host)
            && self.scheme.as_deref().is_none_or(|scheme| scheme.eq_ignore_ascii_case(url.scheme))
            && (*self.path == *"/" || url.path.starts_with(&*self.path))
    }
}

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

/// The directories of a path that are index keys, the root first.
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

    /// Otherwise thousands of pages of one host would be compared one by one.
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
