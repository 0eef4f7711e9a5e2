//! What a simulated DSP gets wrong in bid responses: the kinds and their limits. How the bytes come
//! about is `faulty_answer`'s.

use crate::server;
use crate::server::ContentFault;

/// Deepest nesting that can be asked for.
pub const LEVELS_MAX: usize = 8 * 1024 * 1024;

/// What a DSP does, and to how many of its bid requests.
pub type DspBehaviour = server::ServerBehaviour<BidFault>;

/// What a DSP does with one bid request.
pub type DspAct = server::ServerAct<BidFault>;

/// Behaviours of a DSP one after another.
pub type DspSchedule = server::ServerSchedule<BidFault>;

/// One behaviour of a DSP for a time.
pub type DspPhase = server::ServerPhase<BidFault>;

/// What is wrong with a bid response. It comes whatever the profile's share of bids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BidFault {
    /// The body is not an OpenRTB response.
    Malformed {
        /// In which way. None draws one by request.
        how: Option<Garble>,
    },
    /// The body is huge and begins like a response.
    Huge {
        /// Length, declared in the head. None sends chunks without end.
        bytes: Option<u64>,
    },
    /// Arrays are nested this deep, all of them closed.
    Deep {
        /// How many.
        levels: usize,
    },
    /// The response's `id` is not the request's.
    WrongId,
    /// The bids are on impressions that were not offered.
    WrongImp,
    /// The currency is the response's own.
    WrongCurrency {
        /// Three capital letters.
        code: String,
    },
}

/// Ways in which a body is not an OpenRTB response.
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
    /// A price that is not a number.
    Number,
    /// A string with an escape that JSON does not know.
    Escape,
}

impl Garble {
    /// Every way, as [`BidFault::Malformed`] draws from them.
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
