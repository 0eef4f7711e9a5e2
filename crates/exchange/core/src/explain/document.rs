//! An explanation as data: the output of `vickrey explain --json` and the value of `ext.debug`.
//!
//! Amounts are decimal text, so that no reader rounds them. An amount without a currency is in
//! [`ExplainedTerms::currency`]. Text of callers and DSPs is shortened. Contains no rules.

use serde::{Deserialize, Serialize};

/// Version of this format, increased when a member changes its meaning or is removed.
pub const FORMAT: u32 = 1;

/// One auction from request to notices, explained as if it were not a test.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Explanation {
    /// [`FORMAT`].
    pub format: u32,
    /// Our auction id, which DSPs see.
    pub auction_id: String,
    /// The request.
    pub request: ExplainedRequest,
    /// The auction's terms. None if there is no auction.
    pub terms: Option<ExplainedTerms>,
    /// Exchange rates used below.
    pub rates: Vec<ExplainedRate>,
    /// What is known about the request and added to it for DSPs.
    #[serde(default)]
    pub enrichments: Vec<ExplainedEnrichment>,
    /// Impressions.
    pub imps: Vec<ExplainedImp>,
    /// Configured DSPs, with their calls and answers.
    pub dsps: Vec<ExplainedDsp>,
    /// Every bid, in judging order.
    pub bids: Vec<ExplainedBid>,
    /// Clearing, by impression.
    pub clearing: Vec<ExplainedClearing>,
    /// Why nothing is sold.
    pub no_bid: Option<ExplainedNoBid>,
    /// The bid response, with tokens replaced by their names in [`ExplainedNotices::later`].
    pub response: Option<String>,
    /// The notices that would be sent.
    pub notices: ExplainedNotices,
    /// What was left out to limit the size.
    pub omitted: ExplainedOmissions,
}

/// The request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExplainedRequest {
    /// `id`.
    pub id: String,
    /// The publisher's id.
    pub publisher: Option<String>,
    /// `device.geo.country`.
    pub country: Option<String>,
    /// `tmax`.
    pub tmax_ms: Option<u32>,
    /// Paths of fields whose type is not the standard's; DSPs do not see them.
    #[serde(default)]
    pub dropped: Vec<String>,
    /// `test`: if set, the response has no notices.
    pub test: bool,
}

/// One `[[exchange.enrich]]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExplainedEnrichment {
    /// Its name.
    pub name: String,
    /// The value of the request that it is about, as `user.id`.
    pub value: String,
    /// Where it is added, as `user.data`.
    pub into: String,
    /// Label of `vickrey_exchange_enrichments_total`.
    pub outcome: String,
    /// The outcome as a sentence.
    pub why: String,
    /// Age of the data. None without data.
    pub age_ms: Option<u64>,
    /// The JSON text that is added. None if nothing is.
    pub added: Option<String>,
}

/// Terms of the whole auction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExplainedTerms {
    /// Currency of the comparison and of the response.
    pub currency: String,
    /// `first_price` or `second_price`, unless a deal says otherwise.
    pub auction_type: String,
    /// Added to the second price.
    pub increment: String,
    /// Our share, as `10%`, unless a deal says otherwise.
    pub fee: String,
    /// Who fires notices: `pass_through`, `final` or `upstream`.
    pub notices: String,
    /// `winner` or `all`.
    pub bids_returned: String,
    /// Budgets of accounts: `unlimited`, because an explained auction is a test and moves no money.
    pub budgets: String,
}

/// An exchange rate. Conversion is exact; `one` is rounded down to six places.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExplainedRate {
    /// Currency.
    pub from: String,
    /// Currency.
    pub to: String,
    /// The value of one unit of `from`, in `to`.
    pub one: String,
}

/// An impression.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExplainedImp {
    /// Its id.
    pub id: String,
    /// Formats with their sizes, as `banner 300x250`.
    pub formats: Vec<String>,
    /// Why it is not sold. None if it is on sale.
    pub not_sold: Option<String>,
    /// `pmp.private_auction`: only bids under deals take part.
    pub private: bool,
    /// Impressions per display.
    pub multiplier: String,
    /// `imp.bidfloor`.
    pub floor: Option<ExplainedFloor>,
    /// Whether it has floors by duration; each bid shows the one that applies.
    pub floors_by_duration: bool,
    /// `[[floor]]` rules for this publisher and country.
    pub rules: Vec<ExplainedRule>,
    /// Its deals.
    pub deals: Vec<ExplainedDeal>,
}

/// A floor: the publisher's net, and what DSPs must pay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExplainedFloor {
    /// The publisher's net.
    pub net: String,
    /// The currency of `net`.
    pub currency: String,
    /// `net` in the auction's currency, rounded up.
    pub converted: String,
    /// Our share, added to the net.
    pub fee: String,
    /// What DSPs must pay.
    pub gross: String,
}

/// A configured floor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExplainedRule {
    /// Bids it applies to, as `banner 300x250`. Empty if to all.
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
    /// Priority class: higher classes win over lower ones; open bids have 0.
    pub class: u8,
    /// Our share.
    pub fee: String,
    /// The seller's discount on every bid.
    pub discount: String,
    /// Why it is not on offer. None if it is.
    pub not_sold: Option<String>,
    /// Its own floor. None if it has none, or has an agreed price.
    pub floor: Option<ExplainedFloor>,
    /// The agreed price.
    pub agreed: Option<String>,
}

/// One configured DSP.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExplainedDsp {
    /// Its id.
    pub id: String,
    /// The call. None if it is not asked.
    pub asked: Option<ExplainedCall>,
    /// Why it is not asked.
    pub not_asked: Option<ExplainedRefusal>,
    /// The result of the call.
    pub answer: Option<ExplainedAnswer>,
}

/// A call of a DSP.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExplainedCall {
    /// Impressions by id.
    pub imps: Vec<String>,
    /// Deals by id.
    pub deals: Vec<String>,
    /// The `tmax` sent to it.
    pub tmax_ms: u32,
}

/// Why a DSP is not asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExplainedRefusal {
    /// Label of `vickrey_exchange_dsp_not_asked_total`.
    pub reason: String,
    /// The reason as a sentence, with the values.
    pub why: String,
}

/// The result of a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExplainedAnswer {
    /// Label of `vickrey_exchange_dsp_calls_total`.
    pub outcome: String,
    /// The outcome as a sentence.
    pub why: String,
    /// From request to answer, if measured.
    pub latency_us: Option<u64>,
    /// Number of bids.
    pub bids: usize,
}

/// One bid.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExplainedBid {
    /// Number of the bid, from 1, to which other members refer.
    pub number: usize,
    /// The DSP's id.
    pub dsp: String,
    /// The seat's id.
    pub seat: Option<String>,
    /// Its own id.
    pub id: Option<String>,
    /// The impression's id.
    pub imp: Option<String>,
    /// The deal's id.
    pub deal: Option<String>,
    /// The currency of `price` and `offer`.
    pub currency: String,
    /// Its price as written.
    pub price: Option<String>,
    /// The price after the deal's discount.
    pub offer: Option<String>,
    /// The offer in the auction's currency, rounded down.
    pub worth: Option<String>,
    /// The floor it must reach. None if an earlier check failed.
    pub floor: Option<String>,
    /// Label of `vickrey_exchange_bids_total`.
    pub fate: String,
    /// Its loss code.
    pub code: u32,
    /// The fate as a sentence.
    pub why: String,
}

/// The clearing of one impression.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExplainedClearing {
    /// The impression's id.
    pub imp: String,
    /// Bids that took part, best first.
    pub ranking: Vec<ExplainedRank>,
    /// The winner and its price.
    pub won: Option<ExplainedWin>,
    /// Bids returned with the winner.
    pub offered: Vec<ExplainedOffer>,
}

/// A ranked bid.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExplainedRank {
    /// [`ExplainedBid::number`].
    pub bid: usize,
    /// Its class.
    pub class: u8,
    /// Its price in clearing.
    pub price: String,
    /// Its floor.
    pub floor: String,
    /// Orders equal bids, lowest first.
    pub tie: String,
    /// Why it is out and sets no price. None if it is in.
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
    /// The clearing price: gross.
    pub price: String,
    /// Our share of `price`.
    pub fee: String,
    /// The price in the response.
    pub net: String,
    /// What the DSP pays, in its bid's currency.
    pub paid: String,
    /// The currency of `paid`.
    pub paid_currency: String,
    /// `${AUCTION_MIN_TO_WIN}`, in the bid's currency.
    pub min_to_win: Option<String>,
    /// What one display costs the DSP, in the exchange's base currency.
    pub revenue: String,
    /// The arithmetic, line by line.
    pub steps: Vec<String>,
}

/// A bid returned with the winner.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExplainedOffer {
    /// [`ExplainedBid::number`].
    pub bid: usize,
    /// Its own price, gross.
    pub price: String,
    /// The price in the response.
    pub net: String,
}

/// Why nothing is sold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExplainedNoBid {
    /// The value of `nbr`.
    pub nbr: u32,
    /// Label of `vickrey_exchange_auctions_total`.
    pub reason: String,
    /// The reason as a sentence.
    pub why: String,
}

/// The notices that would be sent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExplainedNotices {
    /// Win notices that would be called for their ads. Bids count as if the calls had succeeded.
    pub for_markup: Vec<ExplainedMarkupCall>,
    /// Notices that we would send after the response.
    pub now: Vec<ExplainedNotice>,
    /// Notices that we would send when their tokens are called.
    pub later: Vec<ExplainedBeacon>,
    /// Notices in the response, which the caller fires.
    pub callers: Vec<ExplainedNotice>,
    /// Notices of bids that would not be sent.
    pub not_sent: Vec<ExplainedUnsent>,
    /// Ads without our beacon. They are never billed, unless a secure impression is the reason.
    pub unmarked: Vec<ExplainedUnmarked>,
}

/// A win notice whose response is the ad.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExplainedMarkupCall {
    /// [`ExplainedBid::number`].
    pub bid: usize,
    /// The URL. None if it must not be called; the bid then loses for lack of markup.
    pub url: Option<String>,
    /// Why it must not be called.
    pub problem: Option<String>,
}

/// A notice with its macros replaced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExplainedNotice {
    /// The DSP's id.
    pub dsp: String,
    /// `win`, `billing` or `loss`.
    pub kind: String,
    /// The URL.
    pub url: String,
}

/// A notice that one of our tokens triggers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExplainedBeacon {
    /// The token's name in `response`.
    pub token: String,
    /// The DSP's id.
    pub dsp: String,
    /// `win`, `billing` or `loss`.
    pub kind: String,
    /// The URL called when the token is. None if the DSP has none: the call is only recorded.
    pub url: Option<String>,
    /// Whether the DSP's response is the ad, which we relay.
    pub relays_markup: bool,
}

/// A notice that would not be sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExplainedUnsent {
    /// The DSP's id.
    pub dsp: String,
    /// `win`, `billing` or `loss`.
    pub kind: String,
    /// Label of `vickrey_exchange_notices_unsent_total`.
    pub reason: String,
}

/// An ad without our beacon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExplainedUnmarked {
    /// The DSP's id.
    pub dsp: String,
    /// Label of `vickrey_exchange_ads_unmarked_total`.
    pub reason: String,
}

/// What was left out to limit the size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExplainedOmissions {
    /// Losing bids.
    pub bids: usize,
    /// Ranked bids.
    pub ranked: usize,
    /// Notices.
    pub notices: usize,
    /// Whether the response was left out.
    pub response: bool,
}
