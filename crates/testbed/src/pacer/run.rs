//! Runs a load: keeps batches in flight, or sends them at their times, and settles what they win.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use mio::{Events, Interest, Poll, Token};
use pacer_wire::DecisionCode;
use runtime::process::pin_to_core;

use super::client::{LoadClient, LoadMoment};
use super::options::{PacerLoadError, PacerLoadOptions};
use super::report::{PacerLoadCounts, PacerLoadReport, RunTimes};
use super::requests::RequestSource;
use crate::load::Quantiles;

/// Longest wait for the catalogue, and for the last settlements.
const PATIENCE: Duration = Duration::from_secs(10);
/// Interval of progress and of settlements that wait for others.
const TURN: Duration = Duration::from_millis(5);

/// The state of a run that goes on.
#[derive(Clone, Copy, Debug)]
pub struct PacerLoadProgress {
    /// Since the start, warm-up included.
    pub elapsed: Duration,
    /// Measured requests with a decision.
    pub requests: u64,
    /// The authorised among them.
    pub authorised: u64,
    /// From the intended time of a batch to its decisions, in microseconds.
    pub latency_us: Quantiles,
    /// Cost of all wins that were booked, in nanos.
    pub billed_nanos: u128,
}

struct Load<'o> {
    options: &'o PacerLoadOptions,
    poll: Poll,
    clients: Vec<LoadClient>,
    source: RequestSource,
    counts: PacerLoadCounts,
    /// Number of the next request.
    next: u64,
    /// Client of the next batch of an open loop.
    turn: usize,
}

/// Runs a load to its end, or until `stop`.
///
/// # Errors
/// See [`PacerLoadError`].
pub fn run(
    options: &PacerLoadOptions,
    stop: &AtomicBool,
    show: &mut dyn FnMut(&PacerLoadProgress),
) -> Result<PacerLoadReport, PacerLoadError> {
    options.check()?;
    if let Some(core) = options.core {
        pin_to_core(core).map_err(|source| PacerLoadError::Core { core, source })?;
    }
    let mut load = Load::open(options)?;
    load.greet()?;
    let begun = Instant::now();
    let measured = begun + options.warm_up;
    let end = measured + options.duration;
    let mut is_measured = false;
    let mut shown = begun;
    // The thread never sleeps: waking it would be work of the pacer's core.
    let mut idle = Duration::ZERO;
    loop {
        let now = Instant::now();
        if end <= now || stop.load(Ordering::Relaxed) {
            break;
        }
        if !is_measured && measured <= now {
            is_measured = true;
        }
        load.send(LoadMoment { now, is_measured }, begun)?;
        let is_idle = load.wait(Duration::ZERO, is_measured)?;
        if is_measured && is_idle {
            idle += now.elapsed();
        }
        if shown + 20 * TURN <= now {
            shown = now;
            show(&progress(&load.counts, now - begun));
        }
    }
    let ended = Instant::now();
    load.finish()?;
    let measured = ended.saturating_duration_since(measured);
    let times = RunTimes { measured, busy: measured.saturating_sub(idle) };
    Ok(PacerLoadReport::of(&load.counts, options.address.to_string(), times))
}

fn progress(counts: &PacerLoadCounts, elapsed: Duration) -> PacerLoadProgress {
    PacerLoadProgress {
        elapsed,
        requests: counts.requests(),
        authorised: counts.decisions[DecisionCode::Authorised as usize],
        latency_us: Quantiles::of(&counts.latency_us),
        billed_nanos: counts.billed_nanos,
    }
}

impl<'o> Load<'o> {
    fn open(options: &'o PacerLoadOptions) -> Result<Self, PacerLoadError> {
        let address = options.address;
        let failed = |source: io::Error| PacerLoadError::Connection { address, source };
        let poll = Poll::new().map_err(failed)?;
        let mut clients = Vec::with_capacity(options.connections);
        for number in 0..options.connections {
            let mut client = LoadClient::connect(options, number as u64)?;
            let interest = Interest::READABLE | Interest::WRITABLE;
            poll.registry()
                .register(&mut client.stream, Token(number), interest)
                .map_err(failed)?;
            clients.push(client);
        }
        let source = RequestSource {
            campaigns: Vec::new(),
            candidates: options.candidates,
            biddable: options.biddable,
            seed: options.seed,
        };
        let counts = PacerLoadCounts::default();
        Ok(Self { options, poll, clients, source, counts, next: 1, turn: 0 })
    }

    /// Waits for the catalogue on all connections.
    fn greet(&mut self) -> Result<(), PacerLoadError> {
        let until = Instant::now() + PATIENCE;
        while !self.clients.iter().all(|client| client.is_ready) {
            self.write()?;
            self.wait(TURN, false)?;
            if until <= Instant::now() {
                return Err(PacerLoadError::Closed("it sends no catalogue".to_owned()));
            }
        }
        self.source.campaigns = std::mem::take(&mut self.clients[0].campaigns);
        if self.source.campaigns.is_empty() {
            return Err(PacerLoadError::NoCampaigns);
        }
        Ok(())
    }

    /// Sends the batches and settlements that are due.
    fn send(&mut self, due: LoadMoment, begun: Instant) -> Result<(), PacerLoadError> {
        match self.options.rate {
            None => self.fill(due),
            Some(rate) => self.keep_pace(rate, due, begun),
        }
        for client in &mut self.clients {
            client.send_settlements(due.now);
        }
        self.write()
    }

    /// Closed loop: brings every connection up to its depth.
    fn fill(&mut self, due: LoadMoment) {
        let Self { options, clients, source, next, .. } = self;
        for client in clients {
            while client.batches() < options.depth && client.has_credit() {
                let range = *next..*next + options.batch as u64;
                *next = range.end;
                client.send_batch(source, range, options.deadline, due);
            }
        }
    }

    /// Open loop: sends what was due by now, whether or not the pacer keeps up. A batch that finds
    /// no credit anywhere waits, and its latency counts from when it was due.
    fn keep_pace(&mut self, rate: u64, due: LoadMoment, begun: Instant) {
        let Self { options, clients, source, next, turn, .. } = self;
        let batch = options.batch as u64;
        let interval = Duration::from_secs_f64(batch as f64 / rate as f64);
        loop {
            let sent = (*next - 1) / batch;
            let intended = begun + interval.mul_f64(sent as f64);
            if due.now < intended {
                return;
            }
            let count = clients.len();
            let free = (0..count).map(|at| (*turn + at) % count);
            let Some(at) = free.into_iter().find(|at| clients[*at].has_credit()) else { return };
            *turn = (at + 1) % count;
            let range = *next..*next + batch;
            *next = range.end;
            let moment = LoadMoment { now: intended, ..due };
            clients[at].send_batch(source, range, options.deadline, moment);
        }
    }

    fn write(&mut self) -> Result<(), PacerLoadError> {
        let address = self.options.address;
        for client in &mut self.clients {
            client.write().map_err(|source| PacerLoadError::Connection { address, source })?;
        }
        Ok(())
    }

    /// Waits for replies, at most this long, and takes them. Returns whether there were none.
    fn wait(&mut self, most: Duration, is_measured: bool) -> Result<bool, PacerLoadError> {
        let address = self.options.address;
        let mut events = Events::with_capacity(1024);
        match self.poll.poll(&mut events, Some(most)) {
            Ok(()) => (),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
            Err(source) => return Err(PacerLoadError::Connection { address, source }),
        }
        let Self { clients, source, counts, .. } = self;
        for event in events.iter().filter(|event| event.is_readable()) {
            let client = &mut clients[event.token().0];
            loop {
                let moment = LoadMoment { now: Instant::now(), is_measured };
                if !client.read(source, moment, counts, address)? {
                    break;
                }
            }
        }
        Ok(events.is_empty())
    }

    /// Waits for the last decisions and settlements.
    fn finish(&mut self) -> Result<(), PacerLoadError> {
        let until = Instant::now() + PATIENCE;
        while self.clients.iter().any(|client| client.batches() > 0 || !client.is_settled()) {
            let now = Instant::now();
            if until <= now {
                return Err(PacerLoadError::Closed(
                    "it does not answer the last frames".to_owned(),
                ));
            }
            self.clients.iter_mut().for_each(|client| client.send_settlements(now));
            self.write()?;
            self.wait(TURN, true)?;
        }
        Ok(())
    }
}
