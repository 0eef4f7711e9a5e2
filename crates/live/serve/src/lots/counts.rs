//! What the thread of lots counts.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use live_core::floor::{FloorAnswer, FloorRefusal, LotFloor};
use live_core::lots::LotStatus;
use runtime::metrics::MetricsPage;

/// Written by one thread, read by any.
#[derive(Debug)]
pub(crate) struct LotCounts {
    /// Bids that were accepted, each once.
    pub accepted: AtomicU64,
    /// Records that were logged.
    pub records: AtomicU64,
    /// Lots, by status.
    by_status: [AtomicU64; LotStatus::ALL.len()],
    /// Commands that were refused, by reason.
    refused: Mutex<BTreeMap<&'static str, u64>>,
}

impl Default for LotCounts {
    fn default() -> Self {
        // An alert may ask for these before they happen.
        let refused = ["busy", "paused", "over_account"].map(|reason| (reason, 0));
        Self {
            accepted: AtomicU64::default(),
            records: AtomicU64::default(),
            by_status: Default::default(),
            refused: Mutex::new(refused.into()),
        }
    }
}

impl LotCounts {
    pub fn count(&self, answer: &Result<FloorAnswer, FloorRefusal>) {
        match answer {
            Ok(FloorAnswer::Accepted(bid)) if !bid.repeated => {
                self.accepted.fetch_add(1, Ordering::Relaxed);
            }
            Ok(_) => (),
            Err(refusal) => {
                let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
                *refused.entry(refusal.label()).or_default() += 1;
            }
        }
    }

    pub fn take_stock<R>(&self, floor: &LotFloor<R>) {
        let mut counted = [0_u64; LotStatus::ALL.len()];
        for lot in floor.lots() {
            counted[lot.status() as usize] += 1;
        }
        for (count, counted) in self.by_status.iter().zip(counted) {
            count.store(counted, Ordering::Relaxed);
        }
    }

    /// Adds their metrics.
    pub fn expose(&self, page: &mut MetricsPage<'_>) -> fmt::Result {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let mut lots = page.gauges("live_lots", "Lots, by status.")?;
        for (status, count) in LotStatus::ALL.into_iter().zip(&self.by_status) {
            let count = i64::try_from(read(count)).unwrap_or(i64::MAX);
            lots.value(&[("status", status.label())], count)?;
        }
        let help = "Bids for lots that were accepted.";
        page.counters("live_lot_bids_accepted", help)?.value(&[], read(&self.accepted))?;
        let help = "Commands about lots that were refused, by reason.";
        let mut refusals = page.counters("live_lot_refusals", help)?;
        let refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        for (reason, count) in &*refused {
            refusals.value(&[("reason", reason)], *count)?;
        }
        drop(refused);
        let help = "Records of lots that were logged.";
        page.counters("live_lot_records", help)?.value(&[], read(&self.records))
    }
}
