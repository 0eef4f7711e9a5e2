//! Deals that were sold outside auctions, each to one seat at a fixed price, for a time.
//!
//! Must not know how they were sold, nor who pays: impressions under them are counted elsewhere.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::ops::Deref;

use openrtb::{Deal, escaped};
use units::Price;

/// A deal that was sold to one seat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SoldDeal {
    /// Unique among the sold deals.
    pub name: Box<str>,
    /// `Deal.id`.
    pub id: Box<str>,
    /// The buyer's DSP, by position.
    pub dsp: usize,
    /// The buyer's seat at that DSP.
    pub seat: Box<str>,
    /// What the buyer pays.
    pub price: Price,
    /// The publisher that delivers it. None if all do.
    pub publisher: Option<Box<str>>,
    /// Start of delivery, in milliseconds of Unix time.
    pub starts_ms: u64,
    /// End of delivery, exclusive, in milliseconds of Unix time.
    pub ends_ms: u64,
    /// Priority class: higher classes win.
    pub priority: u8,
}

impl SoldDeal {
    /// Whether it is delivered now.
    pub const fn is_due(&self, now_ms: u64) -> bool {
        self.starts_ms <= now_ms && now_ms < self.ends_ms
    }

    /// Bytes of its name, id, seat and publisher.
    pub const fn text_len(&self) -> usize {
        let publisher = match &self.publisher {
            Some(publisher) => publisher.len(),
            None => 0,
        };
        self.name.len() + self.id.len() + self.seat.len() + publisher
    }

    fn is_of(&self, publisher: Option<&str>) -> bool {
        self.publisher.as_deref().is_none_or(|own| publisher == Some(own))
    }
}

/// All sold deals, in order, as requests show them.
#[derive(Clone, Debug, Default)]
pub struct SoldDeals {
    all: Vec<SoldDeal>,
    shown: Vec<ShownDeal>,
    /// Positions of those that every publisher delivers.
    of_all: Vec<usize>,
    /// Positions of the others.
    by_publisher: HashMap<Box<str>, Vec<usize>>,
    /// Positions by `Deal.id`.
    by_id: HashMap<Box<str>, Vec<usize>>,
}

/// A sold deal as its buyer sees it.
#[derive(Clone, Debug)]
pub(crate) struct ShownDeal {
    pub(crate) deal: Deal<'static>,
    /// The deal's JSON text.
    pub(crate) text: String,
}

impl SoldDeals {
    /// Positions of those that this publisher delivers now, the highest class first.
    pub(crate) fn due(&self, publisher: Option<&str>, now_ms: u64) -> Vec<usize> {
        let own = publisher.and_then(|id| self.by_publisher.get(id));
        let both = self.of_all.iter().chain(own.into_iter().flatten()).copied();
        let mut due: Vec<_> = both.filter(|at| self.all[*at].is_due(now_ms)).collect();
        due.sort_unstable_by_key(|at| (Reverse(self.all[*at].priority), *at));
        due
    }

    /// Whether this publisher's deal of that id is sold, and its delivery has not ended.
    pub(crate) fn has(&self, id: &str, publisher: Option<&str>, now_ms: u64) -> bool {
        let named = self.by_id.get(id).into_iter().flatten().map(|at| &self.all[*at]);
        named.into_iter().any(|deal| deal.is_of(publisher) && now_ms < deal.ends_ms)
    }

    pub(crate) fn shown(&self, at: usize) -> &ShownDeal {
        &self.shown[at]
    }
}

impl FromIterator<SoldDeal> for SoldDeals {
    fn from_iter<I: IntoIterator<Item = SoldDeal>>(deals: I) -> Self {
        let mut sold = Self::default();
        for (at, deal) in deals.into_iter().enumerate() {
            match &deal.publisher {
                Some(publisher) => sold.by_publisher.entry(publisher.clone()).or_default().push(at),
                None => sold.of_all.push(at),
            }
            sold.by_id.entry(deal.id.clone()).or_default().push(at);
            sold.shown.push(ShownDeal {
                deal: Deal::agreed(&deal.id, deal.price, &deal.seat),
                text: text_of(&deal),
            });
            sold.all.push(deal);
        }
        sold
    }
}

impl Deref for SoldDeals {
    type Target = [SoldDeal];

    fn deref(&self) -> &[SoldDeal] {
        &self.all
    }
}

fn text_of(deal: &SoldDeal) -> String {
    format!(
        r#"{{"id":"{}","at":3,"bidfloor":{},"bidfloorcur":"{}","wseat":["{}"]}}"#,
        escaped(&deal.id),
        deal.price.amount,
        deal.price.currency,
        escaped(&deal.seat),
    )
}

#[cfg(test)]
mod tests;
