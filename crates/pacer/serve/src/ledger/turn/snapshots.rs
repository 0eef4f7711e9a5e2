//! Saves the state of campaigns' strategies periodically, and once at the end. It never delays
//! money: the builder writes, the ledger's thread sends a few campaigns a turn without waiting, and
//! no file begins while the ledger's store fails.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use pacer_core::messages::CampaignIndex;
use pacer_core::pacing::CampaignPacer;

use crate::ledger::snapshot_writer::{PIECE_BYTES, SnapshotWriter, StatesPiece};
use crate::ledger::states::append;

const KEPT_MAX: u32 = 512;
/// Most bytes written a second, to limit wear of the disk.
const BYTES_A_SECOND: u64 = 1 << 20;

pub(crate) struct SnapshotSchedule {
    keeper: SnapshotWriter,
    every: Duration,
    next_at: Instant,
    /// Times campaigns had been looked at when the last file began.
    looked: u64,
    pass: Option<SnapshotPass>,
}

struct SnapshotPass {
    begun: Instant,
    /// Next campaign. None after the last.
    at: Option<CampaignIndex>,
    /// Unsent rows and pieces: two at most.
    rows: Vec<u8>,
    count: u32,
    waiting: VecDeque<StatesPiece>,
    bytes: u64,
}

impl SnapshotSchedule {
    pub(crate) fn new(keeper: SnapshotWriter, every: Duration) -> Self {
        Self { keeper, every, next_at: Instant::now() + every, looked: 0, pass: None }
    }

    pub(crate) fn files(&self) -> (u64, u64) {
        let files = &self.keeper.files;
        (files.written.load(Ordering::Relaxed), files.failed.load(Ordering::Relaxed))
    }

    pub(crate) fn turn(&mut self, pacer: &mut CampaignPacer, now: Instant, is_store_failing: bool) {
        let is_due = self.next_at <= now && self.looked != pacer.looked() && !is_store_failing;
        if self.pass.is_none() && is_due {
            // Campaigns that are undefined by now are gone.
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

    /// Sends some campaigns. Returns whether all are sent.
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
