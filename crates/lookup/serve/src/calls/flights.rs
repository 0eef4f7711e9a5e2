//! Calls under way. Who asks for what is being fetched waits for the same answer; a call nobody waits
//! for any more is cancelled.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::{Rc, Weak};
use std::sync::Arc;

use lookup_core::schedule::CallClass;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::answers::{CallKey, FailureKind, ProviderCallAnswer, ProviderCallFailure};

pub(crate) type FlightResult = Result<ProviderCallAnswer, ProviderCallFailure>;

/// How far a call is.
#[derive(Clone, Debug, Default)]
struct FlightState {
    /// Why the last attempt failed, if it is not the last of all.
    failure: Option<Arc<str>>,
    /// None while it is under way.
    result: Option<FlightResult>,
}

/// Says that an attempt failed.
pub(crate) struct FlightNews(watch::Sender<FlightState>);

impl FlightNews {
    pub fn failed(&self, reason: &Arc<str>) {
        self.0.send_modify(|state| state.failure = Some(Arc::clone(reason)));
    }
}

/// A more urgent call does not wait for a less urgent one.
type FlightKey = (CallKey, CallClass);

#[derive(Default)]
pub(crate) struct Flights {
    by_key: RefCell<HashMap<FlightKey, Weak<Flight>>>,
    numbers: Cell<u64>,
}

/// A call under way, as long as somebody waits for it.
pub(crate) struct Flight {
    flights: Rc<Flights>,
    key: FlightKey,
    number: u64,
    state: watch::Receiver<FlightState>,
    task: AbortHandle,
}

impl Flights {
    /// The call under way for a key; `begin` makes one.
    pub fn join<F>(
        self: &Rc<Self>,
        key: &FlightKey,
        begin: impl FnOnce(Rc<FlightNews>) -> F,
    ) -> Rc<Flight>
    where
        F: Future<Output = FlightResult> + 'static,
    {
        if let Some(flight) = self.by_key.borrow().get(key).and_then(Weak::upgrade) {
            return flight;
        }
        let number = self.numbers.get();
        self.numbers.set(number + 1);
        let (sender, state) = watch::channel(FlightState::default());
        let news = Rc::new(FlightNews(sender));
        let (flights, future, own_key) = (Rc::clone(self), begin(Rc::clone(&news)), key.clone());
        let task = tokio::task::spawn_local(async move {
            let result = future.await;
            // Who comes from now on begins another one.
            flights.forget(&own_key, number);
            news.0.send_modify(|state| state.result = Some(result));
        });
        let (flights, task) = (Rc::clone(self), task.abort_handle());
        let flight = Rc::new(Flight { flights, key: key.clone(), number, state, task });
        self.by_key.borrow_mut().insert(key.clone(), Rc::downgrade(&flight));
        flight
    }

    /// Whether a call is under way.
    pub fn has(&self, key: &FlightKey) -> bool {
        self.by_key.borrow().get(key).is_some_and(|flight| flight.strong_count() > 0)
    }

    fn forget(&self, key: &FlightKey, number: u64) {
        let mut by_key = self.by_key.borrow_mut();
        let is_other = |flight: Rc<Flight>| flight.number != number;
        if !by_key.get(key).and_then(Weak::upgrade).is_some_and(is_other) {
            by_key.remove(key);
        }
    }
}

impl Flight {
    /// Waits for its end. `failed` learns why attempts before the last one failed.
    pub async fn ended(&self, mut failed: impl FnMut(&Arc<str>)) -> FlightResult {
        let mut states = self.state.clone();
        loop {
            {
                let state = states.borrow_and_update();
                if let Some(result) = &state.result {
                    return result.clone();
                }
                if let Some(failure) = &state.failure {
                    failed(failure);
                }
            }
            if states.changed().await.is_err() {
                let reason = "the call broke off";
                return Err(ProviderCallFailure::new(FailureKind::Error, reason, 0));
            }
        }
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        self.task.abort();
        self.flights.forget(&self.key, self.number);
    }
}
