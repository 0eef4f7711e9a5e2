//! The ledger's turn: it receives definitions and the messages of shards, store and log, and its
//! own messages are sent.

use pacer_core::ledger::{LedgerInput, LedgerReply, ZoneId};
use pacer_core::messages::CampaignIndex;
use pacer_core::store::{LeaseStore as _, StoreAnswer};
use units::Nanos;

use super::super::log::SimRecord;
use super::super::options::HORIZON;
use super::process::{LedgerMessage, Process, ShardMessage};
use super::{BudgetWorld, CALENDAR_MS};

/// Records per step of a replay.
const REPLAYED_MOST: u64 = 12;
/// Longest interval, in steps, between the ledger's readings of the log.
const FED_WITHIN: u64 = 12;

impl BudgetWorld<'_> {
    pub(super) fn hear_store(&mut self, process: &mut Process) {
        while let Some(answer) = self.store.poll() {
            let StoreAnswer::Ended(outcome) = answer else { continue };
            self.trace.note(format_args!("{outcome:?}"));
            let batch = process.sent.take_if(|batch| batch.number == outcome.number);
            if let Some(batch) = batch {
                self.observer.leases.ended(&batch, outcome.ended);
                process.mail.push((self.step, LedgerInput::Ended(outcome.number, outcome.ended)));
            }
        }
    }

    /// Sends all definitions to a new ledger. Some come late, some before their account.
    pub(super) fn send_definitions(&mut self, process: &mut Process) {
        let start = self.options.start_unix_ms;
        for (number, zone) in (0..).zip(&self.options.zones) {
            let calendar = zone.calendar(start - 2 * super::DAY_MS, start + CALENDAR_MS);
            process.mail.push((self.step, LedgerInput::Calendar(ZoneId(number), calendar)));
        }
        for definition in self.operator.all() {
            let late = if self.chance.happens(200_000) { self.chance.within(1..=15) } else { 0 };
            process.mail.push((self.step + late, definition));
        }
    }

    /// The operator changes a definition. The ledger may get it late, twice, and after a newer one.
    pub(super) fn edit(&mut self, process: &mut Process) {
        if !self.chance.happens(self.weather.edit) {
            return;
        }
        let changed = self.operator.edit(self.clock.unix_ms, &mut self.chance);
        self.trace.note(format_args!("{changed:?}"));
        match &changed {
            LedgerInput::Account(account) => self.observer.account_defined(account),
            LedgerInput::Campaign(campaign) => self.observer.campaign_defined(campaign),
            _ => (),
        }
        for _ in 0..=self.chance.within(0..=1) {
            let at = self.step + self.chance.within(0..=12);
            process.mail.push((at, changed.clone()));
        }
    }

    fn inbox(&mut self, process: &mut Process) -> Vec<LedgerInput> {
        let step = self.step;
        let due = process.mail.extract_if(.., |(at, _)| *at <= step);
        let mut inbox: Vec<_> = due.map(|(_, message)| message).collect();
        for (number, desk) in (0u16..).zip(&mut process.desks) {
            while let Some(message) = desk.up.pop(step) {
                inbox.push(match message {
                    ShardMessage::Report(report) => LedgerInput::Report(number, report),
                    ShardMessage::Want(want) => LedgerInput::Refill(number, want),
                    ShardMessage::Receipt(receipt) => LedgerInput::Receipt(number, receipt),
                    ShardMessage::Closed => LedgerInput::ShardClosed(number),
                });
            }
        }
        self.feed(process, &mut inbox);
        inbox
    }

    /// Sends the log's new records, in order.
    fn feed(&mut self, process: &mut Process, inbox: &mut Vec<LedgerInput>) {
        if self.clock.tick_ms < process.replay_at_ms {
            return;
        }
        let is_due = self.fed_at + FED_WITHIN <= self.step;
        if process.is_replayed && !is_due && self.chance.happens(300_000) {
            return;
        }
        self.fed_at = self.step;
        let most = if process.is_replayed { u64::MAX } else { REPLAYED_MOST };
        let until = self.log.durable().min(process.told.saturating_add(most));
        // Repeats some records.
        let again = if self.chance.happens(100_000) { self.chance.within(1..=30) } else { 0 };
        for seq in process.told.saturating_sub(again) + 1..=until {
            inbox.push(match self.log.record(seq) {
                SimRecord::Win(_, settlement) => LedgerInput::Settlement(*settlement),
                SimRecord::Other => LedgerInput::Logged(seq),
            });
        }
        process.told = until;
        if !process.is_replayed && self.log.durable() <= until {
            process.is_replayed = true;
            inbox.push(LedgerInput::Replayed);
        }
    }

    pub(super) fn ledger_turn(&mut self, process: &mut Process) {
        let inbox = self.inbox(process);
        for incoming in &inbox {
            if !matches!(incoming, LedgerInput::Calendar(..)) {
                self.trace.note(format_args!("ledger hears {incoming:?}"));
            }
            self.observer.tell(incoming);
        }
        process.outbox.clear();
        process.ledger.step(self.clock.now(), inbox, &mut process.outbox);
        let unix_ms = process.ledger.now().unix_ms;
        self.observer.ledger_stepped(&self.clock, &process.outbox, unix_ms);
        for notice in &process.outbox.notices {
            let is_taken =
                matches!(notice, LedgerReply::Account(_, Ok(_)) | LedgerReply::Campaign(_, Ok(_)));
            assert!(is_taken, "what is defined holds: {notice:?}");
        }
        if let Some(batch) = process.outbox.batch.take() {
            self.trace.note(format_args!("{batch:?}"));
            process.sent = Some(batch.clone());
            self.store.submit(process.writer, batch);
        }
        self.check_thawed(process);
        self.send_down(process);
    }

    /// After the horizon, a process that has all messages holds nothing of earlier processes.
    fn check_thawed(&self, process: &Process) {
        let horizon_ms = u64::try_from(HORIZON.as_millis()).expect("short");
        let is_over = process.born_ms + horizon_ms <= self.clock.tick_ms;
        if !is_over || !process.is_replayed || !process.mail.is_empty() {
            return;
        }
        for slot in (0..self.options.campaigns).map(CampaignIndex) {
            let frozen = process.ledger.why(slot).frozen;
            assert_eq!(frozen, Nanos::ZERO, "frozen of {slot:?} a horizon after the start");
        }
    }

    /// Sends grants and gates in order. They wait here while a ring is full.
    fn send_down(&mut self, process: &mut Process) {
        let grants =
            process.outbox.grants.iter().map(|(shard, it)| (*shard, LedgerMessage::Grant(*it)));
        let gates =
            process.outbox.gates.iter().map(|(shard, it)| (*shard, LedgerMessage::Gate(*it)));
        let mut messages: Vec<(u16, LedgerMessage)> = grants.collect();
        if self.chance.happens(500_000) {
            messages.splice(0..0, gates);
        } else {
            messages.extend(gates);
        }
        for (shard, message) in messages {
            process.desks[usize::from(shard)].held.push_back(message);
        }
        let delay = self.options.delay_steps_max;
        for desk in &mut process.desks {
            while desk.down.has_room() {
                let Some(message) = desk.held.pop_front() else { break };
                desk.down.push(self.step + 1 + self.chance.within(0..=delay), message);
            }
        }
    }
}
