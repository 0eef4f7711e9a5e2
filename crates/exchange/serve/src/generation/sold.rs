//! Sold deals on offer, by name. Each generation resolves their buyers anew.
//!
//! Must not know how a deal was sold, nor what its payer may spend.

use std::collections::BTreeMap;

use exchange_core::record::{SOLD_DEAL_TEXT_MAX, SOLD_DEALS_MAX};
use exchange_core::{Dsp, Market, SoldDeal};
use tracing::warn;

use crate::budgets::campaigns::{Payer, unknown_seat};

/// A sold deal to offer until its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SoldOffer {
    /// Its terms. Each generation sets the position of the DSP.
    pub deal: SoldDeal,
    /// The buyer's DSP, by id.
    pub dsp: Box<str>,
    /// Who pays for impressions under it.
    pub payer: Payer,
}

/// Why a sold deal is not offered, in order of precedence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SoldRefusal {
    /// A record of the configuration could not hold it.
    #[error(
        "its name, id, seat and publisher have {0} bytes together, {SOLD_DEAL_TEXT_MAX} at most"
    )]
    TooLong(usize),
    /// A deal of that name was sold otherwise.
    #[error("`{0}` is on offer with other terms")]
    OtherTerms(Box<str>),
    /// The buyer is not configured.
    #[error("{0}")]
    UnknownBuyer(String),
    /// The DSP could not tell two deals apart.
    #[error("the deal `{id}` is sold to `{dsp}` for some of that time already, as `{other}`")]
    SameId {
        /// `Deal.id`.
        id: Box<str>,
        /// The DSP's id.
        dsp: Box<str>,
        /// The name of the other.
        other: Box<str>,
    },
    /// There are too many.
    #[error("{SOLD_DEALS_MAX} sold deals are on offer, the most at once: the next end frees one")]
    TooMany,
}

/// Sold deals on offer, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SoldOffers(BTreeMap<Box<str>, SoldOffer>);

impl SoldOffers {
    pub fn forget_ended(&mut self, now_ms: u64) {
        self.0.retain(|_, offer| now_ms < offer.deal.ends_ms);
    }

    /// Adds an offer, unless it is there already.
    pub fn take(&mut self, offer: SoldOffer, dsps: &[Dsp]) -> Result<(), SoldRefusal> {
        let SoldOffer { deal, dsp, .. } = &offer;
        if deal.text_len() > SOLD_DEAL_TEXT_MAX {
            return Err(SoldRefusal::TooLong(deal.text_len()));
        }
        match self.0.get(&deal.name) {
            Some(known) if *known == offer => return Ok(()),
            Some(_) => return Err(SoldRefusal::OtherTerms(deal.name.clone())),
            None => (),
        }
        let configured = dsps.iter().find(|known| known.id == *dsp);
        if let Some(why) = unknown_seat(configured, dsp, &deal.seat) {
            return Err(SoldRefusal::UnknownBuyer(why));
        }
        let is_same = |other: &&SoldOffer| {
            let SoldDeal { id, starts_ms, ends_ms, .. } = &other.deal;
            let overlaps = *starts_ms < deal.ends_ms && deal.starts_ms < *ends_ms;
            *id == deal.id && other.dsp == *dsp && overlaps
        };
        if let Some(other) = self.0.values().find(is_same) {
            let other = other.deal.name.clone();
            return Err(SoldRefusal::SameId { id: deal.id.clone(), dsp: dsp.clone(), other });
        }
        if self.0.len() >= SOLD_DEALS_MAX {
            return Err(SoldRefusal::TooMany);
        }
        self.0.insert(deal.name.clone(), offer);
        Ok(())
    }

    /// Adds those whose DSP the market has, and returns who pays for each.
    pub fn add_to_market(&self, market: &mut Market) -> Vec<Payer> {
        let resolved = self.0.values().filter_map(|offer| {
            let Some(dsp) = market.dsps.iter().position(|dsp| dsp.id == offer.dsp) else {
                let (name, dsp) = (&*offer.deal.name, &*offer.dsp);
                warn!(name, dsp, "a sold deal is not delivered: no [[dsp]] has its buyer's id");
                return None;
            };
            Some((SoldDeal { dsp, ..offer.deal.clone() }, offer.payer))
        });
        let (sold, payers): (Vec<_>, Vec<_>) = resolved.unzip();
        market.sold = sold.into_iter().collect();
        payers
    }
}

#[cfg(test)]
mod tests;
