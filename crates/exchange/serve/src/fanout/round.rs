//! One round: asks all DSPs at once, and collects their answers.

mod body;
pub mod request;

use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

use exchange_core::record::CallOutcome;
use openrtb::Outbound;
use tokio::time::{Instant, sleep_until};

use self::body::Bodies;
use self::request::DspRequest;
use super::connection::outbound::SendError;
use super::connection::{ConnectionCall, DspConnection};
use super::inbox::{CallTask, Inbox, Outcomes};

/// Asks all DSPs at once. Dropping the round abandons the auction: its answers are drained.
pub fn ask_all<'r>(
    outbound: &'r Outbound<'r>,
    requests: &'r [DspRequest<'r>],
    buffer: Vec<u8>,
) -> FanoutRound<'r> {
    let calls = requests.iter().map(|request| (request.wait_until, request.permit.take()));
    let inbox = Rc::new(Inbox::new(calls, buffer));
    let bodies = Bodies::new(outbound, requests);
    let now = Instant::now();
    let round = FanoutRound { bodies, requests, began: now, inbox };
    for slot in 0..requests.len() {
        round.ask(slot, now);
    }
    round
}

#[must_use = "answers are collected, or given up"]
pub struct FanoutRound<'r> {
    bodies: Bodies<'r>,
    requests: &'r [DspRequest<'r>],
    /// Start of the DSPs' `tmax`.
    began: Instant,
    inbox: Rc<Inbox<DspConnection>>,
}

/// Keeps connections from delivering to an abandoned auction, and returns unused ones to their
/// pools.
impl Drop for FanoutRound<'_> {
    fn drop(&mut self) {
        drop(self.inbox.close());
        while let Some(task) = self.inbox.next_task() {
            if let CallTask::Send { slot, connection } = task {
                self.requests[slot].pool.release(connection, Instant::now());
            }
        }
    }
}

/// Why a call was not sent on a connection.
enum SendFailure {
    /// The connection is closed.
    Dead,
    /// It has no room now.
    Full,
}

impl FanoutRound<'_> {
    /// Sends on a connection that is available, or seeks one.
    fn ask(&self, slot: usize, now: Instant) {
        let tmax_ms = self.tmax_ms(slot, now);
        if tmax_ms == 0 {
            self.inbox.deliver(slot, CallOutcome::Unsent, &[]);
            return;
        }
        let pool = self.requests[slot].pool;
        while let Some(connection) = pool.available(&self.bodies.message(slot, tmax_ms)) {
            match self.send(slot, &connection, now) {
                Ok(()) => return,
                Err(SendFailure::Dead) => (), // The pool has it no more.
                Err(SendFailure::Full) => break,
            }
        }
        self.seek(slot, now);
    }

    fn seek(&self, slot: usize, now: Instant) {
        let (inbox, pool) = (&self.inbox, self.requests[slot].pool);
        let message = self.bodies.message(slot, self.tmax_ms(slot, now));
        if let Err(outcome) = pool.seek(now, inbox, slot, &message) {
            inbox.deliver(slot, outcome, &[]);
        }
    }

    fn send(
        &self,
        slot: usize,
        connection: &Rc<DspConnection>,
        now: Instant,
    ) -> Result<(), SendFailure> {
        let (request, inbox) = (&self.requests[slot], &self.inbox);
        let call = ConnectionCall {
            inbox: Rc::clone(inbox),
            slot,
            sent_at: now,
            drain_until: request.wait_until + request.pool.limits().drain_timeout,
            permit: inbox.take_permit(slot),
        };
        let tmax_ms = self.tmax_ms(slot, now);
        let (call, failure) =
            match request.pool.send(connection, call, &self.bodies.message(slot, tmax_ms)) {
                Ok(()) => {
                    inbox.mark_sent(slot, now, tmax_ms);
                    return Ok(());
                }
                Err(SendError::Dead(call)) => (call, SendFailure::Dead),
                Err(SendError::Full(call)) => (call, SendFailure::Full),
            };
        inbox.return_permit(slot, call.permit);
        Err(failure)
    }

    /// The `tmax` of a call sent now.
    fn tmax_ms(&self, slot: usize, now: Instant) -> u32 {
        let waited = u32::try_from((now - self.began).as_millis()).unwrap_or(u32::MAX);
        self.requests[slot].tmax_ms.saturating_sub(waited)
    }

    /// Waits until all have answered or timed out. Outcomes are in the requests' order.
    pub async fn collect(self) -> Outcomes {
        let inbox = &self.inbox;
        loop {
            let now = Instant::now();
            // Expire first, so that nothing is sent for a call whose time is up.
            let next = inbox.expire(now);
            while let Some(task) = inbox.next_task() {
                self.act(task, now);
            }
            let Some(next) = next.filter(|_| !inbox.is_complete()) else { break };
            let mut timer = pin!(sleep_until(next));
            std::future::poll_fn(|cx| match inbox.poll(cx) {
                Poll::Ready(()) => Poll::Ready(()),
                Poll::Pending => timer.as_mut().poll(cx),
            })
            .await;
        }
        inbox.close()
    }

    fn act(&self, task: CallTask<DspConnection>, now: Instant) {
        match task {
            CallTask::Send { slot, connection } => {
                let is_waiting = self.inbox.is_waiting(slot);
                if !is_waiting || self.tmax_ms(slot, now) == 0 {
                    self.inbox.deliver(slot, CallOutcome::Unsent, &[]);
                    self.requests[slot].pool.release(connection, now);
                    return;
                }
                match self.send(slot, &connection, now) {
                    Ok(()) => (),
                    Err(SendFailure::Full) => self.seek(slot, now),
                    Err(SendFailure::Dead) if connection.is_reused() => {
                        self.seek(slot, now); // It may have been closed while idle.
                    }
                    // A new connection that fails: the DSP refuses us.
                    Err(SendFailure::Dead) => {
                        self.inbox.deliver(slot, CallOutcome::Reset, &[]);
                    }
                }
            }
            CallTask::Retry { slot } if !self.inbox.is_waiting(slot) => (),
            CallTask::Retry { slot } if self.requests[slot].pool.is_multiplexed() => {
                self.ask(slot, now);
            }
            // Other idle connections may be closed too.
            CallTask::Retry { slot } => self.seek(slot, now),
        }
    }
}
