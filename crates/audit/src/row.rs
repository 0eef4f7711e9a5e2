//! The documented schema of a recorded auction, as exported and printed. Records store positions,
//! rows store names; amounts are integers in the unit at the end of their name.
//!
//! Its types are those of columnar formats: text, 64-bit integers, booleans, lists and structures;
//! `Option` is a nullable column. Knows no format.

mod build;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

pub use build::AuctionRows;
pub(crate) use build::formats;

/// One of a few fixed words.
pub type Label = Cow<'static, str>;

/// One auction.
///
/// The end of a name is its unit: `_micros` are millionths of a currency unit per 1000 impressions
/// (CPM), `_nanos` billionths of a currency unit in total, `_ppm` parts per million, and `_us`
/// microseconds, since `time_us` unless stated otherwise. A name that cannot be resolved, because
/// the generation of the configuration is unknown, is `#` and its position there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuctionRow {
    /// When the request's head arrived, in microseconds of Unix time, UTC.
    pub time_us: u64,
    /// The node that ran the auction.
    pub node: u64,
    /// The node's epoch, which grows with each start and each failed commit.
    pub epoch: u64,
    /// Sequence number of the record in its lane.
    pub sequence: u64,
    /// Our id of the auction: 32 hexadecimal digits.
    pub id: String,
    /// The caller's id (`BidRequest.id`).
    pub caller_id: String,
    /// The generation of the configuration that was in force.
    pub generation: u64,
    /// The publisher (`publisher.id`); null if the request names none.
    pub publisher: Option<String>,
    /// Whether it was a test (`BidRequest.test`), which moves no money.
    pub is_test: bool,
    /// The caller's timeout (`BidRequest.tmax`), in milliseconds.
    pub tmax_ms: Option<u64>,
    /// The result: `filled`, `no_bid`, `refused` or `abandoned`.
    pub ending: Label,
    /// Why nothing was sold, as a code (OpenRTB 3.0, No-Bid Reason Codes; ours begin at 500).
    pub nbr: Option<u64>,
    /// Currency of clearing and of the response (ISO 4217).
    pub currency: Option<String>,
    /// Currency of revenue (ISO 4217); null if the generation is unknown.
    pub base_currency: Option<String>,
    /// Pricing of open bids: `first_price` or `second_price`.
    pub auction_type: Option<Label>,
    /// Increment of the second price, in `currency`.
    pub increment_micros: Option<u64>,
    /// How notices were fired: `pass_through`, `final` or `upstream`.
    pub notices: Option<Label>,
    /// Bids returned per impression: `winner` or `all`.
    pub bids_returned: Option<Label>,
    /// When the request was parsed.
    pub parsed_us: Option<u64>,
    /// When the DSPs to call were chosen.
    pub asked_us: Option<u64>,
    /// When all DSPs had responded, or the deadline passed.
    pub closed_us: Option<u64>,
    /// When winners and prices were determined.
    pub cleared_us: Option<u64>,
    /// When the response was written: the duration of the auction.
    pub answered_us: Option<u64>,
    /// Time left until the caller's deadline; negative if the response was too late.
    pub left_us: i64,
    /// Number of DSPs called.
    pub calls_count: u64,
    /// Number of bids, including those left out of the record.
    pub bids_count: u64,
    /// Number of impressions sold.
    pub wins_count: u64,
    /// Number of bids missing from `bids`, because the record would have been too long.
    pub bids_left_out: u64,
    /// Impressions on sale, in the request's order.
    pub imps: Vec<ImpRow>,
    /// Deals on offer, by impression, in the request's order.
    pub deals: Vec<DealRow>,
    /// DSPs that were not called.
    pub not_asked: Vec<NotAskedRow>,
    /// DSPs that were called.
    pub calls: Vec<CallRow>,
    /// All bids, in the order of judging.
    pub bids: Vec<BidRow>,
    /// Bids returned to the caller: each impression's winner, then the bids beside it.
    pub sales: Vec<SaleRow>,
    /// The request's body, masked; only for sampled auctions.
    pub request: Option<String>,
    /// Bodies of responses; only for sampled auctions.
    pub answers: Vec<AnswerRow>,
    /// What each enrichment did, in the order of the configuration.
    pub enrichments: Vec<EnrichmentRow>,
}

/// What one `[[exchange.enrich]]` did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnrichmentRow {
    /// Its name.
    pub name: String,
    /// The outcome, for example `added`, `unknown` or `withheld`.
    pub outcome: Label,
    /// Age of the data, in milliseconds.
    pub age_ms: u64,
    /// The JSON text that was added to the request for DSPs; null if none was.
    pub text: Option<String>,
}

/// An impression on sale.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImpRow {
    /// `Imp.id`.
    pub id: String,
    /// Formats that it accepts: `banner`, `video`, `audio`, `native`.
    pub formats: Vec<Label>,
    /// Whether only bids under deals are accepted.
    pub is_private: bool,
    /// The gross bid that nets `Imp.bidfloor`, in the auction's currency.
    pub bidfloor_micros: u64,
    /// The floor sent to DSPs, including configured floors.
    pub shown_floor_micros: u64,
    /// Our fee on open bids.
    pub fee_ppm: u64,
    /// Impressions per display (`Qty.multiplier`), in millionths.
    pub multiplier_millionths: u64,
}

/// A deal on one impression.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DealRow {
    /// The impression's id.
    pub imp: String,
    /// `Deal.id`.
    pub id: String,
    /// Pricing: `first_price`, `second_price` or `agreed`.
    pub auction_type: Label,
    /// Priority: bids of a higher class win over those of a lower one; open bids have 0.
    pub class: u64,
    /// Our fee on bids under it.
    pub fee_ppm: u64,
    /// The seller's discount on them.
    pub discount_ppm: u64,
    /// Its gross floor, or its agreed price, in the auction's currency.
    pub floor_micros: Option<u64>,
}

/// A DSP that was not called.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotAskedRow {
    /// The DSP's id.
    pub dsp: String,
    /// The reason, for example `qps` or `breaker`.
    pub reason: Label,
}

/// A DSP that was called.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallRow {
    /// The DSP's id.
    pub dsp: String,
    /// Ids of the impressions offered.
    pub imps: Vec<String>,
    /// Ids of the deals offered.
    pub deals: Vec<String>,
    /// The `tmax` sent to it, in milliseconds.
    pub tmax_ms: u64,
    /// The outcome, for example `answered`, `no_bid` or `late`.
    pub outcome: Label,
    /// When the call was sent; null if it was not.
    pub sent_us: Option<u64>,
    /// Time from sending to the response; null without a timely response.
    pub latency_us: Option<u64>,
    /// The response: `bids`, `no_bid`, `malformed` (the outcome is `malformed` too) or
    /// `too_many_bids` (only the first 256 were judged).
    pub response: Option<Label>,
}

/// A bid.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BidRow {
    /// The DSP's id.
    pub dsp: String,
    /// The seat; null if the DSP has not declared it.
    pub seat: Option<String>,
    /// The impression's id; null if the bid names none that was offered.
    pub imp: Option<String>,
    /// `Bid.id`; empty if the bid was unreadable.
    pub id: String,
    /// `Bid.cid`.
    pub campaign: Option<String>,
    /// Currency of `price_micros` (ISO 4217).
    pub currency: String,
    /// `Bid.price` as sent, rounded down.
    pub price_micros: Option<u64>,
    /// The deal's id.
    pub deal: Option<String>,
    /// The floor that it had to reach, in the auction's currency.
    pub floor_micros: Option<u64>,
    /// Its value in clearing, in the auction's currency; null if it took no part.
    pub worth_micros: Option<u64>,
    /// Order of equal bids; the lowest wins.
    pub tie: u64,
    /// Number of its group, which wins all of its impressions or none.
    pub group: Option<u64>,
    /// For bids in the auction: why it could not win, decided before clearing.
    pub barred: Option<Label>,
    /// Whether its markup comes only with a win notice that must not be called.
    pub is_out_of_reach: bool,
    /// The fate, for example `won`, `lost_to_higher_bid` or `below_floor`.
    pub fate: Label,
}

/// A bid returned to the caller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SaleRow {
    /// Position of the bid in `bids`, from 0.
    pub bid: u64,
    /// `Bid.id`.
    pub id: String,
    /// The impression's id.
    pub imp: String,
    /// The DSP's id.
    pub dsp: String,
    /// The seat.
    pub seat: String,
    /// The deal's id.
    pub deal: Option<String>,
    /// `Bid.cid`.
    pub campaign: Option<String>,
    /// `won`, or `offered` beside the winner.
    pub fate: Label,
    /// The clearing price, gross, in the auction's currency.
    pub price_micros: u64,
    /// The price sent to the caller: the clearing price less our fee.
    pub net_micros: u64,
    /// What the DSP pays, in `paid_currency`.
    pub paid_micros: u64,
    /// The currency of the bid (ISO 4217).
    pub paid_currency: String,
    /// The lowest price that would have won, in `paid_currency`; null if none would have.
    pub min_to_win_micros: Option<u64>,
    /// What the DSP owes for all impressions of one display, in `base_currency`.
    pub revenue_nanos: u64,
}

/// The body of a DSP's response.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnswerRow {
    /// The DSP's id.
    pub dsp: String,
    /// The body as received, decompressed.
    pub body: String,
}

/// A settlement: a beacon that bills an account. `log cat --settlements` prints it; exports keep it
/// apart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SettlementRow {
    /// When the beacon was called, in microseconds of Unix time, UTC.
    pub time_us: u64,
    /// The node that recorded it.
    pub node: u64,
    /// The node's epoch, which grows with each start and each failed commit.
    pub epoch: u64,
    /// Sequence number of the record in the durable lane.
    pub sequence: u64,
    /// Id of the beacon, which settles once: 48 hexadecimal digits.
    pub id: String,
    /// Our id of the auction (`id` of its row).
    pub auction: String,
    /// Position of the bid among all bids of the auction, from 0, including those left out of
    /// `bids`.
    pub bid: u64,
    /// Position of the impression in the request.
    pub imp: u64,
    /// The DSP that is notified; null if none is.
    pub dsp: Option<String>,
    /// Amount billed to the account, in nanos of `currency`.
    pub amount_nanos: u64,
    /// The account's currency (ISO 4217).
    pub currency: String,
    /// When the beacon would have expired, in microseconds of Unix time.
    pub expires_us: u64,
}

/// A win that a bidder reported to the pacer. `log cat --wins` prints it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WinRow {
    /// When it was recorded, in microseconds of Unix time, UTC.
    pub time_us: u64,
    /// The node that recorded it.
    pub node: u64,
    /// The node's epoch, which grows with each start and each failed commit.
    pub epoch: u64,
    /// Sequence number of its record in the durable lane, which has a group of wins.
    pub sequence: u64,
    /// The client that reported it (`[[pacer.client]] id`).
    pub client: String,
    /// The sealed token of its reservation: 96 hexadecimal digits.
    pub token: String,
    /// What the seller bills, in nanos of `currency`.
    pub cost_nanos: u64,
    /// The account's currency (ISO 4217).
    pub currency: String,
}

/// An event of a lot. `log cat --lots` prints it; exports do not have it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LotRow {
    /// When the server received what caused it, in microseconds of Unix time, UTC.
    pub time_us: u64,
    /// The node that recorded it.
    pub node: u64,
    /// The node's epoch, which grows with each start and each failed commit.
    pub epoch: u64,
    /// Sequence number of the record in the durable lane.
    pub sequence: u64,
    /// The lot's id.
    pub lot: String,
    /// What happened: `created`, `opened`, `bid`, `extended`, `closed`, `cancelled` or `paid`.
    pub event: Label,
    /// Number of the bid, from 1.
    pub number: Option<u64>,
    /// The bidder.
    pub bidder: Option<String>,
    /// The account that pays for the bid.
    pub account: Option<String>,
    /// The bid's secret maximum per 1000 impressions, in millionths of `currency`.
    pub maximum_micros: Option<u64>,
    /// The bid's currency (ISO 4217).
    pub currency: Option<String>,
    /// The bidder's key for the bid.
    pub key: Option<String>,
    /// The end that an operator has set, in milliseconds of Unix time.
    pub closes_ms: Option<u64>,
    /// Why it was cancelled.
    pub reason: Option<String>,
    /// What the feed told: the lot's public state after it, as JSON.
    pub told: Option<String>,
}
