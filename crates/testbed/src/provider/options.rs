//! How a simulated provider answers.

use std::time::Duration;

use super::catalogue::CatalogueOptions;
use crate::server::LATENCY_MAX;

/// How a provider answers every request, unless a fault befalls it.
#[derive(Clone, Debug)]
pub struct ProviderOptions {
    /// What it has.
    pub catalogue: CatalogueOptions,
    /// From request to answer.
    pub latency: Duration,
    /// The most requests at a time. None: any. Further ones are refused at once.
    pub concurrency_max: Option<usize>,
    /// The status of refusals: 429 and 503 say after how many seconds to come back.
    pub refusal: u16,
    /// Of faults and content.
    pub seed: u64,
}

impl Default for ProviderOptions {
    /// At once, as many as there are.
    fn default() -> Self {
        Self {
            catalogue: CatalogueOptions::default(),
            latency: Duration::ZERO,
            concurrency_max: None,
            refusal: 500,
            seed: 1,
        }
    }
}

impl ProviderOptions {
    /// What is wrong with them. None if they are valid.
    pub(super) fn problem(&self) -> Option<&'static str> {
        if !(400..=599).contains(&self.refusal) {
            return Some("a status of refusals from 400 to 599");
        }
        if self.concurrency_max == Some(0) {
            return Some("at least one request at a time");
        }
        (self.latency > LATENCY_MAX).then_some("a latency of at most 60 s")
    }
}
