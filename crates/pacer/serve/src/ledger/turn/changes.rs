//! What waits for the store: definitions taken in parts, and changes one by one.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use pacer_core::store::{
    CommitOutcome, DefinitionChange, LeaseStore as _, QueryResult, StoreDenial, StoreFault,
    StoreWriter, WriteOutcome,
};
use tracing::warn;

use crate::ledger::digest::Digest;
use crate::ledger::handle::{DefinitionReport, NamedAccount, PacedCampaign, ReplySender};
use crate::store::thread::DiskStore;

/// Delay before a change of unknown outcome is submitted again.
const RETRY_INTERVAL: Duration = Duration::from_millis(50);

pub(super) enum PendingAnswer {
    /// Position up to which the batch includes the log's settlements.
    Batch(u64),
    Change,
    Read(ReplySender<Result<QueryResult, StoreDenial>>),
}

pub(super) struct PendingDefinitions {
    pub(super) accounts: std::vec::IntoIter<NamedAccount>,
    pub(super) campaigns: std::vec::IntoIter<PacedCampaign>,
    pub(super) defined: DefinitionReport,
    pub(super) reply: ReplySender<DefinitionReport>,
}

/// One change at a time: what a later one expects depends on the outcome of earlier ones.
#[derive(Default)]
pub(super) struct ChangeQueue {
    waiting: VecDeque<QueuedChange>,
    is_submitted: bool,
    /// Whether the first may be durable: then a refusal of a failing store does not deny it.
    is_unknown: bool,
    again_at: Option<Instant>,
    last: u64,
    /// Digest of the last change: repeated, it keeps its number, so the store applies it once.
    last_digest: Option<Digest>,
}

struct QueuedChange {
    change: DefinitionChange,
    digest: Digest,
    reply: ReplySender<Result<(), StoreDenial>>,
}

impl ChangeQueue {
    pub(super) fn push(
        &mut self,
        change: DefinitionChange,
        digest: Digest,
        reply: ReplySender<Result<(), StoreDenial>>,
    ) {
        if let Some(same) = self.waiting.iter_mut().find(|waiting| waiting.digest == digest) {
            // The first caller has given up.
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

    /// Submits the first change, unless it is submitted or delayed.
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

    pub(super) fn end(&mut self, outcome: WriteOutcome) {
        self.is_submitted = false;
        let may_pass = matches!(outcome.denied, Some(StoreDenial::Failing(_) | StoreDenial::Busy));
        if outcome.ended == CommitOutcome::Unknown || (self.is_unknown && may_pass) {
            if !std::mem::replace(&mut self.is_unknown, true) {
                warn!(number = outcome.number, "a change may be durable or not: asked again");
            }
            self.again_at = Some(Instant::now() + RETRY_INTERVAL);
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
        // The caller may have given up.
        let _heard = reply.send(ended);
    }
}

#[cfg(test)]
mod tests;
