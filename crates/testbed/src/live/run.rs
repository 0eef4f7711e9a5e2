//! One run: connects everybody, waits, measures, and adds up.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use runtime::process;
use rustix::time::{ClockId, clock_gettime};
use tokio::task::{LocalSet, spawn_local};
use tokio::time::{Instant, sleep};
use units::SplitMix64;

use super::counts::{LiveLoadCounts, now_us};
use super::frames::{OpenSocket, connect};
use super::options::{LiveLoadError, LiveLoadOptions};
use super::publisher::{LoadPublisher, publish};
use super::report::{LiveLoadReport, RunFigures};
use super::server_process::ProcessFigures;
use super::subscriber::{Subscriber, SubscriberKind, SubscriberProgress};

/// How long late messages are waited for.
const GRACE: Duration = Duration::from_millis(500);
/// Bytes of one read.
const SCRATCH_BYTES: usize = 64 << 10;

/// What is told meanwhile.
#[derive(Clone, Copy, Debug)]
pub struct LiveLoadProgress {
    /// Since the start of the warm-up.
    pub elapsed: Duration,
    /// Messages received by healthy subscribers.
    pub delivered: u64,
}

/// Loads a live floor until the run is over or `stop` is set. Blocks.
///
/// # Errors
/// The options make no sense, or the server refuses a client.
pub fn run(
    options: &LiveLoadOptions,
    stop: &Arc<AtomicBool>,
    on_progress: &mut dyn FnMut(LiveLoadProgress),
) -> Result<LiveLoadReport, LiveLoadError> {
    options.check()?;
    if let Some(core) = options.core {
        process::pin_to_core(core).map_err(|source| LiveLoadError::Core { core, source })?;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    LocalSet::new().block_on(&runtime, load(options, stop, on_progress))
}

async fn load(
    options: &LiveLoadOptions,
    stop: &Arc<AtomicBool>,
    on_progress: &mut dyn FnMut(LiveLoadProgress),
) -> Result<LiveLoadReport, LiveLoadError> {
    let options = Rc::new(options.clone());
    let counts = Rc::new(RefCell::new(LiveLoadCounts::new()));
    let opened = open_subscribers(&options, &counts).await?;
    let mut publishers = Vec::new();
    for _ in 0..options.publishers {
        publishers.push(connect(options.address, options.token.as_deref()).await?);
    }
    let whole = options.warm_up + options.duration + GRACE;
    let before = figures(&options);
    let (started, started_us) = (Instant::now(), now_us());
    let until = started + whole;
    let micros = |duration: Duration| u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
    let from_us = started_us + micros(options.warm_up);
    counts.borrow_mut().window = from_us..from_us + micros(options.duration);
    for (mut subscriber, connection) in opened {
        subscriber.until = until;
        spawn_local(subscriber.run(connection));
    }
    for (number, connection) in publishers.into_iter().enumerate() {
        let (options, counts) = (Rc::clone(&options), Rc::clone(&counts));
        let publisher = LoadPublisher { number, options, counts, until: until - GRACE };
        spawn_local(publish(publisher, connection));
    }
    let mut at_begin = before;
    let mut peak = before.unwrap_or_default();
    let mut has_begun = false;
    let cpu_before = thread_cpu_time();
    while Instant::now() < until - GRACE && !stop.load(Ordering::Relaxed) {
        if !has_begun && started.elapsed() >= options.warm_up {
            (has_begun, at_begin) = (true, figures(&options));
        }
        if let Some(now) = figures(&options) {
            peak.resident_kib = peak.resident_kib.max(now.resident_kib);
            peak.send_queue_bytes = peak.send_queue_bytes.max(now.send_queue_bytes);
        }
        let delivered = counts.borrow().delivered;
        on_progress(LiveLoadProgress { elapsed: started.elapsed(), delivered });
        let left = (until - GRACE).saturating_duration_since(Instant::now());
        let next = if has_begun { left } else { options.warm_up.saturating_sub(started.elapsed()) };
        sleep(next.min(Duration::from_millis(200)).max(Duration::from_millis(1))).await;
    }
    let at_end = figures(&options);
    let measured = started.elapsed().saturating_sub(options.warm_up);
    let busy = (thread_cpu_time() - cpu_before).as_secs_f64() / started.elapsed().as_secs_f64();
    sleep(GRACE).await;
    let times = RunFigures { measured, busy, before, at_begin, at_end, peak };
    Ok(LiveLoadReport::of(&counts.borrow(), &options, &times))
}

/// Connects and subscribes everybody.
async fn open_subscribers(
    options: &Rc<LiveLoadOptions>,
    counts: &Rc<RefCell<LiveLoadCounts>>,
) -> Result<Vec<(Subscriber, OpenSocket)>, LiveLoadError> {
    let scratch = Rc::new(RefCell::new(vec![0; SCRATCH_BYTES]));
    let mut opened = Vec::new();
    let mut draws = SplitMix64::new(options.seed);
    let kinds = [
        (SubscriberKind::Healthy, options.subscribers),
        (SubscriberKind::Stalled, options.stalled),
        (SubscriberKind::Slow, options.slow),
        (SubscriberKind::Reconnecting, options.reconnecting),
    ];
    for kind in kinds.into_iter().flat_map(|(kind, count)| std::iter::repeat_n(kind, count)) {
        let (counts, scratch) = (Rc::clone(counts), Rc::clone(&scratch));
        let subscriber = Subscriber {
            options: Rc::clone(options),
            kind,
            counts,
            scratch,
            draws: SplitMix64::new(draws.bits()),
            until: Instant::now(),
            progress: SubscriberProgress::new(options.publishers),
        };
        let connection = subscriber.open().await?;
        opened.push((subscriber, connection));
    }
    Ok(opened)
}

fn figures(options: &LiveLoadOptions) -> Option<ProcessFigures> {
    ProcessFigures::of(options.server?, options.address)
}

fn thread_cpu_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}
