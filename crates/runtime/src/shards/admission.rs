//! Decides which requests a shard accepts, and when they start.
//!
//! A request is judged on arrival and starts in its turn. Between two polls of its sockets a shard
//! starts only a few requests, so responses under way come first and new requests are judged within
//! a millisecond or two, however long the queue is. A request that would wait too long is refused
//! at once, at almost no cost, so accepted ones end in time.
//!
//! The limit on the wait depends on the load. A shard with idle moments drains its queue, which may
//! be long after a burst or a pause of the process. A shard without them has more work than time,
//! and waiting does not help (CoDel, RFC 8289, separates good queues from bad ones in the same
//! way). This module must not know what a request is.

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

use super::metrics::{Overload, ShardCounters};
use crate::config::{Section, ms, secs};
use crate::metrics::Padded;

/// A shard that waited this long for events was idle; polling its sockets takes less.
const IDLE_MIN: Duration = Duration::from_micros(100);

/// Most requests started between two polls of the sockets, and the time they may take. Fewer cost
/// throughput, because polls are not free; more delay new requests.
const STARTS_MAX: u32 = 8;
const TURN_MAX: Duration = Duration::from_millis(4);

/// Assumed cost of a request before the first measurement.
const COST_GUESSED: Duration = Duration::from_micros(100);

/// A shard without an idle moment for this long is overloaded: the interval of CoDel (RFC 8289,
/// section 4.2), longer than a genuine burst.
const OVERLOAD_INTERVAL: Duration = Duration::from_millis(100);

/// Limits on what a shard accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdmissionLimits {
    /// Longest expected wait since receipt, on an overloaded shard.
    pub wait_max: Duration,
    /// Longest expected wait in the queue of a shard that is not overloaded: two and a half times
    /// `wait_max`, because bursts pass.
    pub burst_wait_max: Duration,
    /// Most requests under way or waiting on a shard.
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
    pub(super) fn read(s: &mut Section<'_>) -> Self {
        let wait_max = s.duration(
            "wait_max",
            "20ms",
            ms(1)..=secs(10),
            "Maximum wait on an overloaded shard, that is, one without an idle moment in the last \
             100ms; requests that would wait longer are refused. Other shards refuse requests when \
             their queue would take 2.5 times as long.",
        );
        Self {
            wait_max,
            burst_wait_max: wait_max * 5 / 2,
            in_flight_max: s.integer(
                "in_flight_max",
                10_000,
                1..=1_000_000_usize,
                "Maximum number of requests in flight or queued per shard. Further requests are \
                 refused.",
            ),
        }
    }
}

/// Since when a shard's thread has been busy. Its runtime writes it when it parks and unparks.
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
    /// The thread goes to poll its sockets and timers.
    pub(super) fn park(&self, now: Instant) {
        self.parked_at.store(self.nanos(now), Ordering::Relaxed);
    }

    pub(super) fn unpark(&self, now: Instant) {
        let now = self.nanos(now);
        let parked = now.saturating_sub(self.parked_at.load(Ordering::Relaxed));
        if u128::from(parked) >= IDLE_MIN.as_nanos() {
            self.busy_since.store(now, Ordering::Relaxed);
        }
    }

    fn busy(&self, now: Instant) -> Duration {
        let since = self.busy_since.load(Ordering::Relaxed);
        Duration::from_nanos(self.nanos(now).saturating_sub(since))
    }

    fn nanos(&self, now: Instant) -> u64 {
        let elapsed = now.saturating_duration_since(self.origin).as_nanos();
        u64::try_from(elapsed).unwrap_or(u64::MAX)
    }
}

/// Makes the runtime of `builder` write `busy`.
pub(super) fn with_hooks<'b>(builder: &'b mut Builder, busy: &Arc<BusyClock>) -> &'b mut Builder {
    let (parked, unparked) = (Arc::clone(busy), Arc::clone(busy));
    builder
        .on_thread_park(move || parked.park(Instant::now()))
        .on_thread_unpark(move || unparked.unpark(Instant::now()))
}

/// Admission of a shard and its requests under way. Clones share it.
#[derive(Clone, Debug)]
pub struct Admission(Rc<ShardAdmission>);

#[derive(Debug)]
struct ShardAdmission {
    limits: AdmissionLimits,
    busy: Arc<BusyClock>,
    counters: Arc<Padded<ShardCounters>>,
    in_flight: Cell<usize>,
    /// Signalled in turn to start.
    waiting: RefCell<VecDeque<oneshot::Sender<()>>>,
    /// Requests started since the last poll of the sockets.
    begun: Cell<u32>,
    started: Notify,
    /// Smoothed time from one start to the next while requests wait.
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

    /// Accepts a request that the kernel received at `received`; returns when it may start.
    ///
    /// # Errors
    /// If the shard is too busy. Respond at once, without further work.
    pub async fn admit(&self, received: Instant) -> Result<InFlightRequest, Overload> {
        let ShardAdmission { counters, waiting, begun, .. } = &*self.0;
        let now = Instant::now();
        let wait = now.saturating_duration_since(received);
        if let Some(overload) = self.overload(now, wait) {
            return Err(counters.refuse(overload));
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
        // The sender lives as long as the shard, which drops its requests when it ends.
        let _ = begin.await;
        counters.waits.record(received.elapsed());
        Ok(request)
    }

    /// Accepts a request that starts at once, unless too many are under way: one that costs the shard
    /// little, and waits for others.
    ///
    /// # Errors
    /// If too many are under way.
    pub fn enter(&self) -> Result<InFlightRequest, Overload> {
        let ShardAdmission { limits, counters, in_flight, .. } = &*self.0;
        if in_flight.get() >= limits.in_flight_max {
            return Err(counters.refuse(Overload::InFlight));
        }
        Ok(InFlightRequest::new(self))
    }

    /// Why a request that has waited for `wait` is refused now. None if it is accepted.
    fn overload(&self, now: Instant, wait: Duration) -> Option<Overload> {
        let ShardAdmission { limits, in_flight, waiting, cost, .. } = &*self.0;
        let ahead = u32::try_from(waiting.borrow().len()).unwrap_or(u32::MAX);
        let queue = cost.get().saturating_mul(ahead);
        // A shard that is late without a queue did not get its processor: refusing requests that
        // waited for that saves no time.
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

    fn is_overloaded(&self, now: Instant) -> bool {
        self.0.busy.busy(now) > OVERLOAD_INTERVAL
    }

    pub(super) async fn run(self) {
        loop {
            self.0.started.notified().await;
            let mut before = None;
            loop {
                // Poll sockets and timers; their events go first.
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

    fn begin_next(&self) -> u32 {
        let ShardAdmission { waiting, begun, .. } = &*self.0;
        begun.set(0);
        while begun.get() < self.starts_max() {
            let Some(turn) = waiting.borrow_mut().pop_front() else { break };
            // A request whose caller has left takes no turn.
            if turn.send(()).is_ok() {
                begun.set(begun.get() + 1);
            }
        }
        begun.get()
    }

    /// Requests that may start between two polls of the sockets.
    fn starts_max(&self) -> u32 {
        let cost = self.0.cost.get().max(TURN_MAX / STARTS_MAX);
        let starts = TURN_MAX.as_nanos() / cost.as_nanos();
        u32::try_from(starts).unwrap_or(STARTS_MAX).max(1)
    }

    /// Measures the cost of a request in a turn in which requests waited, over all requests that
    /// started in it. A pause of the process does not count as cost.
    fn note_turn(&self, took: Duration) {
        let cost = self.0.cost.get();
        let sample = (took / self.0.begun.get().max(1)).min(cost.max(COST_GUESSED) * 4);
        self.0.cost.set((cost * 7 + sample) / 8);
    }
}

/// An accepted request, under way until dropped.
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
