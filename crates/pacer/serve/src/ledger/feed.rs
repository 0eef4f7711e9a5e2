//! How the durable log tells the ledger what was settled: in the log's order, none lost, and how far
//! that is durable in the ledger's own books.

use std::sync::mpsc::{SyncSender, TrySendError};

use pacer_core::ledger::SettlementRecord;
use pacer_core::shard::token::ReservationToken;
use pacer_core::store::LeaseKey;
use units::{Currency, Nanos};

use super::status::{LedgerWaker, SharedStatus};

/// What waits at most between the log and the ledger's thread; whoever tells more waits.
pub(crate) const TOLD_MAX: usize = 16_384;

/// What the log tells.
#[derive(Clone, Copy, Debug)]
pub(crate) enum FeedMessage {
    Settled(SettlementRecord),
    Reached(u64),
    Replayed,
}

/// The log's end. It may be in any thread; records are told by one, in ascending order.
#[derive(Clone, Debug)]
pub struct SettlementFeed {
    pub(crate) told: SyncSender<FeedMessage>,
    pub(crate) shared: SharedStatus,
    pub(crate) waker: LedgerWaker,
}

impl SettlementFeed {
    /// A record settles a reservation, and is durable: the first of its token that is. Records that
    /// were told before, as those up to [`SettlementFeed::applied_seq`], change nothing.
    pub fn settled(&self, sequence: u64, token: &ReservationToken, currency: Currency) {
        let origin = token.origin();
        let (slot, period) = (token.slot(), token.period());
        self.tell(FeedMessage::Settled(SettlementRecord {
            seq: sequence,
            key: LeaseKey { slot, period, node: origin.node, epoch: origin.epoch },
            settled: token.amount(),
            late: Nanos::ZERO,
            over: Nanos::ZERO,
            currency,
        }));
    }

    /// The log is durable up to this record, and all that settles there has been told.
    pub fn reached(&self, sequence: u64) {
        self.tell(FeedMessage::Reached(sequence));
    }

    /// All that was in the log when the process started has been told.
    pub fn replayed(&self) {
        self.tell(FeedMessage::Replayed);
    }

    /// Up to which record the log's settlements are durable in the ledger's books. The log keeps the
    /// records behind it, and tells them again after a start.
    pub fn applied_seq(&self) -> u64 {
        self.shared.applied_seq()
    }

    fn tell(&self, told: FeedMessage) {
        match self.told.try_send(told) {
            Ok(()) => (),
            Err(TrySendError::Full(told)) => {
                self.waker.wake();
                // A ledger that is gone is told by the next start, from the log.
                let _taken = self.told.send(told);
            }
            Err(TrySendError::Disconnected(_)) => (),
        }
    }
}
