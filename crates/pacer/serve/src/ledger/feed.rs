//! Settlements of the durable log on their way to the ledger.
//!
//! Several parts of a process write settlements to one log, each in a ring of its own, and pass
//! them on in the order of the log as their records become durable. The ledger takes them merged in
//! that order: its books and the position up to which they contain the log become durable together.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pacer_core::ledger::{LedgerInput, SettlementRecord};
use pacer_core::shard::token::ReservationToken;
use pacer_core::store::LeaseKey;
use units::{Currency, Nanos};

use super::status::{LedgerWaker, SharedStatus};

/// Wake the ledger when this many settlements wait, instead of at its next turn.
const WAITING_MANY: usize = 16_384;

/// A won reservation, whose record is durable.
#[derive(Clone, Copy, Debug)]
pub struct SettledReservation {
    /// The reservation.
    pub token: ReservationToken,
    /// What the seller bills.
    pub cost: Nanos,
    /// The currency of `cost`.
    pub currency: Currency,
}

/// A source's settlements that the ledger has not taken.
#[derive(Debug, Default)]
struct FeedSource {
    waiting: VecDeque<SettlementRecord>,
    /// All its settlements up to this sequence were passed.
    reached: u64,
    is_replayed: bool,
    /// Dropped before it replayed: it has written nothing, and never will.
    is_unused: bool,
}

/// All sources, merged.
#[derive(Debug, Default)]
struct MergedSources {
    sources: Vec<FeedSource>,
    /// Passed to the ledger.
    reached: u64,
    is_replayed: bool,
}

/// The ledger's end.
#[derive(Clone, Debug, Default)]
pub(crate) struct FeedReceiver(Arc<Mutex<MergedSources>>);

/// One source's end, usable from any thread. It passes records in ascending order. A source that is
/// dropped after its replay holds the ledger's position where it is.
#[derive(Debug)]
pub struct SettlementFeed {
    merged: FeedReceiver,
    source: usize,
    status: SharedStatus,
    waker: LedgerWaker,
}

impl FeedReceiver {
    /// Another source. Create all before the first one replays.
    pub(crate) fn source(&self, status: SharedStatus, waker: LedgerWaker) -> SettlementFeed {
        let mut merged = self.lock();
        let source = merged.sources.len();
        merged.sources.push(FeedSource::default());
        SettlementFeed { merged: self.clone(), source, status, waker }
    }

    /// Takes about `max` settlements, in the log's order: all or none of a record. Returns whether
    /// more are ready.
    pub(crate) fn take(&self, max: usize, inbox: &mut Vec<LedgerInput>) -> bool {
        let mut merged = self.lock();
        let Some(reached) = merged.reached_by_all() else { return false };
        let (mut taken, mut last) = (0, 0);
        while let Some(source) = merged.earliest(reached) {
            let waiting = &mut merged.sources[source].waiting;
            let record = waiting.pop_front_if(|record| taken < max || record.seq == last);
            let Some(record) = record else { return true };
            (taken, last) = (taken + 1, record.seq);
            inbox.push(LedgerInput::Settlement(record));
        }
        merged.report_position(reached, inbox);
        false
    }

    fn lock(&self) -> MutexGuard<'_, MergedSources> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl MergedSources {
    /// The sequence up to which nothing more can come. None without a source.
    fn reached_by_all(&self) -> Option<u64> {
        let used = self.sources.iter().filter(|source| !source.is_unused);
        match used.map(|source| source.reached).min() {
            // Nobody writes settlements.
            None if !self.sources.is_empty() => Some(0),
            reached => reached,
        }
    }

    /// The source of the earliest settlement up to `reached`.
    fn earliest(&self, reached: u64) -> Option<usize> {
        let first = |source: &FeedSource| Some(source.waiting.front()?.seq);
        let firsts = self.sources.iter().enumerate().filter_map(|(at, it)| Some((first(it)?, at)));
        firsts.min().filter(|(seq, _)| *seq <= reached).map(|(_, at)| at)
    }

    fn report_position(&mut self, reached: u64, inbox: &mut Vec<LedgerInput>) {
        if self.reached < reached {
            self.reached = reached;
            inbox.push(LedgerInput::Logged(reached));
        }
        let is_replayed = self.sources.iter().all(|source| source.is_replayed || source.is_unused);
        if is_replayed && !std::mem::replace(&mut self.is_replayed, true) {
            inbox.push(LedgerInput::Replayed);
        }
    }
}

impl SettlementFeed {
    /// A durable record settles reservations: the first of its kind for each token. It must be after
    /// [`SettlementFeed::applied_seq`] as of the start.
    pub fn settled(&self, sequence: u64, wins: impl IntoIterator<Item = SettledReservation>) {
        let record = |win: SettledReservation| {
            let (token, origin) = (win.token, win.token.origin());
            let (slot, period) = (token.slot(), token.period());
            SettlementRecord {
                seq: sequence,
                key: LeaseKey { slot, period, node: origin.node, epoch: origin.epoch },
                settled: win.cost,
                late: Nanos::ZERO,
                over: Nanos::ZERO,
                currency: win.currency,
            }
        };
        let waiting = {
            let mut merged = self.merged.lock();
            let source = &mut merged.sources[self.source];
            source.waiting.extend(wins.into_iter().map(record));
            source.reached = source.reached.max(sequence);
            source.waiting.len()
        };
        if waiting >= WAITING_MANY {
            self.waker.wake();
        }
    }

    /// All settlements of this source up to this record of the log were passed.
    pub fn reached(&self, sequence: u64) {
        let mut merged = self.merged.lock();
        let source = &mut merged.sources[self.source];
        source.reached = source.reached.max(sequence);
    }

    /// Everything in the log at the start of the process was passed.
    pub fn replayed(&self) {
        self.merged.lock().sources[self.source].is_replayed = true;
    }

    /// Position up to which the log's settlements are durable in the ledger's books. The log keeps
    /// later records, and their sources pass them again after a start.
    pub fn applied_seq(&self) -> u64 {
        self.status.applied_seq()
    }
}

impl Drop for SettlementFeed {
    fn drop(&mut self) {
        let mut merged = self.merged.lock();
        let source = &mut merged.sources[self.source];
        source.is_unused = !source.is_replayed;
    }
}

#[cfg(test)]
mod tests;
