//! An explanation as data: what `vickrey explain --json` prints and `ext.debug` holds.
//!
//! Amounts are decimal text, so that no reader rounds them; where no currency stands beside one, it
//! is of [`ExplainedTerms::currency`]. Text that callers and DSPs have chosen is shortened. Knows no rule.

use serde::{Deserialize, Serialize};

/// The number of this form: it changes when a member changes its meaning or goes.
pub const FORMAT: u32 = 1;

/// One auction from request to notices, as if its request were no test.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Explanation {
    /// [`FORMAT`].
    pub format: u32,
    /// Our id of the auction, which DSPs see.
    pub auction_id: String,
    /// What was asked for.
    pub request: ExplainedRequest,
    /// By what terms; absent when no auction is held.
    pub terms: Option<ExplainedTerms>,
    /// Every rate that converts something below.
    pub rates: Vec<ExplainedRate>,
    /// What is on sale.
    pub imps: Vec<ExplainedImp>,
    /// Who is asked, why not, and what came.
    pub dsps: Vec<ExplainedDsp>,
    /// Every bid, in the order in which it was judged.
    pub bids: Vec<ExplainedBid>,
    /// By impression.
    pub clearing: Vec<ExplainedClearing>,
    /// Why nothing is sold.
    pub no_bid: Option<ExplainedNoBid>,
    /// The bid response, but that tokens are replaced by their names in [`ExplainedNotices::later`].
    pub response: Option<String>,
    /// Who would be told what.
    pub notices: ExplainedNotices,
    /// What is left out because there is too much of it.
    pub omitted: ExplainedOmissions,
}

/// What was asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExplainedRequest {
    /// The caller's id.
    pub id: String,
    /// Who is paid.
    pub publisher: Option<String>,
    /// Of the device.
    pub country: Option<String>,
    /// What the caller waits, as it says.
    pub tmax_ms: Option<u32>,
    /// Where fields stand that have another type than the standard's: DSPs do not see them.
    #[serde(default)]
    pub dropped: Vec<String>,
    /// Whether it says that it is a test: then it is answered without notices.
    pub test: bool,
}

/// Terms of the whole auction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExplainedTerms {
    /// In which bids are compared and the caller is answered.
    pub currency: String,
    /// `first_price` or `second_price`, where a deal does not say otherwise.
    pub auction_type: String,
    /// What a second price adds to the best other bid.
    pub increment: String,
    /// Our share, where a deal does not say otherwise, as `10%`.
    pub fee: String,
    /// Who fires notices: `pass_through`, `final` or `upstream`.
    pub notices: String,
    /// `winner` or `all`.
    pub bids_returned: String,
    /// What accounts may spend: `unlimited`, for what is explained is a test, which moves no money.
    pub budgets: String,
}

/// A rate: one unit of `from` in `to`. Conversion is exact; this is rounded down to six places.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExplainedRate {
    /// Currency.
    pub from: String,
    /// Currency.
    pub to: String,
    /// What one is worth.
    pub one: String,
}

/// An impression on sale.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExplainedImp {
    /// Its id.
    pub id: String,
    /// Formats with their sizes, as `banner 300x250`.
    pub formats: Vec<String>,
    /// Why it is not sold; absent if it is on sale.
    pub not_sold: Option<String>,
    /// Whether only bids under deals are welcome.
    pub private: bool,
    /// How many impressions one display is.
    pub multiplier: String,
    /// `imp.bidfloor`.
    pub floor: Option<ExplainedFloor>,
    /// Whether there are floors by duration beside it: what they come to stands with each bid.
    pub floors_by_duration: bool,
    /// `[[floor]]` rules for this publisher and country.
    pub rules: Vec<ExplainedRule>,
    /// Its deals.
    pub deals: Vec<ExplainedDeal>,
}

/// From a publisher's net to what DSPs must pay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExplainedFloor {
    /// The publisher's net.
    pub net: String,
    /// The currency of `net`.
    pub currency: String,
    /// The same in the auction's currency, rounded up.
    pub converted: String,
    /// Our share, added to it.
    pub fee: String,
    /// What DSPs must pay.
    pub gross: String,
}

/// A configured floor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExplainedRule {
    /// For which bids, as `banner 300x250`; empty: all.
    pub on: String,
    /// The floor.
    pub floor: ExplainedFloor,
}

/// A deal on an impression.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExplainedDeal {
    /// Its id.
    pub id: String,
    /// `first_price`, `second_price` or `agreed`.
    pub auction_type: String,
    /// Its class: a higher one beats every lower; open bids have 0.
    pub class: u8,
    /// Our share.
    pub fee: String,
    /// What the seller takes off every bid.
    pub discount: String,
    /// Why it is offered to nobody; absent if it is on offer.
    pub not_sold: Option<String>,
    /// Its own floor; absent where it has none, or agrees a price.
    pub floor: Option<ExplainedFloor>,
    /// The price it agrees.
    pub agreed: Option<String>,
}

/// One configured DSP.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExplainedDsp {
    /// Its id.
    pub id: String,
    /// What it is asked for.
    pub asked: Option<ExplainedCall>,
    /// Why it is not.
    pub not_asked: Option<ExplainedRefusal>,
    /// What came of asking.
    pub answer: Option<ExplainedAnswer>,
}

/// What a DSP is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExplainedCall {
    /// Impressions by id.
    pub imps: Vec<String>,
    /// Deals by id.
    pub deals: Vec<String>,
    /// The `tmax` that it is told.
    pub tmax_ms: u32,
}

/// Why a DSP is not asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExplainedRefusal {
    /// As `vickrey_exchange_dsp_not_asked_total` has it.
    pub reason: String,
    /// In a sentence, with the values.
    pub why: String,
}

/// What came of asking a DSP.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExplainedAnswer {
    /// As `vickrey_exchange_dsp_calls_total` has it.
    pub outcome: String,
    /// In a sentence.
    pub why: String,
    /// From question to answer, where it was measured.
    pub latency_us: Option<u64>,
    /// Bids in it.
    pub bids: usize,
}

/// One bid.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExplainedBid {
    /// From 1, by which it is named elsewhere.
    pub number: usize,
    /// Whose DSP.
    pub dsp: String,
    /// On whose behalf.
    pub seat: Option<String>,
    /// Its own id.
    pub id: Option<String>,
    /// The impression it is for.
    pub imp: Option<String>,
    /// The deal it is under.
    pub deal: Option<String>,
    /// The currency of `price` and `offer`.
    pub currency: String,
    /// What it says.
    pub price: Option<String>,
    /// What is left of it after its deal's discount.
    pub offer: Option<String>,
    /// The offer in the auction's currency, rounded down.
    pub worth: Option<String>,
    /// What it had to reach, where its checks came so far.
    pub floor: Option<String>,
    /// As `vickrey_exchange_bids_total` has it.
    pub fate: String,
    /// The loss code that reports it.
    pub code: u32,
    /// In a sentence.
    pub why: String,
}

/// How one impression clears.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExplainedClearing {
    /// The impression's id.
    pub imp: String,
    /// Bids that took part, the best first.
    pub ranking: Vec<ExplainedRank>,
    /// Who wins, and the price.
    pub won: Option<ExplainedWin>,
    /// Bids returned beside the winner.
    pub offered: Vec<ExplainedOffer>,
}

/// A bid in its rank.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExplainedRank {
    /// [`ExplainedBid::number`].
    pub bid: usize,
    /// Its class.
    pub class: u8,
    /// What it counts for.
    pub price: String,
    /// Its floor.
    pub floor: String,
    /// Orders equal bids, lower first.
    pub tie: String,
    /// Why it is out, and sets no price; absent of one that is in.
    pub out: Option<String>,
}

/// A won impression.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExplainedWin {
    /// [`ExplainedBid::number`].
    pub bid: usize,
    /// `first_price`, `second_price` or `agreed`.
    pub pricing: String,
    /// The bid that sets a second price: the best of another seat in the winner's class.
    pub next: Option<usize>,
    /// What DSPs call the clearing price: gross.
    pub price: String,
    /// Our share of it.
    pub fee: String,
    /// What the caller is told.
    pub net: String,
    /// What the DSP pays, in its bid's currency.
    pub paid: String,
    /// The currency of `paid`.
    pub paid_currency: String,
    /// `${AUCTION_MIN_TO_WIN}`, in the bid's currency.
    pub min_to_win: Option<String>,
    /// What one display costs the DSP, in the exchange's own currency.
    pub revenue: String,
    /// The arithmetic, line by line.
    pub steps: Vec<String>,
}

/// A bid returned beside the winner.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExplainedOffer {
    /// [`ExplainedBid::number`].
    pub bid: usize,
    /// Its own price, gross.
    pub price: String,
    /// What the caller is told.
    pub net: String,
}

/// Why nothing is sold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExplainedNoBid {
    /// The value of `nbr`.
    pub nbr: u32,
    /// As `vickrey_exchange_auctions_total` has it.
    pub reason: String,
    /// In a sentence.
    pub why: String,
}

/// Who would be told what.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExplainedNotices {
    /// Win notices that would be called before the answer, because they answer with the ad. Here
    /// they are not called, and their bids stand as if they had.
    pub for_markup: Vec<ExplainedMarkupCall>,
    /// Notices that we would send once the answer is written.
    pub now: Vec<ExplainedNotice>,
    /// Notices that wait behind our tokens.
    pub later: Vec<ExplainedBeacon>,
    /// Notices in the response that are the caller's to call.
    pub callers: Vec<ExplainedNotice>,
    /// Notices that bids name, and that would not be sent.
    pub not_sent: Vec<ExplainedUnsent>,
    /// Ads without a beacon of ours: never billed, unless a secure impression is the reason.
    pub unmarked: Vec<ExplainedUnmarked>,
}

/// A win notice that answers with the ad.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExplainedMarkupCall {
    /// [`ExplainedBid::number`].
    pub bid: usize,
    /// What would be called; absent where it must not be, and the bid would lose with no markup.
    pub url: Option<String>,
    /// Why it must not be called.
    pub problem: Option<String>,
}

/// A notice with its macros replaced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExplainedNotice {
    /// To whom.
    pub dsp: String,
    /// `win`, `billing` or `loss`.
    pub kind: String,
    /// What is called.
    pub url: String,
}

/// A notice behind a token of ours.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExplainedBeacon {
    /// What stands in the response instead of the token.
    pub token: String,
    /// To whom.
    pub dsp: String,
    /// `win`, `billing` or `loss`.
    pub kind: String,
    /// What is called when the token is; absent where the DSP names nothing: it is only recorded.
    pub url: Option<String>,
    /// Whether the DSP's answer is the ad, and ours to hand on.
    pub relays_markup: bool,
}

/// A notice that would not be sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExplainedUnsent {
    /// To whom.
    pub dsp: String,
    /// `win`, `billing` or `loss`.
    pub kind: String,
    /// As `vickrey_exchange_notices_unsent_total` has it.
    pub reason: String,
}

/// An ad without a beacon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExplainedUnmarked {
    /// Whose.
    pub dsp: String,
    /// As `vickrey_exchange_ads_unmarked_total` has it.
    pub reason: String,
}

/// What is left out because there is too much of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExplainedOmissions {
    /// Bids that lost.
    pub bids: usize,
    /// Bids in rankings.
    pub ranked: usize,
    /// Notices.
    pub notices: usize,
    /// Whether the response is.
    pub response: bool,
}
