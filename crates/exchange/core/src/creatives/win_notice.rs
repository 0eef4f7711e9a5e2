//! Bids whose ad is served on their win notice.

use openrtb::{Bid, NoticeKind};

use crate::auction::Auction;
use crate::market::NoticeMode;

pub(crate) fn served_on_win<'a>(bid: &Bid<'a>) -> Option<&'a str> {
    if bid.markup().is_some() { None } else { bid.notice_url(NoticeKind::Win) }
}

/// Whether the bid's ad is served on its win notice and fetched before the response is written.
pub(crate) fn fetches_markup(auction: &Auction<'_>, bid: &Bid<'_>) -> bool {
    auction.publisher_terms().notices == NoticeMode::Final
        && !auction.request.is_test()
        && served_on_win(bid).is_some()
}
