//! Markup that is served on the win notice (section 4.3.1): a bid without `adm` whose `nurl`
//! answers with the ad.
//!
//! Where ours is the last auction it is fetched before the answer is written:
//!
//! - clear;
//! - [`markup_wanted`] lists the wins that lack theirs;
//! - each is fetched, and [`check_markup`] holds it to what inline markup is held to;
//! - a bid whose markup cannot be had is barred ([`Judgement::bar`]), and so on from the start until
//!   nothing is wanted.
//!
//! A barred bid is out before the auction clears, so it sets no price.

use units::Cpm;

use super::notice_url::{NotSent, checked_url};
use super::sale::sale;
use super::values::{self, Occasion};
use crate::auction::Auction;
use crate::auction::fate::Fate;
use crate::clearing::clear::Clearing;
use crate::creatives::macros::macros_len;
use crate::creatives::rules::markup_is_blocked;
use crate::creatives::win_notice::served_on_win;
use crate::judging::judge::Judgement;
use crate::market::NoticeMode;

/// A win whose ad is not here yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MarkupRequest {
    /// The winner, by position among the entries.
    pub entry: usize,
    /// Its DSP, by position in the market.
    pub dsp: usize,
    /// The clearing price, in the auction's currency.
    pub price: Cpm,
    /// Its win notice, macros replaced: the ad is what it answers. Where it must not be called, the
    /// bid is to be barred.
    pub url: Result<String, NotSent>,
    /// Whether the bid names a preloaded ad (`adid`) of a known format: it stands even without markup. If
    /// its notice could not be delivered, it is sent like any other.
    pub is_preloaded: bool,
}

/// A win notice that has been delivered before the answer is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchedMarkup {
    /// [`Wanted::entry`].
    pub entry: usize,
    /// [`Wanted::price`]: at another price the win is another, and its notice is called again.
    pub price: Cpm,
    /// The ad that it was answered with; empty if there was none, and the ad is preloaded.
    pub markup: String,
}

/// The wins whose markup must be fetched before the answer is written, and is not among `fetched`.
///
/// Under [`NoticeMode::Upstream`] our own win notice relays the ad: listed are those alone whose
/// URL must not be called. A test fetches nothing, for it has no notices.
pub fn markup_wanted(
    auction: &Auction<'_>,
    judgement: &Judgement<'_>,
    clearing: &Clearing,
    fetched: &[FetchedMarkup],
) -> Vec<MarkupRequest> {
    let mode = auction.publisher_terms().notices;
    if mode == NoticeMode::PassThrough || auction.request.is_test() {
        return Vec::new();
    }
    let mut wanted = Vec::new();
    for win in clearing.wins.iter().flatten() {
        let is_here = |ad: &FetchedMarkup| (ad.entry, ad.price) == (win.entry, win.price);
        let index = judgement.bid_of(win.entry);
        let judged = &judgement.bids[index];
        let bid = judged.bid.as_ref().expect("a winner has been parsed");
        let Some(raw) = served_on_win(bid).filter(|_| !fetched.iter().any(is_here)) else {
            continue;
        };
        let dsp = judgement.entries[win.entry].seat.dsp;
        let sale = sale(auction, judgement, clearing, win);
        let values = values::of_returned(auction, judgement, &sale, Occasion::Win);
        let url = checked_url(&auction.market.dsps[dsp], raw, &values);
        let is_preloaded = bid.adid.is_some() && judged.format(None).is_some();
        let is_listed = match &url {
            Ok(_) => mode == NoticeMode::Final,
            Err(_) => !is_preloaded,
        };
        if is_listed {
            wanted.push(MarkupRequest {
                entry: win.entry,
                dsp,
                price: win.price,
                url,
                is_preloaded,
            });
        }
    }
    wanted
}

/// Whether the bid's ad is served on a win notice that must not be called.
pub(crate) fn is_out_of_reach(
    auction: &Auction<'_>,
    judgement: &Judgement<'_>,
    index: usize,
) -> bool {
    let judged = &judgement.bids[index];
    let (Some(bid), Some(seat)) = (&judged.bid, judged.seat) else { return false };
    let Some(raw) = served_on_win(bid).filter(|_| bid.adid.is_none()) else { return false };
    let values = values::of_bid(auction, judgement, index);
    checked_url(&auction.market.dsps[seat.dsp], raw, &values).is_err()
}

/// Holds the answer of a delivered win notice to what the auction holds inline markup to, and hands
/// it back: without an ad it is empty, which only a preloaded ad allows. The fate is for
/// [`Judgement::bar`].
pub fn checked_markup(
    auction: &Auction<'_>,
    judgement: &Judgement<'_>,
    wanted: &MarkupRequest,
    markup: String,
) -> Result<String, Fate> {
    if markup.trim_ascii().is_empty() {
        return if wanted.is_preloaded { Ok(String::new()) } else { Err(Fate::NoMarkup) };
    }
    if macros_len(&markup) > auction.market.bid_macros_max {
        return Err(Fate::Malformed);
    }
    let entry = wanted.entry;
    let imp = auction.imps[judgement.entries[entry].imp].imp;
    let judged = &judgement.bids[judgement.bid_of(entry)];
    let format = judged.format(Some(&markup)).ok_or(Fate::Format)?;
    markup_is_blocked(imp, format, &markup).map_or(Ok(markup), Err)
}

#[cfg(test)]
mod tests;
