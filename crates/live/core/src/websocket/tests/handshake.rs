//! Upgrade requests: accepted, or refused with the first reason that holds.

use crate::websocket::{UpgradeError, UpgradeHeaders, WEBSOCKET_VERSION};

/// The request of RFC 6455, section 1.3.
const REQUEST: UpgradeHeaders<'_> = UpgradeHeaders {
    upgrade: Some("websocket"),
    connection: Some("Upgrade"),
    version: Some("13"),
    key: Some("dGhlIHNhbXBsZSBub25jZQ=="),
};

#[test]
fn requests_are_accepted_or_refused() {
    let accept = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=".to_owned();
    let check = |headers: UpgradeHeaders<'_>, want: Result<&String, UpgradeError>| {
        assert_eq!(headers.accept().as_ref().map_err(|error| *error), want, "{headers:?}");
    };
    check(REQUEST, Ok(&accept));
    for right in ["WebSocket", "h2c, websocket", "websocket ,\th2c,"] {
        check(UpgradeHeaders { upgrade: Some(right), ..REQUEST }, Ok(&accept));
    }
    for upgrade in [Some("websocket2"), Some("web socket"), Some(""), None] {
        check(UpgradeHeaders { upgrade, ..REQUEST }, Err(UpgradeError::Upgrade));
    }
    for right in ["upgrade", "keep-alive, Upgrade", "UPGRADE,keep-alive"] {
        check(UpgradeHeaders { connection: Some(right), ..REQUEST }, Ok(&accept));
    }
    for connection in [Some("keep-alive"), Some("upgrades"), Some(""), None] {
        check(UpgradeHeaders { connection, ..REQUEST }, Err(UpgradeError::Connection));
    }
    for version in [Some("8"), Some("14"), Some("013"), Some("13, 8"), Some(""), None] {
        check(UpgradeHeaders { version, ..REQUEST }, Err(UpgradeError::Version));
    }
    for wrong in [
        "",
        "dGhlIHNhbXBsZSBub25jZQ",   // no padding
        "GhlIHNhbXBsZSBub25jZQ==",  // its first character lost
        "dGhlIHNhbXBsZSBub25j",     // 15 bytes
        "dGhlIHNhbXBsZSBub25jZTE=", // 17 bytes
        "dGhlIHNhbXBsZSBub25jZR==", // bits beyond the last byte
        "dGhl-HNhbXBsZSBub25jZQ==", // base64url
        "dGhlIHNhbXBsZSBub25jZQ==, dGhlIHNhbXBsZSBub25jZQ==",
    ] {
        check(UpgradeHeaders { key: Some(wrong), ..REQUEST }, Err(UpgradeError::Key));
    }
    check(UpgradeHeaders { key: None, ..REQUEST }, Err(UpgradeError::Key));
    // A client of another version learns so, whatever its key looks like.
    check(UpgradeHeaders { version: None, key: None, ..REQUEST }, Err(UpgradeError::Version));
    check(UpgradeHeaders::default(), Err(UpgradeError::Upgrade));
}

#[test]
fn refusals_say_what_to_send() {
    for (error, status, remedy) in [
        (UpgradeError::Upgrade, 400, "`Upgrade: websocket`"),
        (UpgradeError::Connection, 400, "`Connection: Upgrade`"),
        (UpgradeError::Version, 426, WEBSOCKET_VERSION),
        (UpgradeError::Key, 400, "16 bytes in base64"),
    ] {
        assert_eq!(error.status(), status);
        assert!(error.to_string().contains(remedy), "{error}");
    }
}
