//! The floor's way out: the log, the ledger, the exchange, and those who asked.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::SyncSender;

use eventlog::lane::{DurableRing, LaneState};
use events::RecordKind;
use live_core::floor::{FloorAnswer, FloorOutlet, FloorRefusal, LotRecord};
use live_core::ports::{HoldMessage, HoldPort, SoldLot, SoldLotPort, SoldLotReply};
use runtime::process::unix_ms;
use tokio::sync::mpsc::UnboundedSender;
use tracing::error;

use super::counts::LotCounts;
use super::record;
use crate::feed::ReaderId;

/// An answer, or why there is none.
pub(crate) type FloorOutcome = Result<FloorAnswer, FloorRefusal>;

/// Where an answer goes.
#[derive(Debug)]
pub(crate) enum AnswerAddress {
    /// To a client.
    Client {
        /// Index of its shard.
        shard: usize,
        reader: ReaderId,
        /// The number of its command.
        id: Option<u64>,
    },
    /// To a caller that waits.
    Caller(SyncSender<FloorOutcome>),
}

/// An answer on its way to a client.
#[derive(Debug)]
pub(crate) struct ClientAnswer {
    pub reader: ReaderId,
    /// The number of its command.
    pub id: Option<u64>,
    pub outcome: FloorOutcome,
}

/// What the floor's thread may do to the world.
pub(super) struct ThreadOutlet {
    pub ring: DurableRing,
    pub holds: Box<dyn HoldPort>,
    /// None: no exchange runs here.
    pub sold: Option<Box<dyn SoldLotPort>>,
    /// Replies that need no exchange.
    pub unsold: Vec<SoldLotReply>,
    /// By shard.
    pub clients: Vec<UnboundedSender<ClientAnswer>>,
    pub counts: Arc<LotCounts>,
    pub buffer: Vec<u8>,
}

impl FloorOutlet<AnswerAddress> for ThreadOutlet {
    fn paused(&self) -> Option<String> {
        match self.ring.state() {
            LaneState::Writing => None,
            LaneState::Full => Some("the log does not keep up".to_owned()),
            LaneState::Failing { cause, .. } => {
                Some(format!("the log cannot be written: {}", cause.text()))
            }
            LaneState::Closed => Some("the log is closed".to_owned()),
        }
    }

    fn log(&mut self, record: &LotRecord) -> bool {
        self.buffer.clear();
        record::encode(record, &mut self.buffer);
        let pushed = self.ring.push(RecordKind::Lot.code(), unix_ms(), &self.buffer);
        if pushed.is_ok() {
            self.counts.records.fetch_add(1, Ordering::Relaxed);
        }
        pushed.is_ok()
    }

    fn hold(&mut self, message: HoldMessage) -> Result<(), HoldMessage> {
        self.holds.send(message)
    }

    fn offer(&mut self, sold: SoldLot) {
        match &mut self.sold {
            Some(port) => port.offer(sold),
            None => {
                let reason = "no exchange runs here: its deal is not offered".to_owned();
                self.unsold.push(SoldLotReply { lot: sold.lot, offered: Err(reason) });
            }
        }
    }

    fn answer(&mut self, to: AnswerAddress, outcome: FloorOutcome) {
        self.counts.count(&outcome);
        match to {
            // Who has left does not hear it.
            AnswerAddress::Caller(caller) => drop(caller.try_send(outcome)),
            AnswerAddress::Client { shard, reader, id } => match self.clients.get(shard) {
                Some(client) => drop(client.send(ClientAnswer { reader, id, outcome })),
                None => error!(shard, "there is no such shard"),
            },
        }
    }
}
