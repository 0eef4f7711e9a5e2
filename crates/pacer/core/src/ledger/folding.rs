//! What the store need not keep by the hour any more: leases that are closed are folded into the sum of
//! their day, and days that are over into one sum of the campaign's life.
//!
//! Owns which rows of the store may go, when they do, and what the sums that a start finds count for.
//! What is in use of any limit is not changed by a fold: it moves what was spent from one row to
//! another. A lease is closed when its book goes: its hour is over, so are horizon and late window, all
//! of it is returned or settled, and that is durable. Its row stays for [`Settings::hours_kept`] beyond
//! that: users look at hours, and a start follows the clock by the latest that was spent in. Were the
//! clock put back by more than that while the process is down, an hour whose row is gone would be
//! granted anew: its hour's limit would hold for the rest of it only, its life's as ever.
//!
//! Folds ride in the batches of leases, a bounded number in each, but in none that leases behind one that
//! was not committed: so whatever a store may have against a fold, money is leased all the same.

use std::collections::{BTreeMap, BTreeSet};

use super::book::Book;
use super::bug::{Bug, planted};
use super::tally::Sum;
use super::{Ledger, Settings};
use crate::calendar::Period;
use crate::messages::{Epoch, Slot};
use crate::store::{Ended, Fold, Lease, LeaseKey, Spent, Stray, SumKey};

/// Folds of one batch: at the end of an hour a hundred thousand campaigns are folded in half a minute.
const FOLDS_MAX: usize = 4096;

/// The longest hour.
const HOUR_MS: u64 = 60 * 60 * 1000;
const DAY_MS: u64 = 24 * HOUR_MS;

/// So many days behind that of UTC a day is over in every zone, by more than a day.
const DAYS_KEPT: u32 = 2;

/// A lease that nothing can change any more, and that is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Closed {
    slot: Slot,
    epoch: Epoch,
    /// Of its account's zone.
    day: u32,
}

/// What is to be folded.
#[derive(Debug, Default)]
pub(super) struct Folding {
    /// What a start found, of campaigns that are not known yet.
    waiting: BTreeMap<Slot, Vec<(Option<u32>, Spent)>>,
    /// This node's leases that still have a row.
    closed: BTreeMap<Period, Vec<Closed>>,
    /// Campaigns whose leases of a day have a sum of their own.
    days: BTreeMap<u32, BTreeSet<Slot>>,
}

impl Folding {
    /// Whether sums wait for their campaign: nobody knows of which account they are.
    pub(super) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// A number beyond all that a sum names.
    pub(super) fn next_slot(&self) -> u32 {
        self.waiting.last_key_value().map_or(0, |(slot, _)| slot.0.saturating_add(1))
    }

    /// A lease is closed; its row goes when its time has come.
    pub(super) fn close(&mut self, period: Period, closed: Closed) {
        self.closed.entry(period).or_default().push(closed);
    }

    /// How many rows and sums it knows of.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        let closed: usize = self.closed.values().map(Vec::len).sum();
        closed + self.days.values().map(BTreeSet::len).sum::<usize>() + self.waiting.len()
    }

    /// What may be folded: leases of hours that began before a time, and sums of days before one.
    fn take_due(&mut self, node: u32, before_ms: u64, before_day: u32) -> Vec<Fold> {
        let mut folds = Vec::new();
        while let Some(mut entry) = self.closed.first_entry() {
            let period = *entry.key();
            if before_ms <= period.start_unix_ms() || folds.len() == FOLDS_MAX {
                break;
            }
            let rows = entry.get_mut();
            let rest = rows.len().saturating_sub(FOLDS_MAX - folds.len());
            folds.extend(rows.drain(rest..).map(|Closed { slot, epoch, day }| {
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

    fn has_sum(&mut self, slot: Slot, day: u32) {
        self.days.entry(day).or_default().insert(slot);
    }
}

impl Closed {
    /// The rows of a book that is gone: this epoch's, where anything was leased, and those that dead
    /// epochs of this node left.
    pub(super) fn of(
        slot: Slot,
        book: &Book,
        settings: &Settings,
    ) -> impl Iterator<Item = (Period, Self)> {
        let own = (book.lease != Lease::default()).then_some(settings.epoch);
        let dead = book.dead.iter().filter(|dead| dead.node == settings.node);
        let epochs = own.into_iter().chain(dead.map(|dead| dead.epoch));
        epochs.map(move |epoch| (book.period, Self { slot, epoch, day: book.day }))
    }

    /// A row that was closed when the process started.
    pub(super) const fn found(slot: Slot, epoch: Epoch, day: u32) -> Self {
        Self { slot, epoch, day }
    }
}

impl Ledger {
    /// With what the store holds beside leases: all sums, of all nodes. To be told before the first
    /// step: what is missing would be leased once more.
    #[must_use]
    pub fn with_sums(mut self, sums: impl IntoIterator<Item = (SumKey, Spent)>) -> Self {
        for (SumKey { slot, node, day }, spent) in sums {
            if let Some(day) = day.filter(|_| node == self.settings.node) {
                self.folding.has_sum(slot, day);
            }
            self.folding.waiting.entry(slot).or_default().push((day, spent));
        }
        self
    }

    /// Gives a campaign the sums that were there before it was known.
    pub(super) fn adopt_sums(&mut self, slot: Slot) {
        let Some(sums) = self.folding.waiting.remove(&slot) else { return };
        let Some((campaign, account)) = self.pair(slot) else { return };
        for (day, spent) in sums.into_iter().filter(|_| !planted(Bug::ForgetSums)) {
            let late = spent.late.get().saturating_add(spent.over.get());
            let sum = Sum { held: spent.settled.get(), late };
            campaign.tally.fold(day, sum);
            account.tally.fold(day, sum);
        }
    }

    /// What was said of strays up to what is saved is durable; the sum of a day is folded like others.
    pub(super) fn end_strays(&mut self) {
        let saved = self.strays.partition_point(|stray| stray.seq <= self.saved_seq);
        for Stray { sum, .. } in self.strays.drain(..saved) {
            if let Some(day) = sum.day {
                self.folding.has_sum(sum.slot, day);
            }
        }
    }

    /// What the next batch folds, which says something else besides or does not. Before the log is replayed
    /// a win may come to a row yet.
    pub(super) fn gather_folds(&mut self, is_alone: bool) -> Vec<Fold> {
        if !self.is_replayed || self.is_closing || (self.is_store_failing && !is_alone) {
            return Vec::new();
        }
        let kept = u64::try_from(self.settings.hours_kept.as_millis()).unwrap_or(u64::MAX);
        let kept = if planted(Bug::FoldEarly) { 0 } else { kept.saturating_add(HOUR_MS) };
        let before_ms = self.now.unix_ms.saturating_sub(kept);
        let today = u32::try_from(self.now.unix_ms / DAY_MS).unwrap_or(u32::MAX);
        self.folding.take_due(self.settings.node, before_ms, today.saturating_sub(DAYS_KEPT))
    }

    /// How the batch ended that folded these. What may not be gone is folded once more.
    pub(super) fn end_folds(&mut self, folds: Vec<Fold>, ended: Ended) {
        let is_gone = ended == Ended::Committed;
        for fold in folds {
            match fold {
                Fold::Lease(LeaseKey { slot, .. }, day) if is_gone => {
                    self.folding.has_sum(slot, day);
                }
                Fold::Lease(LeaseKey { slot, period, epoch, .. }, day) => {
                    self.folding.close(period, Closed { slot, epoch, day });
                }
                Fold::Day(SumKey { slot, day: Some(day), .. }) if !is_gone => {
                    self.folding.has_sum(slot, day);
                }
                Fold::Day(_) => (),
            }
        }
    }
}
