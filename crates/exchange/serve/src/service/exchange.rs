//! A running exchange: its parts, from the start to the end, and what others ask it.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Duration;

use eventlog::LogReadError;
use eventlog::lane::{LaneHandle, LaneState};
use exchange_core::AuctionIds;
use exchange_core::campaigns::ProbeCounts;
use exchange_core::guard::GuardStatus;
use http_kit::dns::SystemNames;
use http_kit::tls::client_config;
use pacer_core::funnel::FunnelWindow;
use pacer_core::messages::CampaignIndex;
use pacer_core::shard::ShardOptionsError;
use pacer_core::strategy::CampaignFlight;
use record::Record;
use runtime::builder::{Builder, Job};
use runtime::control::ControlTask;
use runtime::metrics::{Padded, PerShard};
use runtime::service::{BoxError, Port, Startup};
use runtime::shards::ShardContext;
use runtime::shutdown::Shutdown;
use runtime::traces::Tracer;
use rustls::ClientConfig;
use tokio::sync::watch;
use units::Currency;

use crate::budgets::campaigns::Campaigns;
use crate::budgets::funnels::Funnels;
use crate::budgets::remote::{ForwarderError, RemotePacer};
use crate::budgets::shard::{
    BudgetContext, HandoverSlot, PeerShards, ReservationCommands, SettlementRouter, ShardBudget,
    ShardLedgerPort,
};
use crate::config::{CallLimits, ExchangeConfig, NoticesConfig};
use crate::fanout::DspReactor;
use crate::generation::dns::Resolver;
use crate::generation::{
    DspRegistry, EnrichmentError, EnrichmentMemories, EnrichmentRegistry, FirstGeneration,
    Generation, GenerationBuilder, GenerationChange, SoldOffer, SoldRefusal,
};
use crate::guards::{GuardPort, Guards};
use crate::metrics::ExchangeMetrics;
use crate::notices::{
    DeliveryClock, NoBudgets, NodeClient, NodeKey, NoticeClient, NoticeClientOptions,
    NoticeDispatcher, NoticeHost, NoticeMonitor, NoticeSender, NoticeStatus, NoticeTiming,
    ReplayError, Settlements, read_or_create_key, replay,
};
use crate::recording::{GenerationRecordError, RecordParts, Recorder};
use crate::shard::{ExchangeShard, ShardParts, SharedMarkupStore};

/// Port at which the ledger offers its budgets.
pub const BUDGETS: Port<Budgets> = Port::new("budgets");

/// How long beacons and notices gather for one commit; no browser notices twice this delay.
const LINGER: Duration = Duration::from_millis(20);

/// A running exchange.
#[derive(Debug)]
pub struct Exchange {
    pub(super) address: SocketAddr,
    metrics: PerShard<ExchangeMetrics>,
    /// None once the exchange is closed.
    generations: Mutex<Option<GenerationBuilder>>,
    pub(super) current: watch::Receiver<Arc<Generation>>,
    pub(super) guards: Guards,
    /// None if the first configuration had no notices.
    pub(super) notices: Option<NoticeMonitor>,
    /// None without a record.
    pub(super) record: Option<Record>,
    /// None without budgets.
    pub(super) funnels: Option<Funnels>,
    /// None without a remote pacer.
    pub(super) pacer: Option<Arc<RemotePacer>>,
    /// None without a cache.
    markup_store: Option<SharedMarkupStore>,
    enrichments: EnrichmentRegistry,
    tracer: Tracer,
    /// Key of auction ids, drawn at the start for all shards of the process.
    id_key: [u8; 16],
    outbound_max: usize,
    shard_slots: Vec<Mutex<Option<ShardSlot>>>,
    end_parts: Mutex<Option<ClosingParts>>,
}

#[derive(Debug)]
struct ShardSlot {
    guard_port: GuardPort,
    recorder: Option<Recorder>,
    budget: Option<(ShardBudget, ReservationCommands)>,
    dispatcher: Option<NoticeSender>,
    to_nodes: Option<NodeAccess>,
}

/// Parts that close with the exchange, in this order.
#[derive(Debug)]
struct ClosingParts {
    dispatcher: Option<NoticeDispatcher>,
    jobs: Vec<Job>,
    renewal: ControlTask,
}

/// Why the exchange cannot start.
#[derive(Debug, thiserror::Error)]
pub enum ExchangeError {
    /// A thread cannot be spawned.
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
    /// The number of the last recorded configuration cannot be read.
    #[error("record.directory: {0}")]
    Record(#[from] LogReadError),
    /// The first configuration cannot be recorded.
    #[error("record.directory: {0}")]
    Generation(#[from] GenerationRecordError),
    /// Data of an enrichment cannot be fetched.
    #[error(transparent)]
    Enrichment(#[from] EnrichmentError),
    /// Owed notices and settlements cannot be read from the record.
    #[error("record.directory: {0}")]
    Notices(#[from] ReplayError),
    /// The key for notices cannot be read or created.
    #[error("record.directory: {0}")]
    Key(std::io::Error),
    /// Settlements cannot be forwarded to the remote pacer.
    #[error(transparent)]
    Forwarder(#[from] ForwarderError),
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
    pub ledger_ports: Vec<ShardLedgerPort>,
    /// In force from the first auction on.
    pub campaigns: Campaigns,
    /// Books what is billed.
    pub settlements: Box<dyn Settlements>,
    /// Called once with the started exchange. Returns jobs that may replace the campaigns, and offer
    /// sold deals.
    pub on_start: OnStart,
}

/// See [`Budgets::on_start`].
pub type OnStart = Box<dyn FnOnce(&Arc<Exchange>, &Builder) -> Vec<Job> + Send>;

/// What other services offer the exchange.
pub(super) struct ExchangePorts {
    /// None: nothing is recorded.
    pub record: Option<Record>,
    pub budgets: Option<Budgets>,
    /// None: markup is not stored.
    pub markup_store: Option<SharedMarkupStore>,
    /// None without look-ups.
    pub memories: Option<Box<dyn EnrichmentMemories>>,
}

impl Exchange {
    pub(super) fn open(
        config: ExchangeConfig,
        startup: &Startup<'_>,
        ports: ExchangePorts,
    ) -> Result<Arc<Self>, ExchangeError> {
        let shards = startup.shards;
        let resolver = Resolver::start(startup.control);
        let ExchangePorts { record, budgets, markup_store, memories } = ports;
        let enrichments = EnrichmentRegistry::new(shards, memories);
        let (guards, guard_ports) = Guards::new(shards);
        let OpenBudgets { parts, campaigns, settlements, on_start } = OpenBudgets::of(budgets);
        let SettlementTarget { pacer, settlements } =
            SettlementTarget::start(&config, record.as_ref(), settlements)?;
        let metrics = PerShard::new(shards);
        let connections = NoticeConnections::new(&metrics, startup.shutdown);
        let in_force = Arc::clone(&connections.in_force);
        let dispatcher = open_notices(&config, record.as_ref(), settlements, connections)?;
        let RecordParts { recorders, generations: log } = RecordParts::of(record.as_ref(), shards)?;
        let funnels = parts.is_some().then(|| Funnels::new(shards));
        let shard_budgets = match (parts, &funnels) {
            (Some(parts), Some(funnels)) => {
                let record = record.as_ref().filter(|_| dispatcher.is_some());
                let durable = &record.ok_or(BudgetsError::Unbilled)?.durable;
                parts.shard_budgets(durable, funnels)?
            }
            _ => (0..shards).map(|_| None).collect(),
        };
        let key = dispatcher.as_ref().map(|dispatcher| dispatcher.key);
        let registry = DspRegistry::new(shards, guards.clone(), resolver);
        let opened = enrichments.open(&config.market.enrichments)?;
        let first = FirstGeneration { config, enrichments: opened, campaigns };
        let generations = GenerationBuilder::new(first, registry, key, log)?;
        let current = generations.subscribe();
        in_force.set(current.clone()).expect("it is set once");
        if let Some(funnels) = &funnels {
            let generation = current.borrow();
            funnels.follow(generation.campaigns.catalogue.campaigns().iter().map(|it| it.slot), 0);
        }
        let jobs = funnels.iter().map(|funnels| funnels.start(startup.builder)).collect();
        let renewal = guards.start(startup.control, startup.shutdown);
        let slots = guard_ports.into_iter().zip(recorders).zip(shard_budgets);
        let slot = |((guard_port, recorder), budget)| {
            let (dispatcher, to_nodes) = dispatcher.as_ref().map(OpenNotices::of_shard).unzip();
            Mutex::new(Some(ShardSlot { guard_port, recorder, budget, dispatcher, to_nodes }))
        };
        let shard_slots = slots.map(slot).collect();
        let (dispatcher, notices) = dispatcher.map(|it| (it.dispatcher, it.monitor)).unzip();
        let exchange = Arc::new(Self {
            address: startup.listening[0],
            metrics,
            generations: Mutex::new(Some(generations)),
            current,
            guards,
            notices,
            record,
            funnels,
            pacer,
            markup_store,
            enrichments,
            tracer: startup.tracer.clone(),
            id_key: rand::random(),
            outbound_max: startup.outbound_max / shards.max(1),
            shard_slots,
            end_parts: Mutex::new(Some(ClosingParts { dispatcher, jobs, renewal })),
        });
        let following = on_start.map(|on_start| on_start(&exchange, startup.builder));
        let jobs =
            following.into_iter().flatten().chain([exchange.repeat_records(startup.builder)]);
        let mut closing = exchange.end_parts.lock().expect("nothing panics while it closes");
        closing.as_mut().expect("it is not closed yet").jobs.extend(jobs);
        drop(closing);
        Ok(exchange)
    }

    /// Ends what `open` began, after the last shard.
    pub(super) fn end(&self) {
        let closing = self.end_parts.lock().expect("nothing panics while it closes").take();
        let Some(ClosingParts { dispatcher, jobs, renewal }) = closing else { return };
        // Drop the parts of shards that never started.
        for slot in &self.shard_slots {
            slot.lock().expect("nothing panics with it").take();
        }
        if let Some(dispatcher) = dispatcher {
            dispatcher.join();
        }
        if let Some(pacer) = &self.pacer {
            pacer.end();
        }
        // Nothing writes records from here on: the record may close.
        drop(self.generations().take());
        drop(jobs);
        renewal.stop();
    }

    fn repeat_records(self: &Arc<Self>, builder: &Builder) -> Job {
        let exchange = Arc::downgrade(self);
        let job = builder.add("generations", move || {
            exchange.upgrade()?.generations().as_mut()?.repeat_record()
        });
        job.run_soon();
        job
    }

    pub(super) fn shard(&self, context: &ShardContext) -> Result<Rc<ExchangeShard>, BoxError> {
        let index = context.index();
        let counters = self.metrics.shard(index);
        let reactor =
            DspReactor::start(Arc::clone(&counters), self.outbound_max, context.shutdown())
                .map_err(|error| format!("cannot wait for DSPs: {error}"))?;
        let slot = self.shard_slots[index].lock().expect("nothing panics with it").take();
        let ShardSlot { guard_port, recorder, budget, dispatcher, to_nodes } =
            slot.expect("a shard starts once");
        let (budget, commands) = budget.unzip();
        let mut generations = self.current.clone();
        let first = Arc::clone(&generations.borrow_and_update());
        let shard = u32::try_from(index).expect("shards are counted by 16 bits");
        let nodes = to_nodes
            .map(|(notices, tls)| {
                let metrics = Arc::clone(&counters);
                NodeClient::start(&notices, tls, metrics, context.shutdown().clone())
            })
            .transpose()
            .map_err(|error| format!("cannot wait for other nodes: {error}"))?;
        let parts = ShardParts {
            index,
            guard_port: RefCell::new(guard_port),
            ids: RefCell::new(AuctionIds::new(self.id_key, shard)),
            admission: context.admission().clone(),
            dispatcher,
            nodes,
            recorder,
            budget,
            pacer: self.pacer.as_ref().map(|pacer| pacer.shard()),
            markup_store: self.markup_store.clone(),
            tracer: self.tracer.clone(),
            tasks: context.tasks().clone(),
        };
        let shard = Rc::new(ExchangeShard::new(parts, first, counters, reactor));
        tokio::task::spawn_local(Rc::clone(&shard).sweep());
        tokio::task::spawn_local(Rc::clone(&shard).exchange_with_ledger());
        tokio::task::spawn_local(Rc::clone(&shard).retry_bills());
        if let Some(commands) = commands {
            tokio::task::spawn_local(Rc::clone(&shard).run_commands(commands));
        }
        tokio::task::spawn_local(Rc::clone(&shard).follow_generations(generations));
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
    /// The record refuses the generation, or data of an enrichment cannot be fetched; the previous
    /// generation stays in force.
    pub fn replace(&self, config: ExchangeConfig) -> Result<GenerationChange, ExchangeError> {
        let enrichments = self.enrichments.open(&config.market.enrichments)?;
        let mut generations = self.generations();
        let generations = generations.as_mut().ok_or(GenerationRecordError::Closed)?;
        Ok(generations.reload(config, enrichments)?)
    }

    /// Puts other campaigns and seat accounts in force, and returns the number of their generation.
    /// Auctions that have begun end under the previous ones.
    ///
    /// # Errors
    /// The record refuses the generation; the previous campaigns stay in force.
    pub fn set_campaigns(&self, campaigns: Campaigns) -> Result<u64, GenerationRecordError> {
        let direct = campaigns.catalogue.clone();
        let number = {
            let mut generations = self.generations();
            let generations = generations.as_mut().ok_or(GenerationRecordError::Closed)?;
            generations.set_campaigns(Arc::new(campaigns))?
        };
        // Outside the lock: others wait for it.
        if let Some(funnels) = &self.funnels {
            funnels.follow(direct.campaigns().iter().map(|it| it.slot), number);
        }
        Ok(number)
    }

    /// Offers sold deals to their buyers until their end, and returns the refusal of each that is
    /// not offered. Those that are offered already change nothing.
    ///
    /// # Errors
    /// The record refuses the generation: none of them is offered.
    pub fn offer_sold(
        &self,
        offers: Vec<SoldOffer>,
    ) -> Result<Vec<Result<(), SoldRefusal>>, GenerationRecordError> {
        self.generations().as_mut().ok_or(GenerationRecordError::Closed)?.offer_sold(offers)
    }

    /// A campaign's impressions by step, over the last hour and the last day.
    /// None without budgets.
    pub fn funnel(&self, slot: CampaignIndex, flight: CampaignFlight) -> Option<[FunnelWindow; 2]> {
        Some(self.funnels.as_ref()?.windows(slot, flight))
    }

    /// Tries the campaign's criteria one at a time on copies of the last hour's requests; takes
    /// milliseconds. None without budgets, or if the campaign does not bid.
    pub fn probe(&self, slot: CampaignIndex) -> Option<ProbeCounts> {
        let (funnels, generation) = (self.funnels.as_ref()?, self.generation());
        let campaigns = generation.campaigns.catalogue.campaigns();
        let campaign = campaigns.iter().find(|campaign| campaign.slot == slot)?;
        // Direct campaigns follow the DSPs that are called.
        Some(funnels.probe(campaign, &generation.config.market, generation.dsps.len()))
    }

    /// Whether `currency` has a rate; accounts in a currency without one win nothing.
    pub fn has_rate(&self, currency: Currency) -> bool {
        let generation = self.generation();
        let market = &generation.config.market;
        market.rates.ratio(currency, market.currency).is_some()
    }

    /// Why billed wins do not become durable, so that accounts win nothing. None if they do.
    pub fn recording_failure(&self) -> Option<String> {
        match self.record.as_ref()?.durable.state() {
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
        let generation = self.generation();
        let index = generation.dsp_ids().position(|known| known == dsp)?;
        self.guards.status(generation.dsps[index].guard)
    }

    /// State of notices. None without a dispatcher.
    pub fn notices(&self) -> Option<NoticeStatus> {
        self.notices.as_ref().map(NoticeMonitor::status)
    }
}

#[derive(Debug)]
struct OpenNotices {
    dispatcher: NoticeDispatcher,
    sender: NoticeSender,
    monitor: NoticeMonitor,
    key: NodeKey,
    to_nodes: NodeAccess,
}

/// How shards reach other nodes.
type NodeAccess = (Arc<NoticesConfig>, Arc<ClientConfig>);

impl OpenNotices {
    fn of_shard(&self) -> (NoticeSender, NodeAccess) {
        (self.sender.clone(), self.to_nodes.clone())
    }
}

/// Budgets before the log is open.
struct OpenBudgets {
    /// None without budgets.
    parts: Option<BudgetParts>,
    campaigns: Campaigns,
    settlements: Box<dyn Settlements>,
    on_start: Option<OnStart>,
}

struct BudgetParts {
    budget_context: BudgetContext,
    ledger_ports: Vec<ShardLedgerPort>,
    peers: PeerShards,
    commands: Vec<ReservationCommands>,
}

impl OpenBudgets {
    fn of(budgets: Option<Budgets>) -> Self {
        let Some(Budgets { budget_context, ledger_ports: ports, campaigns, settlements, on_start }) =
            budgets
        else {
            return Self {
                parts: None,
                campaigns: Campaigns::default(),
                settlements: Box::new(NoBudgets),
                on_start: None,
            };
        };
        let (peers, commands) = PeerShards::new(budget_context.key, &ports);
        let settlements = SettlementRouter { ledger: settlements, peers: peers.clone() };
        Self {
            parts: Some(BudgetParts { budget_context, ledger_ports: ports, peers, commands }),
            campaigns,
            settlements: Box::new(settlements),
            on_start: Some(on_start),
        }
    }
}

impl BudgetParts {
    /// Budgets that reserve while `durable` is written.
    fn shard_budgets(
        self,
        durable: &LaneHandle,
        funnels: &Funnels,
    ) -> Result<Vec<Option<(ShardBudget, ReservationCommands)>>, BudgetsError> {
        let Self { budget_context, ledger_ports: ports, peers, commands } = self;
        let open = |((port, commands), handovers): (_, &HandoverSlot)| {
            let durable = durable.clone();
            let is_durable = Box::new(move || durable.state() == LaneState::Writing);
            let (context, peers) = (budget_context.clone(), peers.clone());
            let budget = ShardBudget::new(port, context, peers, is_durable, handovers.clone())?;
            Ok(Some((budget, commands)))
        };
        ports.into_iter().zip(commands).zip(funnels.slots()).map(open).collect()
    }
}

/// What takes settlements, and the remote pacer if it is one.
struct SettlementTarget {
    pacer: Option<Arc<RemotePacer>>,
    settlements: Box<dyn Settlements>,
}

impl SettlementTarget {
    /// A remote pacer if one is configured, else `settlements`.
    fn start(
        config: &ExchangeConfig,
        record: Option<&Record>,
        settlements: Box<dyn Settlements>,
    ) -> Result<Self, ExchangeError> {
        let (Some(pacer), Some(record)) = (&config.pacer, record) else {
            return Ok(Self { pacer: None, settlements });
        };
        let (pacer, settlements) = RemotePacer::start(pacer, record)?;
        Ok(Self { pacer: Some(Arc::new(pacer)), settlements })
    }
}

/// What connections for notices need of the exchange.
struct NoticeConnections {
    /// Set once there is a generation.
    in_force: Arc<OnceLock<watch::Receiver<Arc<Generation>>>>,
    metrics: Arc<Padded<ExchangeMetrics>>,
    shutdown: Shutdown,
}

impl NoticeConnections {
    fn new(metrics: &PerShard<ExchangeMetrics>, shutdown: &Shutdown) -> Self {
        Self { in_force: Arc::default(), metrics: metrics.shard(0), shutdown: shutdown.clone() }
    }

    /// A client for hosts that DSPs name. Without TLS, those of DSPs that are called over HTTP/2 are
    /// so too.
    fn client_options(self, limits: &CallLimits, tls: Arc<ClientConfig>) -> NoticeClientOptions {
        let Self { in_force, metrics, shutdown } = self;
        let prior_knowledge = move |host: &NoticeHost| {
            let Some(current) = in_force.get() else { return false };
            let endpoints = &current.borrow().config.endpoints;
            endpoints.iter().any(|dsp| dsp.has_prior_knowledge(&host.host, host.port))
        };
        NoticeClientOptions {
            limits: limits.clone(),
            addresses: limits.public(),
            resolver: Arc::new(SystemNames::new()),
            tls,
            prior_knowledge: Box::new(prior_knowledge),
            metrics,
            shutdown,
        }
    }
}

/// Opens the dispatcher with the notices that the log says are owed. None if we fire no notices.
/// `settlements` receives the log's settlements that are not booked before this returns.
fn open_notices(
    config: &ExchangeConfig,
    record: Option<&Record>,
    mut settlements: Box<dyn Settlements>,
    connections: NoticeConnections,
) -> Result<Option<OpenNotices>, ExchangeError> {
    let (Some(notices), Some(record)) = (&config.notices, record) else { return Ok(None) };
    let clock = DeliveryClock::start();
    let (replay, journal) = replay(record, notices.policy, &mut *settlements)?;
    let own = read_or_create_key(&record.directory).map_err(ExchangeError::Key)?;
    let key = NodeKey { node: record.node, own };
    let tls = Arc::new(client_config(notices.authorities.as_deref()));
    let to_nodes = (Arc::new(notices.clone()), Arc::clone(&tls));
    let options = connections.client_options(&notices.calls, tls);
    let client = move || NoticeClient::start(options);
    let delivery = replay.finish(clock.now());
    let answer_timeout = notices.policy.answer_timeout.mul_f64(0.9);
    let times = NoticeTiming { clock, linger: LINGER, answer_timeout };
    let started = NoticeDispatcher::start(delivery, journal, client, settlements, times);
    let (dispatcher, sender, monitor) = started.map_err(ExchangeError::Thread)?;
    Ok(Some(OpenNotices { dispatcher, sender, monitor, key, to_nodes }))
}
