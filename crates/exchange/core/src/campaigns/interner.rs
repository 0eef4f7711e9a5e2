//! What campaigns have in common, kept once for all of them. Knows neither files nor accounts.

use std::collections::HashSet;
use std::hash::Hash;
use std::sync::Arc;

use super::campaign::BiddingRules;
use super::creative::AdMetadata;
use super::targeting::CampaignTargeting;

/// The targeting and the metadata of the campaigns that were read together, such as those of one file. Many of
/// them differ in their price and their creatives alone.
#[derive(Debug, Default)]
pub struct Interner {
    targetings: HashSet<Arc<CampaignTargeting>>,
    metadata: HashSet<Arc<AdMetadata>>,
}

impl Interner {
    /// Has `rules` share what rules before them had too. They are equal to what they were.
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
