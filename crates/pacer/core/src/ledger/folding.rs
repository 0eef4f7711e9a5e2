//! Folding: closed leases move into the sum of their day, and past days into the campaign's total.
//!
//! Owns which rows the store may drop and when, and how sums count at a start. A fold moves spend
//! from one row to another, so no limit's use changes. A lease is closed when its book is dropped:
//! its hour, horizon and late window are over, and it is returned or settled in full, durably. Its
//! row stays for `hours_kept` longer: reports show hours, and a start corrects its clock by the
//! latest hour with spend. If the clock goes back further during downtime, a folded hour can be
//! granted anew: its hourly limit then ignores the earlier spend, but the total limit does not.
//!
//! Batches contain a bounded number of folds, and none if they lease after a batch that was not
//! committed: so a store that refuses a fold cannot stop leasing.

use std::collections::{BTreeMap, BTreeSet};

use crate::calendar::Period;
use crate::messages::{CampaignIndex, Epoch};
use crate::store::{Fold, LeaseKey, SpentSum, SumKey};

/// Maximum folds of a batch: a hundred thousand campaigns fold in half a minute.
const FOLDS_MAX: usize = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ClosedLease {
    pub(super) slot: CampaignIndex,
    pub(super) epoch: Epoch,
    pub(super) day: u32,
}

#[derive(Debug, Default)]
pub(super) struct FoldQueue {
    /// Sums from the start, of campaigns that are not known yet.
    pub(super) waiting: BTreeMap<CampaignIndex, Vec<(Option<u32>, SpentSum)>>,
    /// This node's leases that still have a row.
    closed: BTreeMap<Period, Vec<ClosedLease>>,
    /// Campaigns with a sum of their own for a day.
    days: BTreeMap<u32, BTreeSet<CampaignIndex>>,
}

impl FoldQueue {
    /// Whether sums wait for their campaign, whose account is unknown.
    pub(super) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    pub(super) fn next_slot(&self) -> u32 {
        self.waiting.last_key_value().map_or(0, |(slot, _)| slot.0.saturating_add(1))
    }

    pub(super) fn close(&mut self, period: Period, closed: ClosedLease) {
        self.closed.entry(period).or_default().push(closed);
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        let closed: usize = self.closed.values().map(Vec::len).sum();
        closed + self.days.values().map(BTreeSet::len).sum::<usize>() + self.waiting.len()
    }

    /// The due folds: leases of hours that began before a time, and sums of days before one.
    pub(super) fn take_due(&mut self, node: u32, before_ms: u64, before_day: u32) -> Vec<Fold> {
        let mut folds = Vec::new();
        while let Some(mut entry) = self.closed.first_entry() {
            let period = *entry.key();
            if before_ms <= period.start_unix_ms() || folds.len() == FOLDS_MAX {
                break;
            }
            let rows = entry.get_mut();
            let rest = rows.len().saturating_sub(FOLDS_MAX - folds.len());
            folds.extend(rows.drain(rest..).map(|ClosedLease { slot, epoch, day }| {
                Fold::Lease(LeaseKey { slot, period, node, epoch }, day)
            }));
            if rows.is_empty() {
                entry.remove();
            }
        }
        while let Some(mut entry) = self.days.first_entry() {
            let day = *entry.key();
            if before_day <= day || folds.len() == FOLDS_MAX {
                break;
            }
            let slot = entry.get_mut().pop_first();
            folds.extend(slot.map(|slot| Fold::Day(SumKey { slot, node, day: Some(day) })));
            if entry.get().is_empty() {
                entry.remove();
            }
        }
        folds
    }

    pub(super) fn has_sum(&mut self, slot: CampaignIndex, day: u32) {
        self.days.entry(day).or_default().insert(slot);
    }
}
