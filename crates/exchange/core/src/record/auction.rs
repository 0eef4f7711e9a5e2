//! The record of one auction, read: what it says, with the rules' own types. Which of it was computed
//! and which was given is not known here.

use units::{Cpm, Currency, Multiplier, Nanos, Ppm, Price};

use super::encode::{RecordedCall, Timings};
use super::outcome::AuctionEnding;
use crate::asking::not_asked::NotAsked;
use crate::auction::fate::Fate;
use crate::auction::terms::AuctionType;
use crate::judging::judge::ResponseFate;
use crate::market::{BidsReturned, NoticeMode};

/// The record of one auction. Positions in it are of things that are there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuctionRecord<'b> {
    /// Ours.
    pub id: &'b str,
    /// The caller's.
    pub caller_id: &'b str,
    /// The generation of the configuration by which it was held, by number.
    pub generation: u64,
    /// When the request's head came, in microseconds of Unix time.
    pub arrival_unix_us: u64,
    /// When its phases were over.
    pub moments: Timings,
    /// Who is paid.
    pub publisher: Option<&'b str>,
    /// Whether no money moved.
    pub is_test: bool,
    /// What the caller waits, as it says.
    pub tmax_ms: Option<u32>,
    /// How it ended, and so how far it came.
    pub ending: AuctionEnding,
    /// Why nothing was sold (OpenRTB 3.0, list: No-Bid Reason Codes).
    pub nbr: Option<u32>,
    /// By what it was held; `None` of one that was refused before that was known.
    pub terms: Option<TermsRecord>,
    /// What was on sale.
    pub imps: Vec<ImpRecord<'b>>,
    /// Deals, by impression.
    pub deals: Vec<DealRecord<'b>>,
    /// DSPs that were not asked, by position in the generation.
    pub not_asked: Vec<(usize, NotAsked)>,
    /// DSPs that were, in market order.
    pub calls: Vec<CallRecord>,
    /// All bids, in the order of their judgement; only those of `sales` where some are left out.
    pub bids: Vec<BidRecord<'b>>,
    /// Bids that belong together.
    pub groups: Vec<GroupRecord>,
    /// What accounts refused, in the order of asking.
    pub refusals: Vec<RefusalRecord>,
    /// What the caller was answered with.
    pub sales: Vec<SaleRecord>,
    /// How many bids are left out.
    pub bids_left_out: usize,
    /// The request's body, masked.
    pub request: Option<&'b [u8]>,
    /// Bodies of answers, by position of their DSP in the generation.
    pub answers: Vec<(usize, &'b [u8])>,
}

/// By what an auction was held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TermsRecord {
    /// In which bids are compared.
    pub currency: Currency,
    /// Of open bids, and of deals that do not say.
    pub auction_type: AuctionType,
    /// What a second price adds.
    pub increment: Cpm,
    /// Who fires notices.
    pub notices: NoticeMode,
    /// How many bids an impression is answered with.
    pub bids_returned: BidsReturned,
}

/// An impression on sale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImpRecord<'b> {
    /// Its id.
    pub id: &'b str,
    /// A set of [`openrtb::codes::MediaType::bit`].
    pub formats: u8,
    /// Whether only bids under deals were welcome.
    pub is_private: bool,
    /// What DSPs must pay for `bidfloor` to be left, in the auction's currency.
    pub bidfloor: Cpm,
    /// What DSPs were told, configured floors included.
    pub shown_floor: Cpm,
    /// Our share of open bids.
    pub fee: Ppm,
    /// How many impressions a display makes.
    pub multiplier: Multiplier,
    /// `bidfloor` as the publisher asked for it, net. None if it asked for none, or of a record that
    /// does not say.
    pub bidfloor_net: Option<Price>,
    /// Whether every open bid had to reach the shown floor, whatever it brought; false too in a record
    /// that does not say.
    pub is_floor_plain: bool,
}

/// A deal on one impression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DealRecord<'b> {
    /// The impression, by position.
    pub imp: usize,
    /// Its id.
    pub id: &'b str,
    /// How its price is made.
    pub auction_type: AuctionType,
    /// Higher classes win over lower ones.
    pub class: u8,
    /// Our share of bids under it.
    pub fee: Ppm,
    /// What the seller takes off them.
    pub discount: Ppm,
    /// Its plain floor as DSPs must pay it, or the price it agrees, in the auction's currency.
    pub floor: Option<Cpm>,
    /// Whether every bid under it had to reach that, or without one the impression's with the deal's
    /// fee; false too in a record that does not say.
    pub is_floor_plain: bool,
}

/// A DSP that was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallRecord {
    /// For what, and what became of it.
    pub call: RecordedCall,
    /// What the answer was, where there was one and it was judged.
    pub response: Option<ResponseFate>,
}

/// One bid, as far as clearing depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BidRecord<'b> {
    /// Whose DSP, by position in the generation: one that was asked and has answered.
    pub dsp: usize,
    /// On whose behalf, by position among the DSP's seats.
    pub seat: Option<usize>,
    /// For which impression, by position.
    pub imp: Option<usize>,
    /// Its id; empty when it could not be read.
    pub id: &'b str,
    /// In what it is made.
    pub currency: Currency,
    /// As it was written.
    pub price: Option<Cpm>,
    /// The deal that it is under, by position.
    pub deal: Option<usize>,
    /// What it had to reach, in the auction's currency.
    pub floor: Option<Cpm>,
    /// What it counted for, in the auction's currency; `Some` of all that took part.
    pub worth: Option<Cpm>,
    /// Orders equal bids.
    pub tie: u64,
    /// The group it belongs to, by position.
    pub group: Option<usize>,
    /// Why it was out before the auction cleared.
    pub barred: Option<Fate>,
    /// Whether its ad is served on a win notice that must not be called.
    pub is_out_of_reach: bool,
    /// What became of it.
    pub fate: Fate,
    /// The campaign that it is of; empty when it names none.
    pub campaign: &'b str,
}

/// Bids that win every impression they are for, or none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupRecord {
    /// Impressions it must win, by position.
    pub imps: Vec<usize>,
    /// Whether it bids on nothing that was not on sale.
    pub is_possible: bool,
}

/// An account that would not pay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefusalRecord {
    /// Which question it was.
    pub question: usize,
    /// The bid, by position: one that took part.
    pub bid: usize,
    /// What it would have had to pay, in the auction's currency.
    pub price: Cpm,
    /// What became of the bid.
    pub fate: Fate,
}

/// A bid that was returned to the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SaleRecord {
    /// By position: one that took part, and has won or is offered.
    pub bid: usize,
    /// The clearing price: gross, in the auction's currency.
    pub price: Cpm,
    /// What the caller was told.
    pub net: Cpm,
    /// What the DSP pays, in the currency of its bid.
    pub paid: Cpm,
    /// What would have tied, in the currency of its bid.
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
