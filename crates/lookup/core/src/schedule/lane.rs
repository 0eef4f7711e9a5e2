//! The calls of one instance of a provider.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashMap};
use std::time::Duration;

use units::Tick;

use super::breaker::{ProviderBreaker, RunningCalls};
use super::limit::{AdaptiveLimit, CallSample, SampleEnd};
use super::queue::{CallClass, CallNumber, FairQueue, QueuedCall};
use super::rate::RateGate;
use super::retry::RetryBudget;

/// Limits of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProviderLaneOptions {
    /// The most calls at a time. None: it is found out.
    pub concurrency_max: Option<u32>,
    /// The most calls per second. None: any.
    pub rate_max: Option<u32>,
    /// The most calls of each class that wait.
    pub waiting_max: usize,
    /// Of the waits before calls are made again.
    pub seed: u64,
}

/// Why a call is not made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallRefusal {
    /// Too many wait; there may be room after this time.
    Full(Duration),
    /// The provider failed again and again, and is tried again after this time.
    LeftAlone(Duration),
    /// Its deadline passed while it waited.
    TooLate,
}

/// The right to run a call. It is given back by [`ProviderLane::end`], once.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "the call counts as running until it is given back"]
pub struct AttemptPermit {
    call: QueuedCall,
    attempt: u32,
    /// Its number among the attempts that began.
    begun: u64,
    began: Tick,
    in_flight: u32,
}

impl AttemptPermit {
    /// The call.
    pub const fn call(&self) -> &QueuedCall {
        &self.call
    }

    /// Which attempt it is, from 1.
    pub const fn attempt(&self) -> u32 {
        self.attempt
    }
}

/// What a lane does next.
#[derive(Debug, PartialEq, Eq)]
pub enum StartedCall {
    /// This call is made.
    Start(AttemptPermit),
    /// This call is not made.
    Refuse(QueuedCall, CallRefusal),
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptOutcome {
    /// The provider answered, if only that it does not like the question.
    Answered,
    /// It failed.
    Failed,
    /// It has too much to do (429, 503), and may say for how long (`Retry-After`).
    Busy(Option<Duration>),
    /// Nobody wants the answer any more.
    Cancelled,
}

/// What becomes of a call after an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptEnd {
    /// It is over.
    Over,
    /// It waits, and is made again.
    Again,
}

/// What a lane does, for operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneStatus {
    /// Calls that run.
    pub in_flight: u32,
    /// The most that may run.
    pub limit: u32,
    /// Calls that wait, those included that wait to be made again.
    pub waiting: usize,
    /// Whether the provider is left alone.
    pub is_left_alone: bool,
    /// Attempts so far.
    pub attempts: u64,
    /// Those of calls that had been made before.
    pub retries: u64,
}

/// Decides about the calls of one instance of a provider.
#[derive(Debug)]
pub struct ProviderLane {
    options: ProviderLaneOptions,
    limit: AdaptiveLimit,
    rate: Option<RateGate>,
    breaker: ProviderBreaker,
    retries: RetryBudget,
    queue: FairQueue,
    /// Calls that wait to be made again, by the time.
    delayed: BinaryHeap<Reverse<(Tick, CallNumber)>>,
    /// These calls, with their attempts so far.
    to_repeat: HashMap<CallNumber, DelayedCall>,
    /// The provider has asked not to be called before.
    not_before: Tick,
    /// The numbers of the attempts that run.
    running: BTreeSet<u64>,
    begun: u64,
    retried: u64,
    /// Of calls that were answered, smoothed.
    latency: Duration,
}

/// A call that waits to be made again.
#[derive(Clone, Copy, Debug)]
struct DelayedCall {
    call: QueuedCall,
    attempts: u32,
    due: Tick,
}

/// A guess, before any call was answered.
const LATENCY_AT_FIRST: Duration = Duration::from_millis(100);

/// The longest pause that a provider can ask all calls for. A single call waits as long as it says.
const PAUSE_MAX: Duration = Duration::from_secs(60);

impl ProviderLane {
    /// Without calls.
    pub fn new(options: ProviderLaneOptions) -> Self {
        Self {
            options,
            limit: AdaptiveLimit::new(options.concurrency_max),
            rate: options.rate_max.map(RateGate::new),
            breaker: ProviderBreaker::new(),
            retries: RetryBudget::new(options.seed),
            queue: FairQueue::default(),
            delayed: BinaryHeap::new(),
            to_repeat: HashMap::new(),
            not_before: Tick::ZERO,
            running: BTreeSet::new(),
            begun: 0,
            retried: 0,
            latency: LATENCY_AT_FIRST,
        }
    }

    /// Puts a call into the queue.
    ///
    /// # Errors
    /// Why it would wait in vain.
    ///
    /// # Panics
    /// If a call with its number waits.
    pub fn submit(&mut self, call: QueuedCall, now: Tick) -> Result<(), CallRefusal> {
        let is_known =
            self.queue.contains(call.number) || self.to_repeat.contains_key(&call.number);
        assert!(!is_known, "each call has its own number");
        if call.deadline <= now {
            return Err(CallRefusal::TooLate);
        }
        if let Some(until) = self.left_alone(now) {
            return Err(CallRefusal::LeftAlone(until.since(now)));
        }
        if self.options.waiting_max <= self.queue.len_of(call.class) {
            return Err(CallRefusal::Full(self.wait_estimate(call.class)));
        }
        self.queue.push(call);
        Ok(())
    }

    /// Until when the provider is left alone, if it is: about, while a call tries it.
    fn left_alone(&self, now: Tick) -> Option<Tick> {
        let until = self.breaker.closed_until()?.max(self.not_before);
        if self.breaker.is_trying() {
            return Some(until.max(now.after(self.breaker.pause())));
        }
        (now < until).then_some(until)
    }

    /// About how long a new call of a class would wait.
    pub fn wait_estimate(&self, class: CallClass) -> Duration {
        let before = CallClass::ALL.into_iter().filter(|other| *other <= class);
        let count: usize = before.map(|other| self.queue.len_of(other)).sum();
        let turns = u32::try_from(count + 1).unwrap_or(u32::MAX).div_ceil(self.limit.limit());
        self.latency.saturating_mul(turns)
    }

    /// The next call to start or to refuse. None until [`Self::wakes`], or until a call comes or ends.
    pub fn next(&mut self, now: Tick) -> Option<StartedCall> {
        // Calls that wait are refused at once: the provider is down.
        if let Some(until) = self.breaker.given_up_until(now)
            && let Some(call) = self.take_any()
        {
            return Some(StartedCall::Refuse(call, CallRefusal::LeftAlone(until.since(now))));
        }
        if self.limit.limit() <= self.in_flight() || now < self.opens()? {
            return None;
        }
        let (call, attempts) = self.take_waiting(now)?;
        Some(if call.deadline <= now {
            StartedCall::Refuse(call, CallRefusal::TooLate)
        } else {
            StartedCall::Start(self.begin(call, attempts, now))
        })
    }

    /// When the next call may begin. None while one tries a provider that was left alone.
    fn opens(&self) -> Option<Tick> {
        if self.breaker.is_trying() {
            return None;
        }
        let breaker = self.breaker.closed_until().unwrap_or(Tick::ZERO);
        let rate = self.rate.as_ref().map_or(Tick::ZERO, RateGate::opens);
        Some(breaker.max(rate).max(self.not_before))
    }

    /// A call that waits, due or not.
    fn take_any(&mut self) -> Option<QueuedCall> {
        let number = self.to_repeat.keys().min().copied();
        let delayed = number.and_then(|number| self.to_repeat.remove(&number));
        delayed.map(|delayed| delayed.call).or_else(|| self.queue.pop())
    }

    /// A call that waits, and its attempts so far. Those that are due again come first.
    fn take_waiting(&mut self, now: Tick) -> Option<(QueuedCall, u32)> {
        while let Some(Reverse((due, number))) = self.delayed.peek().copied()
            && due <= now
        {
            self.delayed.pop();
            // It may have been cancelled meanwhile, and its number used again.
            if self.to_repeat.get(&number).is_some_and(|delayed| delayed.due == due)
                && let Some(DelayedCall { call, attempts, .. }) = self.to_repeat.remove(&number)
            {
                return Some((call, attempts));
            }
        }
        self.queue.pop().map(|call| (call, 0))
    }

    fn begin(&mut self, call: QueuedCall, attempts: u32, now: Tick) -> AttemptPermit {
        if let Some(rate) = &mut self.rate {
            rate.begin(now);
        }
        self.breaker.begin(self.begun);
        self.retried += u64::from(attempts > 0);
        let begun = self.begun;
        self.begun += 1;
        self.running.insert(begun);
        AttemptPermit {
            call,
            attempt: attempts + 1,
            begun,
            began: now,
            in_flight: self.in_flight(),
        }
    }

    fn in_flight(&self) -> u32 {
        u32::try_from(self.running.len()).unwrap_or(u32::MAX)
    }

    /// An attempt ended.
    #[expect(clippy::needless_pass_by_value, reason = "a permit is given back once")]
    pub fn end(&mut self, permit: AttemptPermit, outcome: AttemptOutcome, now: Tick) -> AttemptEnd {
        let AttemptPermit { call, attempt, begun, began, in_flight } = permit;
        let was_running = self.running.remove(&begun);
        assert!(was_running, "a permit is of a call that runs");
        let running = RunningCalls { oldest: self.running.first().copied(), begun: self.begun };
        let took = now.since(began);
        let sample = |end| CallSample { number: begun, in_flight, end };
        match outcome {
            AttemptOutcome::Answered => {
                self.limit.ended(sample(SampleEnd::Answered), self.begun, now);
                self.breaker.answered();
                self.retries.earn();
                self.latency = (self.latency * 7 + took) / 8;
                AttemptEnd::Over
            }
            AttemptOutcome::Failed => {
                self.limit.ended(sample(SampleEnd::Failed), self.begun, now);
                self.breaker.failed(begun, running, now);
                self.repeat(call, attempt, None, now)
            }
            AttemptOutcome::Busy(retry_after) => {
                let pause = retry_after.unwrap_or_default().min(PAUSE_MAX);
                self.not_before = self.not_before.max(now.after(pause));
                self.limit.ended(sample(SampleEnd::Busy), self.begun, now);
                self.breaker.failed(begun, running, now);
                self.repeat(call, attempt, retry_after, now)
            }
            AttemptOutcome::Cancelled => {
                self.breaker.cancelled(begun);
                AttemptEnd::Over
            }
        }
    }

    fn repeat(
        &mut self,
        call: QueuedCall,
        attempt: u32,
        retry_after: Option<Duration>,
        now: Tick,
    ) -> AttemptEnd {
        // What is too late anyway costs no retry.
        if !call.is_idempotent || call.deadline <= now.after(retry_after.unwrap_or_default()) {
            return AttemptEnd::Over;
        }
        let Some(wait) = self.retries.spend(attempt, retry_after) else { return AttemptEnd::Over };
        let due = now.after(wait);
        self.delayed.push(Reverse((due, call.number)));
        self.to_repeat.insert(call.number, DelayedCall { call, attempts: attempt, due });
        AttemptEnd::Again
    }

    /// Forgets a call that waits. Returns whether it did: if not, it runs, or is over.
    pub fn cancel(&mut self, number: CallNumber) -> bool {
        self.to_repeat.remove(&number).is_some() || self.queue.remove(number)
    }

    /// When [`Self::next`] may have something to do that it has not now, if no call ends or comes before.
    /// None: never.
    pub fn wakes(&self, now: Tick) -> Option<Tick> {
        if self.limit.limit() <= self.in_flight() {
            return None;
        }
        let due = self.delayed.peek().map(|Reverse((due, _))| *due);
        let waiting = if self.queue.len() > 0 { Some(now) } else { due };
        Some(waiting?.max(self.opens()?).max(now))
    }

    /// What it does.
    pub fn status(&self) -> LaneStatus {
        LaneStatus {
            in_flight: self.in_flight(),
            limit: self.limit.limit(),
            waiting: self.queue.len() + self.to_repeat.len(),
            is_left_alone: self.breaker.closed_until().is_some(),
            attempts: self.begun,
            retries: self.retried,
        }
    }
}
