//! When the exchange is ready: once DSPs' names are resolved.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::generation::Generation;
use crate::service::exchange::Exchange;

/// Longest wait for DSPs' names before the process is ready: an unresolved name affects one DSP.
const NAMES_AWAITED: Duration = Duration::from_secs(10);

impl Exchange {
    /// Readiness check: all DSPs' names have resolved once, or took too long. A reload does not undo
    /// it.
    pub fn names_are_known(self: &Arc<Self>) -> impl Fn() -> bool + Send + Sync + 'static {
        let (exchange, started) = (Arc::downgrade(self), Instant::now());
        let known = AtomicBool::new(false);
        move || {
            let resolved = || {
                let generation = exchange.upgrade().map(|exchange| exchange.generation());
                generation.is_some_and(|generation| is_resolved(&generation))
            };
            let ready =
                known.load(Ordering::Relaxed) || started.elapsed() >= NAMES_AWAITED || resolved();
            known.fetch_or(ready, Ordering::Relaxed);
            ready
        }
    }
}

fn is_resolved(generation: &Generation) -> bool {
    generation.dsps.iter().all(|dsp| !dsp.endpoint.addresses.current().is_empty())
}
