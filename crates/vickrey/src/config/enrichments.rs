//! Connects the exchange to look-ups: what is known about values of requests. Nothing is decided here.

use std::sync::Arc;

use exchange_core::{
    ENRICHMENT_BYTES_MAX, Enrichment, EnrichmentLoad, EnrichmentOutcome, KnownData,
};
use exchange_serve::{
    ENRICHMENT_MEMORIES, EnrichmentMemories, EnrichmentMemory, SharedEnrichmentMemory,
};
use lookup_serve::{
    LOOKUP_MEMORIES, LookupMemories, LookupMemory, MemoryLoad, MemoryRule, NotRemembered,
    RememberedValue,
};
use runtime::service::{Ports, ServiceError};

/// Gives the exchange the memory of look-ups, if the configuration has `[lookup]`.
pub(crate) fn link(ports: &mut Ports) -> Result<(), ServiceError> {
    if let Some(memories) = ports.take(&LOOKUP_MEMORIES) {
        ports.offer(&ENRICHMENT_MEMORIES, Box::new(LinkedMemories(memories)));
    }
    Ok(())
}

/// The memory of look-ups, as the exchange sees it.
pub(crate) struct LinkedMemories(pub LookupMemories);

impl EnrichmentMemories for LinkedMemories {
    fn open(&self, enrichment: &Enrichment) -> Result<SharedEnrichmentMemory, String> {
        // Where the value comes from makes no difference.
        let Enrichment { name, key, fields, place, load, .. } = enrichment;
        let query = load.as_ref().map(|load| &load.query);
        let identity = format!("{name:?} {key:?} {fields:?} {place:?} {query:?}");
        let memory = self.0.open(&identity, rule(enrichment), enrichment.stale)?;
        Ok(SharedEnrichmentMemory(Arc::new(LinkedMemory(memory))))
    }
}

/// What an enrichment looks up.
pub(super) fn rule(enrichment: &Enrichment) -> MemoryRule {
    let rendered = enrichment.clone();
    MemoryRule {
        key: enrichment.key.to_string(),
        fields: enrichment.fields.iter().map(ToString::to_string).collect(),
        bytes_max: ENRICHMENT_BYTES_MAX,
        render: Box::new(move |values| rendered.text(values)),
        load: enrichment.load.as_ref().map(|EnrichmentLoad { query, every }| MemoryLoad {
            query: query.to_string(),
            every: *every,
        }),
    }
}

struct LinkedMemory(LookupMemory);

impl EnrichmentMemory for LinkedMemory {
    fn find(&self, value: &str, now_unix_ms: u64) -> Result<KnownData, EnrichmentOutcome> {
        match self.0.find(value, now_unix_ms) {
            Ok(RememberedValue { text, age, is_stale }) => Ok(KnownData { text, age, is_stale }),
            Err(NotRemembered::Unknown) => Err(EnrichmentOutcome::Unknown),
            Err(NotRemembered::Unfit) => Err(EnrichmentOutcome::Unfit),
        }
    }
}
