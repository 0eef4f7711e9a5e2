//! Header fields that concern one connection, not the message: they are neither stored nor passed on
//! (RFC 9110, section 7.6.1; RFC 9111, section 3.1).

use http::header::{
    CONNECTION, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use http::{HeaderMap, HeaderName};

/// Those that concern connections although `Connection` may not name them.
static OF_CONNECTIONS: [HeaderName; 10] = [
    CONNECTION,
    HeaderName::from_static("keep-alive"),
    PROXY_AUTHENTICATE,
    HeaderName::from_static("proxy-authentication-info"),
    PROXY_AUTHORIZATION,
    HeaderName::from_static("proxy-connection"),
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
];

/// Removes what concerns the connection by which a message came.
pub fn remove_connection_fields(headers: &mut HeaderMap) {
    let lines = headers.get_all(CONNECTION).iter();
    let names = lines.flat_map(|line| line.as_bytes().split(|byte| *byte == b','));
    let named: Vec<_> =
        names.filter_map(|name| HeaderName::from_bytes(name.trim_ascii()).ok()).collect();
    for name in named.iter().chain(&OF_CONNECTIONS) {
        headers.remove(name);
    }
}

#[cfg(test)]
mod tests;
