//! Where winners' markup is stored for pages and players. Another service offers it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use exchange_core::MarkupKind;
use runtime::service::Port;

/// A store of texts by UUID, which clients read over HTTP.
pub trait MarkupStore: Send + Sync {
    /// Stores a text for this long at most. Returns its UUID; None if the
    /// text is too large. Called on shards: it does not block.
    fn store(&self, kind: MarkupKind, text: &str, lifetime: Duration) -> Option<String>;
}

/// The store, as shards share it.
#[derive(Clone)]
pub struct SharedMarkupStore(pub Arc<dyn MarkupStore>);

impl fmt::Debug for SharedMarkupStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedMarkupStore").finish_non_exhaustive()
    }
}

/// Port at which the store is offered.
pub const MARKUP_STORE: Port<SharedMarkupStore> = Port::new("markup-store");
