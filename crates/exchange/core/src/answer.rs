//! From wins to the caller's answer.

use std::fmt::Write as _;

use openrtb::codes::NoBidReason;
use openrtb::{NoticeKind, bid_texts, escaped, parse_bid};
use units::{Cpm, Nanos};

use crate::clear::{Clearing, Seat, Win};
use crate::judge::{Answer, JudgedBid, Judgement};
use crate::pricing::Prices;
use crate::values::{self, Occasion};
use crate::{Auction, Fate};

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
    let returned = clearing.returned(&judgement.entries);
    returned.into_iter().map(|win| sale(auction, judgement, clearing, win)).collect()
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
    let terms = judgement.bids[bid].terms(auction).expect("a winner is for an impression");
    let fate = clearing.fates[win.entry];
    let winner = clearing.wins[entry.imp].as_ref().map(|win| (&judgement.entries[win.entry], win));
    let prices = terms.prices(auction.currencies(), (entry, win, fate), winner);
    let prices = prices.expect("what was converted from the bid's currency converts back");
    let Prices { net, paid, min_to_win, revenue } = prices;
    assert!(paid <= terms.offer, "conversion never charges above the bid");
    Sale { bid, imp: entry.imp, fate, net, paid, min_to_win, revenue }
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

/// The winner's own JSON with the net price in place of its own, and macros replaced; those that only
/// the caller will know stay in its notices. What macros are replaced by is plain ASCII, which is the
/// same within a JSON string.
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
    let of_notice = |kind| Some((bid.notice_span(kind, text)?, Some(Occasion::of_passed(kind))));
    let notices = [NoticeKind::Billing, NoticeKind::Loss].into_iter().filter_map(of_notice);
    let mut members: Vec<_> = notices.chain([(price, None)]).collect();
    members.sort_unstable_by_key(|(span, _)| span.start);
    let values = values::of_returned(auction, judgement, sale, Occasion::Win);
    let mut written = 0;
    for (span, occasion) in members {
        values.substitute_into(&text[written..span.start], out);
        written = span.end;
        match occasion {
            None => drop(write!(out, "{}", sale.net)),
            Some(occasion) => values::of_returned(auction, judgement, sale, occasion)
                .substitute_into(&text[span], out),
        }
    }
    values.substitute_into(&text[written..], out);
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
