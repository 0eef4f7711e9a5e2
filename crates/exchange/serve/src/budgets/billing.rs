//! What is sold and billed without a beacon: booked by the dispatcher as if one had been called, and tried
//! again until that is done or has taken too long.
//!
//! It must not know what a booking settles: the dispatcher tells the shard, once the record is durable.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use exchange_core::delivery::{Beacon, BeaconRefusal, Notice};
use exchange_core::{Reservation, TokenId};
use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;
use tracing::error;

use crate::metrics::BudgetMetrics;
use crate::notices::{BeaconAnswer, NoticeCommand, NoticeSender};

/// How often it is seen what has become of them, and tried once more.
pub(crate) const BOOKED_AGAIN: Duration = Duration::from_millis(100);

/// How long one is tried.
const BOOKED_WITHIN_MS: u64 = 60_000;

/// Most that wait at a shard.
const BILLS_MAX: usize = 65_536;

/// The bills of one shard that are not booked.
#[derive(Debug)]
pub(crate) struct BillingQueue {
    dispatcher: NoticeSender,
    max: usize,
    waiting: RefCell<Vec<QueuedBill>>,
    /// Given up since the last time that none was waiting.
    lost: Cell<u64>,
}

/// A sale that is billed without a beacon.
#[derive(Debug)]
pub(crate) struct DirectBill {
    pub id: TokenId,
    /// What it settles.
    pub reservation: Option<Reservation>,
    /// What tells its DSP.
    pub notice: Option<Notice>,
}

/// A sale that is to be booked.
#[derive(Debug)]
struct QueuedBill {
    billed: DirectBill,
    expires_ms: u64,
    /// What the dispatcher says, where it took the order.
    answer: Option<oneshot::Receiver<BeaconAnswer>>,
}

/// How far one has come.
enum BillProgress {
    Booked,
    /// The dispatcher has not said, or it may be tried again.
    Waits,
    Lost,
}

impl BillingQueue {
    pub fn new(dispatcher: NoticeSender) -> Self {
        Self { dispatcher, max: BILLS_MAX, waiting: RefCell::default(), lost: Cell::new(0) }
    }

    /// Books a sale, once for each `id`. Nobody waits for it.
    pub fn add(&self, billed: DirectBill, now_ms: u64, metrics: &BudgetMetrics) {
        if self.waiting.borrow().len() >= self.max {
            return self.lose(metrics);
        }
        let expires_ms = now_ms.saturating_add(BOOKED_WITHIN_MS);
        let mut bill = QueuedBill { billed, expires_ms, answer: None };
        bill.order(&self.dispatcher);
        self.waiting.borrow_mut().push(bill);
    }

    /// Sees what has become of them, and tries again what was refused. To be called every
    /// [`BOOKED_AGAIN`].
    pub fn turn(&self, now_ms: u64, metrics: &BudgetMetrics) {
        let mut waiting = self.waiting.borrow_mut();
        waiting.retain_mut(|bill| match bill.proceed(&self.dispatcher, now_ms) {
            BillProgress::Waits => true,
            BillProgress::Booked => false,
            BillProgress::Lost => {
                self.lose(metrics);
                false
            }
        });
        if waiting.is_empty() {
            let lost = self.lost.take();
            if lost > 0 {
                error!(lost, "sales were not booked: their impressions are in no budget");
            }
        }
    }

    /// One is in no budget. Told when it begins, and when it has ended how many there were.
    fn lose(&self, metrics: &BudgetMetrics) {
        metrics.unbooked.increment();
        if self.lost.replace(self.lost.get() + 1) == 0 {
            error!("sales cannot be booked: their impressions are in no budget");
        }
    }
}

impl QueuedBill {
    fn order(&mut self, dispatcher: &NoticeSender) {
        let (answer, acknowledged) = oneshot::channel();
        let DirectBill { id, reservation, ref notice } = self.billed;
        let expires_ms = self.expires_ms;
        let call = 0; // The dispatcher numbers calls.
        let beacon = Beacon { call, id, expires_ms, notice: notice.clone(), reservation };
        let is_taken = dispatcher.order(NoticeCommand::Beacon(Box::new(beacon), answer));
        self.answer = is_taken.then_some(acknowledged);
    }

    fn proceed(&mut self, dispatcher: &NoticeSender, now_ms: u64) -> BillProgress {
        match self.answer.as_mut().map(oneshot::Receiver::try_recv) {
            // Its record is durable, by this call or by one before.
            Some(Ok(Ok(_))) => return BillProgress::Booked,
            Some(Ok(Err(BeaconRefusal::Expired)) | Err(TryRecvError::Closed)) => {
                return BillProgress::Lost;
            }
            _ if self.expires_ms <= now_ms => return BillProgress::Lost,
            Some(Err(TryRecvError::Empty)) => (),
            Some(Ok(Err(BeaconRefusal::Busy | BeaconRefusal::Journal))) | None => {
                self.order(dispatcher);
            }
        }
        BillProgress::Waits
    }
}

#[cfg(test)]
mod tests;
