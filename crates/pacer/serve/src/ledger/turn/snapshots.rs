//! Gives out what decides campaigns' paces, so that it outlives the process: every so often, and once at
//! the end.
//!
//! Owns when that is done, and how much of it in one turn. It is never in the way of money: it is written
//! by the builder, the thread of the ledger gives out a few campaigns a turn and waits for nobody, and
//! while the ledger's store fails none is begun.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use pacer_core::messages::CampaignIndex;
use pacer_core::pacing::CampaignPacer;

use crate::ledger::keeper::{PIECE_BYTES, StatesKeeper, StatesPiece};
use crate::ledger::states::append;

/// Campaigns that one turn gives out at most.
const KEPT_MAX: u32 = 512;
/// As many bytes are written in a second at most, so that a disk does not wear out by it.
const BYTES_A_SECOND: u64 = 1 << 20;

/// The files of states.
pub(crate) struct SnapshotSchedule {
    keeper: StatesKeeper,
    every: Duration,
    next_at: Instant,
    /// How often campaigns had been looked at when the last file began.
    looked: u64,
    pass: Option<SnapshotPass>,
}

/// A file that is being given out.
struct SnapshotPass {
    begun: Instant,
    /// Whose turn it is; `None` behind the last.
    at: Option<CampaignIndex>,
    /// What is not sent yet, as rows and as pieces: two at most.
    rows: Vec<u8>,
    count: u32,
    waiting: VecDeque<StatesPiece>,
    bytes: u64,
}

impl SnapshotSchedule {
    pub(crate) fn new(keeper: StatesKeeper, every: Duration) -> Self {
        Self { keeper, every, next_at: Instant::now() + every, looked: 0, pass: None }
    }

    /// Files that were written, and those that could not be.
    pub(crate) fn files(&self) -> (u64, u64) {
        let files = &self.keeper.files;
        (files.written.load(Ordering::Relaxed), files.failed.load(Ordering::Relaxed))
    }

    /// Gives out some, if it is time to.
    pub(crate) fn turn(&mut self, pacer: &mut CampaignPacer, now: Instant, is_store_failing: bool) {
        let is_due = self.next_at <= now && self.looked != pacer.looked() && !is_store_failing;
        if self.pass.is_none() && is_due {
            // Who is not defined by now is gone.
            pacer.forget_undefined();
            self.looked = pacer.looked();
            self.pass = Some(SnapshotPass::new(now));
        }
        let Some(pass) = &mut self.pass else { return };
        if pass.turn(pacer, |piece| self.keeper.offer(piece)) {
            let least = Duration::from_secs(pass.bytes / BYTES_A_SECOND);
            self.next_at = pass.begun + self.every.max(least);
            self.pass = None;
        }
    }

    /// Gives out all at once, and waits until it is written.
    pub(crate) fn end(self, pacer: &CampaignPacer) {
        let mut pass = SnapshotPass::new(Instant::now());
        let give = |piece| {
            self.keeper.give(piece);
            Ok(())
        };
        while !pass.turn(pacer, give) {}
    }
}

impl SnapshotPass {
    fn new(begun: Instant) -> Self {
        let waiting = VecDeque::from([StatesPiece::Begin]);
        Self { begun, at: Some(CampaignIndex(0)), rows: Vec::new(), count: 0, waiting, bytes: 0 }
    }

    /// Gives out some; whether all is sent.
    fn turn(
        &mut self,
        pacer: &CampaignPacer,
        send: impl Fn(StatesPiece) -> Result<(), StatesPiece>,
    ) -> bool {
        while let Some(piece) = self.waiting.pop_front() {
            if let Err(piece) = send(piece) {
                self.waiting.push_front(piece);
                return false;
            }
        }
        let Some(at) = self.at else { return true };
        self.at = pacer.keep(at, KEPT_MAX, |kept| {
            append(&mut self.rows, |row| kept.encode(row));
            self.count += 1;
        });
        if self.rows.len() >= PIECE_BYTES || self.at.is_none() {
            let (rows, count) = (std::mem::take(&mut self.rows), std::mem::take(&mut self.count));
            self.bytes += rows.len() as u64;
            self.waiting.push_back(StatesPiece::Rows(rows, count));
        }
        if self.at.is_none() {
            self.waiting.push_back(StatesPiece::End);
        }
        false
    }
}
