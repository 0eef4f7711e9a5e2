//! Decides which requests a shard takes on, and when.
//!
//! A request that arrives is judged at once and begun in its turn: between two looks at its sockets a
//! shard begins a few requests only, so that answers to those under way come first and newcomers are
//! judged within a millisecond or two, however long the queue is. A newcomer that would wait too long
//! is refused at once, at next to no cost, so what is taken on ends in time.
//!
//! What is too long depends: a shard that is idle now and then drains its queue, and may have a long
//! one after a burst or a pause of the process. One that has not been idle for a while has more work
//! than time, and waiting helps nobody (CoDel, RFC 8289, tells good queues from bad ones alike).
//!
//! It must not know what a request is.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::sync::{Notify, oneshot};
use tokio::task::yield_now;
use tokio::time::Instant;

use super::{ShardCounters, unix_seconds};
use crate::config::{Section, ms, secs};
use crate::metrics::Padded;

/// A shard that waited this long for something to do was idle; less is what looking at its sockets
/// takes.
const IDLE_MIN: Duration = Duration::from_micros(100);

/// Most requests that are begun between two looks at the sockets, and how long those may take. Fewer
/// cost throughput, for each look has a price; more keep newcomers waiting for an answer.
const STARTS_MAX: u32 = 8;
const TURN_MAX: Duration = Duration::from_millis(4);

/// How long a request is taken to keep a shard busy before any has.
const COST_GUESSED: Duration = Duration::from_micros(100);

/// A shard that has not been idle once for this long is overloaded: the interval of CoDel (RFC 8289,
/// section 4.2), longer than any burst that is not one.
const OVERLOAD_INTERVAL: Duration = Duration::from_millis(100);

/// What a shard takes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdmissionLimits {
    /// Longest wait that an overloaded shard lets a request expect, from its receipt on.
    pub wait_max: Duration,
    /// Longest queue that a shard which is not overloaded lets a request join, in time; two and a
    /// half times `wait_max`, for bursts pass.
    pub burst_wait_max: Duration,
    /// Most requests under way or waiting at once on a shard.
    pub in_flight_max: usize,
}

impl Default for AdmissionLimits {
    fn default() -> Self {
        Self {
            wait_max: Duration::from_millis(20),
            burst_wait_max: Duration::from_millis(50),
            in_flight_max: 10_000,
        }
    }
}

impl AdmissionLimits {
    /// Declares and reads the keys of `[runtime.overload]`.
    pub(super) fn read(s: &mut Section<'_>) -> Self {
        let wait_max = s.duration(
            "wait_max",
            "20ms",
            ms(1)..=secs(10),
            "An overloaded shard, one that has not been idle once for 100ms, refuses requests that \
             would wait longer than this for it; another one those that would wait two and a half \
             times as long.",
        );
        Self {
            wait_max,
            burst_wait_max: wait_max * 5 / 2,
            in_flight_max: s.integer(
                "in_flight_max",
                10_000,
                1..=1_000_000_usize,
                "Most requests under way or waiting at once on a shard; those beyond are refused.",
            ),
        }
    }
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overload {
    /// It would wait too long for the shard to begin it.
    Wait,
    /// Too many requests are under way.
    InFlight,
}

impl Overload {
    /// Every reason, in declaration order.
    pub const ALL: [Self; 2] = [Self::Wait, Self::InFlight];

    /// The metric label.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Wait => "wait",
            Self::InFlight => "in_flight",
        }
    }
}

/// Since when a shard's thread has been busy. Its runtime writes it, when it waits for something to
/// do and when it goes on.
#[derive(Debug)]
pub(super) struct BusyClock {
    origin: Instant,
    /// Nanoseconds since `origin`.
    parked_at: AtomicU64,
    /// Nanoseconds since `origin`.
    busy_since: AtomicU64,
}

impl Default for BusyClock {
    fn default() -> Self {
        let (parked_at, busy_since) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { origin: Instant::now(), parked_at, busy_since }
    }
}

impl BusyClock {
    /// The thread has nothing to do before it has looked at its sockets and timers.
    pub(super) fn park(&self, now: Instant) {
        self.parked_at.store(self.nanos(now), Ordering::Relaxed);
    }

    /// The thread has something to do.
    pub(super) fn unpark(&self, now: Instant) {
        let now = self.nanos(now);
        let parked = now.saturating_sub(self.parked_at.load(Ordering::Relaxed));
        if u128::from(parked) >= IDLE_MIN.as_nanos() {
            self.busy_since.store(now, Ordering::Relaxed);
        }
    }

    /// How long the thread has been busy without a pause.
    fn busy(&self, now: Instant) -> Duration {
        let since = self.busy_since.load(Ordering::Relaxed);
        Duration::from_nanos(self.nanos(now).saturating_sub(since))
    }

    fn nanos(&self, now: Instant) -> u64 {
        let elapsed = now.saturating_duration_since(self.origin).as_nanos();
        u64::try_from(elapsed).unwrap_or(u64::MAX)
    }
}

/// Lets the runtime that `builder` builds write `busy`.
pub(super) fn with_hooks<'b>(builder: &'b mut Builder, busy: &Arc<BusyClock>) -> &'b mut Builder {
    let (parked, unparked) = (Arc::clone(busy), Arc::clone(busy));
    builder
        .on_thread_park(move || parked.park(Instant::now()))
        .on_thread_unpark(move || unparked.unpark(Instant::now()))
}

/// What a shard takes on, and what it has under way. Clones are the same.
#[derive(Clone, Debug)]
pub struct Admission(Rc<ShardAdmission>);

#[derive(Debug)]
struct ShardAdmission {
    limits: AdmissionLimits,
    busy: Arc<BusyClock>,
    counters: Arc<Padded<ShardCounters>>,
    in_flight: Cell<usize>,
    /// Told in turn that they may begin.
    waiting: RefCell<VecDeque<oneshot::Sender<()>>>,
    /// How many have begun since the sockets were looked at.
    begun: Cell<u32>,
    started: Notify,
    /// How long the shard takes from one start to the next while requests wait, smoothed.
    cost: Cell<Duration>,
}

impl Admission {
    pub(super) fn new(
        limits: AdmissionLimits,
        busy: Arc<BusyClock>,
        counters: Arc<Padded<ShardCounters>>,
    ) -> Self {
        Self(Rc::new(ShardAdmission {
            limits,
            busy,
            counters,
            in_flight: Cell::new(0),
            waiting: RefCell::default(),
            begun: Cell::new(0),
            started: Notify::new(),
            cost: Cell::new(COST_GUESSED),
        }))
    }

    /// Takes on a request whose first bytes the kernel received at `received`, and returns when it
    /// may begin.
    ///
    /// # Errors
    ///
    /// When the shard is too busy: answer so at once, without further work.
    pub async fn admit(&self, received: Instant) -> Result<InFlightRequest, Overload> {
        let ShardAdmission { counters, waiting, begun, .. } = &*self.0;
        let now = Instant::now();
        let wait = now.saturating_duration_since(received);
        if let Some(overload) = self.overload(now, wait) {
            counters.refused[overload as usize].increment();
            counters.refused_at_s.set(unix_seconds());
            return Err(overload);
        }
        let request = InFlightRequest::new(self);
        self.0.started.notify_one();
        if waiting.borrow().is_empty() && begun.get() < self.starts_max() {
            begun.set(begun.get() + 1);
            counters.waits.record(wait);
            return Ok(request);
        }
        let (turn, begin) = oneshot::channel();
        waiting.borrow_mut().push_back(turn);
        // The other end lives as long as the shard, which ends with its requests.
        let _ = begin.await;
        counters.waits.record(received.elapsed());
        Ok(request)
    }

    /// Why a request cannot be taken now that has waited for `wait`.
    fn overload(&self, now: Instant, wait: Duration) -> Option<Overload> {
        let ShardAdmission { limits, in_flight, waiting, cost, .. } = &*self.0;
        let ahead = u32::try_from(waiting.borrow().len()).unwrap_or(u32::MAX);
        let queue = cost.get().saturating_mul(ahead);
        // A shard that is late without a queue was kept from its processor: to refuse what waited for
        // that would save nobody's time.
        let is_too_long = if self.is_overloaded(now) {
            ahead > 0 && wait.saturating_add(queue) > limits.wait_max
        } else {
            queue > limits.burst_wait_max
        };
        if is_too_long {
            return Some(Overload::Wait);
        }
        (in_flight.get() >= limits.in_flight_max).then_some(Overload::InFlight)
    }

    /// Whether the shard has more to do than it has time for.
    fn is_overloaded(&self, now: Instant) -> bool {
        self.0.busy.busy(now) > OVERLOAD_INTERVAL
    }

    /// Lets requests that wait begin, turn by turn; never ends.
    pub(super) async fn run(self) {
        loop {
            self.0.started.notified().await;
            let mut before = None;
            loop {
                // Sockets and timers are looked at, and what they bring goes first.
                yield_now().await;
                let now = Instant::now();
                if let Some(before) = before.replace(now) {
                    self.note_turn(now - before);
                }
                if self.begin_next() == 0 {
                    break;
                }
            }
        }
    }

    /// Lets the next few requests begin; returns how many.
    fn begin_next(&self) -> u32 {
        let ShardAdmission { waiting, begun, .. } = &*self.0;
        begun.set(0);
        while begun.get() < self.starts_max() {
            let Some(turn) = waiting.borrow_mut().pop_front() else { break };
            // One whose caller has gone takes nobody's turn.
            if turn.send(()).is_ok() {
                begun.set(begun.get() + 1);
            }
        }
        begun.get()
    }

    /// How many requests may begin between two looks at the sockets.
    fn starts_max(&self) -> u32 {
        let cost = self.0.cost.get().max(TURN_MAX / STARTS_MAX);
        let starts = TURN_MAX.as_nanos() / cost.as_nanos();
        u32::try_from(starts).unwrap_or(STARTS_MAX).max(1)
    }

    /// Learns what a request costs from a turn in which requests waited: all that began in it, also
    /// those that did not wait, took its time. A pause of the process is not believed to be a cost.
    fn note_turn(&self, took: Duration) {
        let cost = self.0.cost.get();
        let sample = (took / self.0.begun.get().max(1)).min(cost.max(COST_GUESSED) * 4);
        self.0.cost.set((cost * 7 + sample) / 8);
    }
}

/// A request that a shard has taken on, under way until dropped.
#[derive(Debug)]
pub struct InFlightRequest(Admission);

impl InFlightRequest {
    fn new(admission: &Admission) -> Self {
        let ShardAdmission { in_flight, counters, .. } = &*admission.0;
        in_flight.set(in_flight.get() + 1);
        counters.in_flight.change(1);
        Self(admission.clone())
    }
}

impl Drop for InFlightRequest {
    fn drop(&mut self) {
        let ShardAdmission { in_flight, counters, .. } = &*self.0.0;
        in_flight.set(in_flight.get() - 1);
        counters.in_flight.change(-1);
    }
}

#[cfg(test)]
mod tests;
