//! All lots of a node, as one machine: messages in, effects out.

use std::collections::BTreeMap;
use std::ops::Bound;

use super::answer::{FloorAnswer, FloorCommand, FloorRefusal, LOTS_SHOWN_MAX};
use super::desk::{DeskCommand, LotDesk, WaitingCommand};
use super::outlet::FloorOutlet;
use super::record::{LotRecord, LotRecordBody, created_news, is_same_news};
use super::state::{DurableEffect, FloorState};
use crate::lots::{Lot, LotEvent, LotEventKind, LotId, LotTerms};
use crate::ports::{HoldMessage, HoldReply, SoldLotReply};

/// How soon something is tried again that the log, the ledger or a bid delays.
const RETRY_MS: u64 = 100;

/// Limits of the floor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FloorSettings {
    /// Most lots, with those that are over and still needed.
    pub lots_max: usize,
    /// Most commands that wait for one lot.
    pub waiting_max: usize,
    /// Longest wait for money, in milliseconds.
    pub hold_timeout_ms: u64,
    /// How long lots are shown after they and their deals are over, in milliseconds.
    pub kept_ms: u64,
}

/// Why a record of the log does not belong to what came before it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LotReplayProblem {
    /// The record that created the lot is missing: it is damaged, or was removed once the lot was
    /// forgotten.
    #[error("no record created the lot")]
    NotCreated,
    /// The lot was created before, and is not over.
    #[error("the lot was created before")]
    CreatedTwice,
    /// The terms cannot be those of a lot.
    #[error("the terms are wrong: {0}")]
    Terms(String),
    /// The event cannot follow.
    #[error("the event cannot follow: {0}")]
    Event(&'static str),
    /// A bid has no attempt.
    #[error("the bid does not say which money is on hold for it")]
    NoAttempt,
    /// The rules come to something else than was told when it happened.
    #[error("the rules come to {replayed}, and the log has {recorded}")]
    OtherNews {
        /// What the log has.
        recorded: String,
        /// What the replay comes to.
        replayed: String,
    },
}

/// All lots of a node. `R` is the address of an answer.
pub struct LotFloor<R> {
    settings: FloorSettings,
    desks: BTreeMap<LotId, LotDesk<R>>,
    state: FloorState<R>,
    /// Lots that were created by records which are not durable yet, by number.
    created: Vec<(u64, LotId)>,
    /// When [`LotFloor::tick`] was called last.
    ticked_ms: u64,
}

impl<R> LotFloor<R> {
    /// A floor without lots, in an epoch of the log.
    pub fn new(settings: FloorSettings, epoch: u64) -> Self {
        let state = FloorState::new(epoch);
        Self { settings, desks: BTreeMap::new(), state, created: Vec::new(), ticked_ms: 0 }
    }

    /// The lots, by id.
    pub fn lots(&self) -> impl Iterator<Item = &Lot> {
        self.desks.values().map(|desk| &desk.lot)
    }

    /// Applies a record of the log, in order, before [`LotFloor::begin`].
    ///
    /// # Errors
    /// The record does not fit: the lot is gone, and its bids are void.
    pub fn replay(&mut self, sequence: u64, record: LotRecord) -> Result<(), LotReplayProblem> {
        let id = record.lot.clone();
        let replayed = self.replay_record(sequence, record);
        // What else the log has of a lot that was created twice is of one of both.
        if replayed.is_err() {
            self.desks.remove(&id);
        }
        replayed
    }

    fn replay_record(&mut self, sequence: u64, record: LotRecord) -> Result<(), LotReplayProblem> {
        let LotRecord { lot: id, at_ms, body, news } = record;
        let replayed = match body {
            LotRecordBody::Created(terms) => {
                // One that is over may have been forgotten: its id was free.
                if self.desks.get(&id).is_some_and(|desk| desk.lot.result().is_none()) {
                    return Err(LotReplayProblem::CreatedTwice);
                }
                if let Some(problem) = terms.check().first() {
                    return Err(LotReplayProblem::Terms(problem.to_string()));
                }
                let mut desk = LotDesk::new(Lot::new(*terms), 0);
                desk.first_sequence = Some(sequence);
                let replayed = Some(created_news(&desk.lot));
                self.desks.insert(id, desk);
                replayed
            }
            LotRecordBody::Event { kind, attempt } => {
                let desk = self.desks.get_mut(&id).ok_or(LotReplayProblem::NotCreated)?;
                let event = LotEvent { at_ms, kind };
                if let Some(contradiction) = desk.lot.contradiction(&event) {
                    return Err(LotReplayProblem::Event(contradiction));
                }
                if matches!(event.kind, LotEventKind::Bid { .. }) && attempt.is_none() {
                    return Err(LotReplayProblem::NoAttempt);
                }
                desk.apply(event, attempt).1
            }
            LotRecordBody::Paid => {
                self.desks.get_mut(&id).ok_or(LotReplayProblem::NotCreated)?.paid();
                None
            }
        };
        match (news, replayed) {
            (None, None) => Ok(()),
            (Some(recorded), Some(replayed)) if is_same_news(&recorded, &replayed) => Ok(()),
            (recorded, replayed) => {
                let text = |news: Option<String>| news.unwrap_or_else(|| "nothing".to_owned());
                let (recorded, replayed) = (text(recorded), text(replayed));
                Err(LotReplayProblem::OtherNews { recorded, replayed })
            }
        }
    }

    /// The log was replayed: tells the ledger which money is on hold, and the exchange which deals
    /// are sold.
    pub fn begin(&mut self, now_ms: u64, outlet: &mut impl FloorOutlet<R>) {
        for (id, desk) in &mut self.desks {
            for message in desk.money() {
                self.state.send(message, outlet);
            }
            if let Some(sold) = desk.sold().filter(|sold| now_ms < sold.deal.ends_ms) {
                desk.offer_pending();
                outlet.offer(sold);
            }
            self.state.reschedule(id.clone(), None, desk.lot.due_ms());
        }
        self.state.send(HoldMessage::Replayed, outlet);
        self.tick(now_ms, outlet);
    }

    /// Takes a command, received now.
    pub fn command(
        &mut self,
        now_ms: u64,
        to: R,
        command: FloorCommand,
        outlet: &mut impl FloorOutlet<R>,
    ) {
        let (lot, command) = match command {
            FloorCommand::Create(terms) => return self.create(now_ms, to, *terms, outlet),
            FloorCommand::List { after } => {
                if let Some(refusal) = self.state.untold(self.state.written(), outlet) {
                    return outlet.answer(to, Err(refusal));
                }
                let behind = after.map_or(Bound::Unbounded, Bound::Excluded);
                let mut desks = self.desks.range((behind, Bound::Unbounded)).map(|(_, desk)| desk);
                let shown = desks.by_ref().take(LOTS_SHOWN_MAX);
                let lots = shown.map(|desk| desk.lot.view()).collect();
                let answer = FloorAnswer::Lots { lots, more: desks.next().is_some() };
                return self.state.after_all(DurableEffect::Answer(to, Ok(answer)), outlet);
            }
            FloorCommand::Lot(lot, command) => (lot, DeskCommand::Lot(command)),
            FloorCommand::Show { lot, bidder } => (lot, DeskCommand::Show { bidder }),
        };
        if !self.desks.contains_key(&lot) {
            return outlet.answer(to, Err(FloorRefusal::UnknownLot));
        }
        self.enqueue(&lot, WaitingCommand { received_ms: now_ms, to, command }, outlet);
    }

    /// Has a command of a lot wait for its turn, unless too many do. That answer alone overtakes
    /// others.
    fn enqueue(
        &mut self,
        lot: &LotId,
        command: WaitingCommand<R>,
        outlet: &mut impl FloorOutlet<R>,
    ) {
        let desk = self.desks.get_mut(lot).expect("the caller has seen the lot");
        if desk.waiting.len() >= self.settings.waiting_max {
            return outlet.answer(command.to, Err(FloorRefusal::Busy));
        }
        let now_ms = command.received_ms;
        desk.waiting.push_back(command);
        self.advance(now_ms, lot, outlet);
    }

    fn create(&mut self, now_ms: u64, to: R, terms: LotTerms, outlet: &mut impl FloorOutlet<R>) {
        let (id, limit) = (terms.id.clone(), self.settings.lots_max);
        let command = DeskCommand::Create(Box::new(terms.clone()));
        let command = WaitingCommand { received_ms: now_ms, to, command };
        if self.desks.contains_key(&id) {
            return self.enqueue(&id, command, outlet);
        }
        let problems = terms.check();
        let refusal = match self.state.paused(outlet) {
            _ if self.desks.len() >= limit => FloorRefusal::TooManyLots { limit },
            _ if !problems.is_empty() => FloorRefusal::Terms(problems),
            Some(reason) => FloorRefusal::Paused(reason),
            None => return self.create_new(terms, command, outlet),
        };
        // The refusal may count lots that are not durable.
        self.state.after_all(DurableEffect::Answer(command.to, Err(refusal)), outlet);
    }

    fn create_new(
        &mut self,
        terms: LotTerms,
        command: WaitingCommand<R>,
        outlet: &mut impl FloorOutlet<R>,
    ) {
        let (id, now_ms) = (terms.id.clone(), command.received_ms);
        let lot = Lot::new(terms.clone());
        let news = Some(created_news(&lot));
        let body = LotRecordBody::Created(Box::new(terms));
        let record = LotRecord { lot: id.clone(), at_ms: now_ms, body, news };
        let number = self.state.log(record, outlet);
        self.created.push((number, id.clone()));
        self.state.reschedule(id.clone(), None, lot.due_ms());
        let mut desk = LotDesk::new(lot, number);
        desk.waiting.push_back(command);
        self.desks.insert(id.clone(), desk);
        self.advance(now_ms, &id, outlet);
    }

    fn advance(&mut self, now_ms: u64, lot: &LotId, outlet: &mut impl FloorOutlet<R>) {
        let Some(desk) = self.desks.get_mut(lot) else { return };
        let before = desk.asked();
        desk.advance(now_ms, &mut self.state, outlet);
        if let Some((key, attempt)) = desk.asked().filter(|asked| before.as_ref() != Some(asked)) {
            let deadline_ms = now_ms.saturating_add(self.settings.hold_timeout_ms);
            self.state.wait_for_money(deadline_ms, key, attempt);
        }
    }

    /// Records are durable up to this one, counted from 1 in the order in which they were logged; it
    /// has this sequence, and those before it the sequences before it.
    pub fn durable(&mut self, through: u64, sequence: u64, outlet: &mut impl FloorOutlet<R>) {
        self.created.retain(|(number, id)| {
            let is_durable = *number <= through;
            if is_durable && let Some(desk) = self.desks.get_mut(id) {
                desk.first_sequence = Some(sequence - (through - number));
            }
            !is_durable
        });
        self.state.durable(through, outlet);
    }

    /// The ledger has replied.
    pub fn money(&mut self, now_ms: u64, reply: HoldReply, outlet: &mut impl FloorOutlet<R>) {
        let (key, attempt, refusal) = match reply {
            HoldReply::Held { key, attempt } => (key, attempt, None),
            HoldReply::Refused { key, attempt, refusal } => (key, attempt, Some(refusal)),
            HoldReply::Ended { key, attempt } => {
                if let Some(desk) = self.desks.get_mut(&key.lot) {
                    desk.ended(now_ms, attempt, &mut self.state, outlet);
                }
                return;
            }
        };
        let Some(desk) = self.desks.get_mut(&key.lot) else { return };
        desk.held(attempt, refusal, &mut self.state, outlet);
        self.advance(now_ms, &key.lot, outlet);
    }

    /// The exchange has replied.
    pub fn offered(&mut self, reply: SoldLotReply) {
        if let Some(desk) = self.desks.get_mut(&reply.lot) {
            desk.offered(reply);
        }
    }

    /// Does what is due by now.
    pub fn tick(&mut self, now_ms: u64, outlet: &mut impl FloorOutlet<R>) {
        self.ticked_ms = now_ms;
        self.state.resume(outlet);
        while let Some((key, attempt)) = self.state.take_deadline(now_ms) {
            if let Some(desk) = self.desks.get_mut(&key.lot) {
                desk.give_up(attempt, &mut self.state, outlet);
                self.advance(now_ms, &key.lot, outlet);
            }
        }
        while let Some(id) = self.state.take_due(now_ms) {
            self.advance(now_ms, &id, outlet);
            let due_ms = self.desks.get(&id).and_then(|desk| desk.lot.due_ms());
            if due_ms.is_some_and(|due_ms| due_ms <= now_ms) {
                // A bid holds it up, or the log.
                self.state.reschedule(id, None, Some(now_ms + RETRY_MS));
            }
        }
    }

    /// When [`LotFloor::tick`] has something to do next, in Unix milliseconds. None if only messages
    /// bring anything.
    pub fn next_tick_ms(&self, now_ms: u64) -> Option<u64> {
        // Counts from the last try, so that other messages do not put it off; the clock may go back.
        let retry = || self.ticked_ms.min(now_ms).saturating_add(RETRY_MS);
        let retry_ms = self.state.has_untaken().then(retry);
        self.state.next_due_ms().into_iter().chain(retry_ms).min()
    }

    /// Forgets lots that are over and whose deals are over for long enough, unless a crash would
    /// bring them back, or the ledger has not said that the winner has paid. Returns the sequence of
    /// the first record that is still needed. None if none is.
    pub fn forget(&mut self, now_ms: u64) -> Option<u64> {
        let (kept_ms, durable) = (self.settings.kept_ms, self.state.durable_through());
        self.desks.retain(|_, desk| {
            let until_ms =
                desk.needed_until_ms(durable).map(|until_ms| until_ms.saturating_add(kept_ms));
            until_ms.is_none_or(|until_ms| now_ms < until_ms)
        });
        self.desks.values().filter_map(|desk| desk.first_sequence).min()
    }
}
