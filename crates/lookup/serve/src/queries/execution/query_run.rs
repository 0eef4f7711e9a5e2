//! What a run begins with.

use std::sync::Arc;
use std::time::Duration;

use lookup_core::plan::Plan;
use lookup_core::schedule::{CallClass, LookupUser};

use crate::config::LookupLimits;
use crate::queries::entry::QueryEntry;

/// A query that is about to run.
pub(crate) struct QueryRun {
    pub entry: Arc<QueryEntry>,
    pub plan: Plan,
    pub class: CallClass,
    pub user: LookupUser,
    pub timeout: Duration,
    pub limits: LookupLimits,
}
