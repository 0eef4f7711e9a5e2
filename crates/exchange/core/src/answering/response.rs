//! The bid response to the caller.

use std::fmt::Write as _;

use openrtb::codes::NoBidReason;
use openrtb::{NoticeKind, bid_texts, escaped, parse_bid};

use super::sale::{Sale, seat_name};
use super::values::{self, Occasion};
use crate::auction::Auction;
use crate::judging::judge::{DspAnswer, JudgedBid, Judgement};

/// The response for `sales`, at least one, with all members of the winners' bids.
pub fn response(
    auction: &Auction<'_>,
    answers: &[DspAnswer<'_>],
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
    for (seat, of_seat) in by_seat(judgement, sales).iter().enumerate() {
        let comma = if seat == 0 { "" } else { "," };
        let _ = write!(
            out,
            r#"{comma}{{"seat":"{}","bid":["#,
            escaped(seat_id(auction, judgement, of_seat[0]))
        );
        for (position, sale) in of_seat.iter().enumerate() {
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

/// The sales in the order of the response: those of a seat together, with its first.
pub(crate) fn by_seat<'s>(judgement: &Judgement<'_>, sales: &'s [Sale]) -> Vec<Vec<&'s Sale>> {
    let seat_of = |sale: &Sale| judgement.bids[sale.bid].seat;
    let mut seats: Vec<Vec<&Sale>> = Vec::new();
    for sale in sales {
        match seats.iter_mut().find(|of_seat| seat_of(of_seat[0]) == seat_of(sale)) {
            Some(of_seat) => of_seat.push(sale),
            None => seats.push(vec![sale]),
        }
    }
    seats
}

/// The response with a no-bid reason. `id` is the JSON text of the caller's id.
pub fn no_bid(id: &str, reason: NoBidReason) -> String {
    format!(r#"{{"id":{id},"seatbid":[],"nbr":{}}}"#, reason.code())
}

fn seat_id<'m>(auction: &Auction<'m>, judgement: &Judgement<'_>, sale: &Sale) -> &'m str {
    let seat = judgement.bids[sale.bid].seat.expect("a winner has a seat");
    seat_name(auction, seat)
}

/// The winner's JSON with the net price and macros replaced, except those in notices that only the
/// caller can replace. Macro values are plain ASCII and need no escape in JSON strings.
fn pass_through(
    out: &mut String,
    auction: &Auction<'_>,
    answers: &[DspAnswer<'_>],
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

pub(crate) fn bid_text<'a>(answers: &[DspAnswer<'a>], judged: &JudgedBid<'_>) -> &'a str {
    let body = std::str::from_utf8(answers[judged.answer].body).expect("a winner has been parsed");
    let frame = bid_texts(body).expect("a winner has been parsed");
    let (seatbid, bid) = judged.place;
    frame.seatbid.expect("a winner has been parsed")[seatbid].bid[bid].get()
}

#[cfg(test)]
mod tests;
