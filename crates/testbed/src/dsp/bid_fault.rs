//! The faults of a simulated DSP's bid responses, and their limits. `faulty_answer` writes the
//! bytes.

use crate::server;
use crate::server::ContentFault;

/// Deepest nesting.
pub const LEVELS_MAX: usize = 8 * 1024 * 1024;

/// What a DSP does, and to how many of its bid requests.
pub type DspBehaviour = server::ServerBehaviour<BidFault>;

/// What a DSP does with one bid request.
pub type DspAct = server::ServerAct<BidFault>;

/// Behaviours of a DSP one after another.
pub type DspSchedule = server::ServerSchedule<BidFault>;

/// One behaviour of a DSP for a time.
pub type DspPhase = server::ServerPhase<BidFault>;

/// A fault of a bid response. It occurs regardless of the profile's share of bids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BidFault {
    /// The body is not an OpenRTB response.
    Malformed {
        /// The kind. None draws one per request.
        how: Option<Garble>,
    },
    /// The body is huge and begins like a response.
    Huge {
        /// Length, declared in the head. None sends chunks endlessly.
        bytes: Option<u64>,
    },
    /// Arrays are nested this deep, all of them closed.
    Deep {
        /// Number of levels.
        levels: usize,
    },
    /// The response's `id` is not the request's.
    WrongId,
    /// The bids are on impressions that were not offered.
    WrongImp,
    /// The response states another currency.
    WrongCurrency {
        /// Three capital letters.
        code: String,
    },
}

/// Ways in which a body is not an OpenRTB response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Garble {
    /// No bytes.
    Empty,
    /// A page of HTML.
    Html,
    /// JSON cut in the middle.
    Truncated,
    /// A response followed by more text.
    Trailing,
    /// Bytes in a string that are not UTF-8.
    Encoding,
    /// JSON with values of wrong types.
    Types,
    /// A price that is not a number.
    Number,
    /// A string with an unknown escape.
    Escape,
}

impl Garble {
    /// All kinds, from which [`BidFault::Malformed`] draws.
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

impl ContentFault for BidFault {
    fn problem(&self) -> Option<&'static str> {
        match self {
            Self::Deep { levels } if !(1..=LEVELS_MAX).contains(levels) => {
                Some("levels must be 1 to 8,388,608")
            }
            Self::WrongCurrency { code }
                if code.len() != 3 || !code.bytes().all(|byte| byte.is_ascii_uppercase()) =>
            {
                Some("a currency must be three capital letters")
            }
            _ => None,
        }
    }
}

impl From<BidFault> for DspAct {
    fn from(fault: BidFault) -> Self {
        Self::Content(fault)
    }
}

impl From<BidFault> for DspBehaviour {
    /// On every request.
    fn from(fault: BidFault) -> Self {
        DspAct::Content(fault).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_hold_at_their_edges() {
        let check = |fault: BidFault, want: Option<&str>| {
            let problem = fault.problem();
            assert_eq!(problem.is_some(), want.is_some(), "{fault:?}: {problem:?}");
            assert!(problem.unwrap_or_default().contains(want.unwrap_or_default()), "{problem:?}");
        };
        check(BidFault::Deep { levels: 0 }, Some("levels"));
        check(BidFault::Deep { levels: LEVELS_MAX }, None);
        check(BidFault::Deep { levels: LEVELS_MAX + 1 }, Some("levels"));
        check(BidFault::WrongCurrency { code: "eur".to_owned() }, Some("capital"));
    }
}
