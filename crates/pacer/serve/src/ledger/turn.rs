//! The ledger's thread: it moves messages between the rules and the shards, the store, the log and
//! the callers. The rules decide about money; this file decides what waits, and that nothing is
//! authorised once the rules find that the books do not add up.

mod changes;
mod queries;
mod snapshots;
mod zones;

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use pacer_core::ledger::{Ledger, LedgerInput, LedgerOutbox, LedgerReply};
use pacer_core::messages::{CampaignIndex, FromShard, ToShard};
use pacer_core::pacing::CampaignPacer;
use pacer_core::store::{
    CommitOutcome, LeaseStore as _, StoreAnswer, StoreDenial, StoreFault, StoreWriter, WriteKind,
    WriteOutcome,
};
use pacer_core::strategy::BidPace;
use runtime::shutdown::Shutdown;
use tracing::{error, info, warn};

use super::feed::FeedReceiver;
use super::handle::LedgerQuery;
use super::hold_port::HoldReceiver;
use super::rings::LedgerRings;
use super::status::{LedgerClock, LedgerStatus, SharedStatus};
use super::zones::Zones;
use crate::store::thread::DiskStore;
use changes::{ChangeQueue, PendingAnswer, PendingDefinitions};
pub(crate) use snapshots::SnapshotSchedule;
use zones::ZoneTables;

const TURN: Duration = Duration::from_millis(10);
const TAKEN_MAX: usize = 16_384;
/// Interval at which settlements of the log are taken.
const FEED_INTERVAL: Duration = Duration::from_millis(250);
/// Most campaigns at the end of their slot that a turn asks for their pace.
const PACE_LOOKS_MAX: usize = 4_096;
const CLOSE_TIMEOUT: Duration = Duration::from_secs(3);

/// How a ledger failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LedgerFault {
    /// The books do not add up: a defect. Nothing more is authorised.
    #[error("the books of budgets do not add up: a defect, the log has where; please report it")]
    Broken,
    /// Another process has taken over the node. Nothing more is authorised.
    #[error(
        "another process has taken over the budgets of this node: give each its own `budgets.node` and \
         `budgets.directory`"
    )]
    Fenced,
    /// Its store was not closed well: the next start learns the rest from the log.
    #[error("the ledger's store {0}")]
    Store(StoreFault),
}

/// What the ledger's thread shares with others.
pub(crate) struct LedgerChannels {
    pub rings: Vec<LedgerRings>,
    pub asks: mpsc::Receiver<LedgerQuery>,
    pub feed: FeedReceiver,
    pub holds: HoldReceiver,
    pub closing: Arc<AtomicBool>,
    pub status: SharedStatus,
    pub zones: Zones,
    pub clock: LedgerClock,
}

pub(crate) struct LedgerLoop {
    ledger: Ledger,
    pacer: CampaignPacer,
    store: DiskStore,
    writer: StoreWriter,
    channels: LedgerChannels,
    tables: ZoneTables,
    snapshots: SnapshotSchedule,
    expected: VecDeque<PendingAnswer>,
    changes: ChangeQueue,
    pending_definitions: VecDeque<PendingDefinitions>,
    batches: u64,
    is_replayed: bool,
    /// When settlements are taken next.
    feed_at: Instant,
    last_ended: Option<CommitOutcome>,
    inbox: Vec<LedgerInput>,
    outbox: LedgerOutbox,
    paces: Vec<(CampaignIndex, BidPace)>,
    closing_at: Option<Instant>,
    is_close_sent: bool,
    turn_longest: Duration,
}

enum TurnEnd {
    Wait,
    Go,
    End,
    Fenced(StoreDenial),
}

impl LedgerLoop {
    pub(crate) fn new(
        ledger: Ledger,
        pacer: CampaignPacer,
        store: DiskStore,
        channels: LedgerChannels,
        snapshots: SnapshotSchedule,
    ) -> Self {
        let LedgerStatus { node, epoch, .. } = channels.status.status();
        let tables = ZoneTables::new(channels.zones.clone());
        Self {
            ledger,
            pacer,
            store,
            writer: StoreWriter { node, epoch },
            channels,
            tables,
            snapshots,
            expected: VecDeque::new(),
            changes: ChangeQueue::default(),
            pending_definitions: VecDeque::new(),
            batches: 0,
            is_replayed: false,
            feed_at: Instant::now(),
            last_ended: None,
            inbox: Vec::new(),
            outbox: LedgerOutbox::default(),
            paces: Vec::new(),
            closing_at: None,
            is_close_sent: false,
            turn_longest: Duration::ZERO,
        }
    }

    /// Runs turns until the ledger is closed. If the rules find that the books do not add up,
    /// nothing more is authorised and the process ends: not bidding is cheap, overspending is not.
    pub(crate) fn run(mut self, shutdown: &Shutdown) -> Result<(), LedgerFault> {
        info!(node = self.writer.node, epoch = self.writer.epoch.0, "the ledger has begun");
        let fault = loop {
            match catch_unwind(AssertUnwindSafe(|| self.turn())) {
                Ok(TurnEnd::Wait) => thread::park_timeout(TURN),
                Ok(TurnEnd::Go) => (),
                Ok(TurnEnd::End) => break None,
                Ok(TurnEnd::Fenced(denied)) => {
                    error!(%denied, "nothing is authorised any more; shutting down");
                    break Some(LedgerFault::Fenced);
                }
                Err(_) => {
                    error!(
                        "the books do not add up: nothing is authorised any more; shutting down"
                    );
                    break Some(LedgerFault::Broken);
                }
            }
        };
        if fault.is_some() {
            self.channels.status.halted().set();
            shutdown.begin();
        }
        self.channels.status.end();
        // While the directory is locked. If the books do not add up, the pace is not stored.
        if fault.is_none() && self.store.failing().is_none() {
            self.snapshots.end(&self.pacer);
        } else {
            drop(self.snapshots);
        }
        let closed = self.store.close();
        if let Err(cause) = closed {
            warn!("the ledger's store {cause}");
        }
        fault.map_or(closed.map_err(LedgerFault::Store), Err)
    }

    fn turn(&mut self) -> TurnEnd {
        let begun = Instant::now();
        let now = self.channels.clock.now();
        // Before the rings are read: all that shards sent before closing is in them.
        let is_closing = self.channels.closing.load(Ordering::Acquire);
        let has_asks = self.take_asks(now);
        let has_settlements = self.take_feed(begun);
        if let Some(denied) = self.take_answers() {
            return TurnEnd::Fenced(denied);
        }
        let has_reports = self.take_shards();
        self.define_some(now);
        // After definitions, and before the ledger closes.
        self.channels.holds.take(&mut self.inbox);
        self.tables.renew(now.unix_ms, &mut self.inbox, &mut self.pacer);
        if is_closing && !has_settlements && !has_reports {
            self.close();
        }
        self.ledger.step(now, self.inbox.drain(..), &mut self.outbox);
        // Before grants are sent: shards must be in the hour of their grants.
        self.channels.status.set_unix_ms(self.ledger.now().unix_ms);
        self.send();
        self.changes.submit(&mut self.store, self.writer, &mut self.expected);
        let looked_before = self.pacer.looked();
        self.pacer.turn(now.unix_ms, &self.ledger, PACE_LOOKS_MAX, &mut self.paces);
        let has_slots = self.pacer.looked() - looked_before >= PACE_LOOKS_MAX as u64;
        self.send_paces();
        self.snapshots.turn(&mut self.pacer, begun, self.store.failing().is_some());
        self.publish_status(begun);
        if is_closing && self.has_ended(begun) {
            return TurnEnd::End;
        }
        let is_behind = has_asks || has_settlements || has_reports || has_slots;
        if is_behind || !self.pending_definitions.is_empty() { TurnEnd::Go } else { TurnEnd::Wait }
    }

    /// Returns whether more waits.
    fn take_feed(&mut self, begun: Instant) -> bool {
        // Taken together they cost less: many are of the same campaigns.
        let is_early = self.is_replayed && begun < self.feed_at;
        if is_early && !self.channels.closing.load(Ordering::Acquire) {
            return false;
        }
        self.feed_at = begun + FEED_INTERVAL;
        let has_more = self.channels.feed.take(TAKEN_MAX, &mut self.inbox);
        self.is_replayed |= matches!(self.inbox.last(), Some(LedgerInput::Replayed));
        if has_more {
            self.feed_at = begun;
        }
        has_more
    }

    /// Returns whether more waits.
    fn take_shards(&mut self) -> bool {
        let mut has_more = false;
        for (shard, rings) in (0..).zip(&mut self.channels.rings) {
            for _ in 0..TAKEN_MAX {
                let Ok(message) = rings.from_shard.pop() else { break };
                match message {
                    FromShard::Report(report) => {
                        self.pacer.report(shard, &report);
                        self.inbox.push(LedgerInput::Report(shard, report));
                    }
                    FromShard::Refill(want) => self.inbox.push(LedgerInput::Refill(shard, want)),
                    FromShard::Seen(slot, seen) => self.pacer.seen(shard, slot, seen),
                    FromShard::Receipt(receipt) => {
                        self.inbox.push(LedgerInput::Receipt(shard, receipt));
                    }
                    FromShard::Closed => self.inbox.push(LedgerInput::ShardClosed(shard)),
                }
            }
            has_more |= !rings.from_shard.is_empty();
        }
        has_more
    }

    /// Takes the store's answers. Returns its refusal if another process has taken over the node.
    fn take_answers(&mut self) -> Option<StoreDenial> {
        while let Some(answer) = self.store.poll() {
            let expected = self.expected.pop_front().expect("a store answers what it was asked");
            match (expected, answer) {
                (
                    _,
                    StoreAnswer::Ended(WriteOutcome {
                        denied: Some(fenced @ StoreDenial::Fenced { .. }),
                        ..
                    }),
                ) => {
                    return Some(fenced);
                }
                (PendingAnswer::Batch(seq), StoreAnswer::Ended(outcome)) => {
                    self.end_batch(seq, &outcome);
                }
                (PendingAnswer::Change, StoreAnswer::Ended(outcome)) => self.changes.end(outcome),
                (PendingAnswer::Read(reply), StoreAnswer::Read(found)) => {
                    // The caller may have given up.
                    let _heard = reply.send(found);
                }
                (_, answer) => {
                    unreachable!("answers come in the order of what was asked: {answer:?}")
                }
            }
        }
        None
    }

    fn end_batch(&mut self, applied_seq: u64, outcome: &WriteOutcome) {
        debug_assert_eq!(outcome.kind, WriteKind::Batch, "batches and changes are told apart");
        match outcome.ended {
            CommitOutcome::Committed => {
                self.batches += 1;
                self.channels.status.set_applied(applied_seq);
                if self.last_ended.is_some_and(|ended| ended != CommitOutcome::Committed) {
                    info!("the ledger's store works again");
                }
            }
            CommitOutcome::Refused | CommitOutcome::Unknown
                if self.last_ended.is_none_or(|last| last == CommitOutcome::Committed) =>
            {
                let denied = outcome.denied.as_ref().map_or(String::new(), ToString::to_string);
                let ended = outcome.ended;
                warn!(
                    ?ended,
                    denied, "nothing can be leased durably; auctions go on with the rest"
                );
            }
            CommitOutcome::Refused | CommitOutcome::Unknown => (),
        }
        self.last_ended = Some(outcome.ended);
        self.inbox.push(LedgerInput::Ended(outcome.number, outcome.ended));
    }

    fn send(&mut self) {
        let mut outbox = std::mem::take(&mut self.outbox);
        if let Some(batch) = outbox.batch.take() {
            self.expected.push_back(PendingAnswer::Batch(batch.applied_seq));
            self.store.submit(self.writer, batch);
        }
        // A recalled shard would return its grants at once: open its gate first.
        for (shard, gate) in &outbox.gates {
            self.channels.rings[usize::from(*shard)].send(ToShard::Gate(*gate));
        }
        for (shard, grant) in &outbox.grants {
            self.channels.rings[usize::from(*shard)].send(ToShard::Grant(*grant));
        }
        for notice in outbox.notices.drain(..) {
            match notice {
                LedgerReply::Account(..) | LedgerReply::Campaign(..) => {
                    if let Some(defining) = self.pending_definitions.front_mut() {
                        defining.defined.notices.push(notice);
                    }
                }
                LedgerReply::CalendarContradicts(zone) => {
                    error!(zone = zone.0, "the hours of a time zone are not what they were");
                }
                LedgerReply::SettlementMixed(seq) => {
                    error!(seq, "a settlement is in another currency than its account: not booked");
                }
            }
        }
        self.channels.holds.answer(outbox.holds.drain(..));
        outbox.clear();
        self.outbox = outbox;
        self.finish_defining();
    }

    fn send_paces(&mut self) {
        for (slot, pace) in self.paces.drain(..) {
            for rings in &mut self.channels.rings {
                rings.send(ToShard::Pace(slot, pace));
            }
        }
        self.channels.rings.iter_mut().for_each(LedgerRings::flush);
    }

    fn publish_status(&mut self, begun: Instant) {
        let turn = begun.elapsed();
        self.turn_longest = self.turn_longest.max(turn);
        let (stats, failing) = (self.ledger.stats(), self.store.failing());
        let waiting: usize = self.channels.rings.iter().map(LedgerRings::waiting).sum();
        let (turn_longest, batches, is_replayed) =
            (self.turn_longest, self.batches, self.is_replayed);
        let (accounts, campaigns) = self.pacer.counts();
        let (looked, holds) = (self.pacer.looked(), self.ledger.standing_holds());
        let (states_kept, states_failed) = self.snapshots.files();
        self.channels.status.change(|status| {
            status.failing = failing;
            status.is_replayed = is_replayed;
            (status.accounts, status.campaigns) = (accounts, campaigns);
            status.holds = holds;
            (status.batches, status.refused, status.unknown) =
                (batches, stats.refused, stats.unknown);
            (status.strays, status.stray_nanos) = (stats.strays, stats.stray_nanos);
            status.waiting = waiting as u64;
            status.looked = looked;
            (status.states_kept, status.states_failed) = (states_kept, states_failed);
            (status.turn, status.turn_longest) = (turn, turn_longest);
        });
    }

    /// Tells the rules to close, once all earlier messages of shards and log are taken.
    fn close(&mut self) {
        if !std::mem::replace(&mut self.is_close_sent, true) {
            self.inbox.push(LedgerInput::Close);
        }
    }

    /// Whether the closed ledger has nothing left to do, or its patience is over.
    fn has_ended(&mut self, now: Instant) -> bool {
        let closing_at = *self.closing_at.get_or_insert(now);
        let is_quiet = self.is_close_sent
            && self.ledger.is_saved()
            && self.expected.is_empty()
            && self.changes.is_empty()
            && self.pending_definitions.is_empty()
            && self.channels.rings.iter().all(LedgerRings::is_quiet);
        let is_late = closing_at + CLOSE_TIMEOUT <= now;
        if is_late && !is_quiet {
            warn!(
                "the ledger ends before all that it knows is durable: the next start books settlements again \
                 from the record, and money that was to be given back stays frozen for up to \
                 budgets.reservation_max"
            );
        }
        is_quiet || is_late
    }
}

#[cfg(test)]
pub(crate) mod tests;
