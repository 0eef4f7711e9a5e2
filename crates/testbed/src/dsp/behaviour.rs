//! What a simulated DSP does with bid requests in place of answering as it should: the kinds,
//! their knobs and limits, and which requests they fall on. How the bytes come about is
//! `sickness`'s; when one behaviour follows another is `schedule`'s.

use std::time::Duration;

use super::profile::LATENCY_MAX;
use crate::draws::PPM;

/// Most bytes that a compressed bomb inflates to.
pub const BOMB_BYTES_MAX: usize = 1024 * 1024 * 1024;

/// Deepest nesting that can be asked for.
pub const LEVELS_MAX: usize = 8 * 1024 * 1024;

/// Most interim answers that can be asked for; without a number they never end.
pub const INTERIM_MAX: u32 = 100_000;

/// Longest body of [`Act::Status`] that can be asked for, in bytes.
pub const STATUS_BODY_MAX: usize = 1024 * 1024;

/// What a DSP does, and to how many of its bid requests; the others are answered as its profile
/// has it. Which ones depends on seed and request id, never on time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Behaviour {
    /// What it does.
    pub act: Act,
    /// Share of bid requests that it falls on, in parts per million.
    pub share_ppm: u32,
}

/// What a DSP does with one bid request. Unless told otherwise, an answer takes the latency of the
/// profile; those that spoil a bid answer (trickle, close, reset, wrong …, chunked, bad gzip) bid
/// whatever the profile's share of bids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// Answers as the profile has it.
    Healthy,
    /// Answers with a status, and goes on.
    Status {
        /// 200 to 599.
        code: u16,
        /// As `text/plain`; empty for 204 and 304, which have none.
        body: String,
    },
    /// Reads the request and never answers; the connection stays until the peer closes it.
    Hang,
    /// Sends a bid answer piece by piece.
    Trickle {
        /// Bytes of each piece.
        bytes: usize,
        /// Pause between pieces, at least 1 ms.
        every: Duration,
        /// Where the dripping begins.
        from: DripFrom,
    },
    /// Closes the connection in an orderly way before the answer is whole.
    Close {
        /// How far the answer comes.
        at: Cut,
    },
    /// Resets the connection (RST) before the answer is whole.
    Reset {
        /// How far the answer comes.
        at: Cut,
    },
    /// Sends bytes that are not HTTP, and closes.
    Garbage,
    /// Answers 200 with a body that is no OpenRTB response.
    Malformed {
        /// In which way; `None` draws one by request.
        how: Option<Garble>,
    },
    /// Answers 200 with a huge body that begins like a response.
    Huge {
        /// Length, declared in the head; `None` sends chunks without end.
        bytes: Option<u64>,
    },
    /// Answers 200 with arrays nested this deep, all of them closed.
    Deep {
        /// How many.
        levels: usize,
    },
    /// Bids in a response whose `id` is not the request's.
    WrongId,
    /// Bids on impressions that were not offered.
    WrongImp,
    /// States a currency of its own.
    WrongCurrency {
        /// Three capital letters.
        code: String,
    },
    /// Answers as the profile has it, after this time.
    Late {
        /// From request to answer.
        by: Duration,
    },
    /// The port refuses connections, and those that were open are closed. Falls on all or none.
    Refused,
    /// Answers as the profile has it, with the body gzipped.
    Gzip {
        /// Also when the request does not say `accept-encoding: gzip`.
        always: bool,
    },
    /// Answers 200 with a gzip of a thousandth of its inflated size, asked for or not.
    GzipBomb {
        /// Inflated size, in bytes.
        inflated: usize,
    },
    /// Bids in a gzip that is cut off, altered, or none at all, as drawn by request.
    BadGzip,
    /// Bids in chunks.
    Chunked {
        /// Bytes of each chunk.
        bytes: usize,
    },
    /// Answers with a redirect.
    Redirect {
        /// 300 to 399.
        code: u16,
        /// The location; `None` is another path of the DSP itself.
        to: Option<String>,
    },
    /// Sends interim answers before the one of the profile.
    Interim {
        /// 100 to 199 without 101.
        code: u16,
        /// How many; `None` never ends, and the answer never comes.
        count: Option<u32>,
    },
    /// Answers as the profile has it, then closes the connection.
    Closing {
        /// Whether the answer says `connection: close`.
        announced: bool,
    },
}

/// How far an answer comes before its connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// Not a byte of it.
    Before,
    /// Half of the head.
    Head,
    /// The head and half of the body.
    Body,
}

/// Where a trickle begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DripFrom {
    /// With the first byte.
    Head,
    /// With the body; the head comes whole.
    Body,
}

/// Ways in which a body is no OpenRTB response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Garble {
    /// No byte at all.
    Empty,
    /// A page of HTML.
    Html,
    /// JSON that ends in its middle.
    Truncated,
    /// A response with more text behind it.
    Trailing,
    /// Bytes in a string that are not UTF-8.
    Encoding,
    /// JSON of other types.
    Types,
    /// A price that is no number.
    Number,
    /// A string with an escape that JSON does not know.
    Escape,
}

impl Garble {
    /// Every way, as [`Act::Malformed`] draws from them.
    pub const ALL: [Self; 8] = [
        Self::Empty,
        Self::Html,
        Self::Truncated,
        Self::Trailing,
        Self::Encoding,
        Self::Types,
        Self::Number,
        Self::Escape,
    ];
}

impl Behaviour {
    /// Every request is answered as the profile has it.
    pub const HEALTHY: Self = Self { act: Act::Healthy, share_ppm: PPM };

    /// What is wrong with this behaviour, if anything is.
    pub(crate) fn problem(&self) -> Option<&'static str> {
        if self.share_ppm > PPM {
            return Some("a share must not pass 1,000,000 parts per million");
        }
        if self.act == Act::Refused && self.share_ppm != PPM {
            return Some("a port refuses all connections or none: its share must be 100%");
        }
        self.act.problem()
    }

    /// Whether it changes anything.
    pub(super) fn is_healthy(&self) -> bool {
        self.act == Act::Healthy || self.share_ppm == 0
    }
}

impl From<Act> for Behaviour {
    /// On every request.
    fn from(act: Act) -> Self {
        Self { act, share_ppm: PPM }
    }
}

impl Act {
    fn problem(&self) -> Option<&'static str> {
        let when = |wrong: bool, problem| wrong.then_some(problem);
        match self {
            Self::Status { code, body } => {
                let bare = matches!(code, 204 | 304);
                when(!(200..=599).contains(code), "a status must be 200 to 599")
                    .or(when(body.len() > STATUS_BODY_MAX, "a status' body must not pass 1 MiB"))
                    .or(when(bare && !body.is_empty(), "204 and 304 have no body"))
            }
            Self::Trickle { bytes, every, .. } => when(*bytes == 0, "a piece needs a byte")
                .or(when(*every < Duration::from_millis(1), "pieces come at least 1 ms apart"))
                .or(when(*every > LATENCY_MAX, "pieces come at most 60 s apart")),
            Self::Deep { levels } => {
                when(!(1..=LEVELS_MAX).contains(levels), "levels must be 1 to 8,388,608")
            }
            Self::WrongCurrency { code } => {
                let bad = code.len() != 3 || !code.bytes().all(|byte| byte.is_ascii_uppercase());
                when(bad, "a currency must be three capital letters")
            }
            Self::Late { by } => when(by.is_zero(), "late answers need a time above zero")
                .or(when(*by > LATENCY_MAX, "no answer may take longer than 60 s")),
            Self::GzipBomb { inflated } => {
                when(*inflated > BOMB_BYTES_MAX, "a bomb inflates to at most 1 GiB")
            }
            Self::Chunked { bytes } => when(*bytes == 0, "a chunk needs a byte"),
            Self::Redirect { code, to } => {
                let plain = |to: &String| to.bytes().all(|byte| byte.is_ascii_graphic());
                when(!(300..=399).contains(code), "a redirect must be 300 to 399")
                    .or(when(!to.as_ref().is_none_or(plain), "a location must be visible ASCII"))
            }
            Self::Interim { code, count } => {
                let fits = (100..=199).contains(code) && *code != 101;
                when(!fits, "an interim status must be 100 to 199 without 101").or(when(
                    count.is_some_and(|count| count > INTERIM_MAX),
                    "at most 100,000 interim answers, or no number and no end",
                ))
            }
            Self::Healthy
            | Self::Hang
            | Self::Close { .. }
            | Self::Reset { .. }
            | Self::Garbage
            | Self::Malformed { .. }
            | Self::Huge { .. }
            | Self::WrongId
            | Self::WrongImp
            | Self::Refused
            | Self::Gzip { .. }
            | Self::BadGzip
            | Self::Closing { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_hold_at_their_edges() {
        let check = |act: Act, want: Option<&str>| {
            let problem = Behaviour::from(act.clone()).problem();
            assert_eq!(problem.is_some(), want.is_some(), "{act:?}: {problem:?}");
            if let (Some(problem), Some(want)) = (problem, want) {
                assert!(problem.contains(want), "{problem}");
            }
        };
        let ms = Duration::from_millis;
        let status = |code, body: &str| Act::Status { code, body: body.to_owned() };
        check(status(200, "x"), None);
        check(status(599, ""), None);
        check(status(199, ""), Some("200 to 599"));
        check(status(600, ""), Some("200 to 599"));
        check(status(204, ""), None);
        check(status(204, "x"), Some("no body"));
        check(status(500, &"x".repeat(STATUS_BODY_MAX + 1)), Some("1 MiB"));
        let trickle = |bytes, every| Act::Trickle { bytes, every, from: DripFrom::Head };
        check(trickle(1, ms(1)), None);
        check(trickle(0, ms(1)), Some("needs a byte"));
        check(trickle(1, Duration::from_micros(999)), Some("at least 1 ms"));
        check(trickle(1, LATENCY_MAX + ms(1)), Some("at most 60 s"));
        check(Act::Deep { levels: 0 }, Some("levels"));
        check(Act::Deep { levels: LEVELS_MAX }, None);
        check(Act::Deep { levels: LEVELS_MAX + 1 }, Some("levels"));
        check(Act::WrongCurrency { code: "eur".to_owned() }, Some("capital"));
        check(Act::Late { by: Duration::ZERO }, Some("above zero"));
        check(Act::Late { by: LATENCY_MAX + ms(1) }, Some("60 s"));
        check(Act::GzipBomb { inflated: BOMB_BYTES_MAX }, None);
        check(Act::GzipBomb { inflated: BOMB_BYTES_MAX + 1 }, Some("1 GiB"));
        check(Act::Chunked { bytes: 0 }, Some("needs a byte"));
        check(Act::Redirect { code: 400, to: None }, Some("300 to 399"));
        check(Act::Redirect { code: 302, to: Some("a\r\nb".to_owned()) }, Some("visible"));
        check(Act::Interim { code: 101, count: None }, Some("without 101"));
        check(Act::Interim { code: 100, count: Some(INTERIM_MAX) }, None);
        check(Act::Interim { code: 100, count: Some(INTERIM_MAX + 1) }, Some("100,000"));
    }

    #[test]
    fn shares_are_limited_and_a_port_refuses_all_or_none() {
        let share = |act, share_ppm| Behaviour { act, share_ppm }.problem();
        assert!(share(Act::Hang, PPM).is_none() && share(Act::Hang, PPM + 1).is_some());
        assert!(share(Act::Refused, PPM).is_none() && share(Act::Refused, PPM - 1).is_some());
        assert!(Behaviour { act: Act::Hang, share_ppm: 0 }.is_healthy());
        assert!(Behaviour::HEALTHY.is_healthy() && !Behaviour::from(Act::Hang).is_healthy());
    }
}
