//! The durable half of delivery: beacons and their records.
//!
//! A record that the log accepted becomes durable, unless the process ends first. While the log
//! fails, calls are refused but their beacons stay known: a beacon is accepted and delivered once
//! its record is durable, and further calls write no second record. Only beacons that the log
//! refused are forgotten.
//!
//! A beacon's record settles its reservation, once: rewritten records carry none.

use std::sync::Arc;
use std::time::Duration;

use super::beacons::{BeaconState, KnownBeacon};
use super::event::{Beacon, BeaconRefusal, DeliveryTime, Effect, JournalTicket};
use super::journal::{JournalRecord, NoticeEnd, PendingRecord, RecordPurpose};
use super::notice::Notice;
use super::scheduler::{Delivery, QueuedNotice};
use crate::notices::reservation::Reservation;
use crate::notices::token::TokenId;
use openrtb::NoticeKind;

const CALLS_MAX: usize = 16;
const REJOURNAL_MAX: usize = 256;
const JOURNAL_PAUSE: Duration = Duration::from_secs(1);

impl Delivery {
    pub(super) fn beacon(&mut self, now: DeliveryTime, beacon: Beacon, outbox: &mut Vec<Effect>) {
        let Beacon { call, id, expires_ms, notice, reservation } = beacon;
        if let Some(token) = self.tokens.token(id) {
            match &mut token.state {
                BeaconState::Accepting { .. } if self.failing => {
                    self.refuse(call, BeaconRefusal::Journal, outbox);
                }
                BeaconState::Accepting { calls, .. } if calls.len() < CALLS_MAX => calls.push(call),
                BeaconState::Accepting { .. } => self.refuse(call, BeaconRefusal::Busy, outbox),
                BeaconState::Owed { .. } | BeaconState::Settled { .. } => {
                    let duplicate = token.acknowledged;
                    token.acknowledged = true;
                    self.counters.beacons_duplicate += u64::from(duplicate);
                    outbox.push(Effect::Acknowledge { call, duplicate });
                }
            }
            return;
        }
        // An expired beacon may have been forgotten.
        if expires_ms <= now.unix_ms {
            return self.refuse(call, BeaconRefusal::Expired, outbox);
        }
        let notice = notice.map(Arc::new);
        let Some(job) = self.owe(now, id, notice.as_ref()) else {
            return self.refuse(call, BeaconRefusal::Busy, outbox);
        };
        let accepted_ms = now.unix_ms;
        let record = JournalRecord::Accepted { id, accepted_ms, expires_ms, notice, reservation };
        self.tokens.insert(id, expires_ms, BeaconState::Accepting { job, calls: vec![call] });
        self.journal(RecordPurpose::Accepted(id, reservation), &record, outbox);
    }

    fn owe(
        &mut self,
        now: DeliveryTime,
        id: TokenId,
        notice: Option<&Arc<Notice>>,
    ) -> Option<Option<u64>> {
        let Some(notice) = notice else { return self.remembers_more().then_some(None) };
        let lane = self.room(NoticeKind::Billing, notice)?;
        Some(Some(self.hold(QueuedNotice {
            kind: NoticeKind::Billing,
            id: Some(id),
            accepted_ms: now.unix_ms,
            lane,
            notice: Arc::clone(notice),
            failed: 0,
            deadline: now.tick.after(self.policy.billing_horizon),
            waits_for: None,
        })))
    }

    fn refuse(&mut self, call: u64, refusal: BeaconRefusal, outbox: &mut Vec<Effect>) {
        match refusal {
            BeaconRefusal::Expired => self.counters.beacons_expired += 1,
            BeaconRefusal::Busy => self.counters.beacons_busy += 1,
            BeaconRefusal::Journal => self.counters.beacons_unjournalled += 1,
        }
        outbox.push(Effect::Refuse { call, refusal });
    }

    pub(super) fn journal_settled(&mut self, id: TokenId, outbox: &mut Vec<Effect>) {
        let Some(token) = self.tokens.token(id) else { return };
        let BeaconState::Settled { outcome, .. } = token.state else { return };
        let record = JournalRecord::Settled { id, expires_ms: token.expires_ms, outcome };
        self.journal(RecordPurpose::Settled(id), &record, outbox);
    }

    pub(super) fn settled_recorded(&mut self, now: DeliveryTime, id: TokenId) {
        if let Some(token) = self.tokens.token(id)
            && let BeaconState::Settled { recorded, .. } = &mut token.state
        {
            *recorded = true;
            self.tokens.expire(id, now);
        }
    }

    fn journal(
        &mut self,
        purpose: RecordPurpose,
        record: &JournalRecord,
        outbox: &mut Vec<Effect>,
    ) {
        let ticket = JournalTicket(self.next());
        self.moving += usize::from(matches!(purpose, RecordPurpose::Moved(_)));
        self.journalling.insert(ticket, PendingRecord { purpose, after: self.durable });
        outbox.push(Effect::Journal { ticket, record: record.encode() });
    }

    fn take(&mut self, ticket: JournalTicket) -> Option<RecordPurpose> {
        let PendingRecord { purpose, .. } = self.journalling.remove(&ticket)?;
        self.moving -= usize::from(matches!(purpose, RecordPurpose::Moved(_)));
        Some(purpose)
    }

    pub(super) fn committed(
        &mut self,
        now: DeliveryTime,
        records: &[(JournalTicket, u64)],
        outbox: &mut Vec<Effect>,
    ) {
        for (ticket, sequence) in records {
            self.durable = self.durable.max(*sequence);
            self.committed = self.committed.max(*sequence);
            let Some(purpose) = self.take(*ticket) else { continue };
            match purpose {
                RecordPurpose::Accepted(id, reservation) => {
                    self.tokens.pin(id, *sequence);
                    outbox.extend(spent(*sequence, reservation));
                    self.accepted(now, id, outbox);
                }
                RecordPurpose::Moved(id) => self.tokens.pin(id, *sequence),
                RecordPurpose::Settled(id) => {
                    self.tokens.pin(id, *sequence);
                    self.settled_recorded(now, id);
                }
                RecordPurpose::Checkpoint => (),
            }
        }
    }

    fn accepted(&mut self, now: DeliveryTime, id: TokenId, outbox: &mut Vec<Effect>) {
        let Some(token) = self.tokens.token(id) else { return };
        let BeaconState::Accepting { job, calls } = &mut token.state else { return };
        let (job, calls) = (*job, std::mem::take(calls));
        token.acknowledged = !calls.is_empty();
        token.state = match job {
            Some(job) => BeaconState::Owed { job },
            None => BeaconState::Settled { outcome: NoticeEnd::Untold, recorded: true },
        };
        self.counters.beacons_accepted += 1;
        self.counters.beacons_duplicate += calls.len().saturating_sub(1) as u64;
        for (at, call) in calls.into_iter().enumerate() {
            outbox.push(Effect::Acknowledge { call, duplicate: at > 0 });
        }
        match job {
            Some(job) => self.wait(job, now.tick),
            None => self.tokens.expire(id, now),
        }
    }

    /// Refuses the waiting calls: their records may or may not become durable.
    pub(super) fn journal_failing(&mut self, outbox: &mut Vec<Effect>) {
        self.failing = true;
        let mut waiting = Vec::new();
        for PendingRecord { purpose, .. } in self.journalling.values() {
            if let RecordPurpose::Accepted(id, _) = purpose
                && let Some(KnownBeacon { state: BeaconState::Accepting { calls, .. }, .. }) =
                    self.tokens.token(*id)
            {
                waiting.append(calls);
            }
        }
        for call in waiting {
            self.refuse(call, BeaconRefusal::Journal, outbox);
        }
    }

    pub(super) fn journal_refused(
        &mut self,
        now: DeliveryTime,
        tickets: &[JournalTicket],
        outbox: &mut Vec<Effect>,
    ) {
        for ticket in tickets {
            let Some(purpose) = self.take(*ticket) else { continue };
            match purpose {
                RecordPurpose::Accepted(id, _) => {
                    let token = self.tokens.remove(id).expect("it is being accepted");
                    let BeaconState::Accepting { job, calls } = token.state else { continue };
                    if let Some(job) = job {
                        self.release(job);
                    }
                    for call in calls {
                        self.refuse(call, BeaconRefusal::Journal, outbox);
                    }
                }
                // Its durable record still serves a restart; the next checkpoint replaces this one.
                RecordPurpose::Moved(_) | RecordPurpose::Checkpoint => {
                    self.again_at = now.tick.after(JOURNAL_PAUSE);
                }
                RecordPurpose::Settled(id) => {
                    self.unrecorded.push_back(id);
                    self.again_at = now.tick.after(JOURNAL_PAUSE);
                }
            }
        }
    }

    pub(super) fn record_again(&mut self, now: DeliveryTime, outbox: &mut Vec<Effect>) {
        if self.again_at <= now.tick {
            for _ in 0..REJOURNAL_MAX {
                let Some(id) = self.unrecorded.pop_front() else { break };
                self.journal_settled(id, outbox);
            }
        }
    }

    /// Rewrites the oldest records if they pin too much of the journal. The journal's length stays
    /// within a few times what is needed, at less than one rewrite per new record.
    pub(super) fn move_oldest(&mut self, now: DeliveryTime, outbox: &mut Vec<Effect>) {
        let span = self.durable.saturating_sub(self.safe_before());
        let needed = (self.tokens.len() as u64).saturating_mul(4);
        let is_long = span > self.policy.journal_span.max(needed);
        if !is_long || self.moving > 0 || now.tick < self.again_at {
            return;
        }
        for id in self.tokens.oldest(REJOURNAL_MAX) {
            let token = self.tokens.token(id).expect("what is pinned is remembered");
            let expires_ms = token.expires_ms;
            let record = match token.state {
                BeaconState::Settled { outcome, recorded: true } => {
                    JournalRecord::Settled { id, expires_ms, outcome }
                }
                BeaconState::Owed { job } => {
                    let QueuedNotice { accepted_ms, notice, .. } = &self.jobs[&job];
                    let (accepted_ms, notice) = (*accepted_ms, Some(notice.clone()));
                    // The first record has settled it.
                    let reservation = None;
                    JournalRecord::Accepted { id, accepted_ms, expires_ms, notice, reservation }
                }
                // Its record is pending, or will be.
                BeaconState::Settled { recorded: false, .. } | BeaconState::Accepting { .. } => {
                    continue;
                }
            };
            self.journal(RecordPurpose::Moved(id), &record, outbox);
        }
    }

    /// Writes a checkpoint after each fixed number of records. A refused checkpoint is not retried.
    pub(super) fn checkpoint(&mut self, outbox: &mut Vec<Effect>) {
        if self.durable - self.checkpointed < self.policy.checkpoint_span {
            return;
        }
        self.checkpointed = self.durable;
        let needed_from = self.safe_before();
        self.journal(RecordPurpose::Checkpoint, &JournalRecord::Checkpoint { needed_from }, outbox);
    }
}

fn spent(sequence: u64, reservation: Option<Reservation>) -> Option<Effect> {
    reservation.map(|reservation| Effect::Settled { sequence, reservation })
}
