//! The records of billing notices, from which a restart recovers. Bytes in, bytes out.
//!
//! Integers are little-endian, text is UTF-8 after its length. A version byte (1) and a type byte
//! precede the fields:
//!
//! | type | fields |
//! |---|---|
//! | 1, accepted | id (24), accepted at (8, Unix ms), expires at (8, Unix ms), DSP (1 + n; empty if there is no notice: nothing follows), URL (2 + n), client address (2 + n), user agent (2 + n); empty: none |
//! | 2, settled | id (24), expires at (8, Unix ms), outcome (1): 1 delivered, 2 given up, 3 untold |
//! | 3, checkpoint | needed from (8, a sequence of the log) |
//! | 4, accepted with a reservation | id (24), accepted at, expires at, reservation: its token (48) and currency (3, ISO 4217), DSP and so on as of type 1 |
//!
//! **Money.** A record of type 4 settles its reservation. There is one per token: rewritten records
//! carry no reservation. It stays in the log until the ledger has applied it
//! ([`super::Delivery::keep_from`]).

use std::sync::Arc;

use super::notice::{ForwardedDevice, Notice};
use crate::notices::reservation::Reservation;
use crate::notices::token::TokenId;

const VERSION: u8 = 1;
const ACCEPTED: u8 = 1;
const SETTLED: u8 = 2;
const CHECKPOINT: u8 = 3;
const RESERVED: u8 = 4;
const DELIVERED: u8 = 1;
const GIVEN_UP: u8 = 2;
const UNTOLD: u8 = 3;

/// How a billing notice ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoticeEnd {
    /// The DSP answered 200 or 204.
    Delivered,
    /// The policy's horizon passed.
    GivenUp,
    /// There was no notice to send.
    Untold,
}

/// A record of the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JournalRecord {
    /// A beacon was called: its notice is owed, and its reservation is settled.
    Accepted {
        /// The beacon's token.
        id: TokenId,
        /// When it was called.
        accepted_ms: u64,
        /// When the token expires; until then it is remembered.
        expires_ms: u64,
        /// The notice owed. None if the DSP has none.
        notice: Option<Arc<Notice>>,
        /// The reservation that this record settles. None in rewritten records.
        reservation: Option<Reservation>,
    },
    /// The notice is no longer owed.
    Settled {
        /// The beacon's token.
        id: TokenId,
        /// When the token expires.
        expires_ms: u64,
        /// How it ended.
        outcome: NoticeEnd,
    },
    /// A restart needs no notice's record before this point.
    Checkpoint {
        /// The lowest sequence of this log that may be needed; not above the checkpoint's own.
        needed_from: u64,
    },
}

/// Why bytes are not a record. Order is precedence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum JournalDecodeError {
    #[error("ends too early")]
    Truncated,
    #[error("version {0}, known is {VERSION}: use the release that wrote it")]
    Version(u8),
    #[error("unknown type {0}")]
    Type(u8),
    #[error("unknown outcome {0}")]
    Outcome(u8),
    #[error("a reservation without a currency")]
    Reservation,
    #[error("text is not UTF-8")]
    Text,
    #[error("not a notice that could be sent")]
    Notice,
    #[error("goes on behind its end")]
    Trailing,
}

impl JournalRecord {
    /// The record's bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        match self {
            Self::Accepted { id, accepted_ms, expires_ms, notice, reservation } => {
                let notice_bytes = notice.as_ref().map_or(0, |notice| notice.bytes());
                out.reserve(64 + Reservation::BYTES + notice_bytes);
                out.push(if reservation.is_some() { RESERVED } else { ACCEPTED });
                out.extend_from_slice(&id.0);
                out.extend_from_slice(&accepted_ms.to_le_bytes());
                out.extend_from_slice(&expires_ms.to_le_bytes());
                if let Some(reservation) = reservation {
                    out.extend_from_slice(&reservation.to_bytes());
                }
                match notice {
                    Some(notice) => encode_notice(notice, &mut out),
                    None => out.push(0),
                }
            }
            Self::Settled { id, expires_ms, outcome } => {
                out.push(SETTLED);
                out.extend_from_slice(&id.0);
                out.extend_from_slice(&expires_ms.to_le_bytes());
                out.push(match outcome {
                    NoticeEnd::Delivered => DELIVERED,
                    NoticeEnd::GivenUp => GIVEN_UP,
                    NoticeEnd::Untold => UNTOLD,
                });
            }
            Self::Checkpoint { needed_from } => {
                out.push(CHECKPOINT);
                out.extend_from_slice(&needed_from.to_le_bytes());
            }
        }
        out
    }

    /// Decodes a record.
    ///
    /// # Errors
    /// If the bytes are not a record: see [`JournalDecodeError`].
    pub fn decode(bytes: &[u8]) -> Result<Self, JournalDecodeError> {
        let mut rest = UnreadBytes(bytes);
        let version = rest.byte()?;
        if version != VERSION {
            return Err(JournalDecodeError::Version(version));
        }
        let record = match rest.byte()? {
            ACCEPTED => Self::decode_accepted(&mut rest, false)?,
            RESERVED => Self::decode_accepted(&mut rest, true)?,
            SETTLED => {
                let (id, expires_ms) = (TokenId(rest.array()?), rest.number()?);
                let outcome = match rest.byte()? {
                    DELIVERED => NoticeEnd::Delivered,
                    GIVEN_UP => NoticeEnd::GivenUp,
                    UNTOLD => NoticeEnd::Untold,
                    other => return Err(JournalDecodeError::Outcome(other)),
                };
                Self::Settled { id, expires_ms, outcome }
            }
            CHECKPOINT => Self::Checkpoint { needed_from: rest.number()? },
            other => return Err(JournalDecodeError::Type(other)),
        };
        if rest.0.is_empty() { Ok(record) } else { Err(JournalDecodeError::Trailing) }
    }

    fn decode_accepted(
        rest: &mut UnreadBytes<'_>,
        is_reserved: bool,
    ) -> Result<Self, JournalDecodeError> {
        let id = TokenId(rest.array()?);
        let (accepted_ms, expires_ms) = (rest.number()?, rest.number()?);
        let reservation = match is_reserved {
            true => {
                let reservation = Reservation::from_bytes(&rest.array()?);
                Some(reservation.ok_or(JournalDecodeError::Reservation)?)
            }
            false => None,
        };
        let notice = match rest.byte()? {
            0 => None,
            dsp_bytes => Some(Arc::new(decode_notice(rest, dsp_bytes)?)),
        };
        Ok(Self::Accepted { id, accepted_ms, expires_ms, notice, reservation })
    }
}

fn encode_notice(notice: &Notice, out: &mut Vec<u8>) {
    let dsp = u8::try_from(notice.dsp().len()).expect("a DSP's id is bounded");
    out.push(dsp);
    out.extend_from_slice(notice.dsp().as_bytes());
    let forwarded = notice.forwarded();
    let ip = forwarded.ip().unwrap_or_default();
    for text in [notice.url(), ip, forwarded.user_agent().unwrap_or_default()] {
        let length = u16::try_from(text.len()).expect("URLs and headers are bounded");
        out.extend_from_slice(&length.to_le_bytes());
        out.extend_from_slice(text.as_bytes());
    }
}

fn decode_notice(rest: &mut UnreadBytes<'_>, dsp_bytes: u8) -> Result<Notice, JournalDecodeError> {
    let dsp = Arc::from(rest.text(usize::from(dsp_bytes))?);
    let url = rest.long_text()?.to_owned();
    let [ip, user_agent] = [rest.long_text()?, rest.long_text()?];
    let header = |text| Some(text).filter(|text: &&str| !text.is_empty());
    let forwarded = ForwardedDevice::new(header(ip), header(user_agent));
    // No writer adds bytes after the last field.
    let kept = [forwarded.ip().unwrap_or_default(), forwarded.user_agent().unwrap_or_default()];
    if kept != [ip, user_agent] {
        return Err(JournalDecodeError::Notice);
    }
    Notice::new(dsp, url, forwarded).map_err(|_| JournalDecodeError::Notice)
}

struct UnreadBytes<'a>(&'a [u8]);

impl<'a> UnreadBytes<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], JournalDecodeError> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(JournalDecodeError::Truncated)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], JournalDecodeError> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(JournalDecodeError::Truncated)?;
        self.0 = rest;
        Ok(*taken)
    }

    fn byte(&mut self) -> Result<u8, JournalDecodeError> {
        self.array().map(|[byte]| byte)
    }

    fn number(&mut self) -> Result<u64, JournalDecodeError> {
        self.array().map(u64::from_le_bytes)
    }

    fn text(&mut self, length: usize) -> Result<&'a str, JournalDecodeError> {
        std::str::from_utf8(self.take(length)?).map_err(|_| JournalDecodeError::Text)
    }

    fn long_text(&mut self) -> Result<&'a str, JournalDecodeError> {
        let length = self.array().map(u16::from_le_bytes)?;
        self.text(usize::from(length))
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) enum RecordPurpose {
    Accepted(TokenId, Option<Reservation>),
    Settled(TokenId),
    /// A rewritten record, so that old segments can be deleted.
    Moved(TokenId),
    Checkpoint,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct PendingRecord {
    pub(super) purpose: RecordPurpose,
    /// A lower bound of its sequence, exclusive.
    pub(super) after: u64,
}
