//! A load generator for any protocol. Open loop: a constant rate, with latency from each call's
//! intended time. Closed loop: a fixed number of calls in flight. Owns the load and its
//! measurement; a [`Workload`] makes the calls and judges the answers.

mod driver;
mod options;
pub(crate) mod report;
mod schedule;
mod tally;
pub(crate) mod target;
mod ticker;
mod workload;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use runtime::process;
use rustix::time::{ClockId, clock_gettime};

pub use driver::{LoadProgress, OnProgress};
pub use options::{LoadConnections, LoadError, LoadLength, LoadMode, LoadOptions};
pub use report::{CallCounts, LoadCounts, LoadReport, Objectives, Quantiles, StatusReport};
pub use target::HttpLoadError;
pub use workload::{CallAnswer, CallFailure, FollowUp, Verdict, Workload};

/// Loads a target until the run's length is over or `stop` is set, and reports in both cases;
/// `target` is its name in the report. Blocks. The load runs on a thread of its own, which calls
/// `on_progress` about five times a second.
///
/// # Errors
///
/// If the options make no sense, or the system refuses a thread, a core or a timer.
pub fn run<W: Workload>(
    options: &LoadOptions,
    target: &str,
    workload: W,
    stop: Arc<AtomicBool>,
    on_progress: OnProgress<'_>,
) -> Result<LoadReport<W::Outcomes>, LoadError>
where
    W::Outcomes: Send,
{
    options.check()?;
    std::thread::scope(|scope| {
        let builder = std::thread::Builder::new().name("hammer".to_owned());
        let generator = builder
            .spawn_scoped(scope, move || generate(options, target, workload, stop, on_progress))?;
        generator.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn generate<W: Workload>(
    options: &LoadOptions,
    target: &str,
    workload: W,
    stop: Arc<AtomicBool>,
    on_progress: OnProgress<'_>,
) -> Result<LoadReport<W::Outcomes>, LoadError> {
    if let Some(core) = options.core {
        process::pin_to_core(core).map_err(|source| LoadError::Core { core, source })?;
    }
    let started_at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let (started, cpu_before) = (Instant::now(), thread_cpu_time());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let tasks = tokio::task::LocalSet::new();
    let run = tasks.block_on(&runtime, driver::run(options, workload, stop, on_progress))?;
    let (busy, elapsed) = (thread_cpu_time() - cpu_before, started.elapsed());
    let tally = run.tally;
    let duration_s = tally.last_end.saturating_sub(options.warm_up).as_secs_f64();
    let answered = u32::try_from(tally.counts.valid).map_or(f64::from(u32::MAX), f64::from);
    Ok(LoadReport {
        mode: options.mode,
        target: target.to_owned(),
        started_at_unix_s: started_at.as_secs(),
        duration_s,
        stopped: run.stopped,
        connections: run.connections,
        answers_per_s: if duration_s > 0.0 { answered / duration_s } else { 0.0 },
        latency_us: tally::quantiles(&tally.latency),
        overshoot_us: tally::quantiles(&tally.overshoot),
        generator_busy_ppm: u64::try_from(busy.as_nanos() * 1_000_000 / elapsed.as_nanos().max(1))
            .unwrap_or(u64::MAX),
        statuses: tally.statuses(),
        problems: tally.problems,
        counts: LoadCounts { calls: tally.counts, outcomes: run.outcomes },
    })
}

fn thread_cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}
