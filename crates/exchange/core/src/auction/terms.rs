//! The terms of an impression and of a deal in one auction, and how prices convert between them.

use openrtb::{Deal, Imp, Text};
use strum::{FromRepr, IntoStaticStr, VariantArray};
use units::{Cpm, Currency, Multiplier, Ppm, Ratio, Rounding};

use super::lists::{DomainList, SortedList};
use super::steps::Steps;
use crate::market::{DealTerms, FloorRule};

/// How a winner's price is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromRepr, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
#[repr(u8)]
pub enum AuctionType {
    /// The bid itself.
    FirstPrice = 1,
    /// What the next best would have paid, and the increment.
    SecondPrice = 2,
    /// The deal's agreed price.
    Agreed = 3,
}

units::labelled!(AuctionType);

/// An impression with its floors in the auction's currency.
#[derive(Debug)]
pub(crate) struct ImpTerms<'a> {
    pub(crate) imp: &'a Imp<'a>,
    pub(crate) id: &'a str,
    /// Whether a rate is configured for the currency of its floors. Without one no bid can be held
    /// to them, and the impression is not sold.
    pub(crate) has_rate: bool,
    /// From the currency of its floors to the auction's.
    pub(crate) rate: Ratio,
    pub(crate) floor_currency: Currency,
    /// What DSPs must pay for `imp.bidfloor` to be left.
    pub(crate) floor: Cpm,
    /// Rules for this publisher and country, with the floor that DSPs must pay.
    pub(crate) rules: Vec<(&'a FloorRule, Cpm)>,
    pub(crate) fee: Ppm,
    pub(crate) multiplier: Multiplier,
    /// Position of its first deal among the auction's.
    pub(crate) deals_start: usize,
}

/// A deal on one impression.
#[derive(Debug)]
pub(crate) struct AuctionDeal<'a> {
    pub(crate) deal: &'a Deal<'a>,
    pub(crate) id: &'a str,
    pub(crate) terms: Option<&'a DealTerms>,
    pub(crate) auction_type: AuctionType,
    /// As of its impression: without a rate the deal is offered to nobody.
    pub(crate) has_rate: bool,
    /// From the currency of its floors to the auction's.
    pub(crate) rate: Ratio,
    pub(crate) fee: Ppm,
    /// Higher beats lower; open bids have 0.
    pub(crate) class: u8,
    pub(crate) wseat: SortedList,
    pub(crate) wadomain: DomainList,
}

impl AuctionDeal<'_> {
    /// Seats that may use the deal; empty: any.
    pub(crate) fn seats(&self) -> &[Text<'_>] {
        self.deal.wseat.as_deref().unwrap_or_default()
    }

    /// Whether `seat` may use the deal.
    pub(crate) fn admits_seat(&self, seat: &str, steps: &Steps) -> bool {
        let wseat = self.seats();
        wseat.is_empty() || self.wseat.has(wseat, seat, steps)
    }

    /// Whether an advertiser of these domains may use the deal: any of them may be shown.
    pub(crate) fn admits_domains(&self, domains: &[Text<'_>], steps: &Steps) -> bool {
        let wadomain = self.deal.wadomain.as_deref().unwrap_or_default();
        let is_welcome = |domain: &Text<'_>| self.wadomain.has(wadomain, domain, steps);
        wadomain.is_empty() || (!domains.is_empty() && domains.iter().all(is_welcome))
    }

    pub(crate) fn prepare_lists(&self, steps: &Steps) -> bool {
        let wadomain = self.deal.wadomain.as_deref().unwrap_or_default();
        self.wseat.prepare(self.seats(), steps) || self.wadomain.prepare(wadomain, steps)
    }
}

/// What DSPs must pay for `net` to be left, in the auction's currency.
pub(crate) fn gross(net: Cpm, rate: Ratio, fee: Ppm) -> Option<Cpm> {
    fee.added_to(rate.convert(net, Rounding::Up)?)
}

/// A floor that cannot be expressed, for which no bid is enough.
const BEYOND: Cpm = Cpm::MAX;

pub(crate) fn or_beyond(floor: Option<Cpm>) -> Cpm {
    floor.unwrap_or(BEYOND)
}

/// Whether `worth` is enough for `floor`.
pub(crate) fn reaches(worth: Cpm, floor: Cpm) -> bool {
    worth >= floor && floor < BEYOND
}

/// `amount` of the auction's currency in the currency that `rate` converts from: the least that,
/// converted as bids are, makes `amount` again.
pub(crate) fn back(amount: Cpm, rate: Ratio) -> Cpm {
    or_beyond(rate.inverse().convert(amount, Rounding::Up))
}
