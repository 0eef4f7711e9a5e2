//! What a lot shows: to everyone, and to one bidder. No maximum, no reserve, and no name leaves by
//! the public views.

use serde::{Serialize, Serializer};
use units::Cpm;

use super::bids::PricedBid;
use super::lot::Lot;
use super::outcome::{LotResult, LotStatus, UnsoldReason};
use super::standing::LotAlias;

/// A price as decimal text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PriceText(pub Cpm);

impl Serialize for PriceText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

/// A lot as everyone may see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LotView {
    /// Its id.
    pub id: String,
    /// For people.
    pub title: String,
    /// The name of its rules.
    pub rules: &'static str,
    /// The currency of all prices.
    pub currency: String,
    /// Number of impressions.
    pub impressions: u64,
    /// The lowest price that is accepted.
    pub start_price: PriceText,
    /// When it is scheduled to open, in Unix milliseconds.
    pub opens_ms: u64,
    /// What changes.
    #[serde(flatten)]
    pub state: LotState,
}

/// The state of a lot as everyone may see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LotState {
    /// Where it is in its life.
    pub status: LotStatus,
    /// The price. None before the first bid, or while it is secret.
    pub price: Option<PriceText>,
    /// Whether the highest bid meets the reserve. None if there is no reserve, or while that is
    /// secret.
    pub reserve_met: Option<bool>,
    /// The lowest bid that is accepted from a bidder who does not lead and has no sealed bid. None
    /// once the lot is closed or cancelled.
    pub minimum_next: Option<PriceText>,
    /// When it ends, in Unix milliseconds, unless it is closed before.
    pub ends_ms: u64,
    /// How much later that is than scheduled.
    pub extended_ms: u64,
    /// When it was closed or cancelled, in Unix milliseconds. None until then.
    pub closed_ms: Option<u64>,
    /// Number of bidders.
    pub bidders: u32,
    /// Number of accepted bids. None while it is secret.
    pub bids: Option<u32>,
    /// The leader. None before the first bid, or while it is secret.
    pub leader: Option<LotAlias>,
    /// How it ended. None until it is closed or cancelled.
    pub result: Option<LotResultView>,
}

/// How a lot ended, as everyone may see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum LotResultView {
    /// It is sold.
    Sold {
        /// Number of the bid that won.
        number: u32,
        /// The winner.
        winner: LotAlias,
        /// What the winner pays for 1000 impressions.
        price: PriceText,
    },
    /// It closed without a sale.
    Unsold {
        /// Why.
        reason: UnsoldReason,
    },
    /// The operator cancelled it.
    Cancelled {
        /// In the operator's words.
        reason: String,
    },
}

/// An accepted bid as everyone may see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct LotHistoryEntry {
    /// From 1, in the order of acceptance.
    pub number: u32,
    /// Who bid.
    pub bidder: LotAlias,
    /// The price after the bid. None if bids were sealed.
    pub price: Option<PriceText>,
    /// When the server received it, in Unix milliseconds.
    pub received_ms: u64,
}

impl LotHistoryEntry {
    fn of(priced: &PricedBid) -> Self {
        let PricedBid { bid, price } = *priced;
        Self {
            number: bid.number,
            bidder: bid.bidder,
            price: price.map(PriceText),
            received_ms: bid.received_ms,
        }
    }
}

/// A lot as only one of its bidders may see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct LotBidderView {
    /// How others see the bidder.
    pub alias: LotAlias,
    /// Number of its last bid.
    pub number: u32,
    /// The maximum of its last bid.
    pub maximum: PriceText,
    /// Whether it leads, or has won. None while bids are sealed.
    pub is_leading: Option<bool>,
}

impl Lot {
    /// The lot as everyone may see it.
    pub fn view(&self) -> LotView {
        let terms = self.terms();
        LotView {
            id: terms.id.as_str().to_owned(),
            title: terms.title.clone(),
            rules: terms.rules.name(),
            currency: terms.currency.code().to_owned(),
            impressions: terms.impressions,
            start_price: PriceText(terms.start_price),
            opens_ms: terms.opens_ms,
            state: self.state(),
        }
    }

    /// What changes of it, as everyone may see it.
    pub fn state(&self) -> LotState {
        let standing = self.auction().standing(self.is_closed());
        LotState {
            status: self.status(),
            price: standing.price.map(PriceText),
            reserve_met: standing.reserve_met,
            minimum_next: (!self.is_over()).then(|| PriceText(self.auction().minimum_next())),
            ends_ms: self.ends_ms(),
            extended_ms: self.ends_ms() - self.terms().closes_ms,
            closed_ms: self.result().map(|_| self.last_ms()),
            bidders: self.bids().bidders(),
            bids: self.bids_public(),
            leader: standing.leader,
            result: self.result().map(|result| self.result_view(result)),
        }
    }

    fn result_view(&self, result: &LotResult) -> LotResultView {
        match result {
            LotResult::Sold(sale) => LotResultView::Sold {
                number: sale.number,
                winner: self.bids().alias(&sale.winner).expect("the winner has bid"),
                price: PriceText(sale.price),
            },
            LotResult::Unsold(reason) => LotResultView::Unsold { reason: *reason },
            LotResult::Cancelled { reason } => LotResultView::Cancelled { reason: reason.clone() },
        }
    }

    /// Accepted bids in order. Empty while they are secret.
    pub fn history(&self) -> impl DoubleEndedIterator<Item = LotHistoryEntry> {
        let public = self.bids_public().map_or(&[][..], |_| self.bids().in_order());
        public.iter().map(LotHistoryEntry::of)
    }

    /// The last accepted bid. None without any, or while it is secret.
    pub fn last_bid(&self) -> Option<LotHistoryEntry> {
        self.history().next_back()
    }

    /// The lot as only this bidder may see it. None before its first accepted bid.
    pub fn bidder_view(&self, bidder: &str) -> Option<LotBidderView> {
        let alias = self.bids().alias(bidder)?;
        let last = self.bids().last_of(alias);
        let leader = self.auction().standing(self.is_closed()).leader;
        Some(LotBidderView {
            alias,
            number: last.number,
            maximum: PriceText(last.maximum),
            is_leading: self.bids_public().map(|_| leader == Some(alias)),
        })
    }
}
