//! The fate of a bid, exactly one each. Order is precedence; numbers of records never change.

use strum::{FromRepr, IntoStaticStr, VariantArray};

/// The fate of a bid, with its loss code (OpenRTB 3.0, list: Loss Reason Codes).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, FromRepr, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
#[repr(u8)]
pub enum Fate {
    /// The response is for another auction.
    WrongAuction = 1,
    /// The response's currency is not one the DSP may bid in.
    CurrencyNotAccepted = 2,
    /// The bid is not JSON of the right types, lacks an id, or has longer lists than any creative.
    Malformed = 3,
    /// No price.
    NoPrice = 4,
    /// A price that is not a number above zero, or too high for a price.
    BadPrice = 5,
    /// No markup, inline or otherwise.
    NoMarkup = 6,
    /// No creative id, where one is required.
    NoCreativeId = 7,
    /// For an impression that was not offered.
    UnknownImp = 8,
    /// A bid id that occurs earlier in the response.
    DuplicateBid = 9,
    /// For a seat that the DSP has not declared.
    SeatUndeclared = 10,
    /// The seat is not in `wseat`.
    SeatNotAllowed = 11,
    /// The seat is in `bseat`.
    SeatBlocked = 12,
    /// Under a deal that the impression does not have.
    DealUnknown = 13,
    /// Under a deal that was not offered to the DSP.
    DealNotOffered = 14,
    /// The seat is not in the deal's `wseat`.
    DealSeat = 15,
    /// The advertiser is not in the deal's `wadomain`.
    DealAdvertiser = 16,
    /// An open bid in a private auction.
    PrivateAuction = 17,
    /// A size that was not offered.
    Size = 18,
    /// A format that was not offered, does not match the markup, or cannot be determined.
    Format = 19,
    /// A video or audio protocol that the player does not support.
    Protocol = 35,
    /// Only API frameworks that the player does not support.
    Api = 36,
    /// Shorter or longer than the player allows.
    Duration = 37,
    /// Insecure markup where HTTPS is required.
    Insecure = 20,
    /// A language that is not allowed.
    Language = 21,
    /// A blocked advertiser.
    Advertiser = 22,
    /// A blocked category, or none of the allowed ones.
    Category = 23,
    /// A blocked creative attribute.
    Attribute = 24,
    /// A blocked banner ad type.
    AdType = 25,
    /// A blocked application.
    AppBundle = 26,
    /// Below the floor for open bids.
    BelowFloor = 27,
    /// Below the deal's floor, or its agreed price.
    BelowDealFloor = 28,
    /// The seat's account cannot pay.
    BudgetExhausted = 29,
    /// Its group did not win every impression it bid on.
    GroupIncomplete = 30,
    /// An open bid was higher.
    LostToHigherBid = 31,
    /// A bid under a deal took the impression.
    LostToDeal = 32,
    /// Returned with the winner, for the caller's auction to decide. It gets no notice unless the
    /// caller fires one. Its code is that of a win, because its markup is shown only if it wins.
    Offered = 33,
    /// Won.
    Won = 34,
}

units::labelled!(Fate);

impl Fate {
    /// The standard's loss code; ours start at 1000.
    pub const fn code(self) -> u32 {
        match self {
            Self::Offered | Self::Won => 0,
            Self::Malformed | Self::BadPrice | Self::UnknownImp | Self::DuplicateBid => 3,
            Self::DealUnknown | Self::DealNotOffered | Self::DealSeat | Self::PrivateAuction => 4,
            Self::WrongAuction => 5,
            Self::DealAdvertiser => 6,
            Self::NoMarkup => 7,
            Self::NoCreativeId => 8,
            Self::NoPrice => 9,
            Self::BelowFloor => 100,
            Self::BelowDealFloor => 101,
            Self::LostToHigherBid => 102,
            Self::LostToDeal => 103,
            Self::SeatUndeclared | Self::SeatNotAllowed | Self::SeatBlocked => 104,
            Self::Api | Self::Duration => 200,
            Self::Size => 203,
            Self::Format | Self::Protocol => 204,
            Self::Advertiser => 205,
            Self::AppBundle => 206,
            Self::Insecure => 207,
            Self::Language => 208,
            Self::Category => 209,
            Self::Attribute => 210,
            Self::AdType => 211,
            Self::BudgetExhausted => 1000,
            Self::GroupIncomplete => 1001,
            Self::CurrencyNotAccepted => 1002,
        }
    }

    /// Whether it took part in clearing: it passed every check of the bid alone.
    pub(crate) const fn took_part(self) -> bool {
        matches!(
            self,
            Self::BudgetExhausted
                | Self::GroupIncomplete
                | Self::LostToHigherBid
                | Self::LostToDeal
                | Self::Offered
                | Self::Won
        )
    }

    /// Whether it competed until prices were set: its account could pay, and its group was whole.
    pub(crate) const fn competed(self) -> bool {
        matches!(self.code(), 0 | 102 | 103) // Won or returned, outbid, lost to a deal.
    }

    /// Whether price decided: only then may a bidder learn the winning price (section 4.4.1).
    pub const fn by_price(self) -> bool {
        matches!(self.code(), 0 | 100..=103) // Also below a floor.
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_took_part_are_the_last() {
        let is_first = |fate: &Fate| *fate == Fate::BudgetExhausted;
        let first = Fate::ALL.iter().position(is_first).unwrap();
        assert!(Fate::ALL[..first].iter().all(|fate| !fate.took_part()));
        assert!(Fate::ALL[first..].iter().all(|fate| fate.took_part()));
    }
}
