//! Answers of calls, until they are merged.

use std::sync::Arc;

use lookup_core::map::CallId;
use lookup_core::records::RecordSet;

/// The records of one call.
pub(super) struct StepAnswer {
    pub call: CallId,
    /// Its place among the calls of the plan: of two records that say different things, that of the
    /// earlier call counts.
    pub place: Vec<u32>,
    pub set: Arc<RecordSet>,
}
