//! Beacon tokens: sealed data that a notice needs when it fires, so that the server stores nothing
//! and no price leaks.
//!
//! A token is base64url without padding (RFC 4648, section 5) of
//!
//! ```text
//! version 1 ‖ key id 4 ‖ nonce 24 ‖ XChaCha20-Poly1305(claims) ‖ tag 16
//! ```
//!
//! Version and key id are authenticated as associated data, and the nonce by its use.
//!
//! **The nonce** is `auction id 16 ‖ bid 4 ‖ kind 1 ‖ imp 1 ‖ 0 0`, big-endian. It is also the
//! token's id, which identifies repeated calls. It is unique under a key, without a random source:
//! a process never repeats an auction id ([`crate::AuctionIds`]), and two ids among 10^12 auctions
//! of all processes collide with probability 10^-15. An auction is concluded once and seals at most
//! one token per bid position, kind and impression. Key ids use a nonce of all ones, which has no
//! kind.

use std::borrow::Cow;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use openrtb::NoticeKind;
use strum::{IntoStaticStr, VariantArray};
use units::{Cpm, Currency, Nanos};

use super::reservation::Reservation;
use crate::answering::notice_url::URL_BYTES_MAX;
use crate::answering::sale::Sale;

const VERSION: u8 = 1;
const KEY_ID_BYTES: usize = 4;
const NONCE_BYTES: usize = 24;
const TAG_BYTES: usize = 16;
const HEAD_BYTES: usize = 1 + KEY_ID_BYTES + NONCE_BYTES;

/// Flags, three prices, two currencies, the expiry, and the lengths of five texts.
const FIXED_BYTES: usize = 1 + 3 * 8 + 2 * 3 + 8 + 5 * 2;

const NODE_BYTES: usize = 4;

const TEXT_BYTES_MAX: usize = 256;

/// Longest token: fits the request line of HTTP servers.
pub const TOKEN_BYTES_MAX: usize = 7168;

const _: () = {
    let texts = 4 * TEXT_BYTES_MAX + URL_BYTES_MAX;
    let sealed = HEAD_BYTES + FIXED_BYTES + texts + Reservation::BYTES + NODE_BYTES + TAG_BYTES;
    assert!(sealed.div_ceil(3) * 4 <= TOKEN_BYTES_MAX, "the longest claims fit a token");
};

/// The content of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claims<'a> {
    /// The kind of notice.
    pub kind: NoticeKind,
    /// The auction.
    pub auction_id: u128,
    /// The impression, by position in its request.
    pub imp: u8,
    /// The bid, by position in the auction's judgement.
    pub bid: u32,
    /// The DSP's id, which survives a reconfiguration.
    pub dsp: Cow<'a, str>,
    /// The seat's id.
    pub seat: Cow<'a, str>,
    /// The impression's id.
    pub imp_id: Cow<'a, str>,
    /// The publisher's id; empty if unknown.
    pub publisher: Cow<'a, str>,
    /// What the DSP pays.
    pub paid: Cpm,
    /// The currency of the DSP's bid.
    pub paid_currency: Currency,
    /// The net price in the response.
    pub net: Cpm,
    /// The currency of the auction.
    pub net_currency: Currency,
    /// What the DSP owes for all impressions of one display, in the market's currency.
    pub revenue: Nanos,
    /// Its expiry, in Unix seconds.
    pub expires_unix_s: u64,
    /// Whether it is a test.
    pub is_test: bool,
    /// Whether the DSP's response is the ad, which we relay.
    pub relays_markup: bool,
    /// The DSP's notice URL, before [`crate::LateValues`] are substituted. Empty if it has none.
    pub url: Cow<'a, str>,
    /// The reservation, which billing settles and a loss releases.
    pub reservation: Option<Reservation>,
    /// The node that sealed it. None in tokens of earlier releases, which any node accepts.
    pub node: Option<u32>,
}

/// The id of a token.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TokenId(pub [u8; NONCE_BYTES]);

impl TokenId {
    /// Length of an id.
    pub const BYTES: usize = NONCE_BYTES;

    /// The id of a sale's billing beacon, even if it has none. None if the auction's id is invalid.
    pub fn of_billing(auction_id: &str, sale: &Sale) -> Option<Self> {
        let bid = u32::try_from(sale.bid).ok()?;
        let imp = u8::try_from(sale.imp).expect("impressions have a bit each");
        Some(Self::new(auction_number(auction_id)?, bid, NoticeKind::Billing, imp))
    }

    /// The auction of the sale.
    pub fn auction_id(&self) -> u128 {
        u128::from_be_bytes(*self.0.first_chunk().expect("a nonce is longer"))
    }

    /// The bid, by position in the auction's judgement.
    pub fn bid(&self) -> u32 {
        u32::from_be_bytes(*self.0[16..].first_chunk().expect("a nonce is longer"))
    }

    /// The impression, by position in its request.
    pub const fn imp(&self) -> u8 {
        self.0[21]
    }

    fn new(auction_id: u128, bid: u32, kind: NoticeKind, imp: u8) -> Self {
        let mut id = [0; NONCE_BYTES];
        id[..16].copy_from_slice(&auction_id.to_be_bytes());
        id[16..20].copy_from_slice(&bid.to_be_bytes());
        id[20] = kind as u8;
        id[21] = imp;
        Self(id)
    }
}

pub(super) fn auction_number(id: &str) -> Option<u128> {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let is_number = id.len() == 32 && id.bytes().all(is_digit);
    u128::from_str_radix(id, 16).ok().filter(|_| is_number)
}

impl fmt::Debug for TokenId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl Claims<'_> {
    /// The token's id, unique over all tokens.
    pub fn id(&self) -> TokenId {
        TokenId::new(self.auction_id, self.bid, self.kind, self.imp)
    }
}

/// Why a token is refused. Declaration order is precedence. The caller must not learn the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum BeaconTokenError {
    /// Not a token.
    Malformed,
    /// No key in the ring has its key id.
    UnknownKey,
    /// Not authentic.
    Forged,
    /// Expired.
    Expired,
}

units::labelled!(BeaconTokenError);

/// Keys for tokens. The first seals; all open. To rotate, add a new key in front and keep the old
/// one until its last token has expired.
#[derive(Clone)]
pub struct KeyRing(Vec<SealingKey>);

#[derive(Clone)]
struct SealingKey {
    id: [u8; KEY_ID_BYTES],
    cipher: XChaCha20Poly1305,
}

impl KeyRing {
    /// None without a key, or if two keys (most likely equal ones) have the same id.
    pub fn new(keys: &[[u8; 32]]) -> Option<Self> {
        let mut ring: Vec<SealingKey> = Vec::with_capacity(keys.len());
        for key in keys {
            let key = SealingKey::new(key);
            if ring.iter().any(|known| known.id == key.id) {
                return None;
            }
            ring.push(key);
        }
        (!ring.is_empty()).then_some(Self(ring))
    }

    /// Seals `claims`. None if a text is too long for a token.
    pub fn seal(&self, claims: &Claims<'_>) -> Option<String> {
        let key = self.0.first().expect("a ring has a key");
        let plain = encode(claims)?;
        let head = [&[VERSION][..], &key.id].concat();
        let id = claims.id();
        let payload = Payload { msg: &plain, aad: &head };
        let sealed = key.cipher.encrypt(&XNonce::from(id.0), payload).ok()?;
        let token = URL_SAFE_NO_PAD.encode([&head[..], &id.0, &sealed].concat());
        assert!(token.len() <= TOKEN_BYTES_MAX, "bounded texts fit a token");
        Some(token)
    }

    /// Opens `token` at `now_unix_s`.
    pub fn open(&self, token: &str, now_unix_s: u64) -> Result<Claims<'static>, BeaconTokenError> {
        if token.len() > TOKEN_BYTES_MAX {
            return Err(BeaconTokenError::Malformed);
        }
        let bytes = URL_SAFE_NO_PAD.decode(token).map_err(|_| BeaconTokenError::Malformed)?;
        if bytes.len() < HEAD_BYTES + FIXED_BYTES + TAG_BYTES || bytes[0] != VERSION {
            return Err(BeaconTokenError::Malformed);
        }
        let (head, rest) = bytes.split_at(1 + KEY_ID_BYTES);
        let key =
            self.0.iter().find(|key| key.id == head[1..]).ok_or(BeaconTokenError::UnknownKey)?;
        let (nonce, sealed) =
            rest.split_first_chunk::<NONCE_BYTES>().ok_or(BeaconTokenError::Malformed)?;
        let payload = Payload { msg: sealed, aad: head };
        let plain = key.cipher.decrypt(&XNonce::from(*nonce), payload);
        let plain = plain.map_err(|_| BeaconTokenError::Forged)?;
        let claims = decode(nonce, &plain).ok_or(BeaconTokenError::Malformed)?;
        if now_unix_s >= claims.expires_unix_s {
            return Err(BeaconTokenError::Expired);
        }
        Ok(claims)
    }
}

impl fmt::Debug for KeyRing {
    /// Only ids: the keys are secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|key| u32::from_be_bytes(key.id))).finish()
    }
}

impl SealingKey {
    /// The id is the start of the tag of an empty text, under a nonce that no token uses.
    fn new(key: &[u8; 32]) -> Self {
        let cipher = XChaCha20Poly1305::new(key.into());
        let tag = cipher.encrypt(&XNonce::from([0xff; NONCE_BYTES]), &[][..]);
        let tag = tag.expect("nothing can be encrypted");
        let id = *tag.first_chunk().expect("a tag is longer than a key id");
        Self { id, cipher }
    }
}

const IS_TEST: u8 = 1;
const RELAYS_MARKUP: u8 = 2;
/// A reservation follows the texts. Tokens without one keep the format of earlier releases.
const IS_RESERVED: u8 = 4;
const NAMES_NODE: u8 = 8;
const FLAGS: u8 = IS_TEST | RELAYS_MARKUP | IS_RESERVED | NAMES_NODE;

fn encode(claims: &Claims<'_>) -> Option<Vec<u8>> {
    let texts = texts(claims);
    let texts_bytes: usize = texts.iter().map(|text| text.0.len()).sum();
    let rest_bytes = Reservation::BYTES + NODE_BYTES;
    let mut out = Vec::with_capacity(FIXED_BYTES + texts_bytes + rest_bytes);
    let flags = [
        (claims.is_test, IS_TEST),
        (claims.relays_markup, RELAYS_MARKUP),
        (claims.reservation.is_some(), IS_RESERVED),
        (claims.node.is_some(), NAMES_NODE),
    ];
    out.push(flags.iter().filter(|(is_set, _)| *is_set).fold(0, |all, (_, flag)| all | flag));
    for number in
        [claims.paid.micros(), claims.net.micros(), claims.revenue.get(), claims.expires_unix_s]
    {
        out.extend_from_slice(&number.to_be_bytes());
    }
    out.extend_from_slice(claims.paid_currency.code().as_bytes());
    out.extend_from_slice(claims.net_currency.code().as_bytes());
    for (text, bytes_max) in texts {
        if text.len() > bytes_max {
            return None;
        }
        out.extend_from_slice(&u16::try_from(text.len()).ok()?.to_be_bytes());
        out.extend_from_slice(text.as_bytes());
    }
    if let Some(reservation) = claims.reservation {
        out.extend_from_slice(&reservation.to_bytes());
    }
    if let Some(node) = claims.node {
        out.extend_from_slice(&node.to_be_bytes());
    }
    Some(out)
}

fn texts<'c>(claims: &'c Claims<'_>) -> [(&'c str, usize); 5] {
    [
        (&claims.dsp, TEXT_BYTES_MAX),
        (&claims.seat, TEXT_BYTES_MAX),
        (&claims.imp_id, TEXT_BYTES_MAX),
        (&claims.publisher, TEXT_BYTES_MAX),
        (&claims.url, URL_BYTES_MAX),
    ]
}

fn decode(nonce: &[u8; NONCE_BYTES], plain: &[u8]) -> Option<Claims<'static>> {
    let mut id = ClaimsReader(nonce);
    let auction_id = u128::from_be_bytes(id.take()?);
    let bid = u32::from_be_bytes(id.take()?);
    let [kind, imp] = id.take()?;
    let kind = NoticeKind::from_repr(kind)?;
    let mut reader = ClaimsReader(plain);
    let [flags] = reader.take()?;
    let is_set = |flag| flags & flag != 0;
    let (paid, net) = (Cpm::new(reader.number()?)?, Cpm::new(reader.number()?)?);
    let revenue = Nanos::new(reader.number()?);
    let expires_unix_s = reader.number()?;
    let (paid_currency, net_currency) = (reader.currency()?, reader.currency()?);
    let claims = Claims {
        kind,
        auction_id,
        imp,
        bid,
        dsp: reader.text(TEXT_BYTES_MAX)?,
        seat: reader.text(TEXT_BYTES_MAX)?,
        imp_id: reader.text(TEXT_BYTES_MAX)?,
        publisher: reader.text(TEXT_BYTES_MAX)?,
        paid,
        paid_currency,
        net,
        net_currency,
        revenue,
        expires_unix_s,
        is_test: is_set(IS_TEST),
        relays_markup: is_set(RELAYS_MARKUP),
        url: reader.text(URL_BYTES_MAX)?,
        reservation: match is_set(IS_RESERVED) {
            true => Some(Reservation::from_bytes(&reader.take()?)?),
            false => None,
        },
        node: match is_set(NAMES_NODE) {
            true => Some(u32::from_be_bytes(reader.take()?)),
            false => None,
        },
    };
    let is_known = !is_set(!FLAGS);
    (reader.0.is_empty() && id.0 == [0, 0] && is_known).then_some(claims)
}

struct ClaimsReader<'b>(&'b [u8]);

impl ClaimsReader<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*taken)
    }

    fn number(&mut self) -> Option<u64> {
        self.take().map(u64::from_be_bytes)
    }

    fn currency(&mut self) -> Option<Currency> {
        let code: [u8; 3] = self.take()?;
        Currency::parse(std::str::from_utf8(&code).ok()?)
    }

    fn text(&mut self, bytes_max: usize) -> Option<Cow<'static, str>> {
        let length = usize::from(u16::from_be_bytes(self.take()?));
        if length > bytes_max {
            return None;
        }
        let (text, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(Cow::Owned(std::str::from_utf8(text).ok()?.to_owned()))
    }
}

#[cfg(test)]
mod tests;
