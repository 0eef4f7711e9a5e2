//! The exchange as a service: configured, started on shards, observed, drained.

use std::net::TcpListener;
use std::path::Path;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

use eventlog::ReadError;
use eventlog::lane::Log;
use exchange_core::delivery::Replay;
use exchange_core::guard::Status;
use runtime::metrics::{Exposition, PerShard};
use runtime::shards::{ShardContext, Shards, ShardsOptions, StartError};
use runtime::shutdown::Shutdown;
use runtime::traces::Tracer;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tracing::{debug, error};

use crate::config::ExchangeConfig;
use crate::dns::{Resolver, SystemNames};
use crate::fanout::{Reactor, Tls};
use crate::generation::{Generation, Generations, Reloaded};
use crate::guards::{GuardId, Guards, GuardsThread};
use crate::http;
use crate::metrics::{Beside, ExchangeMetrics, expose};
use crate::notices::{
    Client, Clock, Counter, Journal, Office, Times, View, Window, own_key, unix_ms,
};
use crate::recording::{OpenLog, Opened, RecordError, Recording, Unrecorded};
use crate::shard::Shard;

/// A running exchange.
#[derive(Debug)]
pub struct Exchange {
    shards: Shards,
    metrics: PerShard<ExchangeMetrics>,
    generations: Mutex<Generations>,
    current: watch::Receiver<Arc<Generation>>,
    guards: Guards,
    /// `None` when the first configuration had no notices.
    office: Option<OpenOffice>,
    /// `None` when the first configuration had no record.
    recording: Option<Recording>,
    /// Rights are renewed as long as this lives.
    _renewal: GuardsThread,
}

/// Why the exchange could not be started.
#[derive(Debug, thiserror::Error)]
pub enum ExchangeError {
    /// Its threads could not.
    #[error(transparent)]
    Start(#[from] StartError),
    /// A thread beside the shards could not.
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
    /// There is no record.
    #[error("record.directory: {0}")]
    Record(#[from] RecordError),
    /// What is owed to DSPs cannot be read from it.
    #[error("record.directory: {0}")]
    Notices(#[from] ReadError),
    /// The key for notices cannot be had.
    #[error("record.directory: {0}")]
    Key(std::io::Error),
}

impl Exchange {
    /// Starts shards that serve callers on `listener`.
    pub fn start(
        config: ExchangeConfig,
        options: &ShardsOptions,
        listener: TcpListener,
        shutdown: &Shutdown,
        tracer: Tracer,
    ) -> Result<Self, ExchangeError> {
        let resolver = Resolver::start().map_err(ExchangeError::Thread)?;
        let (guards, lines) = Guards::new(options.shards);
        let renewal = guards.start(shutdown).map_err(ExchangeError::Thread)?;
        let mut log = config.record.as_ref().map(OpenLog::open).transpose()?;
        let office = open_office(&config, log.as_mut().map(|log| &mut log.log))?;
        let Opened { recording, recorders, generations: log } = Opened::of(log, options.shards)?;
        if let (Some(recording), None) = (&recording, &office) {
            // Nobody needs anything of it at the next start but its last generation.
            recording.lanes().durable.keep_from(u64::MAX);
        }
        let own_key = office.as_ref().map(|office| office.own_key);
        let beside = (resolver, guards.clone());
        let generations = Generations::new(config, options.shards, beside, (own_key, log));
        let generations = generations.map_err(RecordError::from)?;
        let current = generations.subscribe();
        let metrics = PerShard::new(options.shards);
        let body = {
            let (current, metrics) = (current.clone(), metrics.clone());
            let counter = office.as_ref().map(|office| office.counter.clone());
            let seats = lines.into_iter().zip(recorders);
            let seats: Vec<_> = seats.map(|seat| Mutex::new(Some(seat))).collect();
            move |context: ShardContext| {
                let counters = metrics.shard(context.index());
                let seat = seats[context.index()].lock().expect("nothing panics with it").take();
                let (line, recorder) = seat.expect("a shard starts once");
                let mut generations = current.clone();
                let (counter, tracer) = (counter.clone(), tracer.clone());
                async move {
                    match Reactor::start(Arc::clone(&counters), context.shutdown()) {
                        Ok(reactor) => {
                            let first = Arc::clone(&generations.borrow_and_update());
                            let seat = (context.index(), line);
                            let beside = (counter, recorder, tracer);
                            let shard = Shard::new(seat, beside, first, counters, reactor);
                            run_shard(context, Rc::new(shard), generations).await;
                        }
                        Err(error) => {
                            error!(%error, "a shard cannot wait for DSPs; shutting down");
                            context.shutdown().begin();
                        }
                    }
                }
            }
        };
        let shards = Shards::start(options, vec![listener], shutdown, body)?;
        Ok(Self {
            shards,
            metrics,
            generations: Mutex::new(generations),
            current,
            guards,
            _renewal: renewal,
            office,
            recording,
        })
    }

    /// What it counts, by shard.
    pub fn metrics(&self) -> &PerShard<ExchangeMetrics> {
        &self.metrics
    }

    /// The configuration in force, and what is counted of its DSPs.
    pub fn generation(&self) -> Arc<Generation> {
        Arc::clone(&self.current.borrow())
    }

    /// Puts another configuration in force: auctions that have begun end by the one before. What
    /// the DSPs that it leaves alone have open stays open.
    ///
    /// # Errors
    /// It cannot be recorded: the one before stays in force.
    pub fn reload(&self, config: ExchangeConfig) -> Result<Reloaded, Unrecorded> {
        self.generations.lock().expect("nothing panics while it builds").replace(config)
    }

    /// Stops asking a DSP, or asks it again, until the process ends; `false` when there is none of
    /// this id.
    pub fn pause(&self, dsp: &str, paused: bool) -> bool {
        self.generations.lock().expect("nothing panics while it builds").pause(dsp, paused)
    }

    /// What a DSP may be asked, and how it fares.
    pub fn guard_status(&self, dsp: &str) -> Option<Status> {
        self.guards.status(self.guard_of(dsp)?)
    }

    /// What has become of notices; `None` when there is no office for them.
    pub fn notices(&self) -> Option<View> {
        self.office.as_ref().map(|office| office.window.view())
    }

    fn guard_of(&self, dsp: &str) -> Option<GuardId> {
        let generation = self.generation();
        let index = generation.config.market.dsps.iter().position(|known| *known.id == *dsp)?;
        Some(generation.dsps[index].guard)
    }

    /// Adds its metrics to the page that is scraped.
    pub fn expose(&self, exposition: &mut Exposition) {
        let (current, metrics) = (self.current.clone(), self.metrics.clone());
        let office = self.office.as_ref().map(|office| office.window.clone());
        let record = self.recording.as_ref().map(|recording| recording.lanes().clone());
        let beside = Beside { guards: self.guards.clone(), office, record };
        exposition.add(move |page| {
            let generation = Arc::clone(&current.borrow());
            expose(&generation, &metrics, &beside, page)
        });
        let connections = self.shards.metrics();
        exposition.add(move |page| connections.expose(page));
    }

    /// Waits for the shutdown and the drain.
    pub fn join(self) -> Result<(), runtime::shards::ShardsPanicked> {
        let ended = self.shards.join();
        if let Some(OpenOffice { office, counter, .. }) = self.office {
            drop(counter);
            office.join();
        }
        // Whoever hands over records has ended.
        drop(self.generations);
        if let Some(recording) = self.recording {
            recording.close();
        }
        ended
    }
}

/// The office and what leads to it.
#[derive(Debug)]
struct OpenOffice {
    office: Office,
    counter: Counter,
    window: Window,
    own_key: [u8; 32],
}

/// Opens the office, with what is owed since before by the log; `None` when notices are not ours to
/// fire. Nothing of it is durable before the log is started.
fn open_office(
    config: &ExchangeConfig,
    log: Option<&mut Log>,
) -> Result<Option<OpenOffice>, ExchangeError> {
    let (Some(notices), Some(record), Some(log)) = (&config.notices, &config.record, log) else {
        return Ok(None);
    };
    let directory: &Path = &record.directory;
    let clock = Clock::start();
    let mut replay = Replay::new(notices.policy, unix_ms());
    let mut unreadable = 0;
    let journal =
        Journal::open((log, record.durable.ring_bytes), directory, |sequence, record| {
            if let Err(error) = replay.record(sequence, record) {
                unreadable += 1;
                error!(sequence, %error, "a journalled notice cannot be read");
            }
        })?;
    if unreadable > 0 {
        error!(unreadable, "notices may be lost or sent twice");
    }
    let own_key = own_key(directory).map_err(ExchangeError::Key)?;
    let calls = notices.calls.clone();
    let tls = Tls::trusting(notices.authorities.as_ref());
    let client = move || {
        let resolver = SystemNames::new();
        Client::new(calls, Box::new(resolver), tls)
    };
    let delivery = replay.finish(clock.now());
    let answer_timeout = notices.policy.answer_timeout.mul_f64(0.9);
    let times = Times { clock, linger: notices.linger, answer_timeout };
    let started = Office::start(delivery, journal, client, times);
    let (office, counter, window) = started.map_err(ExchangeError::Thread)?;
    Ok(Some(OpenOffice { office, counter, window, own_key }))
}

async fn run_shard(
    mut context: ShardContext,
    shard: Rc<Shard>,
    generations: watch::Receiver<Arc<Generation>>,
) {
    tokio::task::spawn_local(Rc::clone(&shard).sweep());
    tokio::task::spawn_local(Rc::clone(&shard).follow(generations));
    while let Some(accepted) = context.accept().await {
        let shard = Rc::clone(&shard);
        let shutdown = context.shutdown().clone();
        context.tasks().spawn_isolated(async move {
            let (_open, peer) = (accepted.open, accepted.peer.ip());
            match TcpStream::from_std(accepted.stream) {
                Ok(stream) => {
                    let drain = async move {
                        shutdown.started().await;
                    };
                    http::serve((stream, peer), shard, drain).await;
                }
                Err(error) => debug!(%error, "accepted socket is unusable"),
            }
        });
    }
}
