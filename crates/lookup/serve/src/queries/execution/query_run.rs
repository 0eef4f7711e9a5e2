//! What a run begins with.

use std::sync::Arc;
use std::time::Duration;

use lookup_core::plan::Plan;
use lookup_core::query::LookupQuery;
use lookup_core::schedule::{CallClass, LookupUser};

use crate::queries::entry::QueryEntry;

/// A query that is about to run.
pub(crate) struct QueryRun {
    pub entry: Arc<QueryEntry>,
    pub query: LookupQuery,
    pub plan: Plan,
    pub class: CallClass,
    pub user: LookupUser,
    pub timeout: Duration,
    /// Most calls of a query that somebody waits for; beyond it, one is of the background.
    pub calls_max: u64,
}
