//! Memories and counters of enrichments, which outlive a generation.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use exchange_core::Enrichment;
use runtime::metrics::PerShard;

use super::enrichment_memory::{EnrichmentMemories, SharedEnrichmentMemory};
use crate::metrics::EnrichmentMetrics;

/// An enrichment whose data can be found.
#[derive(Clone, Debug)]
pub(crate) struct OpenEnrichment {
    pub(crate) memory: SharedEnrichmentMemory,
    pub(crate) metrics: PerShard<EnrichmentMetrics>,
}

pub(crate) struct EnrichmentRegistry {
    shards: usize,
    /// None without look-ups.
    memories: Option<Box<dyn EnrichmentMemories>>,
    /// By name.
    metrics: Mutex<HashMap<Box<str>, PerShard<EnrichmentMetrics>>>,
}

impl std::fmt::Debug for EnrichmentRegistry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EnrichmentRegistry").finish_non_exhaustive()
    }
}

/// Enrichments whose data cannot be looked up, each with the reason.
#[derive(Debug)]
pub struct EnrichmentError(Vec<(Box<str>, String)>);

impl std::error::Error for EnrichmentError {}

impl std::fmt::Display for EnrichmentError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (at, (name, problem)) in self.0.iter().enumerate() {
            let between = if at == 0 { "" } else { "\n" };
            write!(f, "{between}exchange.enrich `{name}`: {problem}")?;
        }
        Ok(())
    }
}

impl EnrichmentRegistry {
    pub fn new(shards: usize, memories: Option<Box<dyn EnrichmentMemories>>) -> Self {
        Self { shards, memories, metrics: Mutex::default() }
    }

    /// Opens enrichments; those that are open keep their memories and counters.
    ///
    /// # Errors
    /// All whose data cannot be looked up.
    pub fn open(&self, enrichments: &[Enrichment]) -> Result<Vec<OpenEnrichment>, EnrichmentError> {
        let (mut memories, mut problems) = (Vec::new(), Vec::new());
        for enrichment in enrichments {
            let known = self.memories.as_ref().ok_or_else(|| "needs [lookup]".to_owned());
            match known.and_then(|known| known.open(enrichment)) {
                Ok(memory) => memories.push(memory),
                Err(problem) => problems.push((enrichment.name.clone(), problem)),
            }
        }
        if !problems.is_empty() {
            return Err(EnrichmentError(problems));
        }
        let mut known = self.metrics.lock().unwrap_or_else(PoisonError::into_inner);
        let open = |(enrichment, memory): (&Enrichment, _)| {
            let new = || PerShard::new(self.shards);
            let metrics = known.entry(enrichment.name.clone()).or_insert_with(new).clone();
            OpenEnrichment { memory, metrics }
        };
        Ok(enrichments.iter().zip(memories).map(open).collect())
    }
}
