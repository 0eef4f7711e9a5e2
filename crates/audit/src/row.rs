//! One recorded auction as it is exported and printed: the documented schema. Names stand where the
//! record has positions; amounts are integers in the unit that their name ends in.
//!
//! Its types are those of a columnar format: text, integers of 64 bits, truth values, lists, and
//! structures of these; `Option` is a column that may be null. Knows no format.

mod build;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

pub(crate) use build::formats;

/// One of a few words.
pub type Label = Cow<'static, str>;

/// One auction.
///
/// Amounts end in their unit: `_micros` are millionths of a currency unit per 1000 impressions (CPM),
/// `_nanos` thousand-millionths of a currency unit in all, `_ppm` parts per million, `_us`
/// microseconds, since `time_us` where nothing else is said. A name that cannot be resolved, because
/// the generation of the configuration is not known, is `#` and the position in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuctionRow {
    /// When the request's head came, in microseconds of Unix time, UTC.
    pub time_us: u64,
    /// Which node held the auction.
    pub node: u64,
    /// Which start of that node.
    pub epoch: u64,
    /// The number of the record in its log.
    pub sequence: u64,
    /// Our id of the auction: 32 hexadecimal digits.
    pub id: String,
    /// The caller's id of it (`BidRequest.id`).
    pub caller_id: String,
    /// Which generation of the configuration it was held by.
    pub generation: u64,
    /// Who is paid (`publisher.id`); null when none was named.
    pub publisher: Option<String>,
    /// Whether no money moved (`BidRequest.test`).
    pub is_test: bool,
    /// What the caller waits, as it says, in milliseconds.
    pub tmax_ms: Option<u64>,
    /// How it ended: `filled`, `no_bid`, `refused` or `abandoned`.
    pub ending: Label,
    /// Why nothing was sold, by number (OpenRTB 3.0, No-Bid Reason Codes; from 500 on ours).
    pub nbr: Option<u64>,
    /// In which bids were compared and the caller was answered (ISO 4217).
    pub currency: Option<String>,
    /// In which revenue is counted (ISO 4217); null when the generation is not known.
    pub base_currency: Option<String>,
    /// How open bids were priced: `first_price` or `second_price`.
    pub auction_type: Option<Label>,
    /// What a second price added, in `currency`.
    pub increment_micros: Option<u64>,
    /// Who fired notices: `pass_through`, `final` or `upstream`.
    pub notices: Option<Label>,
    /// How many bids an impression was answered with: `winner` or `all`.
    pub bids_returned: Option<Label>,
    /// When the request had been read.
    pub parsed_us: Option<u64>,
    /// When it was known whom to ask for what.
    pub asked_us: Option<u64>,
    /// When all DSPs had answered, or their time was up.
    pub closed_us: Option<u64>,
    /// When it was known who had won, and what they pay.
    pub cleared_us: Option<u64>,
    /// When the answer had been written down: how long the auction took.
    pub answered_us: Option<u64>,
    /// What was then left until the caller's deadline; below 0, it was too late.
    pub left_us: i64,
    /// How many DSPs were asked.
    pub calls_count: u64,
    /// How many bids there were, those that were left out of the record among them.
    pub bids_count: u64,
    /// How many impressions were sold.
    pub wins_count: u64,
    /// How many bids are not in `bids`, because the record would have been too long.
    pub bids_left_out: u64,
    /// What was on sale, in the request's order.
    pub imps: Vec<ImpRow>,
    /// Deals on offer, by impression, in the request's order.
    pub deals: Vec<DealRow>,
    /// DSPs that were not asked.
    pub not_asked: Vec<NotAskedRow>,
    /// DSPs that were asked.
    pub calls: Vec<CallRow>,
    /// All bids, in the order in which they were judged.
    pub bids: Vec<BidRow>,
    /// What the caller was answered with: of each impression the winner, then those beside it.
    pub sales: Vec<SaleRow>,
    /// The request's body, masked; of sampled auctions only.
    pub request: Option<String>,
    /// Bodies of answers; of sampled auctions only.
    pub answers: Vec<AnswerRow>,
}

/// An impression on sale.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImpRow {
    /// `Imp.id`.
    pub id: String,
    /// Which of `banner`, `video`, `audio` and `native` it takes.
    pub formats: Vec<Label>,
    /// Whether only bids under deals were welcome.
    pub is_private: bool,
    /// What DSPs must pay for `Imp.bidfloor` to be left, in the auction's currency.
    pub bidfloor_micros: u64,
    /// What DSPs were told, configured floors included.
    pub shown_floor_micros: u64,
    /// Our share of open bids.
    pub fee_ppm: u64,
    /// Impressions that one display makes (`Qty.multiplier`), in millionths.
    pub multiplier_millionths: u64,
}

/// A deal on one impression.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DealRow {
    /// The impression, by id.
    pub imp: String,
    /// `Deal.id`.
    pub id: String,
    /// How its price is made: `first_price`, `second_price` or `agreed`.
    pub auction_type: Label,
    /// Bids of a higher class win over those of a lower; open bids have 0.
    pub class: u64,
    /// Our share of bids under it.
    pub fee_ppm: u64,
    /// What the seller takes off them.
    pub discount_ppm: u64,
    /// Its floor as DSPs must pay it, or the price it agrees, in the auction's currency.
    pub floor_micros: Option<u64>,
}

/// A DSP that was not asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotAskedRow {
    /// Its id.
    pub dsp: String,
    /// Why, for example `qps` or `breaker`.
    pub reason: Label,
}

/// A DSP that was asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallRow {
    /// Its id.
    pub dsp: String,
    /// For which impressions, by id.
    pub imps: Vec<String>,
    /// Under which deals, by id.
    pub deals: Vec<String>,
    /// The `tmax` that it was to be told, in milliseconds.
    pub tmax_ms: u64,
    /// What became of the call, for example `answered`, `no_bid` or `late`.
    pub outcome: Label,
    /// When it was sent; null when it was not.
    pub sent_us: Option<u64>,
    /// From sending to answer, of one that was answered in time.
    pub latency_us: Option<u64>,
    /// What the answer was: `bids`, `no_bid`, `malformed` (the outcome is `malformed` too) or
    /// `too_many_bids` (the first 256 were judged).
    pub response: Option<Label>,
}

/// One bid.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BidRow {
    /// Whose DSP, by id.
    pub dsp: String,
    /// On whose behalf; null when the DSP has not declared the seat.
    pub seat: Option<String>,
    /// For which impression, by id; null when none was offered that it names.
    pub imp: Option<String>,
    /// `Bid.id`; empty when the bid could not be read.
    pub id: String,
    /// `Bid.cid`.
    pub campaign: Option<String>,
    /// Of `price_micros` (ISO 4217).
    pub currency: String,
    /// `Bid.price` as it was written, rounded down.
    pub price_micros: Option<u64>,
    /// The deal that it is under, by id.
    pub deal: Option<String>,
    /// What it had to reach, in the auction's currency.
    pub floor_micros: Option<u64>,
    /// What it counted for, in the auction's currency; null when it took no part in clearing.
    pub worth_micros: Option<u64>,
    /// Orders equal bids, lower first.
    pub tie: u64,
    /// Bids of one group, which win all impressions they are for or none, have the same number.
    pub group: Option<u64>,
    /// Why it was out before the auction cleared; of bids that took part.
    pub barred: Option<Label>,
    /// Whether its ad is served on a win notice that must not be called.
    pub is_out_of_reach: bool,
    /// What became of it, for example `won`, `lost_to_higher_bid` or `below_floor`.
    pub fate: Label,
}

/// A bid that was returned to the caller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SaleRow {
    /// The bid, by position in `bids`, from 0.
    pub bid: u64,
    /// `Bid.id`.
    pub id: String,
    /// The impression, by id.
    pub imp: String,
    /// Whose DSP, by id.
    pub dsp: String,
    /// On whose behalf.
    pub seat: String,
    /// The deal that it is under, by id.
    pub deal: Option<String>,
    /// `Bid.cid`.
    pub campaign: Option<String>,
    /// `won`, or `offered` beside the winner.
    pub fate: Label,
    /// The clearing price, gross, in the auction's currency.
    pub price_micros: u64,
    /// What the caller was told: the clearing price less our fee.
    pub net_micros: u64,
    /// What the DSP pays, in `paid_currency`.
    pub paid_micros: u64,
    /// The currency of the bid (ISO 4217).
    pub paid_currency: String,
    /// The least that would have won, in `paid_currency`; null when no price would have.
    pub min_to_win_micros: Option<u64>,
    /// What the DSP owes for all impressions of one display, in `base_currency`.
    pub revenue_nanos: u64,
}

/// The body of a DSP's answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnswerRow {
    /// Whose, by id.
    pub dsp: String,
    /// As it came, decompressed.
    pub body: String,
}

/// A settlement: a beacon that bills an account. Read by `log cat --settlements`, and exported apart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SettlementRow {
    /// When the beacon was called, in microseconds of Unix time, UTC.
    pub time_us: u64,
    /// Which node recorded it.
    pub node: u64,
    /// Which start of that node.
    pub epoch: u64,
    /// The number of the record in the durable lane.
    pub sequence: u64,
    /// The beacon, which settles once: 48 hexadecimal digits.
    pub id: String,
    /// Our id of the auction (`id` of its row).
    pub auction: String,
    /// The bid, by position in the auction's `bids`, from 0; in all of them, where some are left out.
    pub bid: u64,
    /// The impression, by position in the request.
    pub imp: u64,
    /// The DSP that is told; null when nobody is.
    pub dsp: Option<String>,
    /// What the account is billed, in nanos of `currency`.
    pub amount_nanos: u64,
    /// The account's currency (ISO 4217).
    pub currency: String,
    /// When the beacon would have expired, in microseconds of Unix time.
    pub expires_us: u64,
}
