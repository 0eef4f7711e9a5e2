//! The run itself: connections that take requests from the schedule, and the driver that wakes
//! them, opens more of them, reports progress and ends the run. One thread, no locks.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::beacons::Beacons;
use super::link::{Failure, Link, Target};
use super::schedule::{Schedule, Take, Ticket};
use super::tally::{RequestTimes, Tally, quantiles};
use super::ticker::Ticker;
use super::verdict::{Verdict, judge};
use super::{Connections, HammerOptions, Mode, Progress};
use crate::traffic::Traffic;

/// Between two reports of progress.
const PROGRESS_PERIOD: Duration = Duration::from_millis(200);

/// How long a connection rests after it could not be made, lest a refusing target be asked a
/// hundred thousand times a second.
const RECONNECT_PAUSE: Duration = Duration::from_millis(10);

/// How long requests in flight may still finish once the run was stopped.
const STOP_GRACE: Duration = Duration::from_secs(1);

/// Most connections that are being opened at once before the run, within usual accept backlogs.
const OPENING_MAX: usize = 128;

/// What the run leaves behind.
pub(super) struct Outcome {
    pub(super) tally: Tally,
    pub(super) connections: usize,
    pub(super) stopped: bool,
}

/// Called about five times a second.
pub(super) type OnProgress<'a> = &'a mut (dyn FnMut(&Progress) + Send);

/// What the connections share.
struct Shared {
    target: Target,
    timeout: Duration,
    warm_up: Duration,
    beacons: Option<Beacons>,
    started: Instant,
    schedule: RefCell<Schedule>,
    tally: RefCell<Tally>,
    traffic: RefCell<Traffic>,
    /// Wakes connections that have nothing to do.
    work: Notify,
    idle: Cell<u64>,
    in_flight: Cell<u64>,
}

/// Runs to the end of the schedule, or until `stop` is set.
pub(super) async fn run(
    options: &HammerOptions,
    target: Target,
    traffic: Traffic,
    stop: Arc<AtomicBool>,
    on_progress: OnProgress<'_>,
) -> io::Result<Outcome> {
    let links = match (options.mode, options.connections) {
        (Mode::Open { .. }, Connections::Fixed(count)) => {
            open_links(&target, count, options.timeout).await
        }
        _ => Vec::new(),
    };
    let started = Instant::now();
    let schedule = Schedule::new(options.mode, options.warm_up, options.length, options.timeout);
    let shared = Rc::new(Shared {
        target,
        timeout: options.timeout,
        warm_up: options.warm_up,
        beacons: options.beacons.clone(),
        started,
        schedule: RefCell::new(schedule),
        tally: RefCell::new(Tally::new(options.tmax)),
        traffic: RefCell::new(traffic),
        work: Notify::new(),
        idle: Cell::new(0),
        in_flight: Cell::new(0),
    });
    let in_turn = !links.is_empty();
    let mut driver =
        Driver { shared, stop, workers: JoinSet::new(), stopped_at: None, most: 0, in_turn };
    match options.mode {
        Mode::Open { rate_per_s } => {
            // Made after `started`, so that no tick comes before the request it is for.
            let ticker = Ticker::new(Duration::from_secs(1) / rate_per_s)?;
            let most = match options.connections {
                Connections::AsNeeded { max } => max,
                Connections::Fixed(count) => count,
            };
            driver.employ(links);
            driver.drive(Some(&ticker), most, on_progress).await?;
        }
        Mode::Closed { in_flight } => {
            driver.employ(std::iter::repeat_with(Link::default).take(in_flight));
            driver.drive(None, in_flight, on_progress).await?;
        }
    }
    let Driver { shared, most, stopped_at, mut workers, .. } = driver;
    let abandoned = shared.in_flight.get();
    workers.shutdown().await;
    let mut tally = shared.tally.replace(Tally::new(None));
    let mut schedule = shared.schedule.borrow_mut();
    // What is due and was never handed out, as when the run was overdue.
    schedule.stop(shared.now());
    tally.counts.sent = schedule.sent();
    tally.counts.unsent = schedule.unsent();
    tally.counts.abandoned = abandoned;
    Ok(Outcome { tally, connections: most, stopped: stopped_at.is_some() })
}

/// Opens `count` connections. After the first failure the rest are left to their first requests,
/// which count it.
async fn open_links(target: &Target, count: usize, timeout: Duration) -> Vec<Link> {
    let mut opening = JoinSet::new();
    let mut links = Vec::with_capacity(count);
    while links.len() < count {
        if opening.len() < OPENING_MAX && links.len() + opening.len() < count {
            let target = target.clone();
            opening.spawn_local(async move {
                let mut link = Link::default();
                let opened = tokio::time::timeout(timeout, link.open(&target)).await;
                opened.is_ok_and(|opened| opened.is_ok()).then_some(link)
            });
        } else if let Some(Ok(Some(link))) = opening.join_next().await {
            links.push(link);
        } else {
            break;
        }
    }
    links.resize_with(count, Link::default);
    links
}

struct Driver {
    shared: Rc<Shared>,
    stop: Arc<AtomicBool>,
    workers: JoinSet<()>,
    stopped_at: Option<Instant>,
    /// Most connections at once.
    most: usize,
    /// Whether connections are used in turn.
    in_turn: bool,
}

impl Driver {
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
                biased; // The rare first, so that a fast ticker cannot keep it out.
                _ = progress.tick() => on_progress(&self.shared.progress()),
                // Once all is sent a fast ticker would keep workers from being joined.
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

    /// Wakes as many connections as requests are due, and opens more where that is not enough.
    fn dispatch(&mut self, connections_max: usize) {
        let due = self.shared.schedule.borrow().due(self.shared.now());
        let idle = self.shared.idle.get();
        for _ in 0..due.min(idle) {
            if self.in_turn {
                self.shared.work.notify_one();
            } else {
                // The one that rested last: its connection is the least likely to have gone cold,
                // and the rate alone decides how many there are.
                self.shared.work.notify_last();
            }
        }
        let room = connections_max.saturating_sub(self.workers.len());
        let missing = usize::try_from(due.saturating_sub(idle)).unwrap_or(usize::MAX);
        self.employ(std::iter::repeat_with(Link::default).take(missing.min(room)));
    }

    fn employ(&mut self, links: impl IntoIterator<Item = Link>) {
        for link in links {
            let shared = Rc::clone(&self.shared);
            self.workers.spawn_local(async move { shared.work(link).await });
        }
        self.most = self.most.max(self.workers.len());
    }

    /// Whether no request is left to be sent. Stops the schedule if the run is to be stopped.
    fn is_done(&mut self) -> bool {
        let now = self.shared.now();
        let mut schedule = self.shared.schedule.borrow_mut();
        if self.stopped_at.is_none() && self.stop.load(Ordering::Relaxed) {
            self.stopped_at = Some(Instant::now());
            schedule.stop(now);
        }
        // Asking takes a request if one is due, so ask only whether there are none any more.
        let is_done = schedule.is_done(now);
        if is_done {
            self.shared.work.notify_waiters();
        }
        is_done
    }

    /// Whether nothing is left to wait for, or it was waited for long enough.
    fn is_over(&self, is_done: bool) -> bool {
        if self.stopped_at.is_some_and(|at| at.elapsed() > STOP_GRACE) {
            return true;
        }
        // The last request may leave `timeout` after its time and be answered `timeout` later. What
        // still runs then, such as a row of beacons that hang, is not waited for.
        let end = self.shared.schedule.borrow().end();
        let is_overdue =
            end.is_some_and(|end| self.shared.now() > end + 2 * self.shared.timeout + STOP_GRACE);
        is_overdue || is_done && self.workers.is_empty()
    }
}

impl Shared {
    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    /// The life of one connection.
    async fn work(&self, mut link: Link) {
        loop {
            let take = self.schedule.borrow_mut().take(self.now());
            match take {
                Take::Send(ticket) => self.send(&mut link, ticket).await,
                Take::Wait => {
                    self.idle.set(self.idle.get() + 1);
                    self.work.notified().await;
                    self.idle.set(self.idle.get() - 1);
                }
                Take::Done => return,
            }
        }
    }

    async fn send(&self, link: &mut Link, ticket: Ticket) {
        let mut body = Vec::new();
        let id = self.traffic.borrow_mut().next(&mut body);
        let (sent_bytes, measured) = (body.len() as u64, u64::from(ticket.measured));
        self.in_flight.set(self.in_flight.get() + measured);
        let sent = self.now();
        let call = link.call(&self.target, Bytes::from(body));
        let mut beacons = Vec::new();
        let (verdict, answer) = match tokio::time::timeout(self.timeout, call).await {
            Ok(Ok((status, body))) => {
                let verdict = judge(status, &body, id.as_str());
                if let (Verdict::Bids { .. }, Some(called)) = (&verdict, &self.beacons) {
                    beacons = called.due(id.as_str(), &body);
                }
                (verdict, Some((status, body)))
            }
            Ok(Err(Failure::Unconnected(problem))) => (Verdict::Unconnected(problem), None),
            Ok(Err(Failure::Broken(problem))) => (Verdict::Broken(problem), None),
            Err(_) => {
                *link = Link::default();
                (Verdict::Timeout, None)
            }
        };
        let rest = matches!(verdict, Verdict::Unconnected(_));
        if ticket.measured {
            let times = RequestTimes { intended: ticket.intended, sent, end: self.now() };
            let mut tally = self.tally.borrow_mut();
            tally.counts.request_bytes += sent_bytes;
            tally.record(times, verdict, answer);
        }
        self.in_flight.set(self.in_flight.get() - measured);
        for path in beacons {
            self.call_beacon(link, &path, measured).await;
        }
        if rest {
            tokio::time::sleep(RECONNECT_PAUSE).await;
        }
    }

    async fn call_beacon(&self, link: &mut Link, path: &str, measured: u64) {
        let visit = link.visit(&self.target, path);
        let answer = tokio::time::timeout(self.timeout, visit).await;
        let is_taken = matches!(&answer, Ok(Ok((status, _))) if status.is_success());
        if answer.is_err() {
            *link = Link::default();
        }
        let mut tally = self.tally.borrow_mut();
        tally.counts.beacons += measured;
        tally.counts.beacons_failed += if is_taken { 0 } else { measured };
    }

    fn progress(&self) -> Progress {
        let (schedule, tally) = (self.schedule.borrow(), self.tally.borrow());
        let elapsed = self.now();
        Progress {
            elapsed,
            warming_up: elapsed < self.warm_up,
            sent: schedule.sent(),
            unsent: schedule.unsent(),
            answered: tally.counts.answered(),
            errors: tally.counts.errors() + schedule.unsent(),
            in_flight: self.in_flight.get(),
            after_tmax: tally.counts.after_tmax,
            latency_us: quantiles(&tally.latency),
        }
    }
}
