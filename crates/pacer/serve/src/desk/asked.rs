//! What others ask the ledger's thread: definitions, which are taken in parts, changes of what the
//! store keeps, and querys.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use pacer_core::ledger::{AccountDefinition, LedgerInput, LedgerTime, SpendDiagnosis};
use pacer_core::messages::CampaignIndex;
use pacer_core::refusal::SpendRefusal;
use pacer_core::store::{
    CommitOutcome, DefinitionChange, LeaseStore as _, QueryResult, StoreDenial, StoreFault,
    StoreWriter, WriteOutcome,
};
use tracing::warn;

use super::LedgerLoop;
use crate::digest::Digest;
use crate::handle::{CampaignTerms, DefinitionReport, DeliveryProgress, LedgerQuery, ReplySender};
use crate::thread::DiskStore;

/// Asks that one turn takes; the next takes the rest.
const ASKS_MAX: usize = 256;
/// Definitions that one turn takes: shards wait for the ledger meanwhile.
const DEFINED_MAX: usize = 2_048;
/// How soon a change is asked for again whose end the store does not know.
const ASK_AGAIN: Duration = Duration::from_millis(50);

/// What the store was asked, and who waits for it.
pub(super) enum PendingAnswer {
    /// Up to which record the log's settlements are in it.
    Batch(u64),
    Change,
    Read(ReplySender<Result<QueryResult, StoreDenial>>),
}

/// Definitions that are being taken.
pub(super) struct PendingDefinitions {
    accounts: std::vec::IntoIter<AccountDefinition>,
    campaigns: std::vec::IntoIter<CampaignTerms>,
    pub(super) defined: DefinitionReport,
    reply: ReplySender<DefinitionReport>,
}

/// Changes of what the store keeps, one after the other: what a later one expects depends on how
/// those before it ended.
#[derive(Default)]
pub(super) struct ChangeQueue {
    waiting: VecDeque<QueuedChange>,
    /// Whether the first was submitted, and is not answered yet.
    is_submitted: bool,
    /// Whether the first may be durable: then no refusal of a store that fails says that it is not.
    is_unknown: bool,
    /// When the first is asked for again.
    again_at: Option<Instant>,
    last: u64,
    /// What the last one said: asked for again it keeps its number, by which the store does it once.
    last_digest: Option<Digest>,
}

/// A change that has not ended.
struct QueuedChange {
    change: DefinitionChange,
    digest: Digest,
    reply: ReplySender<Result<(), StoreDenial>>,
}

impl ChangeQueue {
    fn push(
        &mut self,
        change: DefinitionChange,
        digest: Digest,
        reply: ReplySender<Result<(), StoreDenial>>,
    ) {
        if let Some(same) = self.waiting.iter_mut().find(|waiting| waiting.digest == digest) {
            // Whoever asked first has given up.
            same.reply = reply;
            return;
        }
        if self.last_digest != Some(digest) {
            self.last += 1;
            self.last_digest = Some(digest);
        }
        let change = DefinitionChange { number: self.last, ..change };
        self.waiting.push_back(QueuedChange { change, digest, reply });
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Submits the first, unless it was, or is to wait.
    pub(super) fn submit(
        &mut self,
        store: &mut DiskStore,
        writer: StoreWriter,
        expected: &mut VecDeque<PendingAnswer>,
    ) {
        if self.is_submitted || self.again_at.is_some_and(|at| Instant::now() < at) {
            return;
        }
        let Some(QueuedChange { change, .. }) = self.waiting.front() else { return };
        store.change(writer, change.clone());
        expected.push_back(PendingAnswer::Change);
        (self.is_submitted, self.again_at) = (true, None);
    }

    /// The first was answered.
    pub(super) fn end(&mut self, outcome: WriteOutcome) {
        self.is_submitted = false;
        let may_pass = matches!(outcome.denied, Some(StoreDenial::Failing(_) | StoreDenial::Busy));
        if outcome.ended == CommitOutcome::Unknown || (self.is_unknown && may_pass) {
            if !std::mem::replace(&mut self.is_unknown, true) {
                warn!(number = outcome.number, "a change may be durable or not: asked again");
            }
            self.again_at = Some(Instant::now() + ASK_AGAIN);
            return;
        }
        (self.is_unknown, self.again_at) = (false, None);
        let QueuedChange { reply, .. } = self.waiting.pop_front().expect("it was submitted");
        let ended = match outcome.ended {
            CommitOutcome::Committed => Ok(()),
            CommitOutcome::Refused | CommitOutcome::Unknown => {
                Err(outcome.denied.unwrap_or(StoreDenial::Failing(StoreFault::Disk)))
            }
        };
        // Whoever asked may have given up.
        let _heard = reply.send(ended);
    }
}

impl LedgerLoop {
    /// Whether more waits than was taken.
    pub(super) fn take_asks(&mut self, now: LedgerTime) -> bool {
        for _ in 0..ASKS_MAX {
            let Ok(query) = self.ends.asks.try_recv() else { return false };
            self.take_ask(query, now);
        }
        true
    }

    fn take_ask(&mut self, query: LedgerQuery, now: LedgerTime) {
        /// Whoever asked may have given up.
        fn tell<T>(reply: &ReplySender<T>, answer: T) {
            let _heard = reply.send(answer);
        }
        match query {
            LedgerQuery::Define(accounts, campaigns, reply) => {
                self.definings.push_back(PendingDefinitions {
                    accounts: accounts.into_iter(),
                    campaigns: campaigns.into_iter(),
                    defined: DefinitionReport::default(),
                    reply,
                });
            }
            LedgerQuery::Change(change, digest, reply) => match change.check() {
                Ok(()) => self.changes.push(change, digest, reply),
                Err(denied) => tell(&reply, Err(denied)),
            },
            LedgerQuery::Read(query, reply) => {
                self.store.read(query);
                self.expected.push_back(PendingAnswer::Read(reply));
            }
            LedgerQuery::NextSlot(reply) => tell(&reply, self.ledger.next_slot()),
            LedgerQuery::Why(slot, reply) => tell(&reply, self.why(slot)),
            LedgerQuery::WhyAccount(id, reply) => tell(&reply, self.ledger.why_account(id)),
            LedgerQuery::Refusals(slots, reply) => {
                tell(&reply, slots.into_iter().map(|slot| self.why(slot).refusal).collect());
            }
            LedgerQuery::Deliveries(slots, reply) => {
                let of = |slot| {
                    let planned = self.pacer.planned(slot, now.unix_ms);
                    DeliveryProgress::of(&self.why(slot), self.ledger.spend(slot).as_ref(), planned)
                };
                tell(&reply, slots.into_iter().map(of).collect());
            }
            LedgerQuery::Bidding(slot, reply) => tell(&reply, self.pacer.bidding(slot)),
            LedgerQuery::SpendAccount(id, reply) => tell(&reply, self.ledger.spend_account(id)),
            LedgerQuery::Spend(slot, reply) => tell(&reply, self.ledger.spend(slot)),
            LedgerQuery::Curve(slot, reply) => tell(&reply, self.pacer.curve(slot, now.unix_ms)),
        }
    }

    fn why(&self, slot: CampaignIndex) -> SpendDiagnosis {
        let mut why = self.ledger.why(slot);
        let is_throttled = self.pacer.pace(slot).is_some_and(|pace| pace.threshold() == 0);
        why.refusal = match why.refusal {
            None if is_throttled => Some(SpendRefusal::Throttled),
            Some(refusal) if is_throttled => Some(refusal.min(SpendRefusal::Throttled)),
            refusal => refusal,
        };
        why
    }

    /// Tells the rules some of the definitions that wait; what they say is sent after the step.
    pub(super) fn define_some(&mut self, now: LedgerTime) {
        let Some(defining) = self.definings.front_mut() else { return };
        let mut taken = 0;
        for account in defining.accounts.by_ref().take(DEFINED_MAX) {
            self.tables.need(account.zone, now.unix_ms, &mut self.inbox, &mut self.pacer);
            self.pacer.take_account(account.id, account.zone, account.version);
            self.inbox.push(LedgerInput::Account(account));
            taken += 1;
        }
        for terms in defining.campaigns.by_ref().take(DEFINED_MAX - taken) {
            let CampaignTerms { definition, pacing } = terms;
            let paced = self.pacer.define(&definition, pacing.as_ref(), now.unix_ms);
            if let Err(error) = paced {
                defining.defined.unpaced.push((definition.slot, error));
            }
            self.inbox.push(LedgerInput::Campaign(definition));
        }
    }

    /// Answers whoever defined, once all of it was taken.
    pub(super) fn finish_defining(&mut self) {
        let is_taken = |it: &mut PendingDefinitions| {
            it.accounts.as_slice().is_empty() && it.campaigns.as_slice().is_empty()
        };
        if let Some(defining) = self.definings.pop_front_if(is_taken) {
            let _heard = defining.reply.send(defining.defined);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use pacer_core::messages::Epoch;
    use pacer_core::store::{DefinitionKey, StoredKind, WriteKind};

    use super::*;

    fn outcome(ended: CommitOutcome, denied: Option<StoreDenial>) -> WriteOutcome {
        let writer = StoreWriter { node: 1, epoch: Epoch(1) };
        WriteOutcome { writer, sent: WriteKind::Change, number: 1, ended, denied }
    }

    /// What whoever asked hears after each answer of the store's.
    #[track_caller]
    fn check(
        answers: &[(CommitOutcome, Option<StoreDenial>)],
        want: &[Option<Result<(), StoreDenial>>],
    ) {
        let mut changes = ChangeQueue::default();
        let (reply, heard) = mpsc::sync_channel(1);
        changes.push(DefinitionChange::default(), Digest(0), reply);
        for ((ended, denied), want) in answers.iter().zip(want) {
            changes.end(outcome(*ended, denied.clone()));
            assert_eq!(heard.try_recv().ok(), *want, "after {ended:?} {denied:?}");
            assert_eq!(changes.is_empty(), want.is_some());
            assert_eq!(changes.again_at.is_some(), want.is_none());
        }
    }

    #[test]
    fn whoever_asks_for_a_change_hears_what_is_known() {
        let failing = || Some(StoreDenial::Failing(StoreFault::Disk));
        let key = DefinitionKey { kind: StoredKind::Account, id: "a".to_owned() };
        let conflict = StoreDenial::Conflict { key, present: 7 };
        check(&[(CommitOutcome::Committed, None)], &[Some(Ok(()))]);
        check(
            &[(CommitOutcome::Refused, failing())],
            &[Some(Err(StoreDenial::Failing(StoreFault::Disk)))],
        );
        check(
            &[
                (CommitOutcome::Unknown, None),
                (CommitOutcome::Refused, failing()),
                (CommitOutcome::Committed, None),
            ],
            &[None, None, Some(Ok(()))],
        );
        // It may be durable however often the store refuses for its own sake; what another stands in
        // the way of is not.
        let busy = || Some(StoreDenial::Busy);
        check(
            &[
                (CommitOutcome::Unknown, None),
                (CommitOutcome::Refused, busy()),
                (CommitOutcome::Unknown, None),
                (CommitOutcome::Refused, Some(conflict.clone())),
            ],
            &[None, None, None, Some(Err(conflict))],
        );
    }

    #[test]
    fn what_was_unknown_of_one_change_says_nothing_of_the_next() {
        let mut changes = ChangeQueue::default();
        let (first, _heard) = mpsc::sync_channel(1);
        let (second, heard) = mpsc::sync_channel(1);
        changes.push(
            DefinitionChange { number: 5, ..DefinitionChange::default() },
            Digest(0),
            first,
        );
        changes.push(
            DefinitionChange { number: 5, ..DefinitionChange::default() },
            Digest(1),
            second,
        );
        let numbers: Vec<_> = changes.waiting.iter().map(|it| it.change.number).collect();
        assert_eq!(numbers, [1, 2]);
        changes.end(outcome(CommitOutcome::Unknown, None));
        changes.end(outcome(CommitOutcome::Committed, None));
        let failing = StoreDenial::Failing(StoreFault::Disk);
        changes.end(outcome(CommitOutcome::Refused, Some(failing.clone())));
        assert_eq!(heard.try_recv(), Ok(Err(failing)));
    }

    #[test]
    fn what_is_asked_for_again_keeps_its_number() {
        let mut changes = ChangeQueue::default();
        let push = |changes: &mut ChangeQueue, digest| {
            let (reply, heard) = mpsc::sync_channel(1);
            changes.push(DefinitionChange::default(), Digest(digest), reply);
            (changes.waiting.len(), changes.waiting.back().unwrap().change.number, heard)
        };
        // While it waits there is one of it, and whoever asked last hears.
        let (_, _, first) = push(&mut changes, 1);
        let (waiting, number, again) = push(&mut changes, 1);
        assert_eq!((waiting, number), (1, 1));
        changes.end(outcome(CommitOutcome::Committed, None));
        assert!(first.try_recv().is_err());
        assert_eq!(again.try_recv(), Ok(Ok(())));
        // Once it has ended the store tells by its number that it was done.
        assert_eq!(push(&mut changes, 1).1, 1);
        changes.end(outcome(CommitOutcome::Committed, None));
        assert_eq!(push(&mut changes, 2).1, 2);
        assert_eq!(push(&mut changes, 3).1, 3);
        let (waiting, _, _) = push(&mut changes, 2);
        assert_eq!(waiting, 2, "not the last, and waiting still");
    }
}
