//! The exchange as a service: configured, started on shards, observed, drained.

use std::net::SocketAddr;
use std::path::Path;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use eventlog::lane::{LaneState, LogBuilder};
use exchange_core::campaigns::ProbeCounts;
use exchange_core::guard::GuardStatus;
use http_kit::dns::SystemNames;
use http_kit::tls::client_config;
use pacer_core::funnel::FunnelWindow;
use pacer_core::messages::CampaignIndex;
use pacer_core::shard::ShardOptionsError;
use runtime::admin::{Api, ChangeAllowance, Readiness};
use runtime::builder::{Builder, Job};
use runtime::config::{Effective, Section};
use runtime::control::ControlTask;
use runtime::metrics::{Exposition, PerShard};
use runtime::service::{
    BoxError, DescriptorNeeds, LocalFuture, Port, Service, ServiceError, ServiceReload,
    ServiceShard, Startup,
};
use runtime::shards::ShardContext;
use runtime::traces::Tracer;
use rustls::ClientConfig;
use tokio::sync::watch;
use tracing::warn;
use units::Currency;

use crate::budgets::campaigns::Campaigns;
use crate::budgets::funnels::Funnels;
use crate::budgets::shard::{
    BudgetContext, HandoverSlot, PeerShards, ReservationCommands, SettlementRouter, ShardBudget,
    ShardLedgerPort,
};
use crate::config::{ExchangeConfig, NoticesConfig};
use crate::exchange::api;
use crate::exchange::dns::Resolver;
use crate::exchange::generation::{Generation, GenerationBuilder, GenerationChange};
use crate::exchange::shard::{ExchangeShard, ShardIdentity, ShardParts};
use crate::fanout::DspReactor;
use crate::guards::{GuardId, GuardPort, Guards};
use crate::http::AUCTION_PATH;
use crate::metrics::{ExchangeMetrics, MetricsSources, expose};
use crate::notices::{
    DeliveryClock, NodeClient, NoticeClient, NoticeDispatcher, NoticeMonitor, NoticeSender,
    NoticeStatus, NoticeTiming, ReplayError, Settlements, Unbudgeted, own_key, replay,
};
use crate::recording::{
    OpenLog, OpenRecord, RecordError, RecordLanes, RecordParts, Recorder, Unrecorded,
};

/// Port at which the ledger offers its budgets.
pub const BUDGETS: Port<Budgets> = Port::new("budgets");

/// Fewest outbound connections to start with; each shard needs at least one for each DSP.
const OUTBOUND_MIN: u64 = 16;
/// How long beacons and notices gather for one commit; no browser notices twice this delay.
const LINGER: Duration = Duration::from_millis(10);

/// A running exchange.
#[derive(Debug)]
pub struct Exchange {
    listening: SocketAddr,
    metrics: PerShard<ExchangeMetrics>,
    /// None once the exchange is closed.
    generations: Mutex<Option<GenerationBuilder>>,
    current: watch::Receiver<Arc<Generation>>,
    guards: Guards,
    /// None if the first configuration had no notices.
    notices: Option<NoticeMonitor>,
    /// None if the first configuration had no record.
    lanes: Option<RecordLanes>,
    /// None without budgets.
    funnels: Option<Funnels>,
    tracer: Tracer,
    id_key: [u8; 16],
    outbound_max: usize,
    seats: Vec<Mutex<Option<ShardSlot>>>,
    closing: Mutex<Option<ExchangeEnd>>,
}

#[derive(Debug)]
struct ShardSlot {
    line: GuardPort,
    recorder: Option<Recorder>,
    budget: Option<(ShardBudget, ReservationCommands)>,
    dispatcher: Option<NoticeSender>,
    to_nodes: Option<(Arc<NoticesConfig>, Arc<ClientConfig>)>,
}

/// Parts that close with the exchange, in this order.
#[derive(Debug)]
struct ExchangeEnd {
    dispatcher: Option<NoticeDispatcher>,
    recording: Option<OpenRecord>,
    jobs: Vec<Job>,
    renewal: ControlTask,
}

/// Why the exchange cannot start.
#[derive(Debug, thiserror::Error)]
pub enum ExchangeError {
    /// A thread cannot be spawned.
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
    /// The record cannot be opened.
    #[error("record.directory: {0}")]
    Record(#[from] RecordError),
    /// Owed notices and settlements cannot be read from the record.
    #[error("record.directory: {0}")]
    Notices(#[from] ReplayError),
    /// The key for notices cannot be read or created.
    #[error("record.directory: {0}")]
    Key(std::io::Error),
    /// The budgets are refused.
    #[error(transparent)]
    Budgets(#[from] BudgetsError),
}

/// Why the exchange cannot keep budgets.
#[derive(Debug, thiserror::Error)]
pub enum BudgetsError {
    /// Without beacons nobody reports what is billed; without a record it is not durable.
    #[error(
        "[budgets] needs [record] and [exchange.notices]: what is billed is told by beacons, and kept in the log"
    )]
    Unbilled,
    /// An option is out of its range.
    #[error("budgets: {0}")]
    Options(#[from] ShardOptionsError),
}

/// The ledger's side of an exchange.
pub struct Budgets {
    /// Shared by all shards.
    pub budget_context: BudgetContext,
    /// One per shard.
    pub lines: Vec<ShardLedgerPort>,
    /// In force from the first auction on.
    pub campaigns: Campaigns,
    /// Books what is billed.
    pub settlements: Box<dyn Settlements>,
    /// Called once with the started exchange. Returns a job that may replace the campaigns.
    pub on_start: OnStart,
}

/// See [`Budgets::on_start`].
pub type OnStart = Box<dyn FnOnce(&Arc<Exchange>, &Builder) -> Job + Send>;

impl Service for Exchange {
    const NAME: &'static str = "exchange";
    /// Budgets come from the ledger.
    const USES: &'static [&'static str] = &["ledger"];

    type Config = ExchangeConfig;

    fn read(s: &mut Section<'_>) -> Option<ExchangeConfig> {
        ExchangeConfig::read(s)
    }

    fn addresses(config: &ExchangeConfig) -> Vec<SocketAddr> {
        vec![config.listen]
    }

    fn descriptors(config: &ExchangeConfig, shards: usize) -> DescriptorNeeds {
        let shards = shards as u64;
        // A reload may add the first DSP.
        let dsps = config.market.dsps.len().max(1) as u64;
        let of_notices = config.notices.as_ref().zip(config.record.as_ref());
        let notices = of_notices.map_or(0, |(notices, record)| {
            let nodes = notices.nodes.keys().filter(|node| **node != record.node).count() as u64;
            dsps * notices.calls.connections_max as u64
                + shards * nodes * notices.node_connections_max as u64
        });
        DescriptorNeeds {
            fixed: notices,
            fixed_keys: "`connections_max` or `node_connections_max` of `exchange.notices`",
            outbound: shards * dsps * config.pool.connections_max as u64,
            outbound_min: OUTBOUND_MIN.max(shards * dsps),
            outbound_to: "DSPs",
            outbound_key: "exchange.pool.connections_max",
        }
    }

    fn start(config: ExchangeConfig, startup: &mut Startup<'_>) -> Result<Arc<Self>, ServiceError> {
        let budgets = startup.ports.take(&BUDGETS);
        let config = match startup.effective {
            Some(effective) => ExchangeConfig { text: effective.to_toml(), ..config },
            None => config,
        };
        warn_of_open_directory(&config);
        if config.market.dsps.is_empty() {
            let only = if budgets.is_some() { "direct campaigns alone bid" } else { "nobody bids" };
            warn!("no [[dsp]] is configured: {only}");
        }
        Self::open(config, startup, budgets).map_err(ServiceError::unavailable)
    }

    fn start_shard<'s>(
        self: Arc<Self>,
        context: &'s ShardContext,
    ) -> LocalFuture<'s, Result<Option<Rc<dyn ServiceShard>>, BoxError>> {
        Box::pin(async move { Ok(Some(self.shard(context)? as Rc<dyn ServiceShard>)) })
    }

    fn announcement(&self) -> Option<String> {
        let (dsps, shards) = (self.generation().dsps.len(), self.seats.len());
        let counted =
            |count: usize, noun| format!("{count} {noun}{}", if count == 1 { "" } else { "s" });
        Some(format!(
            "taking bid requests at http://{}{AUCTION_PATH}, {}, {}",
            self.listening,
            counted(dsps, "DSP"),
            counted(shards, "shard")
        ))
    }

    fn generation(&self) -> Option<u64> {
        Some(self.generation().number)
    }

    fn reload(
        &self,
        config: Option<ExchangeConfig>,
        effective: &Effective,
    ) -> Result<ServiceReload, BoxError> {
        let Some(config) = config else {
            return Ok(ServiceReload {
                generation: Some(self.generation().number),
                needs_restart: vec![Self::NAME.to_owned()],
                ..ServiceReload::default()
            });
        };
        let reloaded = self.replace(ExchangeConfig { text: effective.to_toml(), ..config })?;
        Ok(ServiceReload {
            generation: Some(reloaded.number),
            added: reloaded.added,
            removed: reloaded.removed,
            needs_restart: reloaded.needs_restart.into_iter().map(str::to_owned).collect(),
        })
    }

    fn expose(self: &Arc<Self>, exposition: &mut Exposition) {
        let (current, metrics) = (self.current.clone(), self.metrics.clone());
        let (dispatcher, record) = (self.notices.clone(), self.lanes.clone());
        let beside = MetricsSources { guards: self.guards.clone(), dispatcher, record };
        if let Some(funnels) = self.funnels.clone() {
            exposition.add(move |page| funnels.expose(page));
        }
        exposition.add(move |page| {
            let generation = Arc::clone(&current.borrow());
            expose(&generation, &metrics, &beside, page)
        });
    }

    fn add_readiness(self: &Arc<Self>, readiness: &mut Readiness) {
        readiness.add("names of DSPs", api::names_are_known(self));
    }

    fn admin_apis(self: &Arc<Self>, _changes: &ChangeAllowance) -> Vec<Api> {
        vec![api::api(self)]
    }

    fn close(&self) -> Result<(), ServiceError> {
        let closing = self.closing.lock().expect("nothing panics while it closes").take();
        let Some(ExchangeEnd { dispatcher, recording, jobs, renewal }) = closing else {
            return Ok(());
        };
        // Drop the parts of shards that never started.
        for seat in &self.seats {
            seat.lock().expect("nothing panics with it").take();
        }
        if let Some(dispatcher) = dispatcher {
            dispatcher.join();
        }
        // Nothing writes records from here on.
        drop(self.generations().take());
        if let Some(recording) = recording {
            recording.close();
        }
        drop(jobs);
        renewal.stop();
        Ok(())
    }
}

/// Directories that we create are private; an existing one may be open to others.
fn warn_of_open_directory(config: &ExchangeConfig) {
    let Some(record) = &config.record else { return };
    if let Some(mode) = runtime::process::open_to_others(&record.directory) {
        warn!(
            "record.directory: other users have rights to {} (mode {mode:o}): chmod 700",
            record.directory.display()
        );
    }
}

impl Exchange {
    fn open(
        config: ExchangeConfig,
        startup: &Startup<'_>,
        budgets: Option<Budgets>,
    ) -> Result<Arc<Self>, ExchangeError> {
        let shards = startup.shards;
        let resolver = Resolver::start(startup.control);
        let (guards, lines) = Guards::new(shards);
        let mut log = config.record.as_ref().map(OpenLog::open).transpose()?;
        let (accounts, campaigns, settlements, on_start) = BudgetParts::of(budgets);
        let dispatcher = open_notices(&config, log.as_mut().map(|log| &mut log.log), settlements)?;
        let RecordParts { recording, recorders, generations: log } = RecordParts::of(log, shards)?;
        let funnels = accounts.is_some().then(|| Funnels::new(shards));
        let shard_budgets = match (accounts, &funnels) {
            (Some(accounts), Some(funnels)) => {
                accounts.shard_budgets((recording.as_ref(), dispatcher.is_some()), funnels)?
            }
            _ => (0..shards).map(|_| None).collect(),
        };
        if let (Some(recording), None) = (&recording, &dispatcher) {
            // Without a dispatcher the next start reads only the log's last generation.
            recording.lanes().durable.keep_from(u64::MAX);
        }
        let own_key = dispatcher.as_ref().map(|dispatcher| dispatcher.own_key);
        let beside = (resolver, guards.clone());
        let generations =
            GenerationBuilder::new((config, campaigns), shards, beside, (own_key, log));
        let generations = generations.map_err(RecordError::from)?;
        let current = generations.subscribe();
        if let Some(funnels) = &funnels {
            let generation = current.borrow();
            funnels.follow(generation.campaigns.catalogue.campaigns().iter().map(|it| it.slot), 0);
        }
        let jobs = funnels.iter().map(|funnels| funnels.start(startup.builder)).collect();
        let renewal = guards.start(startup.control, startup.shutdown);
        let seat = |((line, recorder), budget)| {
            let counter = dispatcher.as_ref().map(|dispatcher| dispatcher.counter.clone());
            let to_nodes = dispatcher.as_ref().map(|dispatcher| dispatcher.to_nodes.clone());
            Mutex::new(Some(ShardSlot { line, recorder, budget, dispatcher: counter, to_nodes }))
        };
        let seats = lines.into_iter().zip(recorders).zip(shard_budgets).map(seat).collect();
        let (dispatcher, notices) = dispatcher.map(|it| (it.dispatcher, it.window)).unzip();
        let lanes = recording.as_ref().map(|recording| recording.lanes().clone());
        let exchange = Arc::new(Self {
            listening: startup.listening[0],
            metrics: PerShard::new(shards),
            generations: Mutex::new(Some(generations)),
            current,
            guards,
            notices,
            lanes,
            funnels,
            tracer: startup.tracer.clone(),
            id_key: rand::random(),
            outbound_max: startup.outbound_max / shards.max(1),
            seats,
            closing: Mutex::new(Some(ExchangeEnd { dispatcher, recording, jobs, renewal })),
        });
        let following = on_start.map(|on_start| on_start(&exchange, startup.builder));
        let jobs = following.into_iter().chain([exchange.repeat_records(startup.builder)]);
        let mut closing = exchange.closing.lock().expect("nothing panics while it closes");
        closing.as_mut().expect("it is not closed yet").jobs.extend(jobs);
        drop(closing);
        Ok(exchange)
    }

    fn repeat_records(self: &Arc<Self>, builder: &Builder) -> Job {
        let exchange = Arc::downgrade(self);
        let job = builder.add("generations", move || {
            exchange.upgrade()?.generations().as_mut()?.repeat_record()
        });
        job.run_soon();
        job
    }

    fn shard(&self, context: &ShardContext) -> Result<Rc<ExchangeShard>, BoxError> {
        let index = context.index();
        let counters = self.metrics.shard(index);
        let reactor =
            DspReactor::start(Arc::clone(&counters), self.outbound_max, context.shutdown())
                .map_err(|error| format!("cannot wait for DSPs: {error}"))?;
        let seat = self.seats[index].lock().expect("nothing panics with it").take();
        let ShardSlot { line, recorder, budget, dispatcher, to_nodes } =
            seat.expect("a shard starts once");
        let (budget, commands) = budget.unzip();
        let mut generations = self.current.clone();
        let first = Arc::clone(&generations.borrow_and_update());
        let identity = ShardIdentity { index, line, id_key: self.id_key };
        let nodes = to_nodes
            .map(|(notices, tls)| NodeClient::new(&notices, Arc::new(SystemNames::new()), tls));
        let parts = ShardParts {
            admission: context.admission().clone(),
            dispatcher,
            nodes,
            recorder,
            budget,
            tracer: self.tracer.clone(),
            tasks: context.tasks().clone(),
        };
        let shard = Rc::new(ExchangeShard::new(identity, parts, first, counters, reactor));
        tokio::task::spawn_local(Rc::clone(&shard).sweep());
        tokio::task::spawn_local(Rc::clone(&shard).spend());
        tokio::task::spawn_local(Rc::clone(&shard).book());
        if let Some(commands) = commands {
            tokio::task::spawn_local(Rc::clone(&shard).run_commands(commands));
        }
        tokio::task::spawn_local(Rc::clone(&shard).follow(generations));
        Ok(shard)
    }

    fn generations(&self) -> MutexGuard<'_, Option<GenerationBuilder>> {
        self.generations.lock().expect("nothing panics while it builds")
    }

    /// Metrics of each shard.
    pub fn metrics(&self) -> &PerShard<ExchangeMetrics> {
        &self.metrics
    }

    /// The generation in force.
    pub fn generation(&self) -> Arc<Generation> {
        Arc::clone(&self.current.borrow())
    }

    /// Puts `config` in force. Auctions that have begun end under the previous one, and DSPs that
    /// did not change keep their connections.
    ///
    /// # Errors
    /// The record refuses the generation; the previous one stays in force.
    pub fn replace(&self, config: ExchangeConfig) -> Result<GenerationChange, Unrecorded> {
        self.generations().as_mut().ok_or(Unrecorded::Closed)?.replace(config)
    }

    /// Puts other campaigns and seat accounts in force, and returns the number of their generation.
    /// Auctions that have begun end under the previous ones.
    ///
    /// # Errors
    /// The record refuses the generation; the previous campaigns stay in force.
    pub fn set_campaigns(&self, campaigns: Campaigns) -> Result<u64, Unrecorded> {
        let direct = campaigns.catalogue.clone();
        let number = {
            let mut generations = self.generations();
            let generations = generations.as_mut().ok_or(Unrecorded::Closed)?;
            generations.set_campaigns(Arc::new(campaigns))?
        };
        // Outside the lock: others wait for it.
        if let Some(funnels) = &self.funnels {
            funnels.follow(direct.campaigns().iter().map(|it| it.slot), number);
        }
        Ok(number)
    }

    /// A campaign's impressions by step, over the last hour and the last day. `flight_unix_ms` is
    /// the campaign's start and end in Unix milliseconds. None without budgets.
    pub fn funnel(
        &self,
        slot: CampaignIndex,
        flight_unix_ms: (u64, u64),
    ) -> Option<[FunnelWindow; 2]> {
        Some(self.funnels.as_ref()?.windows(slot, flight_unix_ms))
    }

    /// Tries the campaign's criteria one at a time on copies of the last hour's requests; takes
    /// milliseconds. None without budgets, or if the campaign does not bid.
    pub fn probe(&self, slot: CampaignIndex) -> Option<ProbeCounts> {
        self.funnels.as_ref()?.probe(slot, &self.generation())
    }

    /// Whether `currency` has a rate; accounts in a currency without one win nothing.
    pub fn has_rate(&self, currency: Currency) -> bool {
        let generation = self.generation();
        let market = &generation.config.market;
        market.rates.ratio(currency, market.currency).is_some()
    }

    /// Why billed wins do not become durable, so that accounts win nothing. None if they do.
    pub fn unrecorded(&self) -> Option<String> {
        match self.lanes.as_ref()?.durable.state() {
            LaneState::Writing => None,
            LaneState::Full => Some("the durable lane of the record is full".to_owned()),
            LaneState::Failing { cause, .. } => {
                Some(format!("the durable lane of the record fails: {}", cause.text()))
            }
            LaneState::Closed => Some("the record is closed".to_owned()),
        }
    }

    /// Pauses or resumes a DSP until the process ends. Returns false if the id is unknown.
    pub fn pause(&self, dsp: &str, paused: bool) -> bool {
        self.generations().as_mut().is_some_and(|generations| generations.pause(dsp, paused))
    }

    /// Limits and health of a DSP. None if the id is unknown.
    pub fn guard_status(&self, dsp: &str) -> Option<GuardStatus> {
        self.guards.status(self.guard_of(dsp)?)
    }

    /// State of notices. None without a dispatcher.
    pub fn notices(&self) -> Option<NoticeStatus> {
        self.notices.as_ref().map(NoticeMonitor::view)
    }

    fn guard_of(&self, dsp: &str) -> Option<GuardId> {
        let generation = self.generation();
        let index = generation.dsp_ids().position(|known| known == dsp)?;
        Some(generation.dsps[index].guard)
    }
}

#[derive(Debug)]
struct OpenNotices {
    dispatcher: NoticeDispatcher,
    counter: NoticeSender,
    window: NoticeMonitor,
    own_key: [u8; 32],
    to_nodes: (Arc<NoticesConfig>, Arc<ClientConfig>),
}

struct BudgetParts {
    budget_context: BudgetContext,
    lines: Vec<ShardLedgerPort>,
    peers: PeerShards,
    commands: Vec<ReservationCommands>,
}

impl BudgetParts {
    /// Also returns the first campaigns and the settlements. Without budgets both are empty.
    fn of(
        budgets: Option<Budgets>,
    ) -> (Option<Self>, Campaigns, Box<dyn Settlements>, Option<OnStart>) {
        let Some(Budgets { budget_context, lines, campaigns, settlements, on_start }) = budgets
        else {
            return (None, Campaigns::default(), Box::new(Unbudgeted), None);
        };
        let (peers, commands) = PeerShards::new(budget_context.key, &lines);
        let spent = SettlementRouter { books: settlements, peers: peers.clone() };
        (
            Some(Self { budget_context, lines, peers, commands }),
            campaigns,
            Box::new(spent),
            Some(on_start),
        )
    }

    fn shard_budgets(
        self,
        (recording, has_dispatcher): (Option<&OpenRecord>, bool),
        funnels: &Funnels,
    ) -> Result<Vec<Option<(ShardBudget, ReservationCommands)>>, BudgetsError> {
        let recording = recording.filter(|_| has_dispatcher).ok_or(BudgetsError::Unbilled)?;
        let Self { budget_context, lines, peers, commands } = self;
        let open = |((line, commands), handovers): (_, &HandoverSlot)| {
            let durable = recording.lanes().durable.clone();
            let is_durable = Box::new(move || durable.state() == LaneState::Writing);
            let budget = ShardBudget::new(line, budget_context.clone(), peers.clone(), is_durable)?;
            Ok(Some((budget.counting_to(handovers.clone()), commands)))
        };
        lines.into_iter().zip(commands).zip(funnels.boxes()).map(open).collect()
    }
}

/// Opens the dispatcher with the notices that the log says are owed. None if we fire no notices.
/// `settlements` receives the log's settlements that are not booked before this returns;
/// nothing here is durable until the log starts.
fn open_notices(
    config: &ExchangeConfig,
    log: Option<&mut LogBuilder>,
    mut settlements: Box<dyn Settlements>,
) -> Result<Option<OpenNotices>, ExchangeError> {
    let (Some(notices), Some(record), Some(log)) = (&config.notices, &config.record, log) else {
        return Ok(None);
    };
    let directory: &Path = &record.directory;
    let clock = DeliveryClock::start();
    let ring = (log, record.durable.ring_bytes);
    let (replay, journal) = replay(ring, directory, notices.policy, &mut *settlements)?;
    let own_key = own_key(directory).map_err(ExchangeError::Key)?;
    let calls = notices.calls.clone();
    let tls = Arc::new(client_config(notices.authorities.as_deref()));
    let to_nodes = (Arc::new(notices.clone()), Arc::clone(&tls));
    let client =
        move || NoticeClient::new(&calls, calls.public(), Arc::new(SystemNames::new()), tls);
    let delivery = replay.finish(clock.now());
    let answer_timeout = notices.policy.answer_timeout.mul_f64(0.9);
    let times = NoticeTiming { clock, linger: LINGER, answer_timeout };
    let started = NoticeDispatcher::start(delivery, journal, client, settlements, times);
    let (dispatcher, counter, window) = started.map_err(ExchangeError::Thread)?;
    Ok(Some(OpenNotices { dispatcher, counter, window, own_key, to_nodes }))
}
