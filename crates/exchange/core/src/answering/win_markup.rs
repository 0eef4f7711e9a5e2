//! Markup served on the win notice (section 4.3.1): a bid without `adm`, whose `nurl` returns the
//! ad.
//!
//! If ours is the last auction, the ad is fetched before the response is written: clear the
//! auction; fetch the wins that [`markup_wanted`] lists; apply the rules for inline markup with
//! [`checked_markup`]; bar bids whose markup is not available ([`Judgement::bar`]), and repeat
//! until none is missing. A barred bid is out before the auction clears, so it sets no price.

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

/// A win whose ad must be fetched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MarkupRequest {
    /// The winner, by position among the entries.
    pub entry: usize,
    /// Its DSP, by position in the market.
    pub dsp: usize,
    /// The clearing price, in the auction's currency.
    pub price: Cpm,
    /// Its win notice with macros replaced. If it must not be called, the bid must be barred.
    pub url: Result<String, NotSent>,
    /// Whether the bid names a preloaded ad (`adid`) of a known format, and so may win without
    /// markup. If its notice cannot be delivered now, it is queued like others.
    pub is_preloaded: bool,
}

/// A win notice delivered before the response is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchedMarkup {
    /// [`MarkupRequest::entry`].
    pub entry: usize,
    /// [`MarkupRequest::price`]: the notice is called again at another price.
    pub price: Cpm,
    /// The returned ad; may be empty if the ad is preloaded.
    pub markup: String,
}

/// Wins whose markup must be fetched before the response is written and is not in `fetched`.
///
/// Under [`NoticeMode::Upstream`] our own win notice relays the ad, so only wins with a URL that
/// must not be called are listed. A test has no notices and fetches nothing.
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

/// Checks fetched markup like inline markup; it may be empty only if preloaded. The fate is for
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
