//! The ledger's input: definitions, messages of shards and the log, and time.

use std::collections::BTreeSet;
use std::time::Duration;

use units::{Nanos, Tick};

use super::account::LedgerAccount;
use super::campaign::book::{DeadLease, late_of, left_of};
use super::campaign::{LedgerCampaign, StepContext};
use super::folding::ClosedLease;
use super::limits::definition::{
    AccountTerms, CAMPAIGNS_MAX, CampaignTerms, DefinitionError, ZoneId,
};
use super::limits::level::excess;
use super::limits::tally::Exposure;
use super::step::{
    AcceptedDefinition, LedgerInput, LedgerOutbox, LedgerReply, LedgerTime, SettlementRecord,
};
use super::{Ledger, ZoneHours};
use crate::calendar::{Calendar, CalendarHour};
use crate::messages::{CampaignIndex, Epoch, Receipt, RefillRequest, SpendReport, index};
use crate::store::{LeaseKey, SpentSum, SumKey, UnattributedWin};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// The longest day, with a clock change.
const DAY_MS_MAX: u64 = 26 * 60 * 60 * 1000;

impl Ledger {
    pub(super) fn advance(&mut self, now: LedgerTime) {
        self.now.tick = self.now.tick.max(now.tick);
        self.now.unix_ms = self.now.unix_ms.max(now.unix_ms);
        let unix_ms = self.now.unix_ms;
        for zone in self.zones.values_mut() {
            let lasts =
                |hour: &CalendarHour| (hour.start_unix_ms..hour.end_unix_ms).contains(&unix_ms);
            if !zone.hour.as_ref().is_some_and(lasts) {
                (zone.hour, zone.next) = hours_at(&zone.calendar, unix_ms);
            }
        }
    }

    pub(super) fn take(&mut self, incoming: LedgerInput, outbox: &mut LedgerOutbox) {
        match incoming {
            LedgerInput::Calendar(zone, calendar) => self.take_calendar(zone, calendar, outbox),
            LedgerInput::Account(definition) => {
                let taken = self.define_account(&definition, outbox);
                outbox.notices.push(LedgerReply::Account(definition.id, taken));
            }
            LedgerInput::Campaign(definition) => {
                let taken = self.define_campaign(&definition);
                outbox.notices.push(LedgerReply::Campaign(definition.slot, taken));
            }
            LedgerInput::Report(shard, report) => self.take_report(shard, &report),
            LedgerInput::Refill(shard, want) => self.take_refill(shard, &want),
            LedgerInput::Receipt(shard, Receipt { slot, period, granted }) => {
                self.receipts.insert((slot, period, shard), granted.get());
            }
            LedgerInput::ShardClosed(shard) => drop(self.closed_shards.insert(shard)),
            LedgerInput::Close => self.close(),
            LedgerInput::AccountName(id, name) => self.name_account(id, &name),
            LedgerInput::Hold(message) => self.take_hold(message, outbox),
            LedgerInput::Ended(number, ended) => self.end_batch(number, ended, outbox),
            LedgerInput::Settlement(settlement) => self.settle(&settlement, outbox),
            LedgerInput::Logged(seq) => self.applied_seq = self.applied_seq.max(seq),
            LedgerInput::Replayed => self.is_replayed = true,
        }
    }

    fn take_calendar(&mut self, id: ZoneId, calendar: Calendar, outbox: &mut LedgerOutbox) {
        // The next hour may have leases already.
        let begun_ms = self.now.unix_ms.saturating_add(self.settings.ahead_ms_max() + 1);
        let known = self.zones.get(&id);
        if known.is_some_and(|zone| !zone.calendar.agrees_until(&calendar, begun_ms)) {
            outbox.notices.push(LedgerReply::CalendarContradicts(id));
            return;
        }
        let (hour, next) = hours_at(&calendar, self.now.unix_ms);
        self.zones.insert(id, ZoneHours { calendar, hour, next });
        for at in 0..self.accounts.len() {
            if self.accounts[at].definition.zone == id {
                self.mark_members(at);
            }
        }
    }

    fn define_account(
        &mut self,
        definition: &AccountTerms,
        outbox: &mut LedgerOutbox,
    ) -> Result<AcceptedDefinition, DefinitionError> {
        let Some(zone) = self.zones.get(&definition.zone) else {
            return Err(DefinitionError::UnknownZone(definition.zone));
        };
        let hour = zone.hour;
        let Some(&at) = self.account_at.get(&definition.id) else {
            let at = u32::try_from(self.accounts.len()).expect("accounts are fewer than 2^32");
            self.accounts.push(LedgerAccount::new(definition)?);
            self.account_at.insert(definition.id, at);
            for waiting in self.strangers.remove(&definition.id).unwrap_or_default() {
                let taken = self.define_campaign(&waiting);
                outbox.notices.push(LedgerReply::Campaign(waiting.slot, taken));
            }
            self.adopt_holds(definition.id);
            return Ok(AcceptedDefinition { is_newer: true, excess: Nanos::ZERO });
        };
        let account = &mut self.accounts[index(at)];
        let is_newer = account.define(definition)?;
        let excess = excess(&account.definition.limits, &account.tally, hour.as_ref());
        if is_newer {
            self.mark_members(index(at));
            for slot in self.accounts[index(at)].members.clone() {
                let (campaign, _) = self.pair(slot).expect("a member stays known");
                campaign.share_again();
            }
        }
        Ok(AcceptedDefinition { is_newer, excess })
    }

    fn define_campaign(
        &mut self,
        definition: &CampaignTerms,
    ) -> Result<AcceptedDefinition, DefinitionError> {
        if definition.slot.0 >= CAMPAIGNS_MAX {
            return Err(DefinitionError::SlotTooLarge(definition.slot));
        }
        if definition.budget.end_unix_ms <= definition.budget.start_unix_ms {
            return Err(DefinitionError::EndBeforeStart);
        }
        let slot = definition.slot;
        if let Some((campaign, account)) = self.pair(slot) {
            let is_newer = campaign.define(definition, account.definition.currency)?;
            let zone = account.definition.zone;
            let hour = self.zones[&zone].hour;
            let campaign = self.campaign(slot).expect("it was there just now");
            let excess = excess(&campaign.definition.budget.limits, &campaign.tally, hour.as_ref());
            self.mark(slot);
            return Ok(AcceptedDefinition { is_newer, excess });
        }
        let Some(&at) = self.account_at.get(&definition.account) else {
            let waiting = self.strangers.entry(definition.account).or_default();
            let known = waiting.iter().position(|known| known.slot == slot);
            let is_newer = known.is_none_or(|at| waiting[at].version < definition.version);
            if is_newer {
                waiting.retain(|known| known.slot != slot);
                waiting.push(*definition);
            }
            return Ok(AcceptedDefinition { is_newer, excess: Nanos::ZERO });
        };
        let account = &mut self.accounts[index(at)];
        let (currency, now) = (account.definition.currency, self.now.tick);
        let campaign = LedgerCampaign::new(definition, at, currency, &self.settings, now)?;
        account.members.push(slot);
        if self.campaigns.len() <= index(slot.0) {
            self.campaigns.resize_with(index(slot.0) + 1, || None);
        }
        self.campaigns[index(slot.0)] = Some(Box::new(campaign));
        self.adopt_sums(slot);
        self.adopt(slot);
        self.mark(slot);
        let hour = self.zones[&self.accounts[index(at)].definition.zone].hour;
        let campaign = self.campaign(slot).expect("it was put there just now");
        let excess = excess(&campaign.definition.budget.limits, &campaign.tally, hour.as_ref());
        Ok(AcceptedDefinition { is_newer: true, excess })
    }

    fn adopt(&mut self, slot: CampaignIndex) {
        let Some(leases) = self.orphans.remove(&slot) else { return };
        self.orphans_unsaved.remove(&slot);
        let campaign = self.campaigns[index(slot.0)].as_mut().expect("the campaign is known");
        let account = &mut self.accounts[index(campaign.account)];
        let zone = &self.zones[&account.definition.zone];
        if let Some(hour) = &zone.hour {
            campaign.tally.begin_day(hour.day);
            account.tally.begin_day(hour.day);
        }
        // A day more, because the wall clock may have jumped since.
        let window = self.settings.horizon + self.settings.late_window + DAY;
        let window_ms = u64::try_from(window.as_millis()).unwrap_or(u64::MAX);
        let today = zone.hour.as_ref().map_or(0, |hour| hour.day);
        for (period, dead) in leases {
            let hour = zone.calendar.of(period);
            // Without the hour in the table, today is assumed for recent ones.
            let is_recent = self.now.unix_ms < period.start_unix_ms() + DAY_MS_MAX;
            let day = hour.map_or(if is_recent { today } else { 0 }, |hour| hour.day);
            let end_ms = hour.map_or(0, |hour| hour.end_unix_ms);
            let left = left_of(&dead.lease);
            if left == 0 && !dead.is_unsaved && end_ms.saturating_add(window_ms) < self.now.unix_ms
            {
                let lease = &dead.lease;
                let held = lease.granted.get() - lease.returned.get();
                let sum = Exposure { held, late: late_of(lease) };
                campaign.tally.change(period, day, Exposure::default(), sum);
                account.tally.change(period, day, Exposure::default(), sum);
                if dead.node == self.settings.node {
                    self.folding.close(period, ClosedLease { slot, epoch: dead.epoch, day });
                }
                continue;
            }
            if left > 0 && dead.node == self.settings.node {
                self.epoch_lifetimes.hold(dead.epoch, slot);
            }
            let at = campaign.book(period, day);
            campaign.books[at].dead.push(dead);
            campaign.recount(at, account);
        }
    }

    fn adopt_sums(&mut self, slot: CampaignIndex) {
        let Some(sums) = self.folding.waiting.remove(&slot) else { return };
        let Some((campaign, account)) = self.pair(slot) else { return };
        for (day, spent) in sums {
            let late = spent.late.get().saturating_add(spent.over.get());
            let sum = Exposure { held: spent.settled.get(), late };
            campaign.tally.fold(day, sum);
            account.tally.fold(day, sum);
        }
    }

    /// Shuts down: what no reservation holds is returned durably, so that the next start can spend
    /// it at once. A shard that ends returns what it has not reserved, and reports how much it
    /// took: grants in transit are free as well. Grants of a shard that ends silently stay frozen,
    /// as after a crash.
    fn close(&mut self) {
        if self.is_closing {
            return;
        }
        self.is_closing = true;
        self.hungry.clear();
        let shards = std::mem::take(&mut self.closed_shards);
        let receipts = std::mem::take(&mut self.receipts);
        for slot in 0..self.campaigns.len() {
            let slot = CampaignIndex(u32::try_from(slot).expect("slots are numbered by 32 bits"));
            let Some((campaign, account)) = self.pair(slot) else { continue };
            for at in 0..campaign.books.len() {
                let book = &mut campaign.books[at];
                for shard in &shards {
                    let taken = receipts.get(&(slot, book.period, *shard));
                    book.return_untaken(*shard, taken.copied().unwrap_or(0));
                }
                campaign.recount(at, account);
            }
            self.mark(slot);
        }
    }

    fn take_report(&mut self, shard: u16, report: &SpendReport) {
        let tick = self.now.tick;
        let slot = report.slot;
        let found = self.pair(slot).and_then(|(campaign, account)| {
            let at = campaign.books.iter().position(|book| book.period == report.period)?;
            Some((campaign, account, at))
        });
        let Some((campaign, account, at)) = found else {
            self.stats.strays += 1;
            return;
        };
        if campaign.books[at].report(shard, report) {
            campaign.note_reserved(tick);
            let usual = report.reserved.get().checked_div(report.reserved_count);
            campaign.usual_reservation = usual.unwrap_or(campaign.usual_reservation);
        }
        campaign.recount(at, account);
        self.mark(slot);
    }

    fn take_refill(&mut self, shard: u16, want: &RefillRequest) {
        if self.settings.shards <= shard {
            self.stats.strays += 1;
            return;
        }
        if let Some((campaign, _)) = self.pair(want.slot) {
            campaign.request_refill(shard, want);
            self.mark(want.slot);
        }
    }

    fn settle(&mut self, settlement: &SettlementRecord, outbox: &mut LedgerOutbox) {
        // A record may settle several reservations, all of them in one step.
        if settlement.seq <= self.applied_before {
            return;
        }
        self.applied_seq = self.applied_seq.max(settlement.seq);
        let figures = [settlement.settled, settlement.late, settlement.over].map(Nanos::get);
        let key = settlement.key;
        let is_own = (key.node, key.epoch) == (self.settings.node, self.settings.epoch);
        let is_dead = |dead: &&mut DeadLease| (dead.node, dead.epoch) == (key.node, key.epoch);
        if let Some(orphans) = self.orphans.get_mut(&key.slot) {
            let of_period = orphans.iter_mut().filter(|(period, _)| *period == key.period);
            if let Some(dead) = of_period.map(|(_, dead)| dead).find(is_dead) {
                dead.win(figures);
                self.orphans_unsaved.insert(key.slot);
                return;
            }
        }
        let found = self.pair(key.slot).and_then(|(campaign, account)| {
            let at = campaign.books.iter().position(|book| book.period == key.period)?;
            let book = &mut campaign.books[at];
            let is_same = settlement.currency == account.definition.currency;
            match book.dead.iter_mut().find(is_dead) {
                _ if is_own && is_same => book.win(figures),
                Some(dead) if is_same => dead.win(figures),
                None if !is_own => return None,
                _ => return Some(false),
            }
            campaign.recount(at, account);
            Some(true)
        });
        match found {
            Some(true) => self.mark(key.slot),
            Some(false) => outbox.notices.push(LedgerReply::SettlementMixed(settlement.seq)),
            None => self.settle_forgotten(settlement, outbox),
        }
    }

    /// A win of a dropped lease: it counts as late in its campaign's sums.
    fn settle_forgotten(&mut self, settlement: &SettlementRecord, outbox: &mut LedgerOutbox) {
        let SettlementRecord { seq, key: LeaseKey { slot, period, node, .. }, .. } = *settlement;
        let figures = [settlement.settled, settlement.late, settlement.over].map(Nanos::get);
        let late = figures.into_iter().fold(0, u64::saturating_add);
        let is_known = node == self.settings.node && self.campaign(slot).is_some();
        if !is_known {
            self.stats.strays += 1;
            self.stats.stray_nanos = self.stats.stray_nanos.saturating_add(late);
            return;
        }
        let (_, account) = self.pair(slot).expect("it is known");
        if settlement.currency != account.definition.currency {
            return outbox.notices.push(LedgerReply::SettlementMixed(seq));
        }
        let (zone, sum) = (account.definition.zone, Exposure { held: 0, late });
        // Without the day in the table, only the total limits count it.
        let hour = self.zones.get(&zone).and_then(|zone| zone.calendar.of(period)).copied();
        let day = hour.map(|hour| hour.day);
        let (campaign, account) = self.pair(slot).expect("it is known");
        campaign.tally.change(period, day.unwrap_or(0), Exposure::default(), sum);
        account.tally.change(period, day.unwrap_or(0), Exposure::default(), sum);
        let spent = SpentSum { late: Nanos::new(late), ..SpentSum::default() };
        self.strays.push(UnattributedWin { seq, sum: SumKey { slot, node, day }, spent });
        self.mark(slot);
    }

    pub(super) fn wake(&mut self) {
        let (unix_ms, tick) = (self.now.unix_ms, self.now.tick.nanos());
        for _ in 0..self.settings.wakes_max {
            let Some(slot) = self.by_unix_ms.take_due(unix_ms) else { break };
            self.campaign_mut(slot).expect("a campaign stays known").wake_unix_ms = u64::MAX;
            self.mark(slot);
        }
        for _ in 0..self.settings.wakes_max {
            let Some(slot) = self.by_tick.take_due(tick) else { break };
            self.campaign_mut(slot).expect("a campaign stays known").wake_tick = u64::MAX;
            self.mark(slot);
        }
    }

    /// Reclaims a dead epoch's outstanding budget after its horizon: none of its tokens can be won
    /// in time any more, and all wins are known.
    pub(super) fn reclaim(&mut self) {
        if !self.is_replayed {
            return;
        }
        while let Some((epoch, slots)) = self.epoch_lifetimes.take_due(self.now.tick) {
            self.reclaim_of(epoch, slots);
        }
    }

    fn reclaim_of(&mut self, epoch: Epoch, slots: BTreeSet<CampaignIndex>) {
        let node = self.settings.node;
        let is_of = |dead: &&mut DeadLease| (dead.node, dead.epoch) == (node, epoch);
        for slot in slots {
            let (campaign, account) = self.pair(slot).expect("a campaign stays known");
            for at in 0..campaign.books.len() {
                for dead in campaign.books[at].dead.iter_mut().filter(is_of) {
                    let left = left_of(&dead.lease);
                    dead.lease.returned = Nanos::new(dead.lease.returned.get() + left);
                    dead.is_unsaved |= left > 0;
                }
                campaign.recount(at, account);
            }
            self.mark(slot);
        }
    }

    pub(super) fn mark(&mut self, slot: CampaignIndex) {
        let Some(campaign) = self.campaign_mut(slot) else { return };
        if !std::mem::replace(&mut campaign.is_dirty, true) {
            self.dirty.push(slot);
        }
    }

    pub(super) fn mark_members(&mut self, account: usize) {
        let members = std::mem::take(&mut self.accounts[account].members);
        for slot in &members {
            self.mark(*slot);
        }
        self.accounts[account].members = members;
    }

    pub(super) fn wake_at_tick(&mut self, slot: CampaignIndex, at: Tick) {
        let campaign = self.campaigns[index(slot.0)].as_mut().expect("a campaign stays known");
        self.by_tick.set(slot, &mut campaign.wake_tick, at.nanos());
    }

    pub(super) fn campaign(&self, slot: CampaignIndex) -> Option<&LedgerCampaign> {
        self.campaigns.get(index(slot.0))?.as_deref()
    }

    fn campaign_mut(&mut self, slot: CampaignIndex) -> Option<&mut LedgerCampaign> {
        self.campaigns.get_mut(index(slot.0))?.as_deref_mut()
    }

    pub(super) fn pair(
        &mut self,
        slot: CampaignIndex,
    ) -> Option<(&mut LedgerCampaign, &mut LedgerAccount)> {
        let campaign = self.campaigns.get_mut(index(slot.0))?.as_deref_mut()?;
        let account = &mut self.accounts[index(campaign.account)];
        Some((campaign, account))
    }

    pub(super) fn campaign_in_step(
        &mut self,
        slot: CampaignIndex,
    ) -> Option<(&mut LedgerCampaign, &mut LedgerAccount, StepContext<'_>)> {
        let campaign = self.campaigns.get_mut(index(slot.0))?.as_deref_mut()?;
        let account = &mut self.accounts[index(campaign.account)];
        let zone = self.zones.get(&account.definition.zone);
        let (hour, next) = zone.map_or((None, None), |zone| (zone.hour, zone.next));
        let (settings, now) = (&self.settings, self.now);
        let (is_store_failing, is_closing) = (self.is_store_failing, self.is_closing);
        let calendar = zone.map(|zone| &zone.calendar);
        let ctx = StepContext { settings, now, hour, next, calendar, is_store_failing, is_closing };
        Some((campaign, account, ctx))
    }
}

fn hours_at(calendar: &Calendar, unix_ms: u64) -> (Option<CalendarHour>, Option<CalendarHour>) {
    let hour = calendar.at(unix_ms).copied();
    (hour, hour.and_then(|hour| calendar.at(hour.end_unix_ms).copied()))
}
