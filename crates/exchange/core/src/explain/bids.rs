//! Every bid: its members, its value, its floor and its fate.

use openrtb::bid_texts;
use units::{Cpm, Rounding};

use super::auction::{BIDS_MAX, ReplayedAuction, shown};
use super::document::ExplainedBid;
use crate::answering::sale::seat_name;
use crate::auction::terms::AuctionType;
use crate::judging::judge::JudgedBid;

impl ReplayedAuction<'_> {
    /// Bids, and the number left out. Returned bids are never left out.
    pub(super) fn bids(&self) -> (Vec<ExplainedBid>, usize) {
        let is_returned = |bid: usize| self.sales.iter().any(|sale| sale.bid == bid);
        let bids: Vec<_> = (0..self.judgement.bids.len())
            .filter(|index| *index < BIDS_MAX || is_returned(*index))
            .map(|index| self.bid(index))
            .collect();
        let omitted = self.judgement.bids.len() - bids.len();
        (bids, omitted)
    }

    fn bid(&self, index: usize) -> ExplainedBid {
        let judged = &self.judgement.bids[index];
        let bid = judged.bid.as_ref();
        let text = |text: Option<&str>| text.map(shown);
        let fate = self.fate(index);
        let price = bid.and_then(|bid| bid.price().ok());
        ExplainedBid {
            number: index + 1,
            dsp: self.dsp_id(self.answers[judged.answer].ask.dsp),
            seat: self.seat_named(judged).map(|seat| shown(&seat)),
            id: text(bid.and_then(|bid| bid.id.as_deref())),
            imp: text(bid.and_then(|bid| bid.impid.as_deref())),
            deal: text(bid.and_then(|bid| bid.dealid.as_deref())),
            currency: judged.currency.to_string(),
            price: price.map(|price| price.to_string()),
            offer: discounted_price(judged).map(|price| price.to_string()),
            worth: self.worth(judged).map(|worth| worth.to_string()),
            floor: judged.floor.map(|floor| floor.to_string()),
            fate: fate.label().to_owned(),
            code: fate.code(),
            why: self.why(index, fate),
        }
    }

    pub(super) fn worth(&self, judged: &JudgedBid<'_>) -> Option<Cpm> {
        let rates = &self.auction.market.rates;
        let price = discounted_price(judged)?;
        let worth = rates.convert(price, judged.currency, self.auction.currency, Rounding::Down)?;
        if let Ok(entry) = judged.entry {
            let entry = &self.judgement.entries[entry];
            let counts = entry.auction_type == AuctionType::Agreed || entry.price == worth;
            assert!(counts, "a bid counts for what it is worth");
        }
        Some(worth)
    }

    pub(super) fn seat_named(&self, judged: &JudgedBid<'_>) -> Option<String> {
        if let Some(seat) = judged.seat {
            return Some(seat_name(self.auction, seat).to_owned());
        }
        let body = std::str::from_utf8(self.answers[judged.answer].body).ok()?;
        let seatbids = bid_texts(body).ok()?.seatbid?;
        Some(seatbids.get(judged.place.0)?.seat.as_deref()?.to_owned())
    }

    /// The bid's name in sentences: `bid 2 (beta's seat b1)`.
    pub(super) fn bid_name(&self, index: usize) -> String {
        let judged = &self.judgement.bids[index];
        let dsp = self.dsp_id(self.answers[judged.answer].ask.dsp);
        match self.seat_named(judged) {
            Some(seat) => format!("bid {} ({dsp}'s seat {})", index + 1, shown(&seat)),
            None => format!("bid {} ({dsp})", index + 1),
        }
    }
}

/// None if the bid failed an earlier check.
fn discounted_price(judged: &JudgedBid<'_>) -> Option<Cpm> {
    Some(judged.discounted_price).filter(|price| *price > Cpm::ZERO)
}
