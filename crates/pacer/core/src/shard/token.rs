//! Tokens: a reservation's details, sealed, so that no server stores them until it settles.
//!
//! A token travels in the notice's URL and returns from outside. It is base64url without padding
//! (RFC 4648, section 5), always [`TOKEN_TEXT_BYTES`] long, of these bytes, numbers big-endian:
//!
//! ```text
//! version 1 ‖ ttl class 1 ‖ shard 2 ‖ node 4 ‖ epoch 4 ‖ slot 4 ‖ period 4
//!   ‖ bucket 4 ‖ sequence 4 ‖ line 4 ‖ amount 8 ‖ SipHash-2-4 of all before 8
//! ```
//!
//! **The check has 64 bits.** A forger can only guess: each try is a call with the same answer, and
//! is counted. At a million tries a second the first success is expected after 292,000 years, and
//! settles at most one reservation, once. Equal checks of two tokens do not help, because a check
//! is valid only for its own bytes. So the 11 letters that 128 bits would add to every URL buy
//! nothing. The amount is not secret, but not readable as a price either: parties that must not
//! learn it get the token inside a sealed one.

use std::fmt;
use std::hint::black_box;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use siphasher::sip::SipHasher24;
use strum::{IntoStaticStr, VariantArray};
use thiserror::Error;
use units::Nanos;

use crate::calendar::Period;
use crate::messages::{CampaignIndex, Epoch};

/// Version of the layout above.
pub const TOKEN_VERSION: u8 = 1;
/// Length in binary.
pub const TOKEN_BYTES: usize = 48;
/// Length as text.
pub const TOKEN_TEXT_BYTES: usize = 64;

const CHECK_BYTES: usize = 8;
const BODY_BYTES: usize = TOKEN_BYTES - CHECK_BYTES;

const _: () = {
    assert!(BODY_BYTES == 1 + 1 + 2 + 7 * 4 + 8, "the fields fill the body");
    assert!(TOKEN_BYTES.is_multiple_of(3), "every text decodes to other bytes");
    assert!(TOKEN_BYTES / 3 * 4 == TOKEN_TEXT_BYTES, "no padding is left out");
};

/// The maker of a token: reservation numbers are unique within it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TokenOrigin {
    /// The node.
    pub node: u32,
    /// Its start.
    pub epoch: Epoch,
    /// The shard on the node.
    pub shard: u16,
}

/// A class of time to live: the index in [`crate::shard::ShardOptions::ttls`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TtlClass(pub u8);

/// A reservation. Its fields are trusted: a shard made it, or its text has a valid check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReservationToken {
    pub(crate) origin: TokenOrigin,
    pub(crate) ttl: TtlClass,
    /// Number of the bucket, within class and epoch.
    pub(crate) bucket: u32,
    /// Number within the bucket.
    pub(crate) sequence: u32,
    /// Line of the bucket with the sum that contains it.
    pub(crate) line: u32,
    pub(crate) slot: CampaignIndex,
    pub(crate) period: Period,
    pub(crate) amount: Nanos,
}

impl ReservationToken {
    /// The maker.
    pub const fn origin(&self) -> TokenOrigin {
        self.origin
    }

    /// The campaign.
    pub const fn slot(&self) -> CampaignIndex {
        self.slot
    }

    /// The period to which a win is booked, at any time.
    pub const fn period(&self) -> Period {
        self.period
    }

    /// The reserved amount.
    pub const fn amount(&self) -> Nanos {
        self.amount
    }

    /// The class of time to live.
    pub const fn ttl(&self) -> TtlClass {
        self.ttl
    }

    /// Unique within its origin, for records.
    pub const fn number(&self) -> (TtlClass, u32, u32) {
        (self.ttl, self.bucket, self.sequence)
    }

    fn encode(&self) -> [u8; BODY_BYTES] {
        let mut body = [0; BODY_BYTES];
        let (head, rest) = body.split_at_mut(4);
        head[0] = TOKEN_VERSION;
        head[1] = self.ttl.0;
        head[2..].copy_from_slice(&self.origin.shard.to_be_bytes());
        let numbers = [
            self.origin.node,
            self.origin.epoch.0,
            self.slot.0,
            self.period.0,
            self.bucket,
            self.sequence,
            self.line,
        ];
        for (place, number) in rest.chunks_exact_mut(4).zip(numbers) {
            place.copy_from_slice(&number.to_be_bytes());
        }
        body[BODY_BYTES - 8..].copy_from_slice(&self.amount.get().to_be_bytes());
        body
    }

    fn decode(body: &[u8; BODY_BYTES]) -> Self {
        let number = |at: usize| {
            let bytes = body[at..].first_chunk().expect("all fields are within the body");
            u32::from_be_bytes(*bytes)
        };
        let amount = body.last_chunk().expect("the amount ends the body");
        Self {
            origin: TokenOrigin {
                node: number(4),
                epoch: Epoch(number(8)),
                shard: u16::from_be_bytes([body[2], body[3]]),
            },
            ttl: TtlClass(body[1]),
            slot: CampaignIndex(number(12)),
            period: Period(number(16)),
            bucket: number(20),
            sequence: number(24),
            line: number(28),
            amount: Nanos::new(u64::from_be_bytes(*amount)),
        }
    }
}

/// Why a text is not a token, in order of precedence. The caller must not learn which.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Error, IntoStaticStr, VariantArray,
)]
#[strum(serialize_all = "snake_case")]
pub enum ReservationTokenError {
    /// Truncated, or too long.
    #[error("a token has {TOKEN_TEXT_BYTES} letters")]
    Length,
    /// Not base64url.
    #[error("a token is base64url without padding")]
    Alphabet,
    /// An unknown layout.
    #[error("a token begins with version {TOKEN_VERSION}")]
    Version,
    /// Altered, or not sealed with this key.
    #[error("the token's check does not hold: it was altered, or sealed with another key")]
    Forged,
}

units::labelled!(ReservationTokenError);

/// The key that seals tokens only. It outlives restarts, as old tokens must still settle.
#[derive(Clone, Copy)]
pub struct TokenKey(SipHasher24);

impl TokenKey {
    /// The key must stay secret: it allows anybody to settle anything.
    pub fn new(key: [u8; 16]) -> Self {
        Self(SipHasher24::new_with_key(&key))
    }

    /// Seals a token as text.
    pub fn seal(&self, token: &ReservationToken) -> TokenText {
        TokenText::from_bytes(&self.seal_bytes(token))
    }

    /// Seals a token in binary.
    pub fn seal_bytes(&self, token: &ReservationToken) -> [u8; TOKEN_BYTES] {
        let mut bytes = [0; TOKEN_BYTES];
        let body = token.encode();
        bytes[..BODY_BYTES].copy_from_slice(&body);
        bytes[BODY_BYTES..].copy_from_slice(&self.check(&body).to_be_bytes());
        bytes
    }

    /// Opens a text from an untrusted source.
    pub fn open(&self, text: &[u8]) -> Result<ReservationToken, ReservationTokenError> {
        if text.len() != TOKEN_TEXT_BYTES {
            return Err(ReservationTokenError::Length);
        }
        let mut bytes = [0; TOKEN_BYTES];
        let length = URL_SAFE_NO_PAD.decode_slice(text, &mut bytes);
        if length != Ok(TOKEN_BYTES) {
            return Err(ReservationTokenError::Alphabet);
        }
        self.open_bytes(&bytes)
    }

    /// Opens a token in binary from an untrusted source.
    ///
    /// # Errors
    /// An unknown version, or a wrong check.
    pub fn open_bytes(
        &self,
        bytes: &[u8; TOKEN_BYTES],
    ) -> Result<ReservationToken, ReservationTokenError> {
        let (body, check) = bytes.split_first_chunk().expect("the body is a part");
        if body[0] != TOKEN_VERSION {
            return Err(ReservationTokenError::Version);
        }
        let check = check.first_chunk().expect("the check is the rest");
        // Constant time: compares two integers, not byte by byte.
        let difference = black_box(self.check(body) ^ u64::from_be_bytes(*check));
        if difference != 0 {
            return Err(ReservationTokenError::Forged);
        }
        Ok(ReservationToken::decode(body))
    }

    fn check(&self, body: &[u8; BODY_BYTES]) -> u64 {
        self.0.hash(body)
    }
}

impl fmt::Debug for TokenKey {
    /// The key is secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenKey(…)")
    }
}

/// A sealed token as in a URL.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TokenText([u8; TOKEN_TEXT_BYTES]);

impl TokenText {
    /// The text of any bytes; only opening it shows whether it is a token.
    pub fn from_bytes(bytes: &[u8; TOKEN_BYTES]) -> Self {
        let mut text = [0; TOKEN_TEXT_BYTES];
        let length = URL_SAFE_NO_PAD.encode_slice(bytes, &mut text);
        assert_eq!(length, Ok(TOKEN_TEXT_BYTES), "the text is as long as documented");
        Self(text)
    }

    /// Its bytes, for storage.
    pub fn to_bytes(&self) -> [u8; TOKEN_BYTES] {
        let mut bytes = [0; TOKEN_BYTES];
        let length = URL_SAFE_NO_PAD.decode_slice(self.0, &mut bytes);
        assert_eq!(length, Ok(TOKEN_BYTES), "a text was made of bytes");
        bytes
    }

    /// The amount, without a check of the seal. None if the version differs.
    pub fn amount_unchecked(&self) -> Option<Nanos> {
        let bytes = self.to_bytes();
        let body = bytes.first_chunk().expect("the body is a part");
        (body[0] == TOKEN_VERSION).then(|| ReservationToken::decode(body).amount)
    }

    /// Letters, digits, `-` and `_`.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("base64 is ASCII")
    }
}

impl fmt::Display for TokenText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for TokenText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests;
