//! Floors of bids (section 7.11).
//!
//! Floors in requests and configuration are the publisher's net; here they are what DSPs must pay,
//! in the auction's currency. A deal's agreed price includes our fee.

use openrtb::codes::MediaType;
use openrtb::{DurFloor, FloorPrice};
use units::{Cpm, Ppm, Rounding};

use super::duration::longest_seconds;
use super::terms::{AuctionDeal, AuctionType, ImpTerms, gross, or_max};
use crate::market::FloorRule;
use crate::market::size::AdSize;

#[derive(Clone, Copy, Debug)]
pub(crate) struct BidShape {
    pub(crate) format: MediaType,
    /// Banner size in DIPS, if given or implied.
    pub(crate) size: Option<AdSize>,
    /// Seconds of video or audio, if given.
    pub(crate) dur: Option<u32>,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DurationFloors<'a> {
    pub(crate) per_second: Option<FloorPrice<'a>>,
    pub(crate) by_duration: &'a [DurFloor<'a>],
    pub(crate) longest_seconds: Option<u32>,
}

impl DurationFloors<'_> {
    fn has_floor(&self) -> bool {
        self.per_second.is_some() || !self.by_duration.is_empty()
    }

    /// The floor for `dur` seconds, net and in its own currency. A bid without a duration, or with
    /// 0, gets the floor of the longest allowed one: omission must not be the cheapest.
    fn floor(&self, dur: Option<u32>) -> Option<Cpm> {
        let dur = dur.filter(|dur| *dur > 0);
        let seconds = dur.or(self.longest_seconds);
        let per_second = self.per_second.zip(seconds);
        let per_second = per_second.map(|(floor, seconds)| floor.amount.saturating_times(seconds));
        let ranges = self.by_duration.iter().filter(|range| match dur {
            Some(dur) => {
                range.mindur.is_none_or(|min| min <= dur)
                    && range.maxdur.is_none_or(|max| dur <= max)
            }
            None => true,
        });
        // Ranges may overlap (section 3.2.35); the highest matching floor applies.
        let by_duration =
            ranges.map(|range| range.bidfloor.map_or(Cpm::ZERO, |floor| floor.amount)).max();
        per_second.max(by_duration)
    }
}

impl<'a> ImpTerms<'a> {
    pub(crate) fn duration_floors(&self, format: MediaType) -> DurationFloors<'a> {
        self.imp.timed_media(format).map_or_else(DurationFloors::default, |media| DurationFloors {
            per_second: media.mincpmpersec,
            by_duration: media.durfloors.as_deref().unwrap_or_default(),
            longest_seconds: longest_seconds(media),
        })
    }

    /// The highest of the impression's floor, its video's or audio's, and matching rules.
    pub(crate) fn open_floor(&self, shape: &BidShape) -> Cpm {
        let timed = self.duration_floors(shape.format).floor(shape.dur);
        let timed = timed.map_or(Cpm::ZERO, |floor| or_max(gross(floor, self.rate, self.fee)));
        self.floor.max(timed).max(self.rules_floor(shape))
    }

    /// The floor under `deal`: the deal's own, else the video's or audio's, else the impression's.
    pub(crate) fn deal_floor(&self, deal: &AuctionDeal<'_>, shape: &BidShape) -> Cpm {
        if deal.auction_type == AuctionType::Agreed {
            return deal.agreed_price();
        }
        let timed = self.duration_floors(shape.format);
        if let Some(own) = deal.own_floor(&timed, shape) {
            return or_max(gross(own, deal.rate, deal.fee));
        }
        let timed = timed.floor(shape.dur);
        let inherited = timed.or(self.imp.bidfloor.map(|floor| floor.amount));
        or_max(gross(inherited.unwrap_or(Cpm::ZERO), self.rate, deal.fee))
    }

    pub(crate) fn has_timed_floor(&self) -> bool {
        MediaType::ALL.into_iter().any(|format| self.duration_floors(format).has_floor())
    }

    /// Whether all open bids have the same floor, the one shown.
    pub(crate) fn has_plain_floor(&self) -> bool {
        let mut formats = MediaType::members(self.imp.formats());
        let is_sized = |rule: &FloorRule| {
            rule.size.is_some() && self.imp.formats() & MediaType::Banner.bit() != 0
        };
        if self.has_timed_floor() || self.rules.iter().any(|(rule, _)| is_sized(rule)) {
            return false;
        }
        let floor = |format| self.rules_floor(&BidShape { format, size: None, dur: None });
        let first = formats.next().map(floor);
        formats.all(|format| Some(floor(format)) == first)
    }

    pub(crate) fn has_plain_deal_floor(&self, deal: &AuctionDeal<'_>) -> bool {
        let inherits = deal.deal.bidfloor.is_none();
        !(deal.duration_floors(None).has_floor() || inherits && self.has_timed_floor())
    }

    /// The floor shown: the one of open bids of any format and size.
    pub(crate) fn shown_floor(&self) -> Cpm {
        let mut lowest = None;
        let mut consider = |format, size| {
            let floor = self.rules_floor(&BidShape { format, size, dur: None });
            lowest = Some(lowest.map_or(floor, |lowest: Cpm| lowest.min(floor)));
        };
        for format in MediaType::ALL {
            if self.imp.formats() & format.bit() == 0 {
                continue;
            }
            let mut sizes = self.imp.banner.iter().flat_map(openrtb::Banner::sizes).peekable();
            if format != MediaType::Banner || sizes.peek().is_none() {
                consider(format, None);
                continue;
            }
            for size in sizes {
                consider(format, AdSize::of(&size));
            }
        }
        self.floor.max(lowest.unwrap_or(Cpm::ZERO))
    }

    fn rules_floor(&self, shape: &BidShape) -> Cpm {
        let is_size = |size| match shape.size {
            Some(own) => own == size,
            // Omitting the size must not be cheapest either.
            None => shape.format == MediaType::Banner && self.offers_size(size),
        };
        let matches = |rule: &FloorRule| {
            rule.format.is_none_or(|format| format == shape.format) && rule.size.is_none_or(is_size)
        };
        let floors = self.rules.iter().filter(|(rule, _)| matches(rule)).map(|(_, floor)| *floor);
        floors.max().unwrap_or(Cpm::ZERO)
    }

    fn offers_size(&self, size: AdSize) -> bool {
        let mut sizes = self.imp.banner.iter().flat_map(openrtb::Banner::sizes);
        sizes.any(|offered| AdSize::of(&offered) == Some(size))
    }
}

impl AuctionDeal<'_> {
    /// A buyer's price under `at` 3, in the auction's currency, rounded like bids so that they
    /// reach it.
    pub(crate) fn agreed_price(&self) -> Cpm {
        let agreed = self.deal.bidfloor.map_or(Cpm::ZERO, |floor| floor.amount);
        or_max(self.rate.convert(agreed, Rounding::Down))
    }

    /// The deal's own floor, net and in its own currency. Durations apply only to video and audio.
    fn own_floor(&self, of_imp: &DurationFloors<'_>, shape: &BidShape) -> Option<Cpm> {
        let plain = self.deal.bidfloor.map(|floor| floor.amount);
        if !matches!(shape.format, MediaType::Video | MediaType::Audio) {
            return plain;
        }
        plain.max(self.duration_floors(of_imp.longest_seconds).floor(shape.dur))
    }

    fn duration_floors(&self, longest_seconds: Option<u32>) -> DurationFloors<'_> {
        DurationFloors {
            per_second: self.deal.mincpmpersec,
            by_duration: self.deal.durfloors.as_deref().unwrap_or_default(),
            longest_seconds,
        }
    }

    pub(crate) fn has_own_floor(&self) -> bool {
        self.deal.bidfloor.is_some() || self.duration_floors(None).has_floor()
    }

    /// The seller's discount on bids; none on an agreed price.
    pub(crate) fn discount(&self) -> Ppm {
        match self.auction_type {
            AuctionType::Agreed => Ppm::ZERO,
            _ => self.terms.map_or(Ppm::ZERO, |terms| terms.discount),
        }
    }
}

#[cfg(test)]
mod tests;
