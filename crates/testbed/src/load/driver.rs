//! The run itself: connections that take calls from the schedule, and the driver that wakes them,
//! opens more, reports progress and ends the run. One thread, no locks.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::options::{LoadConnections, LoadMode, LoadOptions};
use super::report::Quantiles;
use super::schedule::{CallSchedule, ScheduledCall, Take};
use super::tally::{CallEnd, CallTally, CallTimes, quantiles};
use super::ticker::Ticker;
use super::workload::{CallFailure, FollowUp, Workload};

/// Time between two reports of progress.
const PROGRESS_PERIOD: Duration = Duration::from_millis(200);

/// Pause after a failed connection attempt, lest a refusing target see a hundred thousand attempts
/// per second.
const RECONNECT_PAUSE: Duration = Duration::from_millis(10);

/// How long calls in flight may take to finish after the run was stopped.
const STOP_GRACE: Duration = Duration::from_secs(1);

/// Most connections being opened at once before the run, within usual accept backlogs.
const OPENING_MAX: usize = 128;

/// The progress of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadProgress {
    /// Since the start, including the warm-up.
    pub elapsed: Duration,
    /// Whether the warm-up is running, which is not measured.
    pub warming_up: bool,
    /// Measured calls sent.
    pub sent: u64,
    /// Measured calls that could not be sent.
    pub unsent: u64,
    /// Measured calls answered.
    pub answered: u64,
    /// Measured calls that failed, including the unsent.
    pub errors: u64,
    /// Measured calls waiting for their answers.
    pub in_flight: u64,
    /// Answers and timeouts so far that took longer than `tmax`.
    pub after_tmax: u64,
    /// Latency so far, in microseconds.
    pub latency_us: Option<Quantiles>,
}

/// Called about five times a second.
pub type OnProgress<'a> = &'a mut (dyn FnMut(&LoadProgress) + Send);

/// The results of a run.
pub(super) struct FinishedLoad<O> {
    pub(super) tally: CallTally,
    pub(super) outcomes: O,
    pub(super) connections: usize,
    pub(super) stopped: bool,
}

/// State shared by the connections.
struct LoadShared<W> {
    workload: Rc<W>,
    timeout: Duration,
    warm_up: Duration,
    started: Instant,
    schedule: RefCell<CallSchedule>,
    tally: RefCell<CallTally>,
    /// Wakes idle connections.
    work: Notify,
    idle: Cell<u64>,
    in_flight: Cell<u64>,
}

/// Runs to the end of the schedule, or until `stop` is set.
pub(super) async fn run<W: Workload>(
    options: &LoadOptions,
    workload: W,
    stop: Arc<AtomicBool>,
    on_progress: OnProgress<'_>,
) -> io::Result<FinishedLoad<W::Outcomes>> {
    let workload = Rc::new(workload);
    let connections = match (options.mode, options.connections) {
        (LoadMode::Open { .. }, LoadConnections::Fixed(count)) => {
            open_connections(&workload, count, options.timeout).await
        }
        _ => Vec::new(),
    };
    let started = Instant::now();
    let schedule =
        CallSchedule::new(options.mode, options.warm_up, options.length, options.timeout);
    let shared = Rc::new(LoadShared {
        workload,
        timeout: options.timeout,
        warm_up: options.warm_up,
        started,
        schedule: RefCell::new(schedule),
        tally: RefCell::new(CallTally::new(options.tmax)),
        work: Notify::new(),
        idle: Cell::new(0),
        in_flight: Cell::new(0),
    });
    let in_turn = !connections.is_empty();
    let mut driver =
        Driver { shared, stop, workers: JoinSet::new(), stopped_at: None, most: 0, in_turn };
    match options.mode {
        LoadMode::Open { rate_per_s } => {
            // Created after `started`, so no tick comes before its call is due.
            let ticker = Ticker::new(Duration::from_secs(1) / rate_per_s)?;
            let most = match options.connections {
                LoadConnections::AsNeeded { max } => max,
                LoadConnections::Fixed(count) => count,
            };
            driver.employ(connections);
            driver.drive(Some(&ticker), most, on_progress).await?;
        }
        LoadMode::Closed { in_flight } => {
            driver.employ(std::iter::repeat_with(W::Connection::default).take(in_flight));
            driver.drive(None, in_flight, on_progress).await?;
        }
    }
    let Driver { shared, most, stopped_at, mut workers, .. } = driver;
    let abandoned = shared.in_flight.get();
    workers.shutdown().await;
    let mut tally = shared.tally.replace(CallTally::new(None));
    let mut schedule = shared.schedule.borrow_mut();
    // Calls that are due but were never handed out, for example when the run is overdue.
    schedule.stop(shared.now());
    tally.counts.sent = schedule.sent();
    tally.counts.unsent = schedule.unsent();
    tally.counts.abandoned = abandoned;
    let outcomes = shared.workload.outcomes();
    Ok(FinishedLoad { tally, outcomes, connections: most, stopped: stopped_at.is_some() })
}

/// Opens `count` connections. After the first failure the rest wait for their first calls, which
/// count the failures.
async fn open_connections<W: Workload>(
    workload: &Rc<W>,
    count: usize,
    timeout: Duration,
) -> Vec<W::Connection> {
    let mut opening = JoinSet::new();
    let mut connections = Vec::with_capacity(count);
    while connections.len() < count {
        if opening.len() < OPENING_MAX && connections.len() + opening.len() < count {
            let workload = Rc::clone(workload);
            opening.spawn_local(async move {
                let mut connection = W::Connection::default();
                let opened = tokio::time::timeout(timeout, workload.open(&mut connection)).await;
                opened.is_ok_and(|opened| opened.is_ok()).then_some(connection)
            });
        } else if let Some(Ok(Some(connection))) = opening.join_next().await {
            connections.push(connection);
        } else {
            break;
        }
    }
    connections.resize_with(count, W::Connection::default);
    connections
}

struct Driver<W> {
    shared: Rc<LoadShared<W>>,
    stop: Arc<AtomicBool>,
    workers: JoinSet<()>,
    stopped_at: Option<Instant>,
    /// Most connections at once.
    most: usize,
    /// Whether connections are used in turn.
    in_turn: bool,
}

impl<W: Workload> Driver<W> {
    async fn drive(
        &mut self,
        ticker: Option<&Ticker>,
        connections_max: usize,
        on_progress: OnProgress<'_>,
    ) -> io::Result<()> {
        let mut progress = tokio::time::interval(PROGRESS_PERIOD);
        progress.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut is_done = false;
        loop {
            let ticked = async {
                match ticker {
                    Some(ticker) => ticker.tick().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased; // Rare events first, lest a fast ticker starve them.
                _ = progress.tick() => on_progress(&self.shared.progress()),
                // Once all calls are sent, a fast ticker would starve the joining of workers.
                ticked = ticked, if !is_done => {
                    ticked?;
                    self.dispatch(connections_max);
                }
                Some(_) = self.workers.join_next() => (),
            }
            is_done = self.is_done();
            if self.is_over(is_done) {
                on_progress(&self.shared.progress());
                return Ok(());
            }
        }
    }

    /// Wakes as many connections as calls are due, and opens more if these are not enough.
    fn dispatch(&mut self, connections_max: usize) {
        let due = self.shared.schedule.borrow().due(self.shared.now());
        let idle = self.shared.idle.get();
        for _ in 0..due.min(idle) {
            if self.in_turn {
                self.shared.work.notify_one();
            } else {
                // The most recently idle one: its connection is the least likely to be cold, and
                // the rate alone determines how many are in use.
                self.shared.work.notify_last();
            }
        }
        let room = connections_max.saturating_sub(self.workers.len());
        let missing = usize::try_from(due.saturating_sub(idle)).unwrap_or(usize::MAX);
        self.employ(std::iter::repeat_with(W::Connection::default).take(missing.min(room)));
    }

    fn employ(&mut self, connections: impl IntoIterator<Item = W::Connection>) {
        for connection in connections {
            let shared = Rc::clone(&self.shared);
            self.workers.spawn_local(async move { shared.work(connection).await });
        }
        self.most = self.most.max(self.workers.len());
    }

    /// Whether all calls are sent. Stops the schedule if the run is to stop.
    fn is_done(&mut self) -> bool {
        let now = self.shared.now();
        let mut schedule = self.shared.schedule.borrow_mut();
        if self.stopped_at.is_none() && self.stop.load(Ordering::Relaxed) {
            self.stopped_at = Some(Instant::now());
            schedule.stop(now);
        }
        // `take` would hand out a call that is due, so this only asks whether any remain.
        let is_done = schedule.is_done(now);
        if is_done {
            self.shared.work.notify_waiters();
        }
        is_done
    }

    /// Whether nothing is in flight, or the grace period is over.
    fn is_over(&self, is_done: bool) -> bool {
        if self.stopped_at.is_some_and(|at| at.elapsed() > STOP_GRACE) {
            return true;
        }
        // The last call may leave up to `timeout` late and be answered `timeout` later. What runs
        // after that, such as a follow-up, is not waited for.
        let end = self.shared.schedule.borrow().end();
        let is_overdue =
            end.is_some_and(|end| self.shared.now() > end + 2 * self.shared.timeout + STOP_GRACE);
        is_overdue || is_done && self.workers.is_empty()
    }
}

impl<W: Workload> LoadShared<W> {
    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    /// The life of one connection.
    async fn work(&self, mut connection: W::Connection) {
        loop {
            let take = self.schedule.borrow_mut().take(self.now());
            match take {
                Take::Send(ticket) => self.send(&mut connection, ticket).await,
                Take::Wait => {
                    self.idle.set(self.idle.get() + 1);
                    self.work.notified().await;
                    self.idle.set(self.idle.get() - 1);
                }
                Take::Done => return,
            }
        }
    }

    async fn send(&self, connection: &mut W::Connection, ticket: ScheduledCall) {
        let request = self.workload.request();
        let (request_bytes, measured) = (W::request_bytes(&request), u64::from(ticket.is_measured));
        self.in_flight.set(self.in_flight.get() + measured);
        let sent = self.now();
        let call = self.workload.call(connection, request);
        let end = match tokio::time::timeout(self.timeout, call).await {
            Ok(Ok(answer)) => CallEnd::Answered(answer),
            Ok(Err(failure)) => CallEnd::Failed(failure),
            Err(_) => {
                *connection = W::Connection::default();
                CallEnd::TimedOut
            }
        };
        if ticket.is_measured {
            let times = CallTimes { intended: ticket.intended, sent, end: self.now() };
            let mut tally = self.tally.borrow_mut();
            tally.counts.request_bytes += request_bytes;
            tally.record(times, &end);
            if let CallEnd::Answered(answer) = &end {
                self.workload.count(answer);
            }
        }
        self.in_flight.set(self.in_flight.get() - measured);
        match end {
            CallEnd::Answered(answer) => {
                let options = FollowUp { is_measured: ticket.is_measured, timeout: self.timeout };
                self.workload.follow_up(connection, answer, options).await;
            }
            CallEnd::Failed(CallFailure::Unconnected(_)) => {
                tokio::time::sleep(RECONNECT_PAUSE).await;
            }
            CallEnd::Failed(CallFailure::Broken(_)) | CallEnd::TimedOut => (),
        }
    }

    fn progress(&self) -> LoadProgress {
        let (schedule, tally) = (self.schedule.borrow(), self.tally.borrow());
        let elapsed = self.now();
        LoadProgress {
            elapsed,
            warming_up: elapsed < self.warm_up,
            sent: schedule.sent(),
            unsent: schedule.unsent(),
            answered: tally.counts.valid,
            errors: tally.counts.errors() + schedule.unsent(),
            in_flight: self.in_flight.get(),
            after_tmax: tally.counts.after_tmax,
            latency_us: quantiles(&tally.latency),
        }
    }
}
