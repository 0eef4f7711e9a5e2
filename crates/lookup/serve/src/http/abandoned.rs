//! Queries whose clients leave.

use std::sync::Arc;

use crate::queries::entry::QueryEntry;

/// A query that only its client knows, if it is one: dropped, it is cancelled.
pub(super) struct AbandonedQuery(pub Option<Arc<QueryEntry>>);

impl AbandonedQuery {
    /// The client learns its id.
    pub fn keep(mut self) {
        self.0 = None;
    }
}

impl Drop for AbandonedQuery {
    fn drop(&mut self) {
        if let Some(entry) = &self.0 {
            // Nothing happens to one that has ended.
            entry.cancelled.notify_one();
        }
    }
}
