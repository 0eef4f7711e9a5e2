//! A shard's turn: it takes messages, bids, and reports changes.

use pacer_core::messages::CampaignIndex;
use pacer_core::shard::token::TtlClass;
use units::Nanos;

use super::super::exchange::SimReservation;
use super::super::log::id_of;
use super::super::options::TTLS;
use super::BudgetWorld;
use super::process::{Forward, LedgerMessage, Process, ShardMessage};

impl BudgetWorld<'_> {
    pub(super) fn shard_turn(&mut self, process: &mut Process, number: u16) {
        self.observer.pass(number, &self.clock);
        process.desk(number).shard.advance(self.clock.tick());
        self.take_down(process, number);
        while let Some(news) = process.desk(number).news.pop(self.step) {
            self.hear_log(process, news);
        }
        while let Some(Forward { token, act }) = process.desk(number).forwards.pop(self.step) {
            self.arrive(process, number, &token, act);
        }
        for _ in 0..self.chance.within(0..=self.manners.bids_max) {
            self.bid(process, number);
        }
        process.desk(number).shard.advance(self.clock.tick());
        if self.chance.happens(800_000) {
            self.tell_up(process, number);
        }
        let shard = &process.desk(number).shard;
        self.observer.check_shard(number, shard, self.options.campaigns, &self.clock);
    }

    pub(super) fn take_down(&mut self, process: &mut Process, number: u16) {
        let desk = process.desk(number);
        while let Some(message) = desk.down.pop(self.step) {
            self.trace.note(format_args!("{number} takes {message:?}"));
            let taken = match message {
                LedgerMessage::Grant(grant) => {
                    self.observer.granted(number, &grant);
                    desk.shard.take(&grant)
                }
                LedgerMessage::Gate(gate) => {
                    self.observer.gated(number, &gate);
                    desk.shard.take_gate(&gate)
                }
            };
            assert_eq!(taken, Ok(()), "{message:?}");
        }
    }

    /// An exchange clears an auction and reserves the winner's price.
    fn bid(&mut self, process: &mut Process, number: u16) {
        let last = u64::from(self.options.campaigns) - 1;
        let slot = CampaignIndex(u32::try_from(self.chance.within(0..=last)).expect("few"));
        let most = if self.chance.happens(300_000) { 2 } else { 40 };
        let amount = if self.manners.is_petty { 1 } else { self.chance.within(1..=most) };
        let last = TTLS.len() as u64 - 1;
        let class = u8::try_from(self.chance.within(0..=last)).expect("few");
        let is_quiet = process.is_quiet(number);
        self.observer.asked(number, &self.clock);
        let shard = &mut process.desk(number).shard;
        let made = shard.reserve(slot, Nanos::new(amount), TtlClass(class), self.clock.moment());
        self.trace.note(format_args!("{number} reserves {amount} of {slot:?}: {made:?}"));
        let Ok(token) = made else { return };
        self.observer.reserved(&token, &self.clock, is_quiet);
        let text = self.key.seal(&token).as_str().as_bytes().to_vec();
        let (id, class, at_ms) = (id_of(&token), usize::from(class), self.clock.tick_ms);
        let reserved = SimReservation { id, text, amount, class, at_ms };
        self.exchange.plan(&reserved, &self.manners, &mut self.chance);
    }

    /// Sends reports and refill requests alternately while there is room. The rest waits in the
    /// shard.
    fn tell_up(&mut self, process: &mut Process, number: u16) {
        let desk = process.desk(number);
        let mut is_want = self.chance.happens(500_000);
        while desk.up.has_room() {
            let shard = &mut desk.shard;
            let message = if is_want {
                let want = shard.want().next().map(ShardMessage::Want);
                want.or_else(|| shard.report().next().map(ShardMessage::Report))
            } else {
                let report = shard.report().next().map(ShardMessage::Report);
                report.or_else(|| shard.want().next().map(ShardMessage::Want))
            };
            let Some(message) = message else { break };
            is_want = matches!(message, ShardMessage::Report(_));
            self.trace.note(format_args!("{number} tells {message:?}"));
            let delay = self.chance.within(0..=self.options.delay_steps_max);
            desk.up.push(self.step + delay, message);
        }
    }
}
