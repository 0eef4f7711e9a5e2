//! From wins to the caller's answer.

use std::fmt::Write as _;

use openrtb::codes::NoBidReason;
use openrtb::{bid_texts, escaped, parse_bid};
use units::{Cpm, Nanos, Round};

use crate::clear::{Clearing, Entry, Seat, Win};
use crate::judge::{Answer, JudgedBid, Judgement};
use crate::values::{self, Occasion};
use crate::{Auction, AuctionType, Fate};

/// A bid that is returned to the caller, and what it is worth to whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sale {
    /// The bid, by position in the judgement.
    pub bid: usize,
    /// The impression, by position.
    pub imp: usize,
    /// [`Fate::Won`], or [`Fate::Offered`] of one that is returned beside the winner.
    pub fate: Fate,
    /// What the caller is told: the clearing price less our fee, in the auction's currency.
    pub net: Cpm,
    /// What the DSP pays, in the currency of its bid.
    pub paid: Cpm,
    /// Of a winner what would have tied with the next, of another what would have tied with the
    /// winner; in the currency of the bid, before its deal's discount.
    pub min_to_win: Option<Cpm>,
    /// What the DSP owes for all impressions of one display, in the market's currency.
    pub revenue: Nanos,
}

/// Prices every win, and what is returned beside it. `clearing` is of `judgement`'s entries.
pub fn sales(auction: &Auction<'_>, judgement: &Judgement<'_>, clearing: &Clearing) -> Vec<Sale> {
    let mut sales = Vec::with_capacity(clearing.wins.len() + clearing.offered.len());
    for win in clearing.wins.iter().flatten() {
        sales.push(sale(auction, judgement, clearing, win));
        // By impression and rank already.
        let imp = judgement.entries[win.entry].imp;
        let beside = clearing.offered.iter().filter(|win| judgement.entries[win.entry].imp == imp);
        sales.extend(beside.map(|win| sale(auction, judgement, clearing, win)));
    }
    sales
}

/// Prices one of `clearing`'s wins, or of its offers.
pub(crate) fn sale(
    auction: &Auction<'_>,
    judgement: &Judgement<'_>,
    clearing: &Clearing,
    win: &Win,
) -> Sale {
    let entry = &judgement.entries[win.entry];
    let bid = judgement.bid_of(win.entry);
    let judged = &judgement.bids[bid];
    let terms = &auction.imps[entry.imp];
    let fee = judged.deal.map_or(terms.fee, |deal| auction.deals[deal].fee);
    let paid = paid(auction, judged, entry, win.price);
    assert!(paid <= judged.offer, "conversion never charges above the bid");
    let fate = clearing.fates[win.entry];
    let min_to_win = match fate {
        Fate::Offered => values::least_to_tie(auction, judgement, bid, clearing),
        _ => values::in_bid(auction, judgement, bid, win.min_to_win),
    };
    let rates = &auction.market.rates;
    let revenue = rates
        .convert(win.price, auction.currency, auction.market.currency, Round::Down)
        .and_then(|price| price.cost(terms.multiplier));
    Sale {
        bid,
        imp: entry.imp,
        fate,
        net: fee.taken_from(win.price),
        paid,
        min_to_win,
        revenue: revenue.unwrap_or(Nanos::ZERO),
    }
}

/// `price` in the currency of the bid.
fn paid(auction: &Auction<'_>, judged: &JudgedBid<'_>, entry: &Entry, price: Cpm) -> Cpm {
    // Who pays its own bid pays just that, not what two conversions make of it.
    if price == entry.price && entry.auction_type != AuctionType::Agreed {
        return judged.offer;
    }
    let rates = &auction.market.rates;
    rates
        .convert(price, auction.currency, judged.currency, Round::Up)
        .expect("what was converted from the bid's currency converts back")
}

/// The bid response for `sales`, at least one, with all that the winners' bids hold. `answers` are
/// those that were judged.
pub fn response(
    auction: &Auction<'_>,
    answers: &[Answer<'_>],
    judgement: &Judgement<'_>,
    sales: &[Sale],
) -> String {
    response_with(auction, judgement, sales, |out, sale| {
        pass_through(out, auction, answers, judgement, sale);
    })
}

/// The bid response for `sales`, at least one; `write_bid` writes the JSON of each.
pub(crate) fn response_with(
    auction: &Auction<'_>,
    judgement: &Judgement<'_>,
    sales: &[Sale],
    mut write_bid: impl FnMut(&mut String, &Sale),
) -> String {
    let caller_id = auction.request.id.as_ref().expect("validation requires an id").raw();
    let mut out = String::with_capacity(512 + 2048 * sales.len());
    let currency = auction.currency;
    let _ = write!(
        out,
        r#"{{"id":{caller_id},"bidid":"{}","cur":"{currency}","seatbid":["#,
        auction.id
    );
    let seat_of = |sale: &Sale| judgement.bids[sale.bid].seat;
    let mut first_seat = true;
    for (index, sale) in sales.iter().enumerate() {
        let seat = seat_of(sale);
        if sales[..index].iter().any(|earlier| seat_of(earlier) == seat) {
            continue; // Stands with the seat's first.
        }
        let comma = if std::mem::take(&mut first_seat) { "" } else { "," };
        let _ = write!(
            out,
            r#"{comma}{{"seat":"{}","bid":["#,
            escaped(seat_id(auction, judgement, sale))
        );
        let of_seat = sales[index..].iter().filter(|sale| seat_of(sale) == seat);
        for (position, sale) in of_seat.enumerate() {
            if position > 0 {
                out.push(',');
            }
            write_bid(&mut out, sale);
        }
        out.push_str("]}");
    }
    out.push_str("]}");
    out
}

/// The answer that says why there is no bid. `id` is the JSON text of the caller's id.
pub fn no_bid(id: &str, reason: NoBidReason) -> String {
    format!(r#"{{"id":{id},"seatbid":[],"nbr":{}}}"#, reason.code())
}

fn seat_id<'m>(auction: &Auction<'m>, judgement: &Judgement<'_>, sale: &Sale) -> &'m str {
    let seat = judgement.bids[sale.bid].seat.expect("a winner has a seat");
    seat_name(auction, seat)
}

pub(crate) fn seat_name<'m>(auction: &Auction<'m>, seat: Seat) -> &'m str {
    &auction.market.dsps[seat.dsp].seats[seat.seat]
}

/// The winner's own JSON with the net price in place of its own, and macros replaced. What they
/// are replaced by is plain ASCII, which is the same within a JSON string.
fn pass_through(
    out: &mut String,
    auction: &Auction<'_>,
    answers: &[Answer<'_>],
    judgement: &Judgement<'_>,
    sale: &Sale,
) {
    let text = bid_text(answers, &judgement.bids[sale.bid]);
    let bid = parse_bid(text).expect("a winner has been parsed");
    let price = bid.price_span(text).expect("a winner has a price");
    let values = values::of_returned(auction, judgement, sale, Occasion::Win);
    values.substitute_into(&text[..price.start], out);
    let _ = write!(out, "{}", sale.net);
    values.substitute_into(&text[price.end..], out);
}

/// The JSON text of one bid, found again in its answer: only winners are worth the second look.
pub(crate) fn bid_text<'a>(answers: &[Answer<'a>], judged: &JudgedBid<'_>) -> &'a str {
    let body = std::str::from_utf8(answers[judged.answer].body).expect("a winner has been parsed");
    let frame = bid_texts(body).expect("a winner has been parsed");
    let (seatbid, bid) = judged.place;
    frame.seatbid.expect("a winner has been parsed")[seatbid].bid[bid].get()
}

#[cfg(test)]
mod tests;
