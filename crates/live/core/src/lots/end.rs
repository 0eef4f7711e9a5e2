//! When a lot ends: its schedule, the operator's extensions, and its soft close.

use super::terms::SoftClose;

/// The effective end of a lot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LotEnd {
    /// The schedule, or the operator's last extension. Soft closes count from here.
    base_ms: u64,
    ends_ms: u64,
    soft_close: Option<SoftClose>,
}

impl LotEnd {
    pub(super) const fn new(closes_ms: u64, soft_close: Option<SoftClose>) -> Self {
        Self { base_ms: closes_ms, ends_ms: closes_ms, soft_close }
    }

    /// The first millisecond in which no bid is accepted.
    pub(super) const fn ends_ms(&self) -> u64 {
        self.ends_ms
    }

    /// The operator postpones the end.
    pub(super) fn extend(&mut self, closes_ms: u64) {
        assert!(self.ends_ms < closes_ms, "an extension postpones the end");
        (self.base_ms, self.ends_ms) = (closes_ms, closes_ms);
    }

    /// A bid in the window postpones the end.
    pub(super) fn bid_received(&mut self, received_ms: u64) {
        assert!(received_ms < self.ends_ms, "bids are received before the end");
        let Some(soft_close) = self.soft_close else { return };
        if self.ends_ms - received_ms > soft_close.window_ms {
            return;
        }
        // A saturated sum is a time that never comes.
        let latest_ms = self.base_ms.saturating_add(soft_close.total_max_ms);
        let wanted_ms = received_ms.saturating_add(soft_close.extension_ms);
        self.ends_ms = self.ends_ms.max(wanted_ms.min(latest_ms));
    }
}
