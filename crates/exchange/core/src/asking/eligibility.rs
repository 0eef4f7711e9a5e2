//! Which DSPs are asked, for which impressions and deals; and why others are not.

use openrtb::codes::MediaType;
use openrtb::{DealMask, Format, Imp, ImpMask, Text};

use super::not_asked::NotAsked;
use crate::auction::Auction;
use crate::auction::fate::Fate;
use crate::auction::lists::{RequestLists, SortedList};
use crate::auction::steps::{STEPS_MAX, Steps};
use crate::auction::terms::AuctionDeal;
use crate::market::Dsp;
use crate::market::size::AdSize;

/// Configured ids or sizes compared per step.
const LISTED_PER_STEP: usize = 4;

const SEAT_STEPS: usize = 2;

/// The call of one DSP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BidderCall {
    /// Position of the DSP in the market.
    pub dsp: usize,
    /// Impressions offered to it; at least one.
    pub imps: ImpMask,
    /// Deals offered to it, all on those impressions.
    pub deals: DealMask,
}

/// Selects DSPs in slices of a few milliseconds, between which the shard serves other auctions.
#[derive(Debug)]
pub struct DspSelection<'j, 'm> {
    auction: &'j Auction<'m>,
    dsps: usize,
    found: Vec<Result<BidderCall, NotAsked>>,
}

impl<'j, 'm> DspSelection<'j, 'm> {
    /// Selects among the first `dsps` of the market.
    pub fn new(auction: &'j Auction<'m>, dsps: usize) -> Self {
        Self { auction, dsps, found: Vec::with_capacity(dsps) }
    }

    /// Sorts one long list or checks one DSP at a time, until [`STEPS_MAX`] steps are used. Returns
    /// whether any is left.
    pub fn proceed(&mut self) -> bool {
        let until = self.auction.steps() + STEPS_MAX;
        while self.found.len() < self.dsps {
            if until <= self.auction.steps() {
                return true;
            }
            if !self.auction.sort_next_seat_list() {
                self.found.push(eligible(self.auction, self.found.len()));
            }
        }
        false
    }

    /// The result of [`eligible`] for each DSP, after the last one.
    pub fn finish(self) -> Vec<Result<BidderCall, NotAsked>> {
        assert_eq!(self.found.len(), self.dsps, "every DSP is looked at");
        self.found
    }
}

/// The call of the DSP at position `index` in the market. Its [`guard`](crate::guard) decides last.
pub fn eligible(auction: &Auction<'_>, index: usize) -> Result<BidderCall, NotAsked> {
    let dsp = &auction.market.dsps[index];
    let request = auction.request;
    let refuse_unless = |welcome, reason| if welcome { Ok(()) } else { Err(reason) };
    let steps = &auction.lists.steps;
    refuse_unless(buys_from(dsp, request.publisher_id(), steps), NotAsked::Publisher)?;
    let buys_country = dsp.countries.is_empty()
        || request.country().is_some_and(|country| {
            dsp.countries.iter().any(|bought| bought.eq_ignore_ascii_case(country))
        });
    refuse_unless(buys_country, NotAsked::Country)?;
    let is_limited = auction.is_limited(index);
    dsp.targeting.admit(request, &dsp.id, is_limited, &auction.market.tie_key)?;
    let wseat = request.wseat.as_deref().unwrap_or_default();
    let is_welcome = |seat: &str| !is_blocked(auction, seat);
    let has_seat = has_seat(dsp, &auction.lists.wseat, wseat, steps, is_welcome);
    refuse_unless(has_seat, NotAsked::Seats)?;
    let named = |deal: &AuctionDeal<'_>| deal_is_for(auction, deal, index);
    call_for(auction, index, named)
}

/// The call of direct campaigns, the DSP at position `index`.
/// [`Catalogue::bid`](crate::campaigns::Catalogue::bid) selects their seats and deals.
pub fn eligible_direct(auction: &Auction<'_>, index: usize) -> Result<BidderCall, NotAsked> {
    call_for(auction, index, |deal| deal_is_open_to(auction, deal, index))
}

pub(crate) fn check_seat(auction: &Auction<'_>, seat: &str) -> Result<(), Fate> {
    let RequestLists { steps, wseat, .. } = &auction.lists;
    let welcome = auction.request.wseat.as_deref().unwrap_or_default();
    if !welcome.is_empty() && !wseat.has(welcome, seat, steps) {
        return Err(Fate::SeatNotAllowed);
    }
    if is_blocked(auction, seat) {
        return Err(Fate::SeatBlocked);
    }
    Ok(())
}

fn is_blocked(auction: &Auction<'_>, seat: &str) -> bool {
    let RequestLists { steps, bseat, .. } = &auction.lists;
    bseat.has(auction.request.bseat.as_deref().unwrap_or_default(), seat, steps)
}

/// Whether any of the DSP's seats is in `wseat`, sorted in `sorted`, and passes `is_welcome`. An
/// empty `wseat` admits all. Iterates over the shorter list.
fn has_seat(
    dsp: &Dsp,
    sorted: &SortedList,
    wseat: &[Text<'_>],
    steps: &Steps,
    is_welcome: impl Fn(&str) -> bool,
) -> bool {
    if wseat.is_empty() || dsp.seats.len() <= wseat.len() {
        let is_admitted = |seat: &str| wseat.is_empty() || sorted.has(wseat, seat, steps);
        return dsp.seats.iter().any(|seat| is_admitted(seat) && is_welcome(seat));
    }
    wseat.iter().any(|seat| {
        steps.add(SEAT_STEPS);
        steps.add_bytes(seat.len());
        dsp.seats.position(seat).is_some() && is_welcome(seat)
    })
}

fn buys_from(dsp: &Dsp, publisher: Option<&str>, steps: &Steps) -> bool {
    let listed = |list: &[Box<str>]| {
        steps.add(list.len() / LISTED_PER_STEP);
        publisher.is_some_and(|id| list.iter().any(|own| **own == *id))
    };
    (dsp.publishers_allowed.is_empty() || listed(&dsp.publishers_allowed))
        && !listed(&dsp.publishers_blocked)
}

fn call_for(
    auction: &Auction<'_>,
    index: usize,
    has: impl Fn(&AuctionDeal<'_>) -> bool,
) -> Result<BidderCall, NotAsked> {
    let dsp = &auction.market.dsps[index];
    let mut ask = BidderCall { dsp: index, imps: 0, deals: 0 };
    for (imp_index, terms) in auction.imps.iter().enumerate() {
        if !terms.has_rate || !buys(dsp, terms.imp, &auction.lists.steps) {
            continue;
        }
        let mut deals: DealMask = 0;
        for position in terms.deals() {
            let deal = &auction.deals[position];
            if deal.has_rate && has(deal) {
                deals |= 1 << position;
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

fn deal_is_for(auction: &Auction<'_>, deal: &AuctionDeal<'_>, index: usize) -> bool {
    let is_welcome = |seat: &str| check_seat(auction, seat).is_ok();
    let (dsp, wseat) = (&auction.market.dsps[index], deal.seats());
    deal_is_open_to(auction, deal, index)
        && (wseat.is_empty() || has_seat(dsp, &deal.wseat, wseat, &auction.lists.steps, is_welcome))
}

fn deal_is_open_to(auction: &Auction<'_>, deal: &AuctionDeal<'_>, index: usize) -> bool {
    if let Some(sold) = deal.sold {
        return auction.market.sold[sold].dsp == index;
    }
    if deal.is_withheld {
        return false;
    }
    let named = deal.terms.map(|terms| terms.dsps.as_slice()).unwrap_or_default();
    named.is_empty() || named.contains(&index)
}

fn buys(dsp: &Dsp, imp: &Imp<'_>, steps: &Steps) -> bool {
    let mut formats = dsp.formats & imp.formats();
    if let Some(banner) = imp.banner.as_ref().filter(|_| !dsp.sizes.is_empty()) {
        let offered = banner.format.as_ref().map_or(0, Vec::len);
        steps.add(offered * dsp.sizes.len() / LISTED_PER_STEP);
        let mut sizes = banner.sizes().peekable();
        let fits = |offered: Format| {
            let bought = |size: &AdSize| size.is_offered(&offered, imp.instl == Some(1));
            dsp.sizes.iter().any(bought)
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
