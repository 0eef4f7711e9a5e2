//! Which number stands for what in a record: the rules' own enumerations beside those of `proto/`.

use events::v1;
use events::{Malformed, Varint};

use crate::record::{CallOutcome, Ending};
use crate::{AuctionType, BidsReturned, Fate, NotAsked, NoticeMode, ResponseFate};

/// What has a number in records.
pub(super) trait Coded: Copy + 'static {
    /// All there are.
    const ALL: &'static [Self];

    /// The number, as the schema's type has it.
    fn wire(self) -> i32;

    /// The number, which never changes; never 0.
    fn number(self) -> u64 {
        self.wire().cast_unsigned().into()
    }

    fn read(field: Varint) -> Result<Self, Malformed> {
        field.known(|number| {
            // Most numbers were given in their order.
            let at = usize::try_from(number).ok()?.checked_sub(1)?;
            let own = Self::ALL.get(at).filter(|known| known.number() == number);
            own.or_else(|| Self::ALL.iter().find(|known| known.number() == number)).copied()
        })
    }
}

impl Coded for Fate {
    const ALL: &'static [Self] = &Self::ALL;

    fn wire(self) -> i32 {
        use v1::Fate as Wire;
        let wire = match self {
            Self::WrongAuction => Wire::WrongAuction,
            Self::CurrencyNotAccepted => Wire::CurrencyNotAccepted,
            Self::Malformed => Wire::Malformed,
            Self::NoPrice => Wire::NoPrice,
            Self::BadPrice => Wire::BadPrice,
            Self::NoMarkup => Wire::NoMarkup,
            Self::NoCreativeId => Wire::NoCreativeId,
            Self::UnknownImp => Wire::UnknownImp,
            Self::DuplicateBid => Wire::DuplicateBid,
            Self::SeatUndeclared => Wire::SeatUndeclared,
            Self::SeatNotAllowed => Wire::SeatNotAllowed,
            Self::SeatBlocked => Wire::SeatBlocked,
            Self::DealUnknown => Wire::DealUnknown,
            Self::DealNotOffered => Wire::DealNotOffered,
            Self::DealSeat => Wire::DealSeat,
            Self::DealAdvertiser => Wire::DealAdvertiser,
            Self::PrivateAuction => Wire::PrivateAuction,
            Self::Size => Wire::Size,
            Self::Format => Wire::Format,
            Self::Protocol => Wire::Protocol,
            Self::Api => Wire::Api,
            Self::Duration => Wire::Duration,
            Self::Insecure => Wire::Insecure,
            Self::Language => Wire::Language,
            Self::Advertiser => Wire::Advertiser,
            Self::Category => Wire::Category,
            Self::Attribute => Wire::Attribute,
            Self::AdType => Wire::AdType,
            Self::AppBundle => Wire::AppBundle,
            Self::BelowFloor => Wire::BelowFloor,
            Self::BelowDealFloor => Wire::BelowDealFloor,
            Self::BudgetExhausted => Wire::BudgetExhausted,
            Self::GroupIncomplete => Wire::GroupIncomplete,
            Self::LostToHigherBid => Wire::LostToHigherBid,
            Self::LostToDeal => Wire::LostToDeal,
            Self::Offered => Wire::Offered,
            Self::Won => Wire::Won,
        };
        wire as i32
    }
}

impl Coded for NotAsked {
    const ALL: &'static [Self] = &Self::ALL;

    fn wire(self) -> i32 {
        use v1::NotAskedReason as Wire;
        let wire = match self {
            Self::Publisher => Wire::Publisher,
            Self::Country => Wire::Country,
            Self::Device => Wire::Device,
            Self::UserId => Wire::UserId,
            Self::Sampling => Wire::Sampling,
            Self::Seats => Wire::Seats,
            Self::Impressions => Wire::Impressions,
            Self::Paused => Wire::Paused,
            Self::Breaker => Wire::Breaker,
            Self::Qps => Wire::Qps,
            Self::InFlight => Wire::InFlight,
        };
        wire as i32
    }
}

impl Coded for ResponseFate {
    const ALL: &'static [Self] = &[Self::Malformed, Self::TooManyBids, Self::NoBid, Self::Bids];

    fn wire(self) -> i32 {
        use v1::ResponseFate as Wire;
        let wire = match self {
            Self::Malformed => Wire::Malformed,
            Self::TooManyBids => Wire::TooManyBids,
            Self::NoBid => Wire::NoBid,
            Self::Bids => Wire::Bids,
        };
        wire as i32
    }
}

impl Coded for AuctionType {
    const ALL: &'static [Self] = &[Self::FirstPrice, Self::SecondPrice, Self::Agreed];

    fn wire(self) -> i32 {
        use v1::AuctionType as Wire;
        let wire = match self {
            Self::FirstPrice => Wire::FirstPrice,
            Self::SecondPrice => Wire::SecondPrice,
            Self::Agreed => Wire::Agreed,
        };
        wire as i32
    }
}

impl Coded for NoticeMode {
    const ALL: &'static [Self] = &[Self::PassThrough, Self::Final, Self::Upstream];

    fn wire(self) -> i32 {
        use v1::NoticeMode as Wire;
        let wire = match self {
            Self::PassThrough => Wire::PassThrough,
            Self::Final => Wire::Final,
            Self::Upstream => Wire::Upstream,
        };
        wire as i32
    }
}

impl Coded for BidsReturned {
    const ALL: &'static [Self] = &[Self::Winner, Self::All];

    fn wire(self) -> i32 {
        use v1::BidsReturned as Wire;
        let wire = match self {
            Self::Winner => Wire::Winner,
            Self::All => Wire::All,
        };
        wire as i32
    }
}

impl Coded for Ending {
    const ALL: &'static [Self] = &[Self::Filled, Self::NoBid, Self::Refused, Self::Abandoned];

    fn wire(self) -> i32 {
        self as i32
    }
}

impl Coded for CallOutcome {
    const ALL: &'static [Self] = &[
        Self::Answered,
        Self::NoBid,
        Self::Late,
        Self::Status,
        Self::Malformed,
        Self::TooLarge,
        Self::Encoded,
        Self::Trickle,
        Self::Reset,
        Self::Unreachable,
        Self::Unresolved,
        Self::Saturated,
        Self::Unsent,
        Self::Abandoned,
    ];

    fn wire(self) -> i32 {
        self as i32
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Debug;

    use events::{Reader, Writer};

    use super::*;

    /// Each has a number of its own that reads as it, and there is no number that nothing has.
    fn check<T, W>()
    where
        T: Coded + PartialEq + Debug,
        W: TryFrom<i32>,
    {
        let of_schema = (1..1000).filter(|code| W::try_from(*code).is_ok()).count();
        assert_eq!(T::ALL.len(), of_schema, "as many as in the schema");
        for coded in T::ALL {
            let mut out = Vec::new();
            Writer::new(&mut out).uint(1, coded.number());
            assert_eq!(Reader::new(&out).take(1, T::read), Ok(Some(*coded)));
        }
        let mut out = Vec::new();
        Writer::new(&mut out).uint(1, 999);
        assert!(Reader::new(&out).take(1, T::read).is_err());
    }

    #[test]
    fn numbers_are_the_schema_s() {
        check::<Fate, v1::Fate>();
        check::<NotAsked, v1::NotAskedReason>();
        check::<ResponseFate, v1::ResponseFate>();
        check::<AuctionType, v1::AuctionType>();
        check::<NoticeMode, v1::NoticeMode>();
        check::<BidsReturned, v1::BidsReturned>();
        check::<Ending, Ending>();
        check::<CallOutcome, CallOutcome>();
    }
}
