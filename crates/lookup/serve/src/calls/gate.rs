//! The lane of one instance of a provider, with those who wait for a permit to call it.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

use lookup_core::schedule::{
    AttemptEnd, AttemptOutcome, AttemptPermit, CallClass, CallNumber, CallRefusal, LaneStatus,
    LookupUser, ProviderLane, ProviderLaneOptions, QueuedCall, StartedCall,
};
use tokio::sync::{Notify, oneshot};
use tokio::time::sleep_until;
use units::Tick;

use super::clock::LookupClock;

/// Who calls, and until when.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LaneCaller {
    pub class: CallClass,
    pub user: LookupUser,
    pub deadline: Tick,
}

type LaneTurn = Result<LanePermit, CallRefusal>;

pub(crate) struct LaneGate {
    lane: RefCell<ProviderLane>,
    waiting: RefCell<HashMap<CallNumber, oneshot::Sender<LaneTurn>>>,
    clock: LookupClock,
    numbers: Cell<u64>,
    /// When the lane's task wakes next.
    armed: Cell<Option<Tick>>,
    rearm: Notify,
}

impl LaneGate {
    /// Must run on the look-up thread.
    pub fn new(options: ProviderLaneOptions, clock: LookupClock) -> Rc<Self> {
        let gate = Rc::new(Self {
            lane: RefCell::new(ProviderLane::new(options)),
            waiting: RefCell::default(),
            clock,
            numbers: Cell::default(),
            armed: Cell::default(),
            rearm: Notify::new(),
        });
        tokio::task::spawn_local(Rc::clone(&gate).wake());
        gate
    }

    pub fn status(&self) -> LaneStatus {
        self.lane.borrow().status()
    }

    /// Waits for the right to make a call. Who no longer waits leaves the lane.
    pub async fn enter(self: &Rc<Self>, caller: LaneCaller) -> LaneTurn {
        let LaneCaller { class, user, deadline } = caller;
        let number = CallNumber(self.numbers.get());
        self.numbers.set(number.0 + 1);
        let call = QueuedCall { number, class, user, deadline, is_idempotent: true };
        self.lane.borrow_mut().submit(call, self.clock.now())?;
        self.turn(number).await
    }

    /// Waits for the turn of a call that the lane has.
    async fn turn(self: &Rc<Self>, number: CallNumber) -> LaneTurn {
        let (sender, receiver) = oneshot::channel();
        self.waiting.borrow_mut().insert(number, sender);
        let _place = WaitingPlace { gate: self, number };
        self.drive();
        receiver.await.expect("a call that waits has its turn")
    }

    /// Starts and refuses what can be.
    fn drive(self: &Rc<Self>) {
        loop {
            let next = self.lane.borrow_mut().next(self.clock.now());
            let (number, turn) = match next {
                None => break,
                Some(StartedCall::Start(permit)) => {
                    let number = permit.call().number;
                    (number, Ok(LanePermit { gate: Rc::clone(self), permit: Some(permit) }))
                }
                Some(StartedCall::Refuse(call, refusal)) => (call.number, Err(refusal)),
            };
            let waiting = self.waiting.borrow_mut().remove(&number);
            // A permit that is not taken is given back.
            drop(waiting.map(|waiting| waiting.send(turn)));
        }
        let wakes = self.lane.borrow().wakes(self.clock.now());
        if let Some(wakes) = wakes
            && self.armed.get().is_none_or(|armed| wakes < armed)
        {
            self.armed.set(Some(wakes));
            self.rearm.notify_one();
        }
    }

    /// Drives the lane whenever only time has passed.
    async fn wake(self: Rc<Self>) {
        loop {
            let Some(wakes) = self.armed.get() else {
                self.rearm.notified().await;
                continue;
            };
            tokio::select! {
                () = sleep_until(self.clock.instant(wakes)) => {
                    self.armed.set(None);
                    self.drive();
                }
                () = self.rearm.notified() => (),
            }
        }
    }
}

/// A call that waits.
struct WaitingPlace<'g> {
    gate: &'g Rc<LaneGate>,
    number: CallNumber,
}

impl Drop for WaitingPlace<'_> {
    fn drop(&mut self) {
        if self.gate.waiting.borrow_mut().remove(&self.number).is_some() {
            self.gate.lane.borrow_mut().cancel(self.number);
            self.gate.drive();
        }
    }
}

/// The right to make one attempt of a call. Dropped, the attempt counts as cancelled.
pub(crate) struct LanePermit {
    gate: Rc<LaneGate>,
    /// None once it is given back.
    permit: Option<AttemptPermit>,
}

impl LanePermit {
    /// Which attempt it is, from 1.
    pub fn attempt(&self) -> u32 {
        self.permit.as_ref().map_or(0, AttemptPermit::attempt)
    }

    /// Ends the attempt, and waits for another one if there is to be one.
    pub async fn end(mut self, outcome: AttemptOutcome) -> Option<LaneTurn> {
        let permit = self.permit.take().expect("it is given back once");
        let number = permit.call().number;
        let gate = Rc::clone(&self.gate);
        let end = gate.lane.borrow_mut().end(permit, outcome, gate.clock.now());
        match end {
            AttemptEnd::Over => {
                gate.drive();
                None
            }
            AttemptEnd::Again => Some(gate.turn(number).await),
        }
    }
}

impl Drop for LanePermit {
    fn drop(&mut self) {
        if let Some(permit) = self.permit.take() {
            let now = self.gate.clock.now();
            self.gate.lane.borrow_mut().end(permit, AttemptOutcome::Cancelled, now);
            self.gate.drive();
        }
    }
}
