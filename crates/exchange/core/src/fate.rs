//! What became of a bid. Each has exactly one fate; declaration order is precedence.

/// The fate of a bid, with the loss code that reports it (OpenRTB 3.0, list: Loss Reason Codes).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fate {
    /// The response is for another auction.
    WrongAuction,
    /// The response's currency is not one the DSP may bid in.
    CurrencyNotAccepted,
    /// The bid is no JSON of the right types, lacks an id, or lists more than any creative has.
    Malformed,
    /// No price.
    NoPrice,
    /// A price that is no number above zero, or beyond any price.
    BadPrice,
    /// No markup, inline or otherwise.
    NoMarkup,
    /// No creative id, where one is required.
    NoCreativeId,
    /// For an impression that was not offered.
    UnknownImp,
    /// A bid id that stands earlier in the response.
    DuplicateBid,
    /// For a seat that the DSP has not declared.
    SeatUndeclared,
    /// The seat is not in `wseat`.
    SeatNotAllowed,
    /// The seat is in `bseat`.
    SeatBlocked,
    /// Under a deal that the impression does not have.
    DealUnknown,
    /// Under a deal that was not offered to the DSP.
    DealNotOffered,
    /// The seat is not in the deal's `wseat`.
    DealSeat,
    /// The advertiser is not in the deal's `wadomain`.
    DealAdvertiser,
    /// An open bid in a private auction.
    PrivateAuction,
    /// A size that was not offered.
    Size,
    /// A format that was not offered, that its markup is not of, or that does not show.
    Format,
    /// A protocol of video or audio that the player does not take.
    Protocol,
    /// Only API frameworks that the player does not have.
    Api,
    /// Shorter or longer than the player takes.
    Duration,
    /// Insecure markup where HTTPS is required.
    Insecure,
    /// A language that is not welcome.
    Language,
    /// A blocked advertiser.
    Advertiser,
    /// A blocked category, or none of those allowed.
    Category,
    /// A blocked creative attribute.
    Attribute,
    /// A blocked banner ad type.
    AdType,
    /// A blocked application.
    AppBundle,
    /// Below the floor for open bids.
    BelowFloor,
    /// Below the deal's floor, or its agreed price.
    BelowDealFloor,
    /// The account behind the seat cannot pay.
    BudgetExhausted,
    /// Its group did not win every impression it bid on.
    GroupIncomplete,
    /// An open bid was higher.
    LostToHigherBid,
    /// A bid under a deal took the impression.
    LostToDeal,
    /// Returned beside the winner: whoever holds the next auction decides. Lost here to the winner,
    /// and yet no loser: nothing is told of it until the caller tells, and should its markup be
    /// shown, then because it has won. So its code is that of a win.
    Offered,
    /// Won.
    Won,
}

impl Fate {
    /// Every fate, in declaration order.
    pub const ALL: [Self; 37] = [
        Self::WrongAuction,
        Self::CurrencyNotAccepted,
        Self::Malformed,
        Self::NoPrice,
        Self::BadPrice,
        Self::NoMarkup,
        Self::NoCreativeId,
        Self::UnknownImp,
        Self::DuplicateBid,
        Self::SeatUndeclared,
        Self::SeatNotAllowed,
        Self::SeatBlocked,
        Self::DealUnknown,
        Self::DealNotOffered,
        Self::DealSeat,
        Self::DealAdvertiser,
        Self::PrivateAuction,
        Self::Size,
        Self::Format,
        Self::Protocol,
        Self::Api,
        Self::Duration,
        Self::Insecure,
        Self::Language,
        Self::Advertiser,
        Self::Category,
        Self::Attribute,
        Self::AdType,
        Self::AppBundle,
        Self::BelowFloor,
        Self::BelowDealFloor,
        Self::BudgetExhausted,
        Self::GroupIncomplete,
        Self::LostToHigherBid,
        Self::LostToDeal,
        Self::Offered,
        Self::Won,
    ];

    /// The standard's loss code; from 1000 on, ours.
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

    /// The metric label.
    pub const fn label(self) -> &'static str {
        match self {
            Self::WrongAuction => "wrong_auction",
            Self::CurrencyNotAccepted => "currency_not_accepted",
            Self::Malformed => "malformed",
            Self::NoPrice => "no_price",
            Self::BadPrice => "bad_price",
            Self::NoMarkup => "no_markup",
            Self::NoCreativeId => "no_creative_id",
            Self::UnknownImp => "unknown_imp",
            Self::DuplicateBid => "duplicate_bid",
            Self::SeatUndeclared => "seat_undeclared",
            Self::SeatNotAllowed => "seat_not_allowed",
            Self::SeatBlocked => "seat_blocked",
            Self::DealUnknown => "deal_unknown",
            Self::DealNotOffered => "deal_not_offered",
            Self::DealSeat => "deal_seat",
            Self::DealAdvertiser => "deal_advertiser",
            Self::PrivateAuction => "private_auction",
            Self::Size => "size",
            Self::Format => "format",
            Self::Protocol => "protocol",
            Self::Api => "api",
            Self::Duration => "duration",
            Self::Insecure => "insecure",
            Self::Language => "language",
            Self::Advertiser => "advertiser",
            Self::Category => "category",
            Self::Attribute => "attribute",
            Self::AdType => "ad_type",
            Self::AppBundle => "app_bundle",
            Self::BelowFloor => "below_floor",
            Self::BelowDealFloor => "below_deal_floor",
            Self::BudgetExhausted => "budget_exhausted",
            Self::GroupIncomplete => "group_incomplete",
            Self::LostToHigherBid => "lost_to_higher_bid",
            Self::LostToDeal => "lost_to_deal",
            Self::Offered => "offered",
            Self::Won => "won",
        }
    }

    /// Whether price decided: only then may a bidder learn what would have won (section 4.4.1).
    pub const fn by_price(self) -> bool {
        matches!(
            self,
            Self::Won
                | Self::BelowFloor
                | Self::BelowDealFloor
                | Self::LostToHigherBid
                | Self::LostToDeal
                | Self::Offered
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fates_are_listed_in_order_with_labels_of_their_own() {
        for (index, fate) in Fate::ALL.into_iter().enumerate() {
            assert_eq!(fate as usize, index);
            let labels = Fate::ALL.iter().filter(|other| other.label() == fate.label());
            assert_eq!(labels.count(), 1, "{fate:?}");
        }
    }
}
