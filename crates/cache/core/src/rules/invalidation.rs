//! What a request makes stale that may have changed something (RFC 9111, section 4.4).

use http::header::{CONTENT_LOCATION, LOCATION};
use http::{HeaderMap, Method, StatusCode};
use url::Url;

/// Whether a method may change its resource. One that is unknown may.
pub fn is_unsafe(method: &Method) -> bool {
    ![Method::GET, Method::HEAD, Method::OPTIONS, Method::TRACE].contains(method)
}

/// The resources whose stored responses an exchange makes stale: the target, and those of the same
/// origin that `Location` and `Content-Location` name. None of them unless the method is unsafe and
/// the response no error.
pub fn invalidated(
    method: &Method,
    target: &Url,
    status: StatusCode,
    response: &HeaderMap,
) -> Vec<Url> {
    if !is_unsafe(method) || !(status.is_success() || status.is_redirection()) {
        return Vec::new();
    }
    let mut stale = vec![without_fragment(target.clone())];
    for name in [LOCATION, CONTENT_LOCATION] {
        let reference = response.get(name).and_then(|line| line.to_str().ok());
        let named = reference.and_then(|reference| target.join(reference).ok());
        let named = named.filter(|named| named.origin() == target.origin()).map(without_fragment);
        stale.extend(named.filter(|named| !stale.contains(named)));
    }
    stale
}

fn without_fragment(mut url: Url) -> Url {
    url.set_fragment(None);
    url
}

#[cfg(test)]
mod tests;
