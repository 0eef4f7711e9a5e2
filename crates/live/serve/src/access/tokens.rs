//! Tokens of clients: JSON Web Tokens (RFC 7519), signed by one of the configured keys with HMAC and
//! SHA-256.

use std::time::Duration;

use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation};
use live_core::protocol::{LiveError, LiveErrorCode};
use live_core::rights::{LiveClaims, LiveRights};
use runtime::process::unix_ms;

use crate::config::SigningKey;

/// Longest token, in bytes.
const TOKEN_BYTES_MAX: usize = 8 << 10;

/// What is said of a text that is no token.
const NO_TOKEN: &str = "this is no JSON Web Token: make one with `vickrey live token`";

/// Verifies tokens.
pub(crate) struct TokenVerifier {
    keys: Vec<(String, DecodingKey)>,
    validation: Validation,
}

impl TokenVerifier {
    pub fn new(keys: &[SigningKey]) -> Self {
        let decoding = |key: &SigningKey| {
            (key.id.clone(), DecodingKey::from_secret(key.secret.expose().as_bytes()))
        };
        let mut validation = Validation::new(Algorithm::HS256);
        validation.leeway = 0;
        validation.set_required_spec_claims(&["exp", "sub"]);
        Self { keys: keys.iter().map(decoding).collect(), validation }
    }

    /// The rights that a token grants.
    ///
    /// # Errors
    /// It is damaged, expired, or signed by none of our keys.
    pub fn verify(&self, token: &str) -> Result<LiveRights, LiveError> {
        let refused =
            |message: &str| Err(LiveError::field(LiveErrorCode::BadToken, "token", message));
        if token.len() > TOKEN_BYTES_MAX {
            return refused("the token is longer than 8 KiB");
        }
        let Ok(header) = jsonwebtoken::decode_header(token) else { return refused(NO_TOKEN) };
        let is_named = |id: &str| header.kid.as_deref().is_none_or(|kid| kid == id);
        let mut why = ErrorKind::InvalidSignature;
        for (_, key) in self.keys.iter().filter(|(id, _)| is_named(id)) {
            match jsonwebtoken::decode::<LiveClaims>(token, key, &self.validation) {
                Ok(decoded) => {
                    let rights = LiveRights::of(decoded.claims);
                    if !rights.is_expired(unix_ms() / 1000) {
                        return Ok(rights);
                    }
                    why = ErrorKind::ExpiredSignature;
                }
                Err(error) if *error.kind() == ErrorKind::InvalidSignature => (),
                Err(error) => why = error.into_kind(),
            }
        }
        match why {
            ErrorKind::ExpiredSignature => refused("the token has expired: get a new one"),
            ErrorKind::InvalidSignature => refused("no key of this server signed the token"),
            ErrorKind::InvalidToken | ErrorKind::Base64(_) | ErrorKind::Utf8(_) => {
                refused(NO_TOKEN)
            }
            ErrorKind::InvalidAlgorithm => refused("the token is not signed with HS256"),
            ErrorKind::Json(error) => {
                let words: String = error.to_string().chars().take(200).collect();
                refused(&format!("the token's claims are wrong: {words}"))
            }
            other => refused(&format!("the token is wrong: {other:?}")),
        }
    }
}

/// Signs a token that expires after `lifetime`.
///
/// # Errors
/// The claims cannot be encoded.
pub fn sign_token(
    key: &SigningKey,
    claims: LiveClaims,
    lifetime: Duration,
) -> Result<String, jsonwebtoken::errors::Error> {
    let now_s = unix_ms() / 1000;
    let exp = now_s.saturating_add(lifetime.as_secs());
    let header = Header { kid: Some(key.id.clone()), ..Header::new(Algorithm::HS256) };
    let secret = EncodingKey::from_secret(key.secret.expose().as_bytes());
    jsonwebtoken::encode(&header, &LiveClaims { exp, iat: Some(now_s), ..claims }, &secret)
}

#[cfg(test)]
mod tests;
