//! Where data about values of requests is remembered. Another service offers it.

use std::fmt;
use std::sync::Arc;

use exchange_core::{Enrichment, EnrichmentOutcome, KnownData};
use runtime::service::Port;

/// Data about values of requests, in memory.
pub trait EnrichmentMemory: Send + Sync {
    /// What is known about a value now, in milliseconds since 1970. What is not known is looked up in
    /// the background. Called on shards: it does not wait for that.
    ///
    /// # Errors
    /// Why it is not known: [`EnrichmentOutcome::Unknown`] or [`EnrichmentOutcome::Unfit`].
    fn find(&self, value: &str, now_unix_ms: u64) -> Result<KnownData, EnrichmentOutcome>;
}

/// Memories of enrichments.
pub trait EnrichmentMemories: Send + Sync {
    /// The memory of an enrichment; the same for an equal one.
    ///
    /// # Errors
    /// Why the data cannot be fetched.
    fn open(&self, enrichment: &Enrichment) -> Result<SharedEnrichmentMemory, String>;
}

/// A memory, as shards share it.
#[derive(Clone)]
pub struct SharedEnrichmentMemory(pub Arc<dyn EnrichmentMemory>);

impl fmt::Debug for SharedEnrichmentMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedEnrichmentMemory").finish_non_exhaustive()
    }
}

/// Port at which memories are offered.
pub const ENRICHMENT_MEMORIES: Port<Box<dyn EnrichmentMemories>> = Port::new("enrichment-memories");
