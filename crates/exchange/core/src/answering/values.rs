//! What macros stand for, by bid and by occasion: who may learn what (section 4.4.1). What a macro
//! looks like is not known here.

use openrtb::NoticeKind;
use units::{Cpm, Ppm};

use super::sale::{Sale, seat_name};
use crate::auction::Auction;
use crate::auction::fate::Fate;
use crate::clearing::clear::Clearing;
use crate::creatives::macros::MacroValues;
use crate::judging::judge::Judgement;

/// Where the values of a returned bid go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Occasion {
    /// Its markup, and its win notice.
    Win,
    /// Its billing notice, which tells when the ad was shown.
    Billing,
    /// Its loss notice, should the caller's auction be lost: why is then the caller's to say.
    LossElsewhere,
    /// The same where the caller calls the DSP itself: all about its auction is the caller's to say.
    LossPassedOn,
}

impl Occasion {
    /// Of a notice that the caller is handed as the bid has it.
    pub(crate) const fn of_passed(kind: NoticeKind) -> Self {
        match kind {
            NoticeKind::Win => Self::Win,
            NoticeKind::Billing => Self::Billing,
            NoticeKind::Loss => Self::LossPassedOn,
        }
    }
}

/// The values of a bid that is returned to the caller.
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

/// The values of a bid that has lost: never what the winner pays.
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

/// What is the same whatever became of the bid; the rest is not told.
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

/// What would have tied with the winner of its impression; `None` where no price would have won,
/// or nobody did.
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
