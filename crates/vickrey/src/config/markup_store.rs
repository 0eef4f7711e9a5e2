//! Connects the exchange to the cache: winners' markup is stored in the cache's values. Nothing is decided
//! here.

use std::sync::Arc;
use std::time::Duration;

use cache_serve::{CACHE_VALUES, ValueStore};
use exchange_core::MarkupKind;
use exchange_serve::{MARKUP_STORE, MarkupStore, SharedMarkupStore};
use runtime::service::{Ports, ServiceError};

/// Gives the exchange the cache's store, if the configuration has `[cache.puts]`.
pub(crate) fn link(ports: &mut Ports) -> Result<(), ServiceError> {
    if let Some(values) = ports.take(&CACHE_VALUES) {
        ports.offer(&MARKUP_STORE, SharedMarkupStore(Arc::new(CachedValues(values))));
    }
    Ok(())
}

struct CachedValues(ValueStore);

impl MarkupStore for CachedValues {
    fn store(&self, kind: MarkupKind, text: &str, lifetime: Duration) -> Option<String> {
        let content_type = match kind {
            MarkupKind::Bid => "application/json",
            MarkupKind::Vast => "application/xml",
        };
        self.0.put(content_type, text, lifetime)
    }
}
