//! The path of a notice: from the token to the durable record, and back to the exchange.

use pacer_core::ledger::SettlementRecord;
use pacer_core::shard::TokenRejection;
use pacer_core::shard::token::ReservationToken;
use pacer_core::store::LeaseKey;
use units::Nanos;

use super::super::exchange::{ReservationEnd, SimNotice};
use super::super::log::{SimRecord, SimTokenId, id_of};
use super::super::observer::ObservedClaim;
use super::super::operator::currency_of;
use super::BudgetWorld;
use super::process::{ClaimNews, Forward, PendingClaim, Process};

impl BudgetWorld<'_> {
    /// Each notice arrives at a random shard, as exchanges connect to any.
    pub(super) fn hear_exchanges(&mut self, process: &mut Process) {
        while let Some(notice) = self.exchange.next(self.clock.tick_ms) {
            let last = u64::from(self.options.shards) - 1;
            let shard = u16::try_from(self.chance.within(0..=last)).expect("a shard");
            let is_lost = self.chance.happens(self.weather.notice_lost);
            if process.is_awake(shard, self.step) && !is_lost {
                self.hear(process, shard, &notice);
            }
            self.exchange.again(&notice, self.clock.tick_ms, &mut self.chance);
        }
    }

    fn hear(&mut self, process: &mut Process, shard: u16, notice: &SimNotice) {
        match self.key.open(&notice.text) {
            Ok(token) => {
                assert!(!notice.is_altered, "an altered token is taken: {token:?}");
                self.arrive(process, shard, &token, notice.act);
            }
            Err(error) => {
                self.trace.note(format_args!("{shard} refuses a token: {error}"));
                assert!(notice.is_altered, "a token comes back as it was given out: {error}");
            }
        }
    }

    /// A token has arrived at its own shard or another.
    pub(super) fn arrive(
        &mut self,
        process: &mut Process,
        at: u16,
        token: &ReservationToken,
        act: ReservationEnd,
    ) {
        self.observer.pass(at, &self.clock);
        let rejection = match act {
            ReservationEnd::Win(price) => self.win(process, at, token, price),
            ReservationEnd::Release => self.release(process, at, token),
        };
        let Err(why) = rejection else { return };
        let id = id_of(token);
        self.trace.note(format_args!("{at} rejects {act:?} of {id:?}: {why:?}"));
        self.observer.rejected(id, why, &self.clock);
        match (why, act) {
            (TokenRejection::OtherShard, _) => {
                let step = self.step + self.chance.within(0..=self.options.delay_steps_max);
                let forwards = &mut process.desk(id.0.shard).forwards;
                // Without room the notice is dropped; the exchange repeats it.
                if forwards.has_room() {
                    forwards.push(step, Forward { token: *token, act });
                }
            }
            (TokenRejection::AlreadyWon, ReservationEnd::Win(_)) => self.acknowledge(id),
            (TokenRejection::TooOld, ReservationEnd::Win(price)) => {
                self.write_alone(process, token, price, true);
            }
            (TokenRejection::DeadEpoch, ReservationEnd::Win(price)) => {
                self.write_alone(process, token, price, false);
            }
            _ => (),
        }
    }

    fn release(
        &mut self,
        process: &mut Process,
        at: u16,
        token: &ReservationToken,
    ) -> Result<(), TokenRejection> {
        let amount = process.desk(at).shard.release(token, self.clock.tick())?;
        self.trace.note(format_args!("{at} releases {amount} of {:?}", id_of(token)));
        self.observer.released(id_of(token), amount);
        Ok(())
    }

    fn win(
        &mut self,
        process: &mut Process,
        at: u16,
        token: &ReservationToken,
        price: Nanos,
    ) -> Result<(), TokenRejection> {
        let claim = process.desk(at).shard.claim(token, self.clock.tick())?;
        let (id, is_late) = (id_of(token), claim.is_late());
        let claimed =
            ObservedClaim { id, price: price.get(), amount: token.amount().get(), is_late };
        self.trace.note(format_args!("{at} claims {claimed:?}"));
        self.observer.claimed(&claimed);
        let pending = PendingClaim { shard: at, claim, claimed };
        if self.chance.happens(self.weather.log_refused) {
            self.hear_log(process, ClaimNews::Lost(pending));
            return Ok(());
        }
        let seq = self.write(token, &pending.claimed);
        process.claims.insert(seq, pending);
        Ok(())
    }

    /// Records a win that no shard remembers. Only the log knows whether it was booked before.
    fn write_alone(
        &mut self,
        process: &mut Process,
        token: &ReservationToken,
        price: Nanos,
        is_late: bool,
    ) {
        let id = id_of(token);
        match self.log.find(id) {
            Some(seq) if seq <= self.log.durable() => self.acknowledge(id),
            Some(_) => (),
            // The claim's record is lost, but its shard does not know yet.
            None if process.lost.contains(&id) => (),
            None if self.chance.happens(self.weather.log_refused) => (),
            None => {
                let amount = token.amount().get();
                let claimed = ObservedClaim { id, price: price.get(), amount, is_late };
                let seq = self.write(token, &claimed);
                process.orphans.insert(seq, id);
            }
        }
    }

    fn write(&mut self, token: &ReservationToken, claimed: &ObservedClaim) -> u64 {
        let [settled, late, over] = claimed.record(self.options.is_late_told);
        let (slot, period) = (token.slot(), token.period());
        let origin = token.origin();
        let settlement = SettlementRecord {
            seq: self.log.next(),
            key: LeaseKey { slot, period, node: origin.node, epoch: origin.epoch },
            settled: Nanos::new(settled),
            late: Nanos::new(late),
            over: Nanos::new(over),
            currency: currency_of(self.observer.places.account(slot)),
        };
        self.trace.note(format_args!("write {settlement:?}"));
        self.log.append(SimRecord::Win(claimed.id, settlement))
    }

    fn acknowledge(&mut self, id: SimTokenId) {
        self.trace.note(format_args!("acknowledge {id:?}"));
        self.observer.acknowledged(id);
        if !self.chance.happens(self.weather.acknowledgement_lost) {
            self.exchange.acknowledge(id);
        }
    }

    /// The log syncs, or loses its unsynced records.
    pub(super) fn log_turn(&mut self, process: &mut Process) {
        if self.chance.happens(50_000) {
            self.log.append(SimRecord::Other);
        }
        let delay = self.options.delay_steps_max;
        if self.chance.happens(self.weather.log_lost) {
            for seq in self.log.lose() {
                self.trace.note(format_args!("lost {seq}"));
                process.orphans.remove(&seq);
                let Some(pending) = process.claims.remove(&seq) else { continue };
                let at = self.step + self.chance.within(0..=delay);
                process.lost.insert(pending.claimed.id);
                process.desk(pending.shard).news.push(at, ClaimNews::Lost(pending));
            }
        } else if self.chance.happens(self.weather.sync) {
            for seq in self.log.sync() {
                self.note_durable(seq);
                if let Some(id) = process.orphans.remove(&seq) {
                    self.acknowledge(id);
                }
                let Some(pending) = process.claims.remove(&seq) else { continue };
                let at = self.step + self.chance.within(0..=delay);
                process.desk(pending.shard).news.push(at, ClaimNews::Durable(pending));
            }
        }
    }

    /// A shard learns the fate of a claim's record.
    pub(super) fn hear_log(&mut self, process: &mut Process, news: ClaimNews) {
        match news {
            ClaimNews::Durable(PendingClaim { shard, claim, claimed }) => {
                let told = process.desk(shard).shard.settle(claim, Nanos::new(claimed.price));
                self.trace.note(format_args!("{shard} settles {told:?}"));
                self.observer.settled(&claimed, &told);
                self.acknowledge(claimed.id);
            }
            ClaimNews::Lost(PendingClaim { shard, claim, claimed }) => {
                self.trace.note(format_args!("{shard} gives up {claimed:?}"));
                process.lost.remove(&claimed.id);
                self.observer.unclaimed(claimed.id, &self.clock);
                process.desk(shard).shard.unclaim(claim);
            }
        }
    }
}
