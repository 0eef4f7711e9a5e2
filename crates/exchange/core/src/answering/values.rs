//! Macro values by bid and occasion, which decide who learns what (section 4.4.1).

use openrtb::NoticeKind;
use units::{Cpm, Ppm};

use super::sale::{Sale, seat_name};
use crate::auction::Auction;
use crate::auction::fate::Fate;
use crate::clearing::clear::Clearing;
use crate::creatives::macros::MacroValues;
use crate::judging::judge::Judgement;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Occasion {
    Win,
    /// In its billing notice, which reports when the ad was shown.
    Billing,
    /// In its loss notice after the caller's auction; the caller gives the reason.
    LossElsewhere,
    /// In a loss notice that the caller sends itself, with all values of its auction.
    LossPassedOn,
}

impl Occasion {
    pub(crate) const fn of_passed(kind: NoticeKind) -> Self {
        match kind {
            NoticeKind::Win => Self::Win,
            NoticeKind::Billing => Self::Billing,
            NoticeKind::Loss => Self::LossPassedOn,
        }
    }
}

pub(crate) fn of_returned<'s>(
    auction: &'s Auction<'_>,
    judgement: &'s Judgement<'_>,
    sale: &Sale,
    occasion: Occasion,
) -> MacroValues<'s> {
    let values = of_bid(auction, judgement, sale.bid);
    let won = MacroValues {
        price: Some(sale.paid),
        min_to_win: sale.min_to_win,
        multiplier: Some(auction.imps[sale.imp].multiplier),
        loss: Some(sale.fate.code()),
        ..values
    };
    match occasion {
        Occasion::Win => won,
        Occasion::Billing => MacroValues { left: &["IMP_TS"], ..won },
        Occasion::LossElsewhere => {
            MacroValues { price: None, multiplier: None, left: &["LOSS"], ..won }
        }
        Occasion::LossPassedOn => {
            let left = &["PRICE", "CURRENCY", "MBR", "LOSS", "MIN_TO_WIN"];
            MacroValues { multiplier: None, left, ..won }
        }
    }
}

/// The values for a losing bid, never with the winner's price.
pub(crate) fn of_loser<'s>(
    auction: &'s Auction<'_>,
    judgement: &'s Judgement<'_>,
    bid: usize,
    fate: Fate,
    clearing: &Clearing,
) -> MacroValues<'s> {
    let min_to_win =
        if fate.by_price() { least_to_tie(auction, judgement, bid, clearing) } else { None };
    MacroValues { min_to_win, loss: Some(fate.code()), ..of_bid(auction, judgement, bid) }
}

/// The values that do not depend on the bid's fate; others stay empty.
pub(crate) fn of_bid<'s>(
    auction: &'s Auction<'_>,
    judgement: &'s Judgement<'_>,
    index: usize,
) -> MacroValues<'s> {
    let judged = &judgement.bids[index];
    let bid = judged.bid.as_ref();
    MacroValues {
        auction_id: auction.id,
        bid_id: judgement.bidids[judged.answer].as_deref().unwrap_or_default(),
        imp_id: judged.imp.map_or("", |imp| auction.imps[imp].id),
        seat_id: judged.seat.map_or("", |seat| seat_name(auction, seat)),
        ad_id: bid.and_then(|bid| bid.adid.as_deref()).unwrap_or_default(),
        price: None,
        currency: judged.currency,
        bid: bid.and_then(|bid| bid.price().ok()),
        min_to_win: None,
        multiplier: None,
        discount: judged.deal.map_or(Ppm::ZERO, |deal| auction.deals[deal].discount()),
        loss: None,
        left: &[],
    }
}

/// The price that ties with its impression's winner. None if there is no such price or winner.
fn least_to_tie(
    auction: &Auction<'_>,
    judgement: &Judgement<'_>,
    bid: usize,
    clearing: &Clearing,
) -> Option<Cpm> {
    let judged = &judgement.bids[bid];
    let win = clearing.wins[judged.imp?].as_ref()?;
    judged.terms(auction)?.least_to_tie(auction.currencies(), &judgement.entries[win.entry], win)
}
