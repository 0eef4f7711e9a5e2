//! The terms of impressions and deals in one auction, and conversion of their prices.

use std::ops::Range;

use openrtb::{Deal, Imp, Text};
use strum::{FromRepr, IntoStaticStr, VariantArray};
use units::{Cpm, Currency, Multiplier, Ppm, Ratio, Rounding};

use super::lists::{DomainList, SortedList};
use super::steps::Steps;
use crate::market::{DealTerms, FloorRule};

/// How a winner's price is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromRepr, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
#[repr(u8)]
pub enum AuctionType {
    /// The bid itself.
    FirstPrice = 1,
    /// The next best bid plus the increment.
    SecondPrice = 2,
    /// The deal's agreed price.
    Agreed = 3,
}

units::labelled!(AuctionType);

#[derive(Debug)]
pub(crate) struct ImpTerms<'a> {
    pub(crate) imp: &'a Imp<'a>,
    pub(crate) id: &'a str,
    /// Whether the currency of its floors has a rate. Otherwise the impression is not sold.
    pub(crate) has_rate: bool,
    /// From the currency of its floors to the auction's.
    pub(crate) rate: Ratio,
    pub(crate) floor_currency: Currency,
    /// The floor for DSPs at which the publisher nets `imp.bidfloor`.
    pub(crate) floor: Cpm,
    pub(crate) rules: Vec<(&'a FloorRule, Cpm)>,
    pub(crate) fee: Ppm,
    pub(crate) multiplier: Multiplier,
    pub(crate) deals_start: usize,
    /// Its sold deals, by position, behind those of all impressions.
    pub(crate) sold: Range<usize>,
}

impl ImpTerms<'_> {
    /// Its deals by position: the request's, then sold ones.
    pub(crate) fn deals(&self) -> impl Iterator<Item = usize> + Clone + use<> {
        let of_request = self.deals_start..self.deals_start + self.imp.deals().len();
        of_request.chain(self.sold.clone())
    }
}

#[derive(Debug)]
pub(crate) struct AuctionDeal<'a> {
    pub(crate) deal: &'a Deal<'a>,
    pub(crate) id: &'a str,
    pub(crate) terms: Option<&'a DealTerms>,
    /// Its position among the market's sold deals. None for a deal of the request.
    pub(crate) sold: Option<usize>,
    /// Whether it is a deal of the request that is sold, so that nobody else may have it.
    pub(crate) is_withheld: bool,
    pub(crate) auction_type: AuctionType,
    /// Whether the currency of its floor has a rate. Otherwise the deal is not offered.
    pub(crate) has_rate: bool,
    pub(crate) rate: Ratio,
    pub(crate) fee: Ppm,
    pub(crate) class: u8,
    pub(crate) wseat: SortedList,
    pub(crate) wadomain: DomainList,
}

impl AuctionDeal<'_> {
    /// Seats that may use the deal. Empty if any.
    pub(crate) fn seats(&self) -> &[Text<'_>] {
        self.deal.wseat.as_deref().unwrap_or_default()
    }

    pub(crate) fn admits_seat(&self, seat: &str, steps: &Steps) -> bool {
        let wseat = self.seats();
        wseat.is_empty() || self.wseat.has(wseat, seat, steps)
    }

    /// Whether an advertiser with these domains, any of which may be shown, may use the deal.
    pub(crate) fn admits_domains(&self, domains: &[Text<'_>], steps: &Steps) -> bool {
        let wadomain = self.deal.wadomain.as_deref().unwrap_or_default();
        let is_welcome = |domain: &Text<'_>| self.wadomain.has(wadomain, domain, steps);
        wadomain.is_empty() || (!domains.is_empty() && domains.iter().all(is_welcome))
    }

    pub(crate) fn sort_next_list(&self, steps: &Steps) -> bool {
        let wadomain = self.deal.wadomain.as_deref().unwrap_or_default();
        self.wseat.sort_if_long(self.seats(), steps) || self.wadomain.sort_if_long(wadomain, steps)
    }
}

/// The price for DSPs at which the publisher nets `net`, in the auction's currency.
pub(crate) fn gross(net: Cpm, rate: Ratio, fee: Ppm) -> Option<Cpm> {
    fee.added_to(rate.convert(net, Rounding::Up)?)
}

/// Replaces a floor too high for a price; no bid reaches it.
const BEYOND: Cpm = Cpm::MAX;

pub(crate) fn or_max(floor: Option<Cpm>) -> Cpm {
    floor.unwrap_or(BEYOND)
}

pub(crate) fn reaches(worth: Cpm, floor: Cpm) -> bool {
    worth >= floor && floor < BEYOND
}

/// The lowest price in the currency from which `rate` converts that converts to `amount` as a bid.
pub(crate) fn convert_back(amount: Cpm, rate: Ratio) -> Cpm {
    or_max(rate.inverse().convert(amount, Rounding::Up))
}
