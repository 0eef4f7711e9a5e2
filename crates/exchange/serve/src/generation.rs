//! Generations of the configuration: built off the shards, handed to them whole.
//!
//! Must not know how a file is read.

pub(crate) mod dns;
mod enrichment_memory;
mod enrichments;
mod in_force;
mod registry;
mod sold;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use runtime::process::unix_ms;
use tokio::sync::watch;
use tracing::warn;

use crate::budgets::campaigns::Campaigns;
use crate::config::{ExchangeConfig, NoticesConfig};
use crate::notices::{NodeKey, Sealer};
use crate::recording::{GenerationLog, GenerationRecordError};

pub use enrichment_memory::{
    ENRICHMENT_MEMORIES, EnrichmentMemories, EnrichmentMemory, SharedEnrichmentMemory,
};
pub use enrichments::EnrichmentError;
pub(crate) use enrichments::EnrichmentRegistry;
use enrichments::OpenEnrichment;
pub use in_force::{DspInForce, Generation};
pub(crate) use registry::DspRegistry;
use sold::SoldOffers;
pub use sold::{SoldOffer, SoldRefusal};

/// Outcome of a reload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GenerationChange {
    /// The generation now in force.
    pub number: u64,
    /// Ids of DSPs that are new.
    pub added: Vec<String>,
    /// Ids of DSPs that are gone.
    pub removed: Vec<String>,
    /// Changed keys that take effect only at the next start.
    pub needs_restart: Vec<&'static str>,
}

/// Builds generations and publishes them to the shards.
#[derive(Debug)]
pub(crate) struct GenerationBuilder {
    config: ExchangeConfig,
    enrichments: Vec<OpenEnrichment>,
    campaigns: Arc<Campaigns>,
    sold: SoldOffers,
    registry: DspRegistry,
    /// Of the open record. None without a dispatcher.
    key: Option<NodeKey>,
    /// The dispatcher's configuration, which reloads do not change.
    notices: Option<NoticesConfig>,
    log: Option<GenerationLog>,
    /// Seats that have an account but no DSP, each with the reason; warned of once.
    unknown_seats: BTreeMap<String, String>,
    published: watch::Sender<Arc<Generation>>,
    /// No longer in force, but auctions may still use them. Freed here, off the shards.
    retired: Vec<Arc<Generation>>,
}

/// What the first generation is made of.
pub(crate) struct FirstGeneration {
    pub config: ExchangeConfig,
    /// In the order of the market's.
    pub enrichments: Vec<OpenEnrichment>,
    pub campaigns: Campaigns,
}

impl GenerationBuilder {
    /// Records the first generation, then makes it current.
    pub(crate) fn new(
        FirstGeneration { config, enrichments, campaigns }: FirstGeneration,
        mut registry: DspRegistry,
        key: Option<NodeKey>,
        mut log: Option<GenerationLog>,
    ) -> Result<Self, GenerationRecordError> {
        let mut joined = config.clone();
        campaigns.add_to_market(&mut joined.market);
        let number = log.as_mut().map_or(Ok(1), |log| log.record(&joined, campaigns.number))?;
        let campaigns = Arc::new(campaigns);
        let sealer = Sealer::of(&config, key);
        let generation = registry.generation(number, joined, &campaigns, None);
        let mut generations = Self {
            notices: config.notices.clone(),
            config,
            campaigns,
            sold: SoldOffers::default(),
            registry,
            key,
            log,
            unknown_seats: BTreeMap::new(),
            published: watch::Sender::new(Arc::new(Generation {
                sealer,
                enrichments: enrichments.clone(),
                ..generation
            })),
            enrichments,
            retired: Vec::new(),
        };
        generations.warn_of_unknown_seats();
        generations.registry.resolve();
        Ok(generations)
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<Arc<Generation>> {
        self.published.subscribe()
    }

    pub(crate) fn current(&self) -> Arc<Generation> {
        Arc::clone(&self.published.borrow())
    }

    /// Records a generation with `campaigns`, puts it in force, and returns its number.
    pub(crate) fn set_campaigns(
        &mut self,
        campaigns: Arc<Campaigns>,
    ) -> Result<u64, GenerationRecordError> {
        let former = std::mem::replace(&mut self.campaigns, campaigns);
        let put = self.replace(self.config.clone());
        if put.is_err() {
            self.campaigns = former;
        }
        put.map(|reloaded| reloaded.number)
    }

    /// Records a generation that also offers these sold deals until their end, and puts it in force.
    /// Returns the refusal of each that is not offered. Offers in force change nothing.
    pub(crate) fn offer_sold(
        &mut self,
        offers: Vec<SoldOffer>,
    ) -> Result<Vec<Result<(), SoldRefusal>>, GenerationRecordError> {
        let former = self.sold.clone();
        self.sold.forget_ended(unix_ms());
        let dsps = &self.config.market.dsps;
        let taken: Vec<_> = offers.into_iter().map(|offer| self.sold.take(offer, dsps)).collect();
        if self.sold != former
            && let Err(error) = self.replace(self.config.clone())
        {
            self.sold = former;
            return Err(error);
        }
        Ok(taken)
    }

    /// Records a generation with a new configuration and its enrichments, and puts it in force.
    pub(crate) fn reload(
        &mut self,
        config: ExchangeConfig,
        enrichments: Vec<OpenEnrichment>,
    ) -> Result<GenerationChange, GenerationRecordError> {
        let former = std::mem::replace(&mut self.enrichments, enrichments);
        let reloaded = self.replace(config);
        if reloaded.is_err() {
            self.enrichments = former;
        }
        reloaded
    }

    fn replace(
        &mut self,
        mut config: ExchangeConfig,
    ) -> Result<GenerationChange, GenerationRecordError> {
        let before = self.current();
        let mut needs_restart = Vec::new();
        if config.listen != before.config.listen {
            needs_restart.push("exchange.listen");
            config.listen = before.config.listen;
        }
        if config.tie_key_is_drawn && before.config.tie_key_is_drawn {
            // A drawn key lasts until the next start.
            config.market.tie_key = before.config.market.tie_key;
        }
        needs_restart.extend(restart_of_notices(self.notices.as_ref(), config.notices.as_ref()));
        let is_same_pacer = match (&before.config.pacer, &config.pacer) {
            (Some(before), Some(after)) => before.is_same_peer(after),
            (before, after) => before.is_none() && after.is_none(),
        };
        if !is_same_pacer {
            needs_restart.push("exchange.pacer");
            // Its seats stay unpaid otherwise, or are paid by another pacer's campaigns.
            config.pacer.clone_from(&before.config.pacer);
        }
        let configured = config.clone();
        self.sold.forget_ended(unix_ms());
        let sold_payers = self.sold.add_to_market(&mut config.market);
        self.campaigns.add_to_market(&mut config.market);
        let number = match &mut self.log {
            Some(log) => log.record(&config, self.campaigns.number)?,
            None => before.number + 1,
        };
        self.config = configured;
        // Without notices nothing new is sealed, but earlier tokens open until they expire.
        let sealer = Sealer::of(&config, self.key);
        let sealer = sealer.or_else(|| before.sealer.clone());
        let generation = self.registry.generation(number, config, &self.campaigns, Some(&before));
        let enrichments = self.enrichments.clone();
        let generation = Generation { sealer, sold_payers, enrichments, ..generation };
        let of = |generation: &Generation| -> Vec<String> {
            generation.dsp_ids().map(str::to_owned).collect()
        };
        let (old, new) = (of(&before), of(&generation));
        drop(before);
        self.retired.push(self.published.send_replace(Arc::new(generation)));
        self.retired.retain(|generation| Arc::strong_count(generation) > 1);
        self.warn_of_unknown_seats();
        self.registry.resolve();
        Ok(GenerationChange {
            number,
            added: new.iter().filter(|id| !old.contains(id)).cloned().collect(),
            removed: old.into_iter().filter(|id| !new.contains(id)).collect(),
            needs_restart,
        })
    }

    /// Records the generation in force again if due. Returns the wait until the next time.
    pub(crate) fn repeat_record(&mut self) -> Option<Duration> {
        self.log.as_mut().map(GenerationLog::repeat)
    }

    pub(crate) fn pause(&mut self, id: &str, paused: bool) -> bool {
        let is_known = self.current().dsp_ids().any(|known| known == id);
        if is_known {
            self.registry.pause(id, paused);
        }
        is_known
    }

    /// Warns once of each seat that has an account but no DSP: nobody pays for it.
    fn warn_of_unknown_seats(&mut self) {
        let strange = self.campaigns.unknown_seats(&self.config.market.dsps);
        for (seat, why) in &strange {
            if self.unknown_seats.get(seat) != Some(why) {
                warn!("an account names the seat `{seat}`: {why}");
            }
        }
        self.unknown_seats = strange;
    }
}

/// Notice keys that need a restart: those of delivery.
fn restart_of_notices(
    dispatcher: Option<&NoticesConfig>,
    after: Option<&NoticesConfig>,
) -> Option<&'static str> {
    let fixed = |notices: &NoticesConfig| {
        let trusted = notices.authorities.clone();
        (notices.calls.clone(), trusted, notices.policy, notices.node_connections_max)
    };
    (dispatcher.map(fixed) != after.map(fixed)).then_some("exchange.notices")
}

#[cfg(test)]
mod tests;
