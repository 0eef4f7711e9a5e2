//! A load generator for one auction endpoint: open loop at a constant rate with latency from the
//! intended time of each request, or closed loop with a fixed number in flight. Owns the load and
//! its measurement; what requests look like is [`crate::traffic`]'s.

mod beacons;
mod link;
mod report;
mod run;
mod schedule;
mod tally;
mod ticker;
mod verdict;

use std::fmt;
use std::io;
use std::net::ToSocketAddrs;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hyper::Uri;
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

pub use beacons::Beacons;
pub use report::{Counts, Objectives, Quantiles, Report, StatusReport};

use crate::traffic::Traffic;
use link::Target;
use runtime::process;

/// How load is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Requests leave at a constant rate, whatever the target does.
    Open {
        /// Requests per second, at least 1.
        rate_per_s: u32,
    },
    /// A new request leaves when an earlier one has ended.
    Closed {
        /// Connections, each with one request at a time; at least 1.
        in_flight: usize,
    },
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open { rate_per_s } => write!(f, "open loop, {rate_per_s}/s"),
            Self::Closed { in_flight } => write!(f, "closed loop, {in_flight} in flight"),
        }
    }
}

/// When a run ends, its warm-up not counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// After this long.
    For(Duration),
    /// After this many requests.
    Count(u64),
}

/// Connections of an open loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connections {
    /// Opened when a request is due and no open one is free; the most recently used goes first.
    AsNeeded {
        /// Most at once, at least 1.
        max: usize,
    },
    /// So many, at least 1, opened before the first request and used in turn.
    Fixed(usize),
}

/// One run.
#[derive(Clone, Debug)]
pub struct HammerOptions {
    /// `http://host:port/path`
    pub target: String,
    /// How load is made.
    pub mode: Mode,
    /// Load of the same kind beforehand, not measured.
    pub warm_up: Duration,
    /// When the run ends.
    pub length: Length,
    /// How long an answer may take from the moment its request is sent; also how long a request
    /// of an open loop may wait for a free connection.
    pub timeout: Duration,
    /// Deadline the target is to keep: answers after it are counted and measured.
    pub tmax: Option<Duration>,
    /// Connections of an open loop; a closed loop has one for each request in flight.
    pub connections: Connections,
    /// Core for the generating thread; `None` leaves it to the scheduler.
    pub core: Option<usize>,
    /// Calls these on the connection of their answer, before its next request.
    pub beacons: Option<Beacons>,
}

impl HammerOptions {
    /// Ten seconds of closed loop with 32 requests in flight, after one second of warm-up.
    pub fn new(target: impl Into<String>) -> Self {
        Self {
            target: target.into(),
            mode: Mode::Closed { in_flight: 32 },
            warm_up: Duration::from_secs(1),
            length: Length::For(Duration::from_secs(10)),
            timeout: Duration::from_secs(2),
            tmax: None,
            connections: Connections::AsNeeded { max: 1024 },
            core: None,
            beacons: None,
        }
    }
}

/// How a run is going.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Since the start, the warm-up included.
    pub elapsed: Duration,
    /// Nothing is measured yet.
    pub warming_up: bool,
    /// Measured requests sent.
    pub sent: u64,
    /// Measured requests that could not be sent.
    pub unsent: u64,
    /// Measured requests answered.
    pub answered: u64,
    /// Measured requests that went wrong, the unsent included.
    pub errors: u64,
    /// Measured requests waiting for their answers.
    pub in_flight: u64,
    /// Answers and timeouts so far that took longer than `tmax`.
    pub after_tmax: u64,
    /// Latency so far, in microseconds.
    pub latency_us: Option<Quantiles>,
}

/// Why there was no run. A target that fails during it is not an error but counted.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The target is no URL of the form wanted, or its name does not resolve.
    #[error("target `{target}`: {problem}; give it as http://host:port/path")]
    Target {
        /// As given.
        target: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The options make no sense.
    #[error("a load needs {0}")]
    Options(&'static str),
    /// The thread cannot be placed on its core.
    #[error("cannot run on core {core}: {source}")]
    Core {
        /// The core asked for.
        core: usize,
        /// What the system said.
        source: io::Error,
    },
    /// The system refused a thread, a timer or a poll.
    #[error("cannot generate load: {0}")]
    System(#[from] io::Error),
}

/// Loads the target until the run's length is over or `stop` is set, and reports either way.
/// Blocks; the load is made on a thread of its own, from which `on_progress` is called about five
/// times a second.
pub fn run(
    options: &HammerOptions,
    traffic: Traffic,
    stop: Arc<AtomicBool>,
    on_progress: &mut (dyn FnMut(&Progress) + Send),
) -> Result<Report, Error> {
    check(options)?;
    let target = resolve(&options.target).map_err(|problem| {
        let target = options.target.clone();
        Error::Target { target, problem }
    })?;
    std::thread::scope(|scope| {
        let builder = std::thread::Builder::new().name("hammer".to_owned());
        let generator = builder
            .spawn_scoped(scope, move || generate(options, target, traffic, stop, on_progress))?;
        generator.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn check(options: &HammerOptions) -> Result<(), Error> {
    let problem = match options.mode {
        Mode::Open { rate_per_s: 0 } => "at least one request per second",
        Mode::Closed { in_flight: 0 } => "at least one request in flight",
        Mode::Open { .. }
            if matches!(
                options.connections,
                Connections::AsNeeded { max: 0 } | Connections::Fixed(0)
            ) =>
        {
            "at least one connection"
        }
        _ if options.timeout.is_zero() => "a timeout above zero",
        _ if matches!(options.length, Length::For(Duration::ZERO) | Length::Count(0)) => {
            "a length above zero"
        }
        _ => match options.beacons.as_ref().and_then(Beacons::problem) {
            Some(problem) => problem,
            None => return Ok(()),
        },
    };
    Err(Error::Options(problem))
}

fn resolve(target: &str) -> Result<Target, String> {
    let url: Uri =
        target.parse().map_err(|error: hyper::http::uri::InvalidUri| error.to_string())?;
    if url.scheme_str() != Some("http") {
        return Err("only http is supported".to_owned());
    }
    let authority = url.authority().ok_or("the host is missing")?;
    let host = authority.host().trim_start_matches('[').trim_end_matches(']');
    let port = authority.port_u16().unwrap_or(80);
    let mut addresses = (host, port).to_socket_addrs().map_err(|error| error.to_string())?;
    let address = addresses.next().ok_or("the host has no address")?;
    let path = url.path_and_query().map_or("/", |path| path.as_str());
    let path = path.parse().map_err(|_| "the path is not valid".to_owned())?;
    Ok(Target { address, host: authority.to_string(), path })
}

fn generate(
    options: &HammerOptions,
    target: Target,
    traffic: Traffic,
    stop: Arc<AtomicBool>,
    on_progress: run::OnProgress<'_>,
) -> Result<Report, Error> {
    if let Some(core) = options.core {
        process::pin_to_core(core).map_err(|source| Error::Core { core, source })?;
    }
    let started_at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let (started, cpu_before) = (std::time::Instant::now(), thread_cpu_time());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let tasks = tokio::task::LocalSet::new();
    let outcome =
        tasks.block_on(&runtime, run::run(options, target, traffic, stop, on_progress))?;
    let (busy, elapsed) = (thread_cpu_time() - cpu_before, started.elapsed());
    let tally = outcome.tally;
    let duration_s = tally.last_end.saturating_sub(options.warm_up).as_secs_f64();
    let answered = u32::try_from(tally.counts.answered()).map_or(f64::from(u32::MAX), f64::from);
    Ok(Report {
        mode: options.mode,
        target: options.target.clone(),
        started_at_unix_s: started_at.as_secs(),
        duration_s,
        stopped: outcome.stopped,
        connections: outcome.connections,
        answers_per_s: if duration_s > 0.0 { answered / duration_s } else { 0.0 },
        latency_us: tally::quantiles(&tally.latency),
        overshoot_us: tally::quantiles(&tally.overshoot),
        generator_busy_ppm: u64::try_from(busy.as_nanos() * 1_000_000 / elapsed.as_nanos().max(1))
            .unwrap_or(u64::MAX),
        statuses: tally.statuses(),
        problems: tally.problems,
        counts: tally.counts,
    })
}

fn thread_cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}
