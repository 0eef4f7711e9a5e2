//! Code lists that OpenRTB 2.6 takes from AdCOM 1.0 and OpenRTB 3.0.

use strum::{IntoStaticStr, VariantArray};

/// No-bid reasons that the exchange gives its callers (OpenRTB 3.0, list: No-Bid Reason Codes).
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum NoBidReason {
    /// Nobody bid, or no bid was good enough.
    #[strum(serialize = "no_bid")]
    Unknown,
    /// The exchange failed.
    TechnicalError,
    /// The request is refused.
    InvalidRequest,
    /// The publisher is blocked by configuration.
    BlockedPublisher,
    /// `tmax` leaves no time for an auction.
    #[strum(serialize = "insufficient_time")]
    InsufficientAuctionTime,
    /// No DSP may be asked for any impression of this request (exchange-specific).
    NoEligibleDsp,
    /// None of the currencies in `cur` has a rate (exchange-specific).
    NoCurrency,
    /// The exchange has no time for the request (exchange-specific).
    Overloaded,
    /// Data that the exchange requires about the request is not known (exchange-specific).
    DataUnknown,
}

units::labelled!(NoBidReason);

impl NoBidReason {
    /// The value of `nbr`.
    pub const fn code(self) -> u32 {
        match self {
            Self::Unknown => 0,
            Self::TechnicalError => 1,
            Self::InvalidRequest => 2,
            Self::BlockedPublisher => 7,
            Self::InsufficientAuctionTime => 14,
            Self::NoEligibleDsp => 500,
            Self::NoCurrency => 501,
            Self::Overloaded => 502,
            Self::DataUnknown => 503,
        }
    }
}

/// Kind of markup: what an impression takes, or what a bid brings (`bid.mtype`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum MediaType {
    /// 1
    Banner,
    /// 2
    Video,
    /// 3
    Audio,
    /// 4
    Native,
}

units::labelled!(MediaType);

impl MediaType {
    /// From `bid.mtype`.
    pub const fn from_code(code: u32) -> Option<Self> {
        match code {
            1 => Some(Self::Banner),
            2 => Some(Self::Video),
            3 => Some(Self::Audio),
            4 => Some(Self::Native),
            _ => None,
        }
    }

    /// A set with this one member.
    pub const fn bit(self) -> u8 {
        1 << self as u8
    }

    /// The members of a set of bits, in code order.
    pub fn members(set: u8) -> impl Iterator<Item = Self> + Clone {
        Self::ALL.into_iter().filter(move |media_type| set & media_type.bit() != 0)
    }

    /// The single member of a set. None if it has none or several.
    pub fn only(set: u8) -> Option<Self> {
        let mut members = Self::members(set);
        members.next().filter(|_| members.next().is_none())
    }
}
