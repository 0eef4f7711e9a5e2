//! Tokens: all that must be known to settle a reservation, sealed, so that nobody keeps it until
//! then. It rides the notice's URL, and comes back from outside. What it settles is not known here.
//!
//! A token is base64url without padding (RFC 4648, section 5), always [`TOKEN_TEXT_BYTES`] long, of
//! these bytes, numbers big-endian:
//!
//! ```text
//! version 1 ‖ ttl class 1 ‖ shard 2 ‖ node 4 ‖ epoch 4 ‖ slot 4 ‖ period 4
//!   ‖ bucket 4 ‖ sequence 4 ‖ line 4 ‖ amount 8 ‖ SipHash-2-4 of all before 8
//! ```
//!
//! **The check has 64 bits.** Whoever forges has no other way than to ask: each try is a call that is
//! answered alike and counted, and at a million tries a second the first success is to be expected
//! after 292,000 years, and settles one reservation, at most once, if it happens to name one. Equal
//! checks of two tokens help nobody, since a check holds for its own bytes alone. So the 11 letters
//! that 128 bits would add to every URL buy nothing. The amount is not secret, but it is not readable
//! as a price either: who must not learn it gets the token inside a sealed one.

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
use crate::shard::bug::{ShardBug, planted};

/// The layout above.
pub const TOKEN_VERSION: u8 = 1;
/// Before they are text.
pub const TOKEN_BYTES: usize = 48;
/// As text.
pub const TOKEN_TEXT_BYTES: usize = 64;

const CHECK_BYTES: usize = 8;
const BODY_BYTES: usize = TOKEN_BYTES - CHECK_BYTES;

const _: () = {
    assert!(BODY_BYTES == 1 + 1 + 2 + 7 * 4 + 8, "the fields fill the body");
    assert!(TOKEN_BYTES.is_multiple_of(3), "every text decodes to other bytes");
    assert!(TOKEN_BYTES / 3 * 4 == TOKEN_TEXT_BYTES, "no padding is left out");
};

/// Who reserved: numbers of reservations mean something to it alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TokenOrigin {
    /// The process, among all.
    pub node: u32,
    /// Its start.
    pub epoch: Epoch,
    /// The shard, in the process.
    pub shard: u16,
}

/// How long a reservation is to last: the position among [`crate::shard::ShardOptions::ttls`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TtlClass(pub u8);

/// A reservation. It comes from the shard that made it, or from a text whose check holds: from nowhere
/// else, so that what it says may be believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReservationToken {
    pub(crate) origin: TokenOrigin,
    pub(crate) ttl: TtlClass,
    /// Buckets of a class are numbered in an epoch.
    pub(crate) bucket: u32,
    /// Within the bucket.
    pub(crate) sequence: u32,
    /// Of the bucket: where the sum stands of which it is a part.
    pub(crate) line: u32,
    pub(crate) slot: CampaignIndex,
    pub(crate) period: Period,
    pub(crate) amount: Nanos,
}

impl ReservationToken {
    /// Who made it.
    pub const fn origin(&self) -> TokenOrigin {
        self.origin
    }

    /// Whose money is reserved.
    pub const fn slot(&self) -> CampaignIndex {
        self.slot
    }

    /// To which a win is booked, whenever it comes.
    pub const fn period(&self) -> Period {
        self.period
    }

    /// How much is reserved.
    pub const fn amount(&self) -> Nanos {
        self.amount
    }

    /// How long it was to last.
    pub const fn ttl(&self) -> TtlClass {
        self.ttl
    }

    /// Names it within its origin, for records: no other has the same.
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

/// Why a text is no token. Declaration order is precedence. Whoever called must not learn which.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Error, IntoStaticStr, VariantArray,
)]
#[strum(serialize_all = "snake_case")]
pub enum ReservationTokenError {
    /// Truncated, or longer.
    #[error("a token has {TOKEN_TEXT_BYTES} letters")]
    Length,
    /// A letter that base64url does not have.
    #[error("a token is base64url without padding")]
    Alphabet,
    /// Of a layout that is not known: a later release's, or none.
    #[error("a token begins with version {TOKEN_VERSION}")]
    Version,
    /// Altered, or never sealed with this key.
    #[error("the token's check does not hold: it was altered, or sealed with another key")]
    Forged,
}

units::labelled!(ReservationTokenError);

/// What tokens are sealed with. It seals nothing else, and outlives restarts: a dead epoch's tokens
/// are still to be settled.
#[derive(Clone, Copy)]
pub struct TokenKey(SipHasher24);

impl TokenKey {
    /// A key that nobody else knows: who knows it settles what it likes.
    pub fn new(key: [u8; 16]) -> Self {
        Self(SipHasher24::new_with_key(&key))
    }

    /// The text of a token.
    pub fn seal(&self, token: &ReservationToken) -> TokenText {
        let mut bytes = [0; TOKEN_BYTES];
        let body = token.encode();
        bytes[..BODY_BYTES].copy_from_slice(&body);
        bytes[BODY_BYTES..].copy_from_slice(&self.check(&body).to_be_bytes());
        TokenText::from_bytes(&bytes)
    }

    /// The token of a text that may come from anywhere.
    pub fn open(&self, text: &[u8]) -> Result<ReservationToken, ReservationTokenError> {
        if text.len() != TOKEN_TEXT_BYTES {
            return Err(ReservationTokenError::Length);
        }
        let mut bytes = [0; TOKEN_BYTES];
        let length = URL_SAFE_NO_PAD.decode_slice(text, &mut bytes);
        if length != Ok(TOKEN_BYTES) {
            return Err(ReservationTokenError::Alphabet);
        }
        let (body, check) = bytes.split_first_chunk().expect("the body is a part");
        if body[0] != TOKEN_VERSION {
            return Err(ReservationTokenError::Version);
        }
        let check = check.first_chunk().expect("the check is the rest");
        // Two numbers are compared at once, not byte by byte: how long it takes tells nothing.
        let difference = black_box(self.check(body) ^ u64::from_be_bytes(*check));
        if difference != 0 && !planted(ShardBug::TrustText) {
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

/// A sealed token, as it stands in a URL.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TokenText([u8; TOKEN_TEXT_BYTES]);

impl TokenText {
    /// The text of these bytes, whatever they are: whether it is a token is known once it is opened.
    pub fn from_bytes(bytes: &[u8; TOKEN_BYTES]) -> Self {
        let mut text = [0; TOKEN_TEXT_BYTES];
        let length = URL_SAFE_NO_PAD.encode_slice(bytes, &mut text);
        assert_eq!(length, Ok(TOKEN_TEXT_BYTES), "the text is as long as documented");
        Self(text)
    }

    /// The bytes that it spells, for where they are kept and not shown.
    pub fn to_bytes(&self) -> [u8; TOKEN_BYTES] {
        let mut bytes = [0; TOKEN_BYTES];
        let length = URL_SAFE_NO_PAD.decode_slice(self.0, &mut bytes);
        assert_eq!(length, Ok(TOKEN_BYTES), "a text was made of bytes");
        bytes
    }

    /// The amount that it tells, whether or not its check holds: for whom reads what was settled, and
    /// has no key. None if it is of another version.
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
