//! What the desks of all lots share: the order of records, and what waits for them to be durable.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::answer::{FloorAnswer, FloorRefusal};
use super::outlet::FloorOutlet;
use super::record::LotRecord;
use crate::lots::LotId;
use crate::ports::{HoldAttempt, HoldKey, HoldMessage, SoldLot};

/// Counts the floor's records from 1, in the order of the log.
pub(super) type RecordNumber = u64;

/// What happens once a record is durable.
pub(super) enum DurableEffect<R> {
    Answer(R, Result<FloorAnswer, FloorRefusal>),
    Hold(HoldMessage),
    Offer(SoldLot),
}

/// The parts that desks share.
pub(super) struct FloorState<R> {
    epoch: u64,
    /// Attempts of this epoch.
    attempts: u64,
    /// Bids whose money was asked for, by the time at which they are given up; some are answered.
    deadlines: BTreeSet<(u64, HoldAttempt, HoldKey)>,
    /// The last record.
    written: RecordNumber,
    durable: RecordNumber,
    /// Records that the log has not taken.
    unlogged: VecDeque<LotRecord>,
    effects: BTreeMap<RecordNumber, Vec<DurableEffect<R>>>,
    /// Messages that the ledger has not taken.
    unsent: VecDeque<HoldMessage>,
    /// When each lot has something due.
    due: BTreeSet<(u64, LotId)>,
}

impl<R> FloorState<R> {
    pub fn new(epoch: u64) -> Self {
        Self {
            epoch,
            attempts: 0,
            deadlines: BTreeSet::new(),
            written: 0,
            durable: 0,
            unlogged: VecDeque::new(),
            effects: BTreeMap::new(),
            unsent: VecDeque::new(),
            due: BTreeSet::new(),
        }
    }

    pub fn next_attempt(&mut self) -> HoldAttempt {
        self.attempts += 1;
        HoldAttempt { epoch: self.epoch, counter: self.attempts }
    }

    /// The lot has something due at another time than before; at none if it is over.
    pub fn reschedule(&mut self, lot: LotId, before_ms: Option<u64>, due_ms: Option<u64>) {
        if let Some(before_ms) = before_ms {
            self.due.remove(&(before_ms, lot.clone()));
        }
        self.due.extend(due_ms.map(|due_ms| (due_ms, lot)));
    }

    /// A lot that has something due by now. It is told once.
    pub fn take_due(&mut self, now_ms: u64) -> Option<LotId> {
        let due = self.due.pop_first()?;
        if due.0 > now_ms {
            self.due.insert(due);
            return None;
        }
        Some(due.1)
    }

    /// A bid waits for its money until a deadline.
    pub fn wait_for_money(&mut self, deadline_ms: u64, key: HoldKey, attempt: HoldAttempt) {
        self.deadlines.insert((deadline_ms, attempt, key));
    }

    /// A bid whose money has not come by now, unless it was answered since. It is told once.
    pub fn take_deadline(&mut self, now_ms: u64) -> Option<(HoldKey, HoldAttempt)> {
        self.deadlines.first().filter(|(deadline_ms, ..)| *deadline_ms <= now_ms)?;
        self.deadlines.pop_first().map(|(_, attempt, key)| (key, attempt))
    }

    /// When something is due next.
    pub fn next_due_ms(&self) -> Option<u64> {
        let due = self.due.first().map(|(due_ms, _)| *due_ms);
        let deadline = self.deadlines.first().map(|(deadline_ms, ..)| *deadline_ms);
        due.into_iter().chain(deadline).min()
    }

    /// Why nothing can be logged.
    pub fn paused(&self, outlet: &impl FloorOutlet<R>) -> Option<String> {
        let waits = || "records wait for the log".to_owned();
        outlet.paused().or_else(|| (!self.unlogged.is_empty()).then(waits))
    }

    /// Why what was written up to this record cannot be told now. None if it can, now or soon.
    pub fn untold(
        &self,
        through: RecordNumber,
        outlet: &impl FloorOutlet<R>,
    ) -> Option<FloorRefusal> {
        let is_waiting = self.durable < through;
        is_waiting.then(|| self.paused(outlet)).flatten().map(FloorRefusal::Paused)
    }

    /// The last record.
    pub const fn written(&self) -> RecordNumber {
        self.written
    }

    /// Logs a record, behind those that the log has not taken.
    pub fn log(&mut self, record: LotRecord, outlet: &mut impl FloorOutlet<R>) -> RecordNumber {
        self.written += 1;
        if !self.unlogged.is_empty() || !outlet.log(&record) {
            self.unlogged.push_back(record);
        }
        self.written
    }

    /// Offers the log and the ledger again what they did not take.
    pub fn resume(&mut self, outlet: &mut impl FloorOutlet<R>) {
        while let Some(record) = self.unlogged.front()
            && outlet.log(record)
        {
            self.unlogged.pop_front();
        }
        while let Some(message) = self.unsent.pop_front() {
            if let Err(message) = outlet.hold(message) {
                self.unsent.push_front(message);
                return;
            }
        }
    }

    /// Whether something waits for the log or the ledger to take it.
    pub fn has_untaken(&self) -> bool {
        !self.unlogged.is_empty() || !self.unsent.is_empty()
    }

    /// Has the effect happen once the record is durable.
    pub fn after(
        &mut self,
        record: RecordNumber,
        effect: DurableEffect<R>,
        outlet: &mut impl FloorOutlet<R>,
    ) {
        if record <= self.durable {
            return self.perform(effect, outlet);
        }
        self.effects.entry(record).or_default().push(effect);
    }

    /// Has the effect happen once all that was written is durable.
    pub fn after_all(&mut self, effect: DurableEffect<R>, outlet: &mut impl FloorOutlet<R>) {
        self.after(self.written, effect, outlet);
    }

    /// The last record that is durable.
    pub const fn durable_through(&self) -> RecordNumber {
        self.durable
    }

    /// All records up to this one are durable.
    pub fn durable(&mut self, through: RecordNumber, outlet: &mut impl FloorOutlet<R>) {
        assert!(through <= self.written, "only what was written is durable");
        self.durable = self.durable.max(through);
        while let Some(entry) = self.effects.first_entry()
            && *entry.key() <= self.durable
        {
            for effect in entry.remove() {
                self.perform(effect, outlet);
            }
        }
    }

    fn perform(&mut self, effect: DurableEffect<R>, outlet: &mut impl FloorOutlet<R>) {
        match effect {
            DurableEffect::Answer(to, answer) => outlet.answer(to, answer),
            DurableEffect::Hold(message) => self.send(message, outlet),
            DurableEffect::Offer(sold) => outlet.offer(sold),
        }
    }

    /// Sends a message to the ledger, behind those that it has not taken.
    pub fn send(&mut self, message: HoldMessage, outlet: &mut impl FloorOutlet<R>) {
        if !self.unsent.is_empty() {
            return self.unsent.push_back(message);
        }
        if let Err(message) = outlet.hold(message) {
            self.unsent.push_back(message);
        }
    }

    /// Asks the ledger for money. Returns whether it takes the request now.
    pub fn place(&mut self, message: HoldMessage, outlet: &mut impl FloorOutlet<R>) -> bool {
        self.unsent.is_empty() && outlet.hold(message).is_ok()
    }
}
