//! Collects the answers to one auction.
//!
//! The auction waits and its connections deliver. Once closed it takes nothing more, so a late
//! answer cannot change a decision.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use exchange_core::record::CallOutcome;
use tokio::time::Instant;

use crate::guards::OwnedCallPermit;

/// Work for the auction's task; `C` is a connection.
#[derive(Debug)]
pub(super) enum CallTask<C> {
    /// A connection is ready for this call.
    Send { slot: usize, connection: Rc<C> },
    /// The DSP had closed the idle connection; repeat on a new one.
    Retry { slot: usize },
}

#[derive(Debug)]
struct CallSlot {
    outcome: Option<CallOutcome>,
    progress: CallProgress,
    retried: bool,
    /// The call's permit, until a connection takes it.
    permit: Option<OwnedCallPermit>,
}

#[derive(Debug)]
pub struct CallProgress {
    wait_until: Instant,
    /// None if not sent.
    pub sent_at: Option<Instant>,
    /// The `tmax` sent to the DSP.
    pub tmax_ms: Option<u32>,
    /// From sending to the answer, if in time.
    pub latency: Option<Duration>,
    /// Where the bodies have the answer's.
    body: Range<usize>,
}

impl CallProgress {
    /// The outcome if time is up now.
    fn overdue(&self) -> CallOutcome {
        if self.sent_at.is_some() { CallOutcome::Late } else { CallOutcome::Unsent }
    }
}

/// Answers to one auction, and connections `C` that its calls may use.
#[derive(Debug)]
pub(super) struct Inbox<C>(RefCell<InboxState<C>>);

#[derive(Debug)]
struct InboxState<C> {
    open: bool,
    waiting: usize,
    slots: Vec<CallSlot>,
    bodies: Vec<u8>,
    tasks: Vec<CallTask<C>>,
    waker: Option<Waker>,
}

/// Outcomes of all calls, and bodies that arrived in time.
#[derive(Debug, Default)]
pub struct Outcomes {
    pub calls: Vec<CallOutcome>,
    /// One per call.
    pub progress: Vec<CallProgress>,
    bodies: Vec<u8>,
}

impl Outcomes {
    /// Body of a call that is [`CallOutcome::Answered`].
    pub fn body(&self, call: usize) -> &[u8] {
        &self.bodies[self.progress[call].body.clone()]
    }

    /// How long the DSP had to answer. None if the call was never sent.
    pub fn time_given(&self, call: usize) -> Option<Duration> {
        let CallProgress { wait_until, sent_at, .. } = &self.progress[call];
        sent_at.map(|sent_at| wait_until.saturating_duration_since(sent_at))
    }

    /// When the answer arrived, if in time.
    pub fn answered_at(&self, call: usize) -> Option<Instant> {
        Some(self.progress[call].sent_at? + self.progress[call].latency?)
    }

    /// The bodies' buffer, emptied for reuse.
    pub fn into_buffer(mut self) -> Vec<u8> {
        self.bodies.clear();
        self.bodies
    }
}

impl<C> Inbox<C> {
    /// One slot per call, with its deadline and permit. `buffer` is the empty buffer for bodies.
    pub(super) fn new(
        calls: impl ExactSizeIterator<Item = (Instant, Option<OwnedCallPermit>)>,
        buffer: Vec<u8>,
    ) -> Self {
        let waiting = calls.len();
        let slot = |(wait_until, permit)| {
            let (sent_at, tmax_ms, latency, body) = (None, None, None, 0..0);
            let progress = CallProgress { wait_until, sent_at, tmax_ms, latency, body };
            CallSlot { outcome: None, progress, retried: false, permit }
        };
        Self(RefCell::new(InboxState {
            open: true,
            waiting,
            slots: calls.map(slot).collect(),
            bodies: buffer,
            tasks: Vec::new(),
            waker: None,
        }))
    }

    pub(super) fn take_permit(&self, slot: usize) -> Option<OwnedCallPermit> {
        self.0.borrow_mut().slots.get_mut(slot)?.permit.take()
    }

    pub(super) fn mark_sent(&self, slot: usize, now: Instant, tmax_ms: u32) {
        if let Some(slot) = self.0.borrow_mut().slots.get_mut(slot) {
            slot.progress.sent_at = Some(now);
            slot.progress.tmax_ms = Some(tmax_ms);
        }
    }

    /// Returns the permit of a call that the connection did not send.
    pub(super) fn return_permit(&self, slot: usize, permit: Option<OwnedCallPermit>) {
        if let Some(slot) = self.0.borrow_mut().slots.get_mut(slot) {
            slot.permit = permit;
        }
    }

    pub(super) fn is_waiting(&self, slot: usize) -> bool {
        let inner = self.0.borrow();
        inner.open && inner.slots[slot].outcome.is_none()
    }

    /// Takes an answer; returns false if the auction gave up the call. On a busy shard, bytes that
    /// arrived in time are read after the deadline, but before the auction's task runs.
    pub(super) fn deliver(&self, slot: usize, outcome: CallOutcome, body: &[u8]) -> bool {
        let inner = &mut *self.0.borrow_mut();
        if !inner.open || inner.slots[slot].outcome.is_some() {
            return false;
        }
        let start = inner.bodies.len();
        inner.bodies.extend_from_slice(body);
        let slot = &mut inner.slots[slot];
        slot.progress.body = start..inner.bodies.len();
        slot.outcome = Some(outcome);
        inner.waiting -= 1;
        if inner.waiting == 0 {
            inner.wake();
        }
        true
    }

    pub(super) fn set_latency(&self, slot: usize, latency: Duration) {
        let inner = &mut *self.0.borrow_mut();
        if let Some(slot) = inner.slots.get_mut(slot).filter(|slot| slot.outcome.is_none()) {
            slot.progress.latency = Some(latency);
        }
    }

    /// Asks the auction's task to repeat the call. Returns false, and leaves the permit, if it may
    /// not.
    pub(super) fn retry(&self, slot: usize, permit: &mut Option<OwnedCallPermit>) -> bool {
        let inner = &mut *self.0.borrow_mut();
        let state = inner.slots.get_mut(slot).filter(|state| inner.open && state.outcome.is_none());
        let Some(state) = state.filter(|state| !state.retried) else { return false };
        state.retried = true;
        state.permit = permit.take();
        inner.tasks.push(CallTask::Retry { slot });
        inner.wake();
        true
    }

    /// Offers a connection to a waiting call. Gives it back if the call no longer waits.
    pub(super) fn offer(&self, slot: usize, connection: Rc<C>) -> Result<(), Rc<C>> {
        if !self.is_waiting(slot) {
            return Err(connection);
        }
        let mut inner = self.0.borrow_mut();
        inner.tasks.push(CallTask::Send { slot, connection });
        inner.wake();
        Ok(())
    }

    pub(super) fn next_task(&self) -> Option<CallTask<C>> {
        self.0.borrow_mut().tasks.pop()
    }

    /// Ready if there is work, or nothing to wait for.
    pub(super) fn poll(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut inner = self.0.borrow_mut();
        if inner.waiting == 0 || !inner.tasks.is_empty() {
            return Poll::Ready(());
        }
        match &mut inner.waker {
            Some(waker) => waker.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
        }
        Poll::Pending
    }

    pub(super) fn is_complete(&self) -> bool {
        self.0.borrow().waiting == 0
    }

    /// Ends calls whose time is up; returns the next deadline.
    pub(super) fn expire(&self, now: Instant) -> Option<Instant> {
        let inner = &mut *self.0.borrow_mut();
        let mut next = None;
        for slot in inner.slots.iter_mut().filter(|slot| slot.outcome.is_none()) {
            let wait_until = slot.progress.wait_until;
            if wait_until <= now {
                slot.outcome = Some(slot.progress.overdue());
                inner.waiting -= 1;
            } else {
                next = Some(next.map_or(wait_until, |next: Instant| next.min(wait_until)));
            }
        }
        next
    }

    /// Closes for good and returns the outcomes; missing answers are late. Connections that were
    /// offered remain in [`next_task`](Self::next_task).
    pub(super) fn close(&self) -> Outcomes {
        let mut inner = self.0.borrow_mut();
        inner.open = false;
        inner.waker = None;
        // Drop unused permits outside the borrow: they release themselves.
        let slots = std::mem::take(&mut inner.slots);
        let bodies = std::mem::take(&mut inner.bodies);
        drop(inner);
        let ended = slots.into_iter().map(|CallSlot { outcome, progress, .. }| {
            (outcome.unwrap_or_else(|| progress.overdue()), progress)
        });
        let (calls, progress) = ended.unzip();
        Outcomes { calls, progress, bodies }
    }
}

impl<C> InboxState<C> {
    fn wake(&mut self) {
        if let Some(waker) = &self.waker {
            waker.wake_by_ref();
        }
    }
}
