//! The opening handshake (RFC 6455, section 4.2): whether a request may become a WebSocket, and the
//! proof that the server understood it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha1::{Digest as _, Sha1};

/// The version of the protocol, as `Sec-WebSocket-Version` names it (section 4.1).
pub const WEBSOCKET_VERSION: &str = "13";

/// What a server appends to the client's key (section 1.3).
const KEY_SUFFIX: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// Length of the nonce in the client's key.
const NONCE_BYTES: usize = 16;

/// Headers of an upgrade request, without white space around their values; None if a header is
/// absent. The values of a header that occurs several times are joined with commas (RFC 9110,
/// section 5.3).
///
/// The caller checks that the request is a GET of HTTP/1.1. `Sec-WebSocket-Extensions` and
/// `Sec-WebSocket-Protocol` do not matter: no extension or subprotocol is agreed on.
#[derive(Clone, Copy, Debug, Default)]
pub struct UpgradeHeaders<'h> {
    /// `Upgrade`.
    pub upgrade: Option<&'h str>,
    /// `Connection`.
    pub connection: Option<&'h str>,
    /// `Sec-WebSocket-Version`.
    pub version: Option<&'h str>,
    /// `Sec-WebSocket-Key`.
    pub key: Option<&'h str>,
}

/// Why a request does not become a WebSocket, in order of precedence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UpgradeError {
    /// The request asks for no upgrade, or for another protocol.
    #[error("`Upgrade` does not name `websocket`: send `Upgrade: websocket`")]
    Upgrade,
    /// A proxy on the way may not have forwarded the upgrade.
    #[error("`Connection` does not name `Upgrade`: send `Connection: Upgrade`")]
    Connection,
    /// Another version. The response says which one is spoken (section 4.4): its status is 426, its
    /// `Sec-WebSocket-Version` is [`WEBSOCKET_VERSION`].
    #[error("`Sec-WebSocket-Version` is not {WEBSOCKET_VERSION}: send `{WEBSOCKET_VERSION}`")]
    Version,
    /// The key is absent, or not 16 bytes in base64.
    #[error("`Sec-WebSocket-Key` is not {NONCE_BYTES} bytes in base64: send a random key")]
    Key,
}

impl UpgradeError {
    /// Status of the response.
    pub const fn status(self) -> u16 {
        match self {
            Self::Version => 426,
            Self::Upgrade | Self::Connection | Self::Key => 400,
        }
    }
}

impl UpgradeHeaders<'_> {
    /// Checks the request (section 4.2.1) and computes the `Sec-WebSocket-Accept` of the response
    /// (section 4.2.2).
    ///
    /// # Errors
    /// A header that is absent or has another value.
    pub fn accept(&self) -> Result<String, UpgradeError> {
        if !names(self.upgrade, "websocket") {
            return Err(UpgradeError::Upgrade);
        }
        if !names(self.connection, "upgrade") {
            return Err(UpgradeError::Connection);
        }
        if self.version != Some(WEBSOCKET_VERSION) {
            return Err(UpgradeError::Version);
        }
        let key = self.key.filter(|key| is_nonce(key)).ok_or(UpgradeError::Key)?;
        let proof = Sha1::new().chain_update(key).chain_update(KEY_SUFFIX).finalize();
        Ok(STANDARD.encode(proof))
    }
}

/// Whether a comma-separated list contains the token, in upper or lower case.
fn names(list: Option<&str>, token: &str) -> bool {
    list.is_some_and(|list| list.split(',').any(|item| item.trim().eq_ignore_ascii_case(token)))
}

/// Whether a key is a nonce in base64.
fn is_nonce(key: &str) -> bool {
    let mut nonce = [0; NONCE_BYTES.next_multiple_of(3)];
    matches!(STANDARD.decode_slice(key, &mut nonce), Ok(NONCE_BYTES))
}
