//! The messages of an auction, as subscribers get them.
//!
//! An auction has at most one message of most topics, and of some one for each seat, deal or campaign.
//! Which of them there are, and in which order, depends on the record alone: a message has the same
//! number wherever it is made. Parts of an auction have the rows of docs/log.md.

use std::hash::{BuildHasher as _, RandomState};

use audit::{
    AuctionRecord, AuctionRows, BidRecord, BidRow, DealRow, Fate, GenerationRecord, SaleRecord,
    SaleRow,
};
use live_core::topic::FeedTopic;
use serde::Serialize;
use units::Cpm;

use super::place::MessagePlace;

/// A message of a record: what it is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AuctionPart {
    /// Its number among those of the same auction and topic.
    pub number: u16,
    /// Positions of the bids that it tells of.
    pub bids: Vec<usize>,
    subject: PartSubject,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum PartSubject {
    Auction,
    /// The auction, and only what was won.
    Sold,
    /// A seat of a DSP, by positions.
    Seat(usize, usize),
    /// A deal, by position.
    Deal(usize),
    Campaign,
}

/// An auction and the names of its DSPs.
#[derive(Clone, Copy)]
pub(crate) struct NamedAuction<'r, 'b> {
    pub record: &'r AuctionRecord<'b>,
    pub generation: Option<&'r GenerationRecord>,
}

impl<'r, 'b> NamedAuction<'r, 'b> {
    fn rows(&self) -> AuctionRows<'r, 'b> {
        AuctionRows::new(self.record, self.generation)
    }

    /// The messages of a topic.
    pub fn parts(&self, topic: FeedTopic) -> Vec<AuctionPart> {
        let record = self.record;
        match topic {
            FeedTopic::Auctions => vec![self.whole(PartSubject::Auction)],
            FeedTopic::Wins if record.bids.iter().any(|bid| bid.fate == Fate::Won) => {
                vec![self.whole(PartSubject::Sold)]
            }
            FeedTopic::Fates => self.grouped(|bid| {
                let seat = bid.seat?;
                Some((PartSubject::Seat(bid.dsp, seat), (bid.dsp, seat)))
            }),
            FeedTopic::Deals => {
                self.grouped(|bid| bid.deal.map(|deal| (PartSubject::Deal(deal), deal)))
            }
            FeedTopic::Campaigns => self.grouped(|bid| {
                (!bid.campaign.is_empty()).then_some((PartSubject::Campaign, bid.campaign))
            }),
            FeedTopic::Wins | FeedTopic::Lots | FeedTopic::System => Vec::new(),
        }
    }

    fn whole(&self, subject: PartSubject) -> AuctionPart {
        let bids = (0..self.record.bids.len()).collect();
        AuctionPart { number: 0, bids, subject }
    }

    /// A part for each value of `of`, in the order of their first bids.
    fn grouped<K: PartialEq>(
        &self,
        of: impl Fn(&'r BidRecord<'b>) -> Option<(PartSubject, K)>,
    ) -> Vec<AuctionPart> {
        let mut keys: Vec<K> = Vec::new();
        let mut parts: Vec<AuctionPart> = Vec::new();
        for (at, bid) in self.record.bids.iter().enumerate() {
            let Some((subject, key)) = of(bid) else { continue };
            match keys.iter().position(|known| *known == key) {
                Some(known) => parts[known].bids.push(at),
                None => {
                    // A record has at most a few thousand bids.
                    let Ok(number) = u16::try_from(parts.len()) else { break };
                    keys.push(key);
                    parts.push(AuctionPart { number, bids: vec![at], subject });
                }
            }
        }
        parts
    }

    /// The DSP and the seat of which a part tells. None if it is about no seat.
    pub fn seat(&self, part: &AuctionPart) -> Option<(String, String)> {
        let PartSubject::Seat(..) = part.subject else { return None };
        let (rows, bid) = (self.rows(), &self.record.bids[part.bids[0]]);
        Some((rows.dsp_id(bid).into_owned(), rows.seat_name(bid)?.into_owned()))
    }

    /// What a part is about: later messages of a topic about the same replace it for subscribers
    /// that conflate.
    pub fn key(&self, part: &AuctionPart, hasher: &RandomState) -> u64 {
        match part.subject {
            PartSubject::Auction | PartSubject::Sold => hasher.hash_one(self.record.publisher),
            PartSubject::Seat(..) => hasher.hash_one(self.seat(part)),
            PartSubject::Deal(deal) => hasher.hash_one(self.record.deals[deal].id),
            PartSubject::Campaign => hasher.hash_one(self.record.bids[part.bids[0]].campaign),
        }
    }

    /// Appends the frame of a part.
    pub fn write(&self, part: &AuctionPart, place: &MessagePlace<'_>, out: &mut Vec<u8>) {
        let (record, rows) = (self.record, self.rows());
        let (auction, publisher) = (record.id, record.publisher);
        let currency = record.terms.as_ref().map(|terms| terms.currency.to_string());
        let bids = || part.bids.iter().map(|&at| rows.bid(&record.bids[at])).collect();
        match part.subject {
            PartSubject::Auction => {
                place.write(&self.summary(record.sales.iter().map(|sale| rows.sale(sale))), out);
            }
            PartSubject::Sold => {
                let won =
                    record.sales.iter().filter(|sale| record.bids[sale.bid].fate == Fate::Won);
                place.write(&self.summary(won.map(|sale| rows.sale(sale))), out);
            }
            PartSubject::Seat(..) => {
                let (dsp, seat) = self.seat(part).unwrap_or_default();
                let (bids, prices) = (bids(), self.prices(part));
                let fates = FatesOfSeat { auction, publisher, currency, dsp, seat, bids, prices };
                place.write(&fates, out);
            }
            PartSubject::Deal(deal) => {
                let (deal, bids) = (rows.deal(&record.deals[deal]), bids());
                place.write(&FatesOfDeal { auction, publisher, currency, deal, bids }, out);
            }
            PartSubject::Campaign => {
                let campaign = record.bids[part.bids[0]].campaign;
                let (bids, prices) = (bids(), self.prices(part));
                let fates =
                    FatesOfCampaign { auction, publisher, currency, campaign, bids, prices };
                place.write(&fates, out);
            }
        }
    }

    fn summary(&self, sales: impl Iterator<Item = SaleRow>) -> AuctionSummary<'r> {
        let record = self.record;
        AuctionSummary {
            id: record.id,
            caller_id: record.caller_id,
            publisher: record.publisher,
            generation: record.generation,
            is_test: record.is_test,
            ending: record.ending.label(),
            nbr: record.nbr,
            currency: record.terms.as_ref().map(|terms| terms.currency.to_string()),
            answered_us: record
                .timings
                .answered
                .map(|at| u64::try_from(at.as_micros()).unwrap_or(u64::MAX)),
            left_us: record.timings.left_us,
            calls_count: record.calls.len(),
            bids_count: record.bids.len() + record.bids_left_out,
            sales: sales.collect(),
        }
    }

    /// What the winners among the bids of a part pay. Our fee and the seller's net are not theirs to
    /// see.
    fn prices(&self, part: &AuctionPart) -> Vec<PricePaid<'r>> {
        let record = self.record;
        let own = record.sales.iter().filter(|sale| part.bids.contains(&sale.bid));
        let price = |sale: &'r SaleRecord| PricePaid {
            id: record.bids[sale.bid].id,
            imp: record.bids[sale.bid].imp.map(|imp| record.imps[imp].id),
            fate: record.bids[sale.bid].fate.label(),
            paid_micros: sale.paid.micros(),
            paid_currency: record.bids[sale.bid].currency.to_string(),
            min_to_win_micros: sale.min_to_win.map(Cpm::micros),
        };
        own.map(price).collect()
    }
}

/// An auction in short: docs/log.md has the fields.
#[derive(Serialize)]
struct AuctionSummary<'r> {
    id: &'r str,
    caller_id: &'r str,
    publisher: Option<&'r str>,
    generation: u64,
    is_test: bool,
    ending: &'static str,
    nbr: Option<u32>,
    currency: Option<String>,
    answered_us: Option<u64>,
    left_us: i64,
    calls_count: usize,
    bids_count: usize,
    sales: Vec<SaleRow>,
}

#[derive(Serialize)]
struct FatesOfSeat<'r> {
    auction: &'r str,
    publisher: Option<&'r str>,
    currency: Option<String>,
    dsp: String,
    seat: String,
    bids: Vec<BidRow>,
    prices: Vec<PricePaid<'r>>,
}

#[derive(Serialize)]
struct FatesOfDeal<'r> {
    auction: &'r str,
    publisher: Option<&'r str>,
    currency: Option<String>,
    deal: DealRow,
    bids: Vec<BidRow>,
}

#[derive(Serialize)]
struct FatesOfCampaign<'r> {
    auction: &'r str,
    publisher: Option<&'r str>,
    currency: Option<String>,
    campaign: &'r str,
    bids: Vec<BidRow>,
    prices: Vec<PricePaid<'r>>,
}

/// What a returned bid pays.
#[derive(Serialize)]
struct PricePaid<'r> {
    id: &'r str,
    imp: Option<&'r str>,
    fate: &'static str,
    paid_micros: u64,
    paid_currency: String,
    min_to_win_micros: Option<u64>,
}

#[cfg(test)]
mod tests;
