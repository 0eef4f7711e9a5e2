//! The ledger's output: slices and gates of changed campaigns, and one batch per lease period.

use std::time::Duration;

use units::Nanos;

use super::campaign::book::{DeadLease, key_of, left_of};
use super::folding::ClosedLease;
use super::step::LedgerOutbox;
use super::{BatchInFlight, Ledger};
use crate::calendar::Period;
use crate::messages::{CampaignIndex, Epoch, index};
use crate::store::{
    Batch, CommitOutcome, Fold, HoldName, Lease, LeaseKey, StoredHoldKey, SumKey, UnattributedWin,
};

const HOUR_MS: u64 = 60 * 60 * 1000;
const DAY_MS: u64 = 24 * HOUR_MS;

/// This many days after its UTC date, a day is over in every zone for more than a day.
const DAYS_KEPT: u32 = 2;

impl Ledger {
    pub(super) fn look(&mut self, outbox: &mut LedgerOutbox) {
        let mut at = 0;
        while let Some(slot) = self.dirty.get(at).copied() {
            at += 1;
            self.look_at(slot, outbox);
        }
        self.dirty.clear();
    }

    fn look_at(&mut self, slot: CampaignIndex, outbox: &mut LedgerOutbox) {
        #[cfg(test)]
        {
            self.touched += 1;
        }
        let (campaign, account, ctx) = self.campaign_in_step(slot).expect("a campaign stays known");
        campaign.is_dirty = false;
        let needs = campaign.look(account, &ctx, outbox);
        let closed = std::mem::take(&mut campaign.closed);
        let is_hungry = needs.lease && !std::mem::replace(&mut campaign.is_hungry, needs.lease);
        if needs.waits && !std::mem::replace(&mut campaign.is_waiting, true) {
            account.waiting.push(slot);
        }
        let is_unsaved = campaign.has_unsaved() && !campaign.is_unsaved;
        campaign.is_unsaved |= is_unsaved;
        let is_freed = std::mem::take(&mut account.is_freed);
        let at = index(campaign.account);
        closed.into_iter().for_each(|(period, lease)| self.folding.close(period, lease));
        if is_hungry {
            self.hungry.push(slot);
        }
        if is_unsaved {
            self.unsaved.push_back(slot);
        }
        if is_freed {
            self.wake_waiting(at);
        }
        if needs.others {
            self.search(at, Some(slot));
        }
        self.schedule(slot);
    }

    pub(super) fn wake_waiting(&mut self, account: usize) {
        for slot in std::mem::take(&mut self.accounts[account].waiting) {
            let (campaign, _) = self.pair(slot).expect("a campaign stays known");
            campaign.is_waiting = false;
            self.mark(slot);
        }
    }

    /// Makes an account's campaigns return unused budget, at most once per patience. `wanting` needs
    /// it; None if a hold does.
    pub(super) fn search(&mut self, at: usize, wanting: Option<CampaignIndex>) {
        let (now, patience) = (self.now.tick, self.settings.patience);
        let account = &mut self.accounts[at];
        if account.searched_at.is_some_and(|last| now < last.after(patience)) {
            return;
        }
        account.searched_at = Some(now);
        let members = std::mem::take(&mut account.members);
        for slot in members.iter().copied().filter(|slot| Some(*slot) != wanting) {
            let (campaign, _, ctx) = self.campaign_in_step(slot).expect("a member stays known");
            if campaign.is_idle(&ctx) {
                campaign.drain(&ctx);
                self.mark(slot);
            }
        }
        self.accounts[at].members = members;
        if let Some(wanting) = wanting {
            self.wake_at_tick(wanting, now.after(patience));
        }
    }

    fn schedule(&mut self, slot: CampaignIndex) {
        let (campaign, _, ctx) = self.campaign_in_step(slot).expect("a campaign stays known");
        let (tick, unix_ms) = (campaign.next_tick(&ctx), campaign.next_unix_ms(&ctx));
        let campaign = self.campaigns[index(slot.0)].as_mut().expect("a campaign stays known");
        self.by_tick.set(slot, &mut campaign.wake_tick, tick);
        self.by_unix_ms.set(slot, &mut campaign.wake_unix_ms, unix_ms);
    }

    /// Leases what is needed, in order of request, and writes all unsaved changes in one batch. The
    /// batch is self-contained: what it returns may be leased elsewhere in it, or put on hold. An
    /// early batch has only unsaved changes: holds do not wait for the lease period.
    pub(super) fn lease(&mut self, outbox: &mut LedgerOutbox) {
        // At shutdown no lease period applies, unless the store refuses.
        let is_at_once = self.is_closing && !self.is_store_failing;
        let is_early = self.now.tick < self.next_lease && !is_at_once;
        if self.in_flight.is_some() || (is_early && !self.has_urgent_holds()) {
            return;
        }
        if !is_early {
            self.lease_hungry();
        }
        let leases = self.gather();
        // A settlement is applied once all that it has changed is in a batch.
        let is_all = self.unsaved.is_empty() && leases.len() < self.settings.leases_max;
        let applied_seq = if is_all { self.applied_seq } else { self.saved_seq };
        let holds = self.holds.gather(is_all);
        let is_alone = leases.is_empty() && holds.is_empty();
        let folds = if is_early { Vec::new() } else { self.gather_folds(is_alone) };
        let hold_folds = if is_early { Vec::new() } else { self.gather_hold_folds(is_alone) };
        let strays = if is_all { self.strays.clone() } else { Vec::new() };
        let has_folds = !folds.is_empty() || !hold_folds.is_empty();
        let is_silent = is_alone && !has_folds && applied_seq == self.saved_seq;
        if is_silent && !self.is_life_due() {
            return;
        }
        let number = self.next_number;
        self.next_number += 1;
        if !is_early {
            self.next_lease = self.now.tick.after(self.settings.lease_period);
        }
        let (life, lifetimes_from) = self.epoch_lifetimes.say(self.now.tick);
        let node = self.settings.node;
        let key = |name: &HoldName| StoredHoldKey { node, name: name.clone() };
        outbox.batch = Some(Batch {
            number,
            leases: leases.clone(),
            folds: folds.clone(),
            strays,
            holds: holds.iter().map(|(name, row)| (key(name), row.clone())).collect(),
            hold_folds: hold_folds.iter().map(key).collect(),
            applied_seq,
            life,
            lifetimes_from,
        });
        let frozen_from = if is_all { self.frozen_from() } else { lifetimes_from };
        let lasted = Duration::from_millis(life.lasted_ms);
        self.in_flight = Some(BatchInFlight {
            number,
            leases,
            folds,
            holds,
            hold_folds,
            applied_seq,
            lasted,
            frozen_from,
        });
    }

    /// Whether the books are complete: otherwise sums may lack a lease or a late win of an unknown
    /// account.
    pub(super) fn is_whole(&self) -> bool {
        self.is_replayed && self.orphans.is_empty() && !self.folding.has_waiting()
    }

    fn lease_hungry(&mut self) {
        let hungry = if self.is_whole() { std::mem::take(&mut self.hungry) } else { Vec::new() };
        for slot in hungry {
            let (campaign, account, ctx) =
                self.campaign_in_step(slot).expect("a campaign stays known");
            campaign.is_hungry = false;
            campaign.lease_ahead(account, &ctx);
            campaign.lease(account, &ctx);
            let is_unsaved = campaign.has_unsaved() && !campaign.is_unsaved;
            campaign.is_unsaved |= is_unsaved;
            if is_unsaved {
                self.unsaved.push_back(slot);
            }
            // Other campaigns may have taken what it saw; then its gate must change.
            self.mark(slot);
        }
    }

    /// Unsaved leases, up to the batch's capacity; they count as in flight from now on.
    fn gather(&mut self) -> Vec<(LeaseKey, Lease)> {
        let most = self.settings.leases_max;
        let of_slot = |slot: &CampaignIndex| self.orphans.get(slot).map(|orphans| (*slot, orphans));
        let orphans = self.orphans_unsaved.iter().filter_map(of_slot);
        let orphans = orphans.flat_map(|(slot, orphans)| orphans.iter().map(move |it| (slot, it)));
        let unsaved = orphans.filter(|(_, (_, dead))| dead.is_unsaved);
        let said = |(slot, (period, dead)): (CampaignIndex, &(Period, DeadLease))| {
            (key_of(slot, *period, dead), dead.lease)
        };
        let mut leases: Vec<_> = unsaved.map(said).take(most).collect();
        let mut slots = std::mem::take(&mut self.unsaved);
        while let Some(slot) = slots.pop_front_if(|_| leases.len() < most) {
            if !self.say(slot, most, &mut leases) {
                slots.push_front(slot);
                break;
            }
        }
        self.unsaved = slots;
        leases
    }

    /// Adds a campaign's unsaved leases. Returns false if some did not fit.
    fn say(
        &mut self,
        slot: CampaignIndex,
        most: usize,
        leases: &mut Vec<(LeaseKey, Lease)>,
    ) -> bool {
        let (node, epoch) = (self.settings.node, self.settings.epoch);
        let (campaign, _) = self.pair(slot).expect("a campaign stays known");
        for book in &mut campaign.books {
            let period = book.period;
            let own = (LeaseKey { slot, period, node, epoch }, book.lease);
            let own = (own, &mut book.is_unsaved, &mut book.is_in_flight);
            let dead = book.dead.iter_mut().map(|dead| {
                let said = (key_of(slot, period, dead), dead.lease);
                (said, &mut dead.is_unsaved, &mut dead.is_in_flight)
            });
            let unsaved =
                std::iter::once(own).chain(dead).filter(|(_, is_unsaved, _)| **is_unsaved);
            for (said, is_unsaved, is_in_flight) in unsaved {
                if leases.len() == most {
                    return false;
                }
                assert!(
                    said.1.is_balanced(),
                    "what is leased is settled or returned once: {said:?}"
                );
                (*is_unsaved, *is_in_flight) = (false, true);
                leases.push(said);
            }
        }
        campaign.is_unsaved = false;
        true
    }

    /// Applies the outcome of a batch. Ignores all but the batch in flight.
    pub(super) fn end_batch(
        &mut self,
        number: u64,
        ended: CommitOutcome,
        outbox: &mut LedgerOutbox,
    ) {
        let Some(batch) = self.in_flight.take_if(|batch| batch.number == number) else { return };
        self.is_store_failing = ended != CommitOutcome::Committed;
        match ended {
            CommitOutcome::Committed => {
                self.saved_seq = batch.applied_seq;
                self.epoch_lifetimes.saved(batch.lasted, batch.frozen_from);
                self.end_strays();
                self.end_orphans(&batch.leases);
            }
            CommitOutcome::Refused => self.stats.refused += 1,
            CommitOutcome::Unknown => self.stats.unknown += 1,
        }
        for (key, lease) in &batch.leases {
            self.end_lease(key, lease, ended);
        }
        self.end_folds(batch.folds, ended);
        self.end_holds(batch.holds, ended, outbox);
        self.holds.end_folds(&batch.hold_folds, ended == CommitOutcome::Committed);
    }

    /// Leases without a campaign are saved, unless they have changed since or have one now.
    fn end_orphans(&mut self, saved: &[(LeaseKey, Lease)]) {
        let orphans = &mut self.orphans;
        self.orphans_unsaved.retain(|slot| {
            let mut is_unsaved = false;
            for (period, dead) in orphans.get_mut(slot).into_iter().flatten() {
                let said = (key_of(*slot, *period, dead), dead.lease);
                dead.is_unsaved &= !saved.contains(&said);
                is_unsaved |= dead.is_unsaved;
            }
            is_unsaved
        });
    }

    fn end_lease(&mut self, key: &LeaseKey, said: &Lease, ended: CommitOutcome) {
        let is_own = (key.node, key.epoch) == (self.settings.node, self.settings.epoch);
        let tick = self.now.tick;
        let Some((campaign, account)) = self.pair(key.slot) else { return };
        let Some(at) = campaign.books.iter().position(|book| book.period == key.period) else {
            return;
        };
        let is_lost = ended != CommitOutcome::Committed;
        let book = &mut campaign.books[at];
        let had = book.committed;
        if is_own {
            book.is_in_flight = false;
            book.is_unsaved |= is_lost;
            let granted = said.granted.get();
            match ended {
                CommitOutcome::Committed => book.committed = book.committed.max(granted),
                CommitOutcome::Unknown => book.maybe = book.maybe.max(granted),
                CommitOutcome::Refused => {
                    book.lease.granted = Nanos::new(book.committed.max(book.maybe));
                }
            }
            // Nothing was leased, so there is nothing to save: a disk may be full for long.
            book.is_unsaved &= book.lease != Lease::default();
        } else {
            let is_it = |dead: &&mut DeadLease| (dead.node, dead.epoch) == (key.node, key.epoch);
            if let Some(dead) = book.dead.iter_mut().find(is_it) {
                dead.is_in_flight = false;
                dead.is_unsaved |= is_lost;
            }
        }
        if had < campaign.books[at].committed {
            // Shards had no time to use it.
            campaign.note_active(tick);
        }
        campaign.recount(at, account);
        self.mark(key.slot);
    }

    /// Drops unattributed wins that are durable now, and queues the folds of their days.
    fn end_strays(&mut self) {
        let saved = self.strays.partition_point(|stray| stray.seq <= self.saved_seq);
        for UnattributedWin { sum, .. } in self.strays.drain(..saved) {
            if let Some(day) = sum.day {
                self.folding.has_sum(sum.slot, day);
            }
        }
    }

    /// The folds of the next batch; `is_alone` if it has nothing else.
    fn gather_folds(&mut self, is_alone: bool) -> Vec<Fold> {
        if !self.may_fold(is_alone) {
            return Vec::new();
        }
        let kept = u64::try_from(self.settings.hours_kept.as_millis()).unwrap_or(u64::MAX);
        let before_ms = self.now.unix_ms.saturating_sub(kept.saturating_add(HOUR_MS));
        self.folding.take_due(self.settings.node, before_ms, self.before_day())
    }

    /// The folds of holds, of days that are over in every zone: only total limits count their sums.
    fn gather_hold_folds(&mut self, is_alone: bool) -> Vec<HoldName> {
        if !self.may_fold(is_alone) {
            return Vec::new();
        }
        let before_day = self.before_day();
        self.holds.take_due(before_day)
    }

    /// Before the log is replayed a win may still change a row.
    const fn may_fold(&self, is_alone: bool) -> bool {
        self.is_replayed && !self.is_closing && (!self.is_store_failing || is_alone)
    }

    fn before_day(&self) -> u32 {
        let today = u32::try_from(self.now.unix_ms / DAY_MS).unwrap_or(u32::MAX);
        today.saturating_sub(DAYS_KEPT)
    }

    /// Applies the outcome to the batch's folds. Folds without a certain commit are repeated.
    fn end_folds(&mut self, folds: Vec<Fold>, ended: CommitOutcome) {
        let is_gone = ended == CommitOutcome::Committed;
        for fold in folds {
            match fold {
                Fold::Lease(LeaseKey { slot, .. }, day) if is_gone => {
                    self.folding.has_sum(slot, day);
                }
                Fold::Lease(LeaseKey { slot, period, epoch, .. }, day) => {
                    self.folding.close(period, ClosedLease { slot, epoch, day });
                }
                Fold::Day(SumKey { slot, day: Some(day), .. }) if !is_gone => {
                    self.folding.has_sum(slot, day);
                }
                Fold::Day(_) => (),
            }
        }
    }

    /// Whether a batch must record this epoch's lifetime alone: while anything is frozen.
    pub(super) fn is_life_due(&self) -> bool {
        self.epoch_lifetimes.is_due(self.now.tick, self.is_closing)
            && self.frozen_from() < self.settings.epoch
    }

    /// The oldest epoch with frozen budget, or this one.
    pub(super) fn frozen_from(&self) -> Epoch {
        let of_campaigns =
            self.epoch_lifetimes.dead.iter().find(|(_, dead)| !dead.slots.is_empty());
        let orphans = self.orphans.values().flatten().map(|(_, dead)| dead);
        let orphans = orphans.filter(|dead| dead.node == self.settings.node);
        let orphans = orphans.filter(|dead| left_of(&dead.lease) > 0).map(|dead| dead.epoch);
        let known = of_campaigns.map(|(epoch, _)| *epoch);
        known.into_iter().chain(orphans).min().unwrap_or(self.settings.epoch)
    }
}
