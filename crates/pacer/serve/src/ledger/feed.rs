//! Sends settlements of the durable log to the ledger, in the log's order, none lost; and reports
//! how far they are durable in its books.

use std::sync::mpsc::{SyncSender, TrySendError};

use pacer_core::ledger::SettlementRecord;
use pacer_core::shard::token::ReservationToken;
use pacer_core::store::LeaseKey;
use units::{Currency, Nanos};

use super::status::{LedgerWaker, SharedStatus};

/// Most messages between the log and the ledger's thread; the log waits when it is full.
pub(crate) const MESSAGES_MAX: usize = 16_384;

#[derive(Clone, Copy, Debug)]
pub(crate) enum FeedMessage {
    Settled(SettlementRecord),
    Reached(u64),
    Replayed,
}

/// The log's end, usable from any thread. One thread sends records, in ascending order.
#[derive(Clone, Debug)]
pub struct SettlementFeed {
    pub(crate) sender: SyncSender<FeedMessage>,
    pub(crate) status: SharedStatus,
    pub(crate) waker: LedgerWaker,
}

impl SettlementFeed {
    /// A durable record settles a reservation: the first of its token. Repeated records, such as
    /// those up to [`SettlementFeed::applied_seq`], change nothing.
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

    /// The log is durable up to this record, and its settlements up to there were sent.
    pub fn reached(&self, sequence: u64) {
        self.tell(FeedMessage::Reached(sequence));
    }

    /// Everything in the log at the start of the process was sent.
    pub fn replayed(&self) {
        self.tell(FeedMessage::Replayed);
    }

    /// Position up to which the log's settlements are durable in the ledger's books. The log keeps
    /// later records, and sends them again after a start.
    pub fn applied_seq(&self) -> u64 {
        self.status.applied_seq()
    }

    fn tell(&self, told: FeedMessage) {
        match self.sender.try_send(told) {
            Ok(()) => (),
            Err(TrySendError::Full(told)) => {
                self.waker.wake();
                // If the ledger is gone, the log sends it again at the next start.
                let _taken = self.sender.send(told);
            }
            Err(TrySendError::Disconnected(_)) => (),
        }
    }
}
