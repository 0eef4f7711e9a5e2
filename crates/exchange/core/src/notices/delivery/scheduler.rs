//! The state and step of delivery: notices owed, calls in flight, times of retries.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use openrtb::NoticeKind;
use units::Tick;

use super::beacons::{BeaconState, KnownBeacons};
use super::event::{
    Attempt, DeliveryCounters, DeliveryTime, Effect, Event, GiveUpReason, JournalTicket,
    SendOutcome,
};
use super::journal::{NoticeEnd, PendingRecord};
use super::lanes::{DspLanes, LaneView};
use super::notice::Notice;
use super::policy::DeliveryPolicy;
use crate::notices::token::TokenId;

#[derive(Debug)]
pub(super) struct QueuedNotice {
    pub(super) kind: NoticeKind,
    /// None for win and loss notices.
    pub(super) id: Option<TokenId>,
    pub(super) accepted_ms: u64,
    pub(super) lane: usize,
    pub(super) notice: Arc<Notice>,
    pub(super) failed: u32,
    pub(super) deadline: Tick,
    /// When to try next. None if it does not wait in its lane.
    pub(super) waits_for: Option<Tick>,
}

#[derive(Debug)]
pub(super) struct NoticeFlight {
    job: u64,
    until: Tick,
}

#[derive(Debug, Default)]
struct NoticeLoad {
    notices: usize,
    bytes: usize,
}

/// Delivers notices.
#[derive(Debug)]
pub struct Delivery {
    pub(super) policy: DeliveryPolicy,
    pub(super) tokens: KnownBeacons,
    pub(super) lanes: DspLanes,
    pub(super) jobs: BTreeMap<u64, QueuedNotice>,
    pub(super) flights: BTreeMap<Attempt, NoticeFlight>,
    deadlines: BTreeSet<(Tick, u64)>,
    pub(super) journalling: BTreeMap<JournalTicket, PendingRecord>,
    /// Those of `journalling` that are rewritten.
    pub(super) moving: usize,
    pub(super) failing: bool,
    /// Settled tokens whose record the log refused.
    pub(super) unrecorded: VecDeque<TokenId>,
    /// When to retry refused records.
    pub(super) again_at: Tick,
    billing: NoticeLoad,
    best_effort: NoticeLoad,
    pub(super) counters: DeliveryCounters,
    /// Numbers jobs, attempts and tickets.
    serial: u64,
    /// Last sequence of the log known to be durable.
    pub(super) durable: u64,
    /// Our last record known to be durable; pending ones follow it.
    pub(super) committed: u64,
    pub(super) checkpointed: u64,
}

impl Delivery {
    pub(super) fn new(policy: DeliveryPolicy, durable: u64, checkpointed: u64) -> Self {
        Self {
            policy,
            tokens: KnownBeacons::default(),
            lanes: DspLanes::new(policy),
            jobs: BTreeMap::new(),
            flights: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            journalling: BTreeMap::new(),
            moving: 0,
            failing: false,
            unrecorded: VecDeque::new(),
            again_at: Tick::ZERO,
            billing: NoticeLoad::default(),
            best_effort: NoticeLoad::default(),
            counters: DeliveryCounters::default(),
            serial: 0,
            durable,
            committed: durable,
            checkpointed,
        }
    }

    /// Processes events and appends effects to `outbox`, in order. Also call it when time has
    /// passed.
    pub fn step(&mut self, now: DeliveryTime, inbox: &mut Vec<Event>, outbox: &mut Vec<Effect>) {
        for event in inbox.drain(..) {
            match event {
                Event::Submit { kind, notice } => self.submit(now, kind.into(), notice),
                Event::Beacon(beacon) => self.beacon(now, *beacon, outbox),
                Event::JournalCommitted(records) => self.committed(now, &records, outbox),
                Event::JournalRefused(tickets) => self.journal_refused(now, &tickets, outbox),
                Event::JournalFailing => self.journal_failing(outbox),
                Event::JournalWriting => self.failing = false,
                Event::JournalReached(sequence) => self.durable = self.durable.max(sequence),
                Event::Sent { attempt, outcome } => self.sent(now, attempt, outcome, outbox),
            }
        }
        self.time_out(now, outbox);
        self.give_up_late(now, outbox);
        self.tokens.forget_expired(now);
        self.record_again(now, outbox);
        self.move_oldest(now, outbox);
        self.checkpoint(outbox);
        self.dispatch(now, outbox);
    }

    /// When to step next if no event arrives before.
    pub fn wake_at(&self, now: DeliveryTime) -> Option<Tick> {
        let flight = self.flights.values().next().map(|flight| flight.until);
        let deadline = self.deadlines.first().map(|(at, _)| *at);
        let unrecorded = (!self.unrecorded.is_empty()).then_some(self.again_at);
        let lane = self.lanes.wake_at(now.tick);
        [flight, deadline, unrecorded, lane, self.tokens.wake_at()].into_iter().flatten().min()
    }

    /// No later restart needs records of notices below this sequence.
    pub fn safe_before(&self) -> u64 {
        let pinned = self.tokens.lowest_pin();
        let on_the_way = self.journalling.values().next().map(|record| record.after + 1);
        [pinned, on_the_way].into_iter().flatten().min().unwrap_or(self.durable + 1)
    }

    /// Records below this sequence may be deleted if settlements up to `applied_sequence` are
    /// applied.
    pub fn keep_from(&self, applied_sequence: u64) -> u64 {
        self.safe_before().min(applied_sequence.saturating_add(1))
    }

    /// All our settlements up to this sequence have been emitted ([`Effect::Settled`]). Never
    /// decreases.
    pub fn settled_through(&self) -> u64 {
        let oldest = self.journalling.values().next();
        oldest.map_or(self.durable, |record| record.after.max(self.committed))
    }

    /// Counts since the start, and current gauges.
    pub fn counters(&self) -> DeliveryCounters {
        DeliveryCounters {
            billing_owed: self.billing.notices,
            best_effort_waiting: self.best_effort.notices,
            in_flight: self.lanes.in_flight(),
            remembered: self.tokens.len(),
            ..self.counters
        }
    }

    /// The state of each DSP's lane.
    pub fn lanes(&self) -> impl Iterator<Item = LaneView> {
        self.lanes.views()
    }

    pub(super) fn next(&mut self) -> u64 {
        self.serial += 1;
        self.serial
    }

    fn load(&mut self, kind: NoticeKind) -> &mut NoticeLoad {
        if kind == NoticeKind::Billing { &mut self.billing } else { &mut self.best_effort }
    }

    pub(super) fn remembers_more(&self) -> bool {
        self.tokens.len() < self.policy.remembered_max
    }

    /// The lane for one more notice. None if a limit is reached.
    pub(super) fn room(&mut self, kind: NoticeKind, notice: &Notice) -> Option<usize> {
        let DeliveryPolicy { billing_max, best_effort_max, bytes_max, .. } = self.policy;
        let (max, token) = match kind {
            NoticeKind::Billing => (billing_max, self.remembers_more()),
            NoticeKind::Win | NoticeKind::Loss => (best_effort_max, true),
        };
        let load = self.load(kind);
        let fits = load.notices < max && load.bytes + notice.bytes() <= bytes_max && token;
        if fits { self.lanes.room(notice.dsp(), kind) } else { None }
    }

    /// Adds a notice to its lane, without scheduling it.
    pub(super) fn hold(&mut self, job: QueuedNotice) -> u64 {
        let number = self.next();
        let load = self.load(job.kind);
        load.notices += 1;
        load.bytes += job.notice.bytes();
        self.lanes.hold(job.lane, job.kind);
        self.deadlines.insert((job.deadline, number));
        self.jobs.insert(number, job);
        number
    }

    pub(super) fn release(&mut self, number: u64) -> QueuedNotice {
        let job = self.jobs.remove(&number).expect("a job is released once");
        if let Some(at) = job.waits_for {
            self.lanes.unwait(job.lane, job.kind, at, number);
        }
        let bytes = job.notice.bytes();
        let load = self.load(job.kind);
        load.notices = load.notices.checked_sub(1).expect("what is released was held");
        load.bytes = load.bytes.checked_sub(bytes).expect("what is released was held");
        self.lanes.release(job.lane, job.kind);
        self.deadlines.remove(&(job.deadline, number));
        job
    }

    pub(super) fn wait(&mut self, number: u64, at: Tick) {
        let job = self.jobs.get_mut(&number).expect("a job waits while it is held");
        job.waits_for = Some(at);
        self.lanes.wait(job.lane, job.kind, at, number);
    }

    fn submit(&mut self, now: DeliveryTime, kind: NoticeKind, notice: Notice) {
        let Some(lane) = self.room(kind, &notice) else {
            self.counters.best_effort_shed += 1;
            return;
        };
        let number = self.hold(QueuedNotice {
            kind,
            id: None,
            accepted_ms: now.unix_ms,
            lane,
            notice: Arc::new(notice),
            failed: 0,
            deadline: now.tick.after(self.policy.best_effort_horizon),
            waits_for: None,
        });
        self.wait(number, now.tick);
    }

    fn sent(
        &mut self,
        now: DeliveryTime,
        attempt: Attempt,
        outcome: SendOutcome,
        outbox: &mut Vec<Effect>,
    ) {
        // A late result: the call already counts as failed.
        let Some(NoticeFlight { job: number, .. }) = self.flights.remove(&attempt) else { return };
        let job = self.jobs.get_mut(&number).expect("a flying job is held");
        let well = match outcome {
            SendOutcome::Status(200 | 204) => Some(true),
            SendOutcome::Status(_) | SendOutcome::Failed => Some(false),
            SendOutcome::Forbidden => None,
        };
        self.lanes.land(job.lane, well, now.tick);
        if well == Some(true) {
            return self.settle(number, Ok(()), outbox);
        }
        self.counters.tries_failed += 1;
        job.failed = job.failed.saturating_add(1);
        let kind = job.kind;
        let tried_enough = match kind {
            NoticeKind::Billing => false,
            NoticeKind::Win | NoticeKind::Loss => job.failed > self.policy.retries_best_effort,
        };
        if well.is_none() {
            self.settle(number, Err(GiveUpReason::Forbidden), outbox);
        } else if tried_enough || job.deadline <= now.tick {
            self.settle(number, Err(GiveUpReason::Horizon), outbox);
        } else {
            let at = now.tick.after(self.policy.pause(job.failed));
            self.wait(number, at);
        }
    }

    fn settle(&mut self, number: u64, end: Result<(), GiveUpReason>, outbox: &mut Vec<Effect>) {
        let job = self.release(number);
        let Some(id) = job.id else {
            match end {
                Ok(()) => self.counters.best_effort_delivered += 1,
                Err(_) => self.counters.best_effort_failed += 1,
            }
            return;
        };
        let outcome = if end.is_ok() { NoticeEnd::Delivered } else { NoticeEnd::GivenUp };
        self.counters.settled(outcome);
        if let Err(reason) = end {
            let (notice, tries) = (job.notice, job.failed);
            outbox.push(Effect::GiveUp { id, notice, tries, reason });
        }
        let token = self.tokens.token(id).expect("what is owed is remembered");
        token.state = BeaconState::Settled { outcome, recorded: false };
        self.journal_settled(id, outbox);
    }

    fn time_out(&mut self, now: DeliveryTime, outbox: &mut Vec<Effect>) {
        while let Some((attempt, flight)) = self.flights.first_key_value()
            && flight.until <= now.tick
        {
            self.sent(now, *attempt, SendOutcome::Failed, outbox);
        }
    }

    fn give_up_late(&mut self, now: DeliveryTime, outbox: &mut Vec<Effect>) {
        while let Some((at, number)) = self.deadlines.first().copied()
            && at <= now.tick
        {
            self.deadlines.remove(&(at, number));
            // Notices in flight or with a pending record are decided when that ends.
            if self.jobs[&number].waits_for.is_some() {
                self.settle(number, Err(GiveUpReason::Horizon), outbox);
            }
        }
    }

    fn dispatch(&mut self, now: DeliveryTime, outbox: &mut Vec<Effect>) {
        while let Some(number) = self.lanes.take_off(now.tick) {
            let attempt = Attempt(self.next());
            let until = now.tick.after(self.policy.answer_timeout);
            self.flights.insert(attempt, NoticeFlight { job: number, until });
            let job = self.jobs.get_mut(&number).expect("a waiting job is held");
            job.waits_for = None;
            let (kind, notice) = (job.kind, job.notice.clone());
            outbox.push(Effect::Send { attempt, kind, notice });
        }
    }
}
