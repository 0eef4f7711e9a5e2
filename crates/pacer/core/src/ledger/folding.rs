//! What the store need not keep by the hour any more: leases that are closed are folded into the sum of
//! their day, and days that are over into one sum of the campaign's life.
//!
//! Owns which rows of the store may go, when they do, and what the sums that a start finds count for.
//! What is in use of any limit is not changed by a fold: it moves what was spent from one row to
//! another. A lease is closed when its book goes: its hour is over, so are horizon and late window, all
//! of it is returned or settled, and that is durable. Its row stays for `hours_kept` of the settings beyond
//! that: users look at hours, and a start follows the clock by the latest that was spent in. Were the
//! clock put back by more than that while the process is down, an hour whose row is gone would be
//! granted anew: its hour's limit would hold for the rest of it only, its life's as ever.
//!
//! Folds ride in the batches of leases, a bounded number in each, but in none that leases behind one that
//! was not committed: so whatever a store may have against a fold, money is leased all the same.

use std::collections::{BTreeMap, BTreeSet};

use crate::calendar::Period;
use crate::messages::{CampaignIndex, Epoch};
use crate::store::{Fold, LeaseKey, SpentSum, SumKey};

/// Folds of one batch: at the end of an hour a hundred thousand campaigns are folded in half a minute.
const FOLDS_MAX: usize = 4096;

/// A lease that nothing can change any more, and that is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ClosedLease {
    pub(super) slot: CampaignIndex,
    pub(super) epoch: Epoch,
    /// Of its account's zone.
    pub(super) day: u32,
}

/// What is to be folded.
#[derive(Debug, Default)]
pub(super) struct FoldQueue {
    /// What a start found, of campaigns that are not known yet.
    pub(super) waiting: BTreeMap<CampaignIndex, Vec<(Option<u32>, SpentSum)>>,
    /// This node's leases that still have a row.
    closed: BTreeMap<Period, Vec<ClosedLease>>,
    /// Campaigns whose leases of a day have a sum of their own.
    days: BTreeMap<u32, BTreeSet<CampaignIndex>>,
}

impl FoldQueue {
    /// Whether sums wait for their campaign: nobody knows of which account they are.
    pub(super) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// A number beyond all that a sum names.
    pub(super) fn next_slot(&self) -> u32 {
        self.waiting.last_key_value().map_or(0, |(slot, _)| slot.0.saturating_add(1))
    }

    /// A lease is closed; its row goes when its time has come.
    pub(super) fn close(&mut self, period: Period, closed: ClosedLease) {
        self.closed.entry(period).or_default().push(closed);
    }

    /// How many rows and sums it knows of.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        let closed: usize = self.closed.values().map(Vec::len).sum();
        closed + self.days.values().map(BTreeSet::len).sum::<usize>() + self.waiting.len()
    }

    /// What may be folded: leases of hours that began before a time, and sums of days before one.
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
