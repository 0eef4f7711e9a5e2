//! From wins to the caller's answer.

use std::fmt::Write as _;

use openrtb::codes::NoBidReason;
use openrtb::{bid_texts, escaped, parse_bid};
use units::{Cpm, Nanos, Ppm, Round};

use crate::clear::{Clearing, Win};
use crate::judge::{Answer, JudgedBid, Judgement};
use crate::macros::MacroValues;
use crate::{Auction, AuctionType, Fate};

/// A won impression and what it is worth to whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sale {
    /// The winning bid, by position in the judgement.
    pub bid: usize,
    /// The impression, by position.
    pub imp: usize,
    /// What the caller is told: the clearing price less our fee, in the auction's currency.
    pub net: Cpm,
    /// What the DSP pays, in the currency of its bid.
    pub paid: Cpm,
    /// What would have tied with the next, in the currency of the bid.
    pub min_to_win: Cpm,
    /// What the DSP owes for all impressions of one display, in the market's currency.
    pub revenue: Nanos,
}

/// Prices every win. `clearing` is of `judgement`'s entries.
pub fn sales(auction: &Auction<'_>, judgement: &Judgement<'_>, clearing: &Clearing) -> Vec<Sale> {
    let mut sales = Vec::with_capacity(clearing.wins.len());
    for (imp, win) in clearing.wins.iter().enumerate() {
        let Some(win) = win else { continue };
        let bid = judgement.bids.iter().position(|bid| bid.verdict == Ok(win.entry));
        let bid = bid.expect("every entry is a bid's");
        sales.push(sale(auction, judgement, (imp, bid), win));
    }
    sales
}

fn sale(auction: &Auction<'_>, judgement: &Judgement<'_>, at: (usize, usize), win: &Win) -> Sale {
    let (imp, bid) = at;
    let judged = &judgement.bids[bid];
    let entry = &judgement.entries[win.entry];
    let terms = &auction.imps[imp];
    let fee = judged.deal.map_or(terms.fee, |deal| auction.deals[deal].fee);
    let rates = &auction.market.rates;
    let in_bid_currency = |price| {
        rates
            .convert(price, auction.currency, judged.currency, Round::Up)
            .expect("what was converted from the bid's currency converts back")
    };
    // Who pays its own bid pays just that, not what two conversions make of it.
    let pays_bid = win.price == entry.price && entry.auction_type != AuctionType::Agreed;
    let paid = if pays_bid { judged.offer } else { in_bid_currency(win.price) };
    assert!(paid <= judged.offer, "conversion never charges above the bid");
    let revenue = rates
        .convert(win.price, auction.currency, auction.market.currency, Round::Down)
        .and_then(|price| price.cost(terms.multiplier));
    Sale {
        bid,
        imp,
        net: fee.taken_from(win.price),
        paid,
        min_to_win: in_bid_currency(win.min_to_win),
        revenue: revenue.unwrap_or(Nanos::ZERO),
    }
}

/// The bid response for `sales`, at least one. `answers` are those that were judged.
pub fn response(
    auction: &Auction<'_>,
    answers: &[Answer<'_>],
    judgement: &Judgement<'_>,
    sales: &[Sale],
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
            write_bid(&mut out, auction, answers, judgement, sale);
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
    &auction.market.dsps[seat.dsp].seats[seat.seat]
}

/// The winner's own JSON with the net price in place of its own, and macros replaced.
fn write_bid(
    out: &mut String,
    auction: &Auction<'_>,
    answers: &[Answer<'_>],
    judgement: &Judgement<'_>,
    sale: &Sale,
) {
    let judged = &judgement.bids[sale.bid];
    let text = winning_text(answers, judged);
    let bid = parse_bid(text).expect("a winner has been parsed");
    let price = bid.price_span(text).expect("a winner has a price");
    let values = macro_values(auction, judgement, sale);
    let values = MacroValues {
        bid_id: &escaped(values.bid_id),
        imp_id: &escaped(values.imp_id),
        seat_id: &escaped(values.seat_id),
        ad_id: &escaped(values.ad_id),
        ..values
    };
    out.push_str(&values.substitute(&text[..price.start]));
    let _ = write!(out, "{}", sale.net);
    out.push_str(&values.substitute(&text[price.end..]));
}

/// The JSON text of one bid, found again in its answer: only winners are worth the second look.
fn winning_text<'a>(answers: &[Answer<'a>], judged: &JudgedBid<'_>) -> &'a str {
    let body = std::str::from_utf8(answers[judged.answer].body).expect("a winner has been parsed");
    let frame = bid_texts(body).expect("a winner has been parsed");
    let (seatbid, bid) = judged.place;
    frame.seatbid.expect("a winner has been parsed")[seatbid].bid[bid].get()
}

fn macro_values<'s>(
    auction: &'s Auction<'_>,
    judgement: &'s Judgement<'_>,
    sale: &Sale,
) -> MacroValues<'s> {
    let judged = &judgement.bids[sale.bid];
    let bid = judged.bid.as_ref().expect("a winner has been parsed");
    MacroValues {
        auction_id: auction.id,
        bid_id: judgement.bidids[judged.answer].as_deref().unwrap_or_default(),
        imp_id: auction.imps[sale.imp].id,
        seat_id: seat_id(auction, judgement, sale),
        ad_id: bid.adid.as_deref().unwrap_or_default(),
        price: sale.paid,
        currency: judged.currency,
        bid: bid.price().unwrap_or_default(),
        min_to_win: Some(sale.min_to_win),
        multiplier: auction.imps[sale.imp].multiplier,
        discount: judged.deal.map_or(Ppm::ZERO, |deal| auction.deals[deal].discount()),
        loss_code: Fate::Won.code(),
    }
}

#[cfg(test)]
mod tests;
