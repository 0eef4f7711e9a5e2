//! A decoded auction record, in the rules' types.

use units::{Cpm, Currency, Multiplier, Nanos, Ppm, Price};

use super::encode::{RecordedCall, Timings};
use super::outcome::AuctionEnding;
use crate::asking::not_asked::NotAsked;
use crate::auction::enriched::EnrichmentOutcome;
use crate::auction::fate::Fate;
use crate::auction::terms::AuctionType;
use crate::judging::judge::ResponseFate;
use crate::market::{BidsReturned, NoticeMode};

/// The record of one auction. Its positions are valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuctionRecord<'b> {
    /// Our id.
    pub id: &'b str,
    /// The caller's id.
    pub caller_id: &'b str,
    /// Number of the configuration's generation.
    pub generation: u64,
    /// When the request's head arrived, in microseconds of Unix time.
    pub arrival_unix_us: u64,
    /// When its phases ended.
    pub timings: Timings,
    /// The publisher.
    pub publisher: Option<&'b str>,
    /// Whether it was a test.
    pub is_test: bool,
    /// The request's `tmax`.
    pub tmax_ms: Option<u32>,
    /// How it ended.
    pub ending: AuctionEnding,
    /// Why nothing was sold (OpenRTB 3.0, list: No-Bid Reason Codes).
    pub nbr: Option<u32>,
    /// Its terms. None if it was refused before they were known.
    pub terms: Option<TermsRecord>,
    /// Impressions on sale.
    pub imps: Vec<ImpRecord<'b>>,
    /// Deals, by impression.
    pub deals: Vec<DealRecord<'b>>,
    /// DSPs that were not asked, by position in the generation.
    pub not_asked: Vec<(usize, NotAsked)>,
    /// DSPs that were asked, in market order.
    pub calls: Vec<CallRecord>,
    /// All bids in the order of judging, or only those of `sales` if some are left out.
    pub bids: Vec<BidRecord<'b>>,
    /// Groups of bids.
    pub groups: Vec<GroupRecord>,
    /// Refusals by accounts, in the order of requests.
    pub refusals: Vec<RefusalRecord>,
    /// Bids returned to the caller.
    pub sales: Vec<SaleRecord>,
    /// How many bids are left out.
    pub bids_left_out: usize,
    /// The request's body, masked.
    pub request: Option<&'b [u8]>,
    /// Bodies of answers, by position of their DSP in the generation.
    pub answers: Vec<(usize, &'b [u8])>,
    /// What each enrichment did, in the generation's order.
    pub enrichments: Vec<EnrichmentResult<'b>>,
}

/// What one enrichment did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EnrichmentResult<'b> {
    /// What came of it.
    pub outcome: EnrichmentOutcome,
    /// What was added to the request; empty if nothing was.
    pub text: &'b str,
    /// Age of the data, in milliseconds.
    pub age_ms: u64,
}

/// The terms of an auction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TermsRecord {
    /// Currency of the comparison.
    pub currency: Currency,
    /// The auction type of open bids, and of deals that name none.
    pub auction_type: AuctionType,
    /// Added to a second price.
    pub increment: Cpm,
    /// Who fires notices.
    pub notices: NoticeMode,
    /// How many bids per impression the response has.
    pub bids_returned: BidsReturned,
}

/// An impression on sale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImpRecord<'b> {
    /// Its id.
    pub id: &'b str,
    /// A set of [`openrtb::codes::MediaType::bit`].
    pub formats: u8,
    /// Whether only bids under deals took part.
    pub is_private: bool,
    /// The floor for DSPs at which the publisher nets `bidfloor`, in the auction's currency.
    pub bidfloor: Cpm,
    /// The floor shown to DSPs, configured floors included.
    pub shown_floor: Cpm,
    /// Our share of open bids.
    pub fee: Ppm,
    /// Impressions per display.
    pub multiplier: Multiplier,
    /// The publisher's `bidfloor`, net. None if the request or the record has none.
    pub bidfloor_net: Option<Price>,
    /// Whether the shown floor applied to every open bid. False if the record does not say.
    pub is_floor_plain: bool,
}

/// A deal on one impression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DealRecord<'b> {
    /// The impression, by position.
    pub imp: usize,
    /// Its id.
    pub id: &'b str,
    /// How its price is set.
    pub auction_type: AuctionType,
    /// Higher classes win over lower ones.
    pub class: u8,
    /// Our share of bids under it.
    pub fee: Ppm,
    /// The seller's discount on them.
    pub discount: Ppm,
    /// Its plain floor as DSPs pay it, or its agreed price, in the auction's currency.
    pub floor: Option<Cpm>,
    /// Whether that floor, or the impression's with the deal's fee, applied to all bids under the
    /// deal. False if the record does not say.
    pub is_floor_plain: bool,
    /// Its position among the generation's sold deals. None if it was in the request.
    pub sold: Option<usize>,
}

/// A DSP that was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallRecord {
    /// The call and its outcome.
    pub call: RecordedCall,
    /// The fate of the answer, if one was judged.
    pub response: Option<ResponseFate>,
}

/// One bid, as far as clearing depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BidRecord<'b> {
    /// The DSP, by position in the generation.
    pub dsp: usize,
    /// The seat, by position among the DSP's.
    pub seat: Option<usize>,
    /// The impression, by position.
    pub imp: Option<usize>,
    /// Its id; empty if it could not be read.
    pub id: &'b str,
    /// Its currency.
    pub currency: Currency,
    /// Its price as written.
    pub price: Option<Cpm>,
    /// Its deal, by position.
    pub deal: Option<usize>,
    /// Its floor, in the auction's currency.
    pub floor: Option<Cpm>,
    /// Its value in clearing, in the auction's currency. None if it did not take part.
    pub worth: Option<Cpm>,
    /// Orders equal bids.
    pub tie: u64,
    /// Its group, by position.
    pub group: Option<usize>,
    /// Why it was barred from clearing.
    pub barred: Option<Fate>,
    /// Whether its win notice, which serves its ad, must not be called.
    pub is_out_of_reach: bool,
    /// Its fate.
    pub fate: Fate,
    /// Its campaign; empty without one.
    pub campaign: &'b str,
}

/// Bids that win every impression they are for, or none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupRecord {
    /// Impressions it must win, by position.
    pub imps: Vec<usize>,
    /// Whether all its impressions were on sale.
    pub is_possible: bool,
}

/// A winner's cost that its account refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefusalRecord {
    /// Number of the request to the accounts.
    pub question: usize,
    /// The bid, by position.
    pub bid: usize,
    /// The clearing price, in the auction's currency.
    pub price: Cpm,
    /// The bid's fate.
    pub fate: Fate,
}

/// A bid that was returned to the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SaleRecord {
    /// The bid, by position.
    pub bid: usize,
    /// The clearing price: gross, in the auction's currency.
    pub price: Cpm,
    /// The net price in the response.
    pub net: Cpm,
    /// What the DSP pays, in the currency of its bid.
    pub paid: Cpm,
    /// Lowest price that would have tied, in the currency of its bid.
    pub min_to_win: Option<Cpm>,
    /// What the DSP owes for all impressions of one display, in the base currency.
    pub revenue: Nanos,
}

impl AuctionRecord<'_> {
    /// Whether answers were judged and bids cleared.
    pub const fn was_held(&self) -> bool {
        matches!(self.ending, AuctionEnding::Filled | AuctionEnding::NoBid)
    }
}
