//! Where the answers to one auction arrive.
//!
//! Shared by the auction, which waits, and its connections, which deliver. Once closed it takes
//! nothing more, so a late answer cannot change what was decided.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use exchange_core::record::CallOutcome;
use tokio::time::Instant;

use super::connection::DspConnection;
use crate::exchange::guards::CallInFlight;

/// What the auction's own task has to do.
#[derive(Debug)]
pub(super) enum Todo {
    /// A connection is ready for this call.
    Send { slot: usize, connection: Rc<DspConnection> },
    /// The DSP had closed the idle connection: call again on a new one.
    Retry { slot: usize },
}

#[derive(Debug)]
struct CallSlot {
    outcome: Option<CallOutcome>,
    latency: Option<Duration>,
    body: Range<usize>,
    wait_until: Instant,
    /// When it went out, if it did.
    sent_at: Option<Instant>,
    /// What its DSP was told then.
    tmax_ms: Option<u32>,
    retried: bool,
    /// The right to the call, until it is on a connection.
    in_flight: Option<CallInFlight>,
}

impl CallSlot {
    fn times(&self) -> CallTimestamps {
        let Self { wait_until, sent_at, tmax_ms, latency, .. } = *self;
        CallTimestamps { wait_until, sent_at, tmax_ms, latency }
    }

    /// What it comes to when its time is up.
    fn overdue(&self) -> CallOutcome {
        if self.sent_at.is_some() { CallOutcome::Late } else { CallOutcome::Unsent }
    }
}

/// The answers to one auction.
#[derive(Debug)]
pub(super) struct Inbox(RefCell<InboxState>);

#[derive(Debug)]
struct InboxState {
    open: bool,
    waiting: usize,
    slots: Vec<CallSlot>,
    bodies: Vec<u8>,
    todo: Vec<Todo>,
    waker: Option<Waker>,
}

#[derive(Clone, Copy, Debug)]
struct CallTimestamps {
    wait_until: Instant,
    sent_at: Option<Instant>,
    tmax_ms: Option<u32>,
    latency: Option<Duration>,
}

/// What became of every call, and the bodies that came in time.
#[derive(Debug, Default)]
pub struct Outcomes {
    /// By call.
    pub calls: Vec<CallOutcome>,
    /// By call.
    times: Vec<CallTimestamps>,
    ranges: Vec<Range<usize>>,
    bodies: Vec<u8>,
}

impl Outcomes {
    /// The body of a call that was [`CallOutcome::Answered`].
    pub fn body(&self, call: usize) -> &[u8] {
        &self.bodies[self.ranges[call].clone()]
    }

    /// The `tmax` that a call told its DSP, in milliseconds; `None` when it never went out.
    pub fn tmax_ms(&self, call: usize) -> Option<u32> {
        self.times[call].tmax_ms
    }

    /// When a call went out; `None` when it never did.
    pub fn sent_at(&self, call: usize) -> Option<Instant> {
        self.times[call].sent_at
    }

    /// How long the answer to a call was, or would have been, waited for once it was sent.
    pub fn given(&self, call: usize) -> Option<Duration> {
        let CallTimestamps { sent_at, wait_until, .. } = self.times[call];
        sent_at.map(|sent_at| wait_until.saturating_duration_since(sent_at))
    }

    /// From sending to answer, of a call that was answered in time.
    pub fn latency(&self, call: usize) -> Option<Duration> {
        self.times[call].latency
    }

    /// When the answer came, of such a call.
    pub fn answered_at(&self, call: usize) -> Option<Instant> {
        let CallTimestamps { sent_at, latency, .. } = self.times[call];
        Some(sent_at? + latency?)
    }

    /// The room that the bodies took, empty, for another auction.
    pub fn into_room(mut self) -> Vec<u8> {
        self.bodies.clear();
        self.bodies
    }
}

impl Inbox {
    /// One slot per call, each with the time until which it is waited for and the right to it.
    /// Bodies go to `room`, which is empty.
    pub(super) fn new(
        calls: impl ExactSizeIterator<Item = (Instant, Option<CallInFlight>)>,
        room: Vec<u8>,
    ) -> Self {
        let waiting = calls.len();
        let slot = |(wait_until, in_flight)| CallSlot {
            outcome: None,
            latency: None,
            body: 0..0,
            wait_until,
            sent_at: None,
            tmax_ms: None,
            retried: false,
            in_flight,
        };
        Self(RefCell::new(InboxState {
            open: true,
            waiting,
            slots: calls.map(slot).collect(),
            bodies: room,
            todo: Vec::new(),
            waker: None,
        }))
    }

    /// The right to the call, for the connection that makes it.
    pub(super) fn take_right(&self, slot: usize) -> Option<CallInFlight> {
        self.0.borrow_mut().slots.get_mut(slot)?.in_flight.take()
    }

    /// The call is on its way, and tells its DSP this `tmax`.
    pub(super) fn sent(&self, slot: usize, now: Instant, tmax_ms: u32) {
        if let Some(slot) = self.0.borrow_mut().slots.get_mut(slot) {
            slot.sent_at = Some(now);
            slot.tmax_ms = Some(tmax_ms);
        }
    }

    /// The connection did not make the call after all.
    pub(super) fn return_right(&self, slot: usize, right: Option<CallInFlight>) {
        if let Some(slot) = self.0.borrow_mut().slots.get_mut(slot) {
            slot.in_flight = right;
        }
    }

    /// Whether the call is still waited for.
    pub(super) fn is_waiting(&self, slot: usize) -> bool {
        let inner = self.0.borrow();
        inner.open && inner.slots[slot].outcome.is_none()
    }

    /// Takes an answer; `false` when it is late.
    ///
    /// Late is what the auction has given up, not what is read after its time: on a busy shard,
    /// bytes that came before the close are read after it, and before the auction's task runs.
    pub(super) fn deliver(&self, slot: usize, outcome: CallOutcome, body: &[u8]) -> bool {
        let inner = &mut *self.0.borrow_mut();
        if !inner.open || inner.slots[slot].outcome.is_some() {
            return false;
        }
        let start = inner.bodies.len();
        inner.bodies.extend_from_slice(body);
        let slot = &mut inner.slots[slot];
        slot.body = start..inner.bodies.len();
        slot.outcome = Some(outcome);
        inner.settled();
        true
    }

    /// Says what the answer took that is about to be delivered.
    pub(super) fn timed(&self, slot: usize, latency: Duration) {
        let inner = &mut *self.0.borrow_mut();
        if let Some(slot) = inner.slots.get_mut(slot).filter(|slot| slot.outcome.is_none()) {
            slot.latency = Some(latency);
        }
    }

    /// Asks the auction's task to call once more by the same right, which stays where it is when it
    /// may not: `false`.
    pub(super) fn retry(&self, slot: usize, right: &mut Option<CallInFlight>) -> bool {
        let inner = &mut *self.0.borrow_mut();
        if !inner.open || inner.slots[slot].outcome.is_some() || inner.slots[slot].retried {
            return false;
        }
        inner.slots[slot].retried = true;
        inner.slots[slot].in_flight = right.take();
        inner.todo.push(Todo::Retry { slot });
        inner.wake();
        true
    }

    /// Offers a connection to a call that waits for one; gives it back when nobody does.
    pub(super) fn offer(
        &self,
        slot: usize,
        connection: Rc<DspConnection>,
    ) -> Result<(), Rc<DspConnection>> {
        if !self.is_waiting(slot) {
            return Err(connection);
        }
        let mut inner = self.0.borrow_mut();
        inner.todo.push(Todo::Send { slot, connection });
        inner.wake();
        Ok(())
    }

    /// The next thing to do.
    pub(super) fn next_todo(&self) -> Option<Todo> {
        self.0.borrow_mut().todo.pop()
    }

    /// Ready when there is something to do, or nothing to wait for.
    pub(super) fn poll(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut inner = self.0.borrow_mut();
        if inner.waiting == 0 || !inner.todo.is_empty() {
            return Poll::Ready(());
        }
        match &mut inner.waker {
            Some(waker) => waker.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
        }
        Poll::Pending
    }

    /// Whether every call has an outcome.
    pub(super) fn is_complete(&self) -> bool {
        self.0.borrow().waiting == 0
    }

    /// Gives up calls whose time is up; returns when the next one's will be.
    pub(super) fn expire(&self, now: Instant) -> Option<Instant> {
        let inner = &mut *self.0.borrow_mut();
        let mut next = None;
        for slot in inner.slots.iter_mut().filter(|slot| slot.outcome.is_none()) {
            if slot.wait_until <= now {
                slot.outcome = Some(slot.overdue());
                inner.waiting -= 1;
            } else {
                next =
                    Some(next.map_or(slot.wait_until, |next: Instant| next.min(slot.wait_until)));
            }
        }
        next
    }

    /// Closes for good and hands over what came; what was waited for is late.
    pub(super) fn close(&self) -> Outcomes {
        let mut inner = self.0.borrow_mut();
        inner.open = false;
        inner.waker = None;
        // Rights that no connection took end here. A connection that was offered and not used goes back to its pool.
        let todo = std::mem::take(&mut inner.todo);
        let slots = std::mem::take(&mut inner.slots);
        let bodies = std::mem::take(&mut inner.bodies);
        drop(inner);
        for todo in todo {
            if let Todo::Send { connection, .. } = todo {
                connection.release(Instant::now());
            }
        }
        Outcomes {
            calls: slots.iter().map(|slot| slot.outcome.unwrap_or(slot.overdue())).collect(),
            times: slots.iter().map(CallSlot::times).collect(),
            ranges: slots.into_iter().map(|slot| slot.body).collect(),
            bodies,
        }
    }
}

impl InboxState {
    fn settled(&mut self) {
        self.waiting -= 1;
        if self.waiting == 0 {
            self.wake();
        }
    }

    fn wake(&mut self) {
        if let Some(waker) = &self.waker {
            waker.wake_by_ref();
        }
    }
}
