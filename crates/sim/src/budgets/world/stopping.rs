//! A clean stop: auctions have ended, shards return their rights and close, the log syncs, and the
//! ledger makes its state durable, or gives up after a while.

use std::collections::VecDeque;

use pacer_core::ledger::LedgerInput;

use super::BudgetWorld;
use super::process::{Process, ShardMessage};

/// Longest stop, in steps.
const STOP_STEPS: u64 = 80;

impl BudgetWorld<'_> {
    pub(super) fn begin_stop(&mut self, process: &mut Process) {
        if process.stops_by.is_none() {
            self.trace.note(format_args!("stop"));
            process.stops_by = Some(self.step + STOP_STEPS);
        }
    }

    /// Takes one step of the stop. False if it was the last.
    pub(super) fn stop_turns(&mut self, process: &mut Process, until: u64) -> bool {
        self.hear_store(process);
        for shard in 0..self.options.shards {
            if process.is_awake(shard, self.step) {
                self.end_shard(process, shard);
            }
        }
        self.log_turn(process);
        let has_ended = |desk: &super::process::SimShard| {
            desk.up.is_empty() && desk.last.as_ref().is_some_and(VecDeque::is_empty)
        };
        let is_told = process.is_replayed && process.told == self.log.next() - 1;
        if is_told && !process.is_close_told && process.desks.iter().all(has_ended) {
            process.is_close_told = true;
            process.mail.push((self.step, LedgerInput::Close));
        }
        if process.is_awake(self.options.shards, self.step) {
            self.ledger_turn(process);
        }
        let is_saved = process.is_close_told && process.mail.is_empty();
        if is_saved && process.sent.is_none() && process.ledger.is_saved() {
            self.observer.check_stopped();
            return false;
        }
        self.step < until
    }

    /// A shard handles its pending messages, closes, and sends its last messages as there is room.
    fn end_shard(&mut self, process: &mut Process, number: u16) {
        self.observer.pass(number, &self.clock);
        if process.desk(number).last.is_none() {
            process.desk(number).shard.advance(self.clock.tick());
            while let Some(news) = process.desk(number).news.pop(self.step) {
                self.hear_log(process, news);
            }
            if self.chance.happens(600_000) {
                return;
            }
            self.take_down(process, number);
            let shard = &mut process.desk(number).shard;
            let receipts = shard.close(self.clock.tick());
            let reports: Vec<_> = shard.report().map(ShardMessage::Report).collect();
            let last = reports.into_iter().chain(receipts.into_iter().map(ShardMessage::Receipt));
            process.desk(number).last = Some(last.chain([ShardMessage::Closed]).collect());
            let shard = &process.desk(number).shard;
            self.observer.check_shard(number, shard, self.options.campaigns, &self.clock);
            self.observer.shard_closed(number);
        }
        let desk = process.desk(number);
        while desk.up.has_room() {
            let Some(message) = desk.last.as_mut().and_then(VecDeque::pop_front) else { break };
            self.trace.note(format_args!("{number} tells at last {message:?}"));
            let delay = self.chance.within(0..=self.options.delay_steps_max);
            desk.up.push(self.step + delay, message);
        }
    }
}
