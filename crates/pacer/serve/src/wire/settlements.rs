//! A shard's wins on their way to the record: claimed, written, durable, settled.
//!
//! Owns which results wait for the disk. `pacer_core` decides which win of a token counts.
//!
//! **Invariant:** a win is acknowledged only once its record is durable. While the record takes
//! nothing, wins wait unclaimed, and are tried again in every turn.

use std::collections::VecDeque;
use std::sync::Arc;

use eventlog::lane::{DurableRing, LaneState, PushError, RingPosition};
use events::{RecordKind, SettlementsWriter, WinRecord};
use pacer_core::shard::token::{ReservationToken, TOKEN_BYTES};
use pacer_core::shard::{EarlierWins, PacedShard, ShardLedger, TokenClaim, TokenRejection};
use pacer_wire::SettlementCode;
use runtime::process::unix_ms;
use tracing::error;
use units::{Currency, Nanos, Tick};

use super::bidders::Bidder;
use super::client_port::FrameEntry;
use crate::ledger::feed::{SettledReservation, SettlementFeed};

/// Who waits for a result: a connection of a shard of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReplyAddress {
    pub shard: u16,
    pub connection: u64,
    pub client: u16,
    pub place: FrameEntry,
}

/// A win that a client reported.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReportedWin {
    pub token: ReservationToken,
    pub sealed: [u8; TOKEN_BYTES],
    pub cost: Nanos,
    pub currency: Currency,
    pub reply: ReplyAddress,
}

/// A result, for the connection that waits for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SettlementResult {
    pub reply: ReplyAddress,
    pub code: SettlementCode,
    /// What was booked.
    pub cost: Nanos,
}

#[derive(Debug)]
struct ClaimedWin {
    win: ReportedWin,
    /// None for a reservation of an earlier start.
    claim: Option<TokenClaim>,
}

/// The wins of one shard.
#[derive(Debug)]
pub(crate) struct ShardSettlements {
    ring: DurableRing,
    feed: SettlementFeed,
    earlier: EarlierWins,
    /// Written to the ring and not durable, with the position of their record.
    written: VecDeque<(RingPosition, ClaimedWin)>,
    /// Not claimed yet.
    waiting: VecDeque<ReportedWin>,
    /// Claimed, and part of the record that is being made.
    claimed: Vec<ClaimedWin>,
    record: Vec<u8>,
    /// Results to deliver.
    pub results: Vec<SettlementResult>,
}

impl ShardSettlements {
    pub fn new(ring: DurableRing, feed: SettlementFeed, earlier: EarlierWins) -> Self {
        Self {
            ring,
            feed,
            earlier,
            written: VecDeque::new(),
            waiting: VecDeque::new(),
            claimed: Vec::new(),
            record: Vec::new(),
            results: Vec::new(),
        }
    }

    /// Whether wins can be made durable. If not, nothing may be authorised.
    pub fn is_durable(&self) -> bool {
        self.waiting.is_empty() && self.ring.state() == LaneState::Writing
    }

    /// Wins that wait for room in the record.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Whether every reported win has its result.
    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.written.is_empty()
    }

    /// Takes a win; [`Self::write`] makes the record.
    pub fn report(&mut self, win: ReportedWin) {
        self.waiting.push_back(win);
    }

    /// Claims the wins that wait and writes their record. Those that it cannot write stay.
    pub fn write(&mut self, ledger: &mut ShardLedger, bidders: &[Arc<Bidder>], now: Tick) {
        // Claims that cannot be written would only be given up again.
        while !self.waiting.is_empty() && self.ring.state() == LaneState::Writing {
            let now_ms = unix_ms();
            self.claim_group(ledger, bidders, now, now_ms);
            if self.claimed.is_empty() {
                continue;
            }
            match self.ring.push(RecordKind::Settlements.code(), now_ms, &self.record) {
                Ok(position) => {
                    let claimed = self.claimed.drain(..).map(|claimed| (position, claimed));
                    self.written.extend(claimed);
                }
                Err(refused) => {
                    if let PushError::TooLong { .. } = refused {
                        error!(%refused, "settlements cannot be recorded");
                    }
                    self.give_up(ledger);
                    return;
                }
            }
        }
    }

    /// Claims as many wins as one record holds, and encodes them.
    fn claim_group(
        &mut self,
        ledger: &mut ShardLedger,
        bidders: &[Arc<Bidder>],
        now: Tick,
        now_ms: u64,
    ) {
        self.record.clear();
        let mut writer = SettlementsWriter::new(&mut self.record);
        ledger.warm_tokens(self.waiting.iter().take(WARM_MAX).map(|win| &win.token));
        for _ in 0..WINS_MAX {
            let Some(win) = self.waiting.pop_front() else { break };
            let own = win.token.origin() == ledger.origin();
            let claim = if own {
                ledger.claim(&win.token, now).map(Some)
            } else {
                self.earlier.claim(&win.token, now_ms).map(|()| None)
            };
            match claim {
                Ok(claim) => {
                    writer.win(&WinRecord {
                        token: win.sealed,
                        cost_nanos: win.cost.get(),
                        currency: win.currency.code(),
                        client: &bidders[usize::from(win.reply.client)].config.id,
                    });
                    self.claimed.push(ClaimedWin { win, claim });
                }
                Err(rejection) => {
                    let (reply, code) = (win.reply, rejected_win(rejection));
                    self.results.push(SettlementResult { reply, code, cost: Nanos::ZERO });
                }
            }
        }
        writer.finish();
    }

    /// Returns the claims of a record that was refused, in their order.
    fn give_up(&mut self, ledger: &mut ShardLedger) {
        for ClaimedWin { win, claim } in self.claimed.drain(..).rev() {
            match claim {
                Some(claim) => ledger.unclaim(claim),
                None => self.earlier.unclaim(&win.token),
            }
            self.waiting.push_front(win);
        }
    }

    /// Settles all wins of records that are durable: `records` of them up to `through`, the last one
    /// at `sequence` of the log.
    pub fn settle(&mut self, shard: &mut PacedShard, through: RingPosition, sequence: u64) {
        while let Some((position, _)) = self.written.front().filter(|(at, _)| *at <= through) {
            let position = *position;
            let of_record = sequence - (through.0 - position.0);
            let of_same = self.written.iter().take_while(|(at, _)| *at == position);
            shard.ledger.warm_tokens(of_same.take(WARM_MAX).map(|(_, claimed)| &claimed.win.token));
            let Self { written, earlier, results, feed, .. } = self;
            let wins = std::iter::from_fn(|| {
                let (_, ClaimedWin { win, claim }) =
                    written.pop_front_if(|(at, _)| *at == position)?;
                let code = match claim {
                    Some(claim) => {
                        let is_late = claim.is_late();
                        shard.ledger.settle(claim, win.cost);
                        if let Some(funnel) = shard.funnel() {
                            funnel.bill(win.token.slot(), win.cost);
                        }
                        if is_late { SettlementCode::BookedLate } else { SettlementCode::Booked }
                    }
                    None => {
                        earlier.settle(&win.token);
                        SettlementCode::Booked
                    }
                };
                results.push(SettlementResult { reply: win.reply, code, cost: win.cost });
                let ReportedWin { token, cost, currency, .. } = win;
                Some(SettledReservation { token, cost, currency })
            });
            feed.settled(of_record, wins);
        }
    }

    /// Reports that the log holds nothing of this shard beyond what was passed to the ledger:
    /// `sequence` is the last durable one, read while nothing of this shard was on its way.
    pub fn report_position(&self, sequence: impl FnOnce() -> u64) {
        if self.written.is_empty() {
            self.feed.reached(sequence());
        }
    }
}

/// Most wins whose reservations are read ahead at once.
const WARM_MAX: usize = 32;

/// Most wins of a record: below the length of a record, whatever the clients' ids.
const WINS_MAX: usize = 2_048;

const _: () = assert!(
    WINS_MAX * (TOKEN_BYTES + 255 + 32) <= events::RECORD_BYTES_MAX,
    "the wins fit a record"
);

/// The result of a win that is not booked.
pub(crate) const fn rejected_win(rejection: TokenRejection) -> SettlementCode {
    match rejection {
        TokenRejection::AlreadyWon => SettlementCode::AlreadyBooked,
        TokenRejection::Pending => SettlementCode::Pending,
        TokenRejection::TooOld => SettlementCode::TooOld,
        TokenRejection::OtherNode
        | TokenRejection::DeadEpoch
        | TokenRejection::FutureEpoch
        | TokenRejection::OtherShard
        | TokenRejection::NeverMade
        | TokenRejection::AlreadyReleased
        | TokenRejection::Expired => SettlementCode::Rejected,
    }
}

/// The result of a loss.
pub(crate) const fn result_of_loss<T>(released: &Result<T, TokenRejection>) -> SettlementCode {
    match released {
        Ok(_) => SettlementCode::Released,
        Err(
            TokenRejection::AlreadyWon
            | TokenRejection::AlreadyReleased
            | TokenRejection::Expired
            // The ledger takes back what an earlier start left open.
            | TokenRejection::DeadEpoch,
        ) => SettlementCode::AlreadyEnded,
        Err(TokenRejection::Pending) => SettlementCode::Pending,
        Err(TokenRejection::TooOld) => SettlementCode::TooOld,
        Err(
            TokenRejection::OtherNode
            | TokenRejection::FutureEpoch
            | TokenRejection::OtherShard
            | TokenRejection::NeverMade,
        ) => SettlementCode::Rejected,
    }
}
