//! The names of the admin listener. A page whose name was rebound to this listener's address (DNS
//! rebinding) sends its own name and is refused.

use std::net::IpAddr;

use hyper::header::HOST;
use hyper::http::request::Parts;
use hyper::http::uri::Authority;

/// Parses a name of `admin.hosts`, which has no port. The error is the remedy.
pub(super) fn parse_host(text: &str) -> Result<String, String> {
    match Authority::try_from(text) {
        Ok(authority) if authority.as_str() == authority.host() => Ok(text.to_ascii_lowercase()),
        _ => Err("must be a host name without a port, such as `exchange-1.internal`".to_owned()),
    }
}

/// Whether a request names an IP address (DNS rebinding needs a name), `localhost`, or one of
/// `hosts`. A request without a host is HTTP/1.0, which no browser sends. `head` must have passed
/// [`check_head`](http_kit::head::check_head).
pub fn names_listener(head: &Parts, hosts: &[String]) -> bool {
    // An absolute target takes precedence over the header (RFC 9112, section 3.2.2).
    let target = head.uri.authority().cloned();
    let Some(header) = head.headers.get(HOST) else { return true };
    let Some(named) = target.or_else(|| Authority::try_from(header.as_bytes()).ok()) else {
        return false;
    };
    let host = named.host();
    let address = host.trim_start_matches('[').trim_end_matches(']');
    address.parse::<IpAddr>().is_ok()
        || host.eq_ignore_ascii_case("localhost")
        || hosts.iter().any(|known| known.eq_ignore_ascii_case(host))
}
