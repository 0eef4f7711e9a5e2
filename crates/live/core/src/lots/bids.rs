//! The accepted bids of a lot in order, the aliases of their bidders, and their idempotency keys.
//!
//! Must not know what a bid wins.

use std::collections::BTreeMap;

use units::Cpm;

use super::event::LotBid;
use super::standing::{LotAlias, NumberedBid};

/// The accepted bids. Everything else it keeps is bounded by their number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct LotBids {
    bids: Vec<PricedBid>,
    bidders: Vec<LotBidder>,
    aliases: BTreeMap<String, LotAlias>,
}

/// A bid, and the public price after it. None if prices are secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PricedBid {
    pub(super) bid: NumberedBid,
    pub(super) price: Option<Cpm>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct LotBidder {
    name: String,
    /// The account of its last bid.
    account: String,
    /// Number of its last bid.
    last: u32,
    /// Numbers of its bids by idempotency key.
    keys: BTreeMap<String, u32>,
}

/// Position of what is numbered from 1.
fn position(number: u32) -> usize {
    let number = usize::try_from(number).expect("addresses have 32 bits at least");
    number.checked_sub(1).expect("numbers start at 1")
}

fn count(len: usize) -> u32 {
    u32::try_from(len).expect("a lot has at most `LOT_BIDS_MAX` bids")
}

impl LotBids {
    pub(super) fn count(&self) -> u32 {
        count(self.bids.len())
    }

    pub(super) fn next_number(&self) -> u32 {
        self.count() + 1
    }

    pub(super) fn bidders(&self) -> u32 {
        count(self.bidders.len())
    }

    pub(super) fn in_order(&self) -> &[PricedBid] {
        &self.bids
    }

    /// None before the bidder's first accepted bid.
    pub(super) fn alias(&self, name: &str) -> Option<LotAlias> {
        self.aliases.get(name).copied()
    }

    pub(super) fn name(&self, alias: LotAlias) -> &str {
        &self.bidders[position(alias.0)].name
    }

    /// The account of the bidder's last bid.
    pub(super) fn account(&self, alias: LotAlias) -> &str {
        &self.bidders[position(alias.0)].account
    }

    /// The bidder's last bid, which is its highest.
    pub(super) fn last_of(&self, alias: LotAlias) -> NumberedBid {
        self.bids[position(self.bidders[position(alias.0)].last)].bid
    }

    /// The bid for which the bidder used the key.
    pub(super) fn keyed(&self, alias: LotAlias, key: &str) -> Option<NumberedBid> {
        let number = self.bidders[position(alias.0)].keys.get(key)?;
        Some(self.bids[position(*number)].bid)
    }

    /// Adds a bid, and its bidder if it is new.
    pub(super) fn push(&mut self, bid: LotBid, received_ms: u64) -> NumberedBid {
        let LotBid { bidder: name, account, maximum, key, .. } = bid;
        let number = self.next_number();
        let alias = self.alias(&name).unwrap_or_else(|| {
            let alias = LotAlias(self.bidders() + 1);
            self.aliases.insert(name.clone(), alias);
            let keys = BTreeMap::new();
            self.bidders.push(LotBidder { name, account: String::new(), last: number, keys });
            alias
        });
        let bidder = &mut self.bidders[position(alias.0)];
        (bidder.last, bidder.account) = (number, account);
        let before = bidder.keys.insert(key, number);
        assert_eq!(before, None, "a bidder uses a key for one bid");
        let bid = NumberedBid { number, bidder: alias, maximum, received_ms };
        self.bids.push(PricedBid { bid, price: None });
        bid
    }

    /// Records the public price after the last bid.
    pub(super) fn price_last(&mut self, price: Option<Cpm>) {
        self.bids.last_mut().expect("a bid was added").price = price;
    }
}
