//! Who is asked, for which impressions, under which deals; and why the others are not.

use openrtb::codes::MediaType;
use openrtb::{DealMask, Format, Imp, ImpMask};

use crate::auction::AuctionDeal;
use crate::blocks::is_size_offered;
use crate::guard::Refusal;
use crate::lists::Lists;
use crate::{Auction, Dsp};

/// What one DSP is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// Position of the DSP in the market.
    pub dsp: usize,
    /// Impressions on offer to it; at least one.
    pub imps: ImpMask,
    /// Deals on offer to it, all on those impressions.
    pub deals: DealMask,
}

/// Why a DSP is not asked. Declaration order is precedence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NotAsked {
    /// It does not buy from the publisher.
    Publisher,
    /// It does not buy in the country, or not in the region.
    Country,
    /// It does not buy on this type of device.
    Device,
    /// It wants a user id, and there is none.
    UserId,
    /// The request is not in its sample.
    Sampling,
    /// `wseat` or `bseat` leaves it no seat.
    Seats,
    /// No impression has a format and size that it buys, or is open to it.
    Impressions,
    /// The operator has paused it. From here on the [`guard`](crate::guard) decides.
    Paused,
    /// It fails and is throttled.
    Breaker,
    /// It is asked as often per second as may be.
    Qps,
    /// As many calls to it are under way as may be.
    InFlight,
}

impl NotAsked {
    /// Every reason, in declaration order.
    pub const ALL: [Self; 11] = [
        Self::Publisher,
        Self::Country,
        Self::Device,
        Self::UserId,
        Self::Sampling,
        Self::Seats,
        Self::Impressions,
        Self::Paused,
        Self::Breaker,
        Self::Qps,
        Self::InFlight,
    ];

    /// The metric label.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Publisher => "publisher",
            Self::Country => "country",
            Self::Device => "device",
            Self::UserId => "user_id",
            Self::Sampling => "sampling",
            Self::Seats => "seats",
            Self::Impressions => "impressions",
            Self::Paused => "paused",
            Self::Breaker => "breaker",
            Self::Qps => "qps",
            Self::InFlight => "in_flight",
        }
    }
}

impl From<Refusal> for NotAsked {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Paused => Self::Paused,
            Refusal::Breaker => Self::Breaker,
            Refusal::Qps => Self::Qps,
            Refusal::InFlight => Self::InFlight,
        }
    }
}

/// Whether and for what the DSP at position `index` is asked, as far as the market's terms say;
/// its [`guard`](crate::guard) has the last word.
pub fn eligible(auction: &Auction<'_>, index: usize) -> Result<Ask, NotAsked> {
    let dsp = &auction.market.dsps[index];
    let request = auction.request;
    let refuse_unless = |welcome, reason| if welcome { Ok(()) } else { Err(reason) };
    refuse_unless(buys_from(dsp, request.publisher_id()), NotAsked::Publisher)?;
    let country = dsp.countries.is_empty()
        || request.country().is_some_and(|country| {
            dsp.countries.iter().any(|bought| bought.eq_ignore_ascii_case(country))
        });
    refuse_unless(country, NotAsked::Country)?;
    let is_limited = auction.is_limited(index);
    dsp.targeting.admit(request, &dsp.id, is_limited, &auction.market.tie_key)?;
    let has_seat = dsp.seats.iter().any(|seat| seat_is_welcome(auction, seat).is_ok());
    refuse_unless(has_seat, NotAsked::Seats)?;
    let named = |deal: &AuctionDeal<'_>| deal_is_for(auction, deal, index);
    impressions(auction, index, named)
}

/// For what campaigns of our own are asked, which are the DSP at position `index`: they are as many
/// seats as there are accounts, and which of these may bid, and under which deals, is for
/// [`Catalogue::bid`](crate::house::Catalogue::bid) to find.
pub fn eligible_house(auction: &Auction<'_>, index: usize) -> Result<Ask, NotAsked> {
    impressions(auction, index, |deal| deal_is_open_to(deal, index))
}

/// Whether `wseat` and `bseat` admit `seat`; the error tells which does not.
pub(crate) fn seat_is_welcome(auction: &Auction<'_>, seat: &str) -> Result<(), crate::Fate> {
    let Lists { steps, wseat, bseat, .. } = &auction.lists;
    let welcome = auction.request.wseat.as_deref().unwrap_or_default();
    let blocked = auction.request.bseat.as_deref().unwrap_or_default();
    if !welcome.is_empty() && !wseat.has(welcome, seat, steps) {
        return Err(crate::Fate::SeatNotAllowed);
    }
    if bseat.has(blocked, seat, steps) {
        return Err(crate::Fate::SeatBlocked);
    }
    Ok(())
}

fn buys_from(dsp: &Dsp, publisher: Option<&str>) -> bool {
    let listed =
        |list: &[Box<str>]| publisher.is_some_and(|id| list.iter().any(|own| **own == *id));
    (dsp.publishers_allowed.is_empty() || listed(&dsp.publishers_allowed))
        && !listed(&dsp.publishers_blocked)
}

/// What it may buy; `has` says whether a deal is on offer to it.
fn impressions(
    auction: &Auction<'_>,
    index: usize,
    has: impl Fn(&AuctionDeal<'_>) -> bool,
) -> Result<Ask, NotAsked> {
    let dsp = &auction.market.dsps[index];
    let mut ask = Ask { dsp: index, imps: 0, deals: 0 };
    for (imp_index, terms) in auction.imps.iter().enumerate() {
        if !terms.has_rate || !buys(dsp, terms.imp) {
            continue;
        }
        let count = terms.imp.deals().len();
        let first = terms.deals_start;
        let mut deals: DealMask = 0;
        for (offset, deal) in auction.deals[first..first + count].iter().enumerate() {
            if deal.has_rate && has(deal) {
                deals |= 1 << (first + offset);
            }
        }
        if terms.imp.is_private() && deals == 0 {
            continue;
        }
        ask.imps |= 1 << imp_index;
        ask.deals |= deals;
    }
    if ask.imps == 0 { Err(NotAsked::Impressions) } else { Ok(ask) }
}

/// A deal is its named DSPs', and of these theirs who have a seat that may use it.
fn deal_is_for(auction: &Auction<'_>, deal: &AuctionDeal<'_>, index: usize) -> bool {
    let steps = &auction.lists.steps;
    let may_use =
        |seat: &str| deal.admits_seat(seat, steps) && seat_is_welcome(auction, seat).is_ok();
    deal_is_open_to(deal, index)
        && (deal.seats().is_empty()
            || auction.market.dsps[index].seats.iter().any(|seat| may_use(seat)))
}

/// Whether it is among the named, or none is.
fn deal_is_open_to(deal: &AuctionDeal<'_>, index: usize) -> bool {
    let named = deal.terms.map(|terms| terms.dsps.as_slice()).unwrap_or_default();
    named.is_empty() || named.contains(&index)
}

/// Whether the DSP buys one of the impression's formats and, of banners, one of its sizes.
fn buys(dsp: &Dsp, imp: &Imp<'_>) -> bool {
    let mut formats = dsp.formats & imp.formats();
    if let Some(banner) = imp.banner.as_ref().filter(|_| !dsp.sizes.is_empty()) {
        let mut sizes = banner.sizes().peekable();
        let fits = |offered: Format| {
            let bought = |size| is_size_offered(size, offered, imp.instl == Some(1));
            dsp.sizes.iter().copied().any(bought)
        };
        let wanted = sizes.peek().is_none() || sizes.any(fits);
        if !wanted {
            formats &= !MediaType::Banner.bit();
        }
    }
    formats != 0
}

#[cfg(test)]
mod tests;
