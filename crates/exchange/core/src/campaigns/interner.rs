//! Shares equal parts between campaigns. Knows neither files nor accounts.

use std::collections::HashSet;
use std::hash::Hash;
use std::sync::Arc;

use super::campaign::BiddingRules;
use super::creative::AdMetadata;
use super::targeting::CampaignTargeting;

/// Targetings and ad metadata of campaigns loaded together, which often differ only in price.
#[derive(Debug, Default)]
pub struct Interner {
    targetings: HashSet<Arc<CampaignTargeting>>,
    metadata: HashSet<Arc<AdMetadata>>,
}

impl Interner {
    /// Replaces parts of `rules` by equal parts of earlier rules.
    pub fn intern(&mut self, rules: &mut BiddingRules) {
        share(&mut self.targetings, &mut rules.targeting);
        for creative in &mut rules.creatives {
            share(&mut self.metadata, &mut creative.metadata);
        }
    }
}

fn share<T: Eq + Hash>(known: &mut HashSet<Arc<T>>, own: &mut Arc<T>) {
    match known.get(own) {
        Some(same) => *own = Arc::clone(same),
        None => drop(known.insert(Arc::clone(own))),
    }
}
