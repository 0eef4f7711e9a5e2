//! The reason for an answer without a bid.

use exchange_core::record::CallOutcome;
use openrtb::codes::NoBidReason;

use crate::auctions::reservations::DirectBids;

/// Blames us if no DSP could be asked and direct campaigns did not answer; else nobody bid enough.
pub(crate) fn no_bid_reason(calls: &[CallOutcome], direct: Option<&DirectBids<'_>>) -> NoBidReason {
    let never_asked = |outcome: &CallOutcome| {
        use CallOutcome::{Saturated, Unreachable, Unresolved, Unsent};
        matches!(outcome, Unreachable | Unresolved | Saturated | Unsent)
    };
    let is_unasked = !calls.is_empty() && calls.iter().all(never_asked) && direct.is_none();
    if is_unasked { NoBidReason::TechnicalError } else { NoBidReason::Unknown }
}
