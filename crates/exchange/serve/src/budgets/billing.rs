//! Wins billed without a beacon: the dispatcher books them, with retries until a deadline.
//!
//! Must not know what a booking settles: the dispatcher tells the shard once the record is durable.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use exchange_core::delivery::{Beacon, BeaconRefusal, Notice};
use exchange_core::{Reservation, TokenId};
use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;
use tracing::error;

use crate::metrics::BudgetMetrics;
use crate::notices::{BeaconAnswer, NoticeCommand, NoticeSender};

/// Interval between checks and retries.
pub(crate) const RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// How long a bill is tried.
const BOOKING_TIMEOUT_MS: u64 = 60_000;

/// Most unbooked bills of a shard.
const BILLS_MAX: usize = 65_536;

#[derive(Debug)]
pub(crate) struct BillingQueue {
    dispatcher: NoticeSender,
    max: usize,
    waiting: RefCell<Vec<QueuedBill>>,
    /// Lost since the queue was last empty.
    lost: Cell<u64>,
}

/// A win billed without a beacon.
#[derive(Debug)]
pub(crate) struct DirectBill {
    pub id: TokenId,
    pub reservation: Option<Reservation>,
    pub notice: Option<Notice>,
}

#[derive(Debug)]
struct QueuedBill {
    billed: DirectBill,
    expires_ms: u64,
    /// The dispatcher's answer. None if its queue was full.
    answer: Option<oneshot::Receiver<BeaconAnswer>>,
}

enum BillProgress {
    Booked,
    /// No answer yet, or a refusal that may be retried.
    Waits,
    Lost,
}

impl BillingQueue {
    pub fn new(dispatcher: NoticeSender) -> Self {
        Self { dispatcher, max: BILLS_MAX, waiting: RefCell::default(), lost: Cell::new(0) }
    }

    /// Books a win once per `id`, without waiting.
    pub fn add(&self, billed: DirectBill, now_ms: u64, metrics: &BudgetMetrics) {
        if self.waiting.borrow().len() >= self.max {
            return self.count_lost(metrics);
        }
        let expires_ms = now_ms.saturating_add(BOOKING_TIMEOUT_MS);
        let mut bill = QueuedBill { billed, expires_ms, answer: None };
        bill.send(&self.dispatcher);
        self.waiting.borrow_mut().push(bill);
    }

    /// Checks all bills, and retries refused ones. Call every [`RETRY_INTERVAL`].
    pub fn turn(&self, now_ms: u64, metrics: &BudgetMetrics) {
        let mut waiting = self.waiting.borrow_mut();
        waiting.retain_mut(|bill| match bill.proceed(&self.dispatcher, now_ms) {
            BillProgress::Waits => true,
            BillProgress::Booked => false,
            BillProgress::Lost => {
                self.count_lost(metrics);
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

    /// Counts a bill that reaches no budget, and logs the first of a row.
    fn count_lost(&self, metrics: &BudgetMetrics) {
        metrics.unbooked.increment();
        if self.lost.replace(self.lost.get() + 1) == 0 {
            error!("sales cannot be booked: their impressions are in no budget");
        }
    }
}

impl QueuedBill {
    fn send(&mut self, dispatcher: &NoticeSender) {
        let (answer, acknowledged) = oneshot::channel();
        let DirectBill { id, reservation, ref notice } = self.billed;
        let expires_ms = self.expires_ms;
        let call = 0; // The dispatcher numbers calls.
        let beacon = Beacon { call, id, expires_ms, notice: notice.clone(), reservation };
        let is_taken = dispatcher.send(NoticeCommand::Beacon(Box::new(beacon), answer));
        self.answer = is_taken.then_some(acknowledged);
    }

    fn proceed(&mut self, dispatcher: &NoticeSender, now_ms: u64) -> BillProgress {
        match self.answer.as_mut().map(oneshot::Receiver::try_recv) {
            // Durable, by this call or an earlier one.
            Some(Ok(Ok(_))) => return BillProgress::Booked,
            Some(Ok(Err(BeaconRefusal::Expired)) | Err(TryRecvError::Closed)) => {
                return BillProgress::Lost;
            }
            _ if self.expires_ms <= now_ms => return BillProgress::Lost,
            Some(Err(TryRecvError::Empty)) => (),
            Some(Ok(Err(BeaconRefusal::Busy | BeaconRefusal::Journal))) | None => {
                self.send(dispatcher);
            }
        }
        BillProgress::Waits
    }
}

#[cfg(test)]
mod tests;
