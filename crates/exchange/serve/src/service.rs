//! The exchange as a service: configured, started on shards, observed, drained.

use std::net::TcpListener;
use std::path::Path;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use eventlog::lane::{Log, State};
use exchange_core::guard::Status;
use exchange_core::house::ProbeCounts;
use pacer_core::funnel::FunnelWindow;
use pacer_core::messages::Slot;
use pacer_core::shard::OptionsError;
use runtime::metrics::{Exposition, PerShard};
use runtime::shards::{ShardContext, Shards, ShardsOptions, StartError};
use runtime::shutdown::Shutdown;
use runtime::traces::Tracer;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tracing::{debug, error};
use units::Currency;

use crate::campaigns::Campaigns;
use crate::config::{ExchangeConfig, NoticesConfig};
use crate::dns::{Resolver, SystemNames};
use crate::fanout::{Reactor, Tls};
use crate::funnels::{Funnels, FunnelsThread};
use crate::generation::{Generation, Generations, Reloaded};
use crate::guards::{GuardId, Guards, GuardsThread};
use crate::http;
use crate::metrics::{Beside, ExchangeMetrics, expose};
use crate::notices::{
    Client, Clock, Counter, NodeClient, Office, ReplayError, Settlements, Times, Unbudgeted, View,
    Window, own_key, replay,
};
use crate::purse::{Bank, Errands, HandoverSlot, Line, Peers, Purse, Spent};
use crate::recording::{OpenLog, Opened, RecordError, Recording, Unrecorded};
use crate::shard::{Shard, ShardIdentity, ShardParts};

/// How long beacons and notices are gathered, to be journalled and sent together: one commit for all of
/// them. A beacon is answered later by up to twice that, which no browser notices.
const LINGER: Duration = Duration::from_millis(10);

/// How long readiness tells of a request that was refused for overload.
const OVERLOAD_TOLD: Duration = Duration::from_secs(10);

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
    /// `None` where nobody keeps accounts.
    funnels: Option<Funnels>,
    /// Parcels are taken as long as this lives.
    _funnelling: Option<FunnelsThread>,
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
    /// What is owed to DSPs, and what was settled, cannot be read from it.
    #[error("record.directory: {0}")]
    Notices(#[from] ReplayError),
    /// The key for notices cannot be had.
    #[error("record.directory: {0}")]
    Key(std::io::Error),
    /// Accounts cannot be kept.
    #[error(transparent)]
    Budgets(#[from] BudgetsError),
}

/// Why accounts cannot be kept.
#[derive(Debug, thiserror::Error)]
pub enum BudgetsError {
    /// Nobody would tell what is billed, or it would not be durable.
    #[error(
        "[budgets] needs [record] and [exchange.notices]: what is billed is told by beacons, and kept in the log"
    )]
    Unbilled,
    /// An option is out of its range.
    #[error("budgets: {0}")]
    Options(#[from] OptionsError),
}

/// The ledger, as an exchange deals with it.
pub struct Budgets {
    /// What all shards have in common.
    pub bank: Bank,
    /// By shard.
    pub lines: Vec<Line>,
    /// In force from the first auction on.
    pub campaigns: Campaigns,
    /// Who is told what is billed.
    pub settlements: Box<dyn Settlements>,
}

impl Exchange {
    /// Starts shards that serve callers on `listener`.
    pub fn start(
        config: ExchangeConfig,
        options: &ShardsOptions,
        listener: TcpListener,
        shutdown: &Shutdown,
        (tracer, budgets): (Tracer, Option<Budgets>),
    ) -> Result<Self, ExchangeError> {
        let resolver = Resolver::start().map_err(ExchangeError::Thread)?;
        let (guards, lines) = Guards::new(options.shards);
        let renewal = guards.start(shutdown).map_err(ExchangeError::Thread)?;
        let mut log = config.record.as_ref().map(OpenLog::open).transpose()?;
        let (accounts, campaigns, settlements) = Accounts::of(budgets);
        let office = open_office(&config, log.as_mut().map(|log| &mut log.log), settlements)?;
        let Opened { recording, recorders, generations: log } = Opened::of(log, options.shards)?;
        let funnels = accounts.is_some().then(|| Funnels::new(options.shards));
        let purses = match (accounts, &funnels) {
            (Some(accounts), Some(funnels)) => {
                accounts.purses((recording.as_ref(), office.is_some()), funnels)?
            }
            _ => (0..options.shards).map(|_| None).collect(),
        };
        if let (Some(recording), None) = (&recording, &office) {
            // Nobody needs anything of it at the next start but its last generation.
            recording.lanes().durable.keep_from(u64::MAX);
        }
        let own_key = office.as_ref().map(|office| office.own_key);
        let beside = (resolver, guards.clone());
        let generations =
            Generations::new((config, campaigns), options.shards, beside, (own_key, log));
        let generations = generations.map_err(RecordError::from)?;
        let current = generations.subscribe();
        if let Some(funnels) = &funnels {
            let generation = current.borrow();
            funnels.follow(generation.campaigns.house.campaigns().iter().map(|it| it.slot), 0);
        }
        let funnelling = funnels.as_ref().map(Funnels::start).transpose();
        let funnelling = funnelling.map_err(ExchangeError::Thread)?;
        let metrics = PerShard::new(options.shards);
        let id_key: [u8; 16] = rand::random();
        let body = {
            let (current, metrics) = (current.clone(), metrics.clone());
            let sockets_max = options.outbound_max / options.shards.max(1);
            let counter = office.as_ref().map(|office| office.counter.clone());
            let to_nodes = office.as_ref().map(|office| office.to_nodes.clone());
            // Closed once no shard holds its end, whether it has drained or failed.
            let (undrained, end) = watch::channel(());
            let undrained = Arc::new(undrained);
            let seats = lines.into_iter().zip(recorders).zip(purses);
            let seats = seats.map(|seat| Mutex::new(Some((seat, end.clone()))));
            let seats: Vec<_> = seats.collect();
            move |context: ShardContext| {
                let counters = metrics.shard(context.index());
                let seat = seats[context.index()].lock().expect("nothing panics with it").take();
                let (((line, recorder), purse), end) = seat.expect("a shard starts once");
                let (purse, errands) = purse.unzip();
                let mut generations = current.clone();
                let (office, tracer) = (counter.clone(), tracer.clone());
                let (to_nodes, undrained) = (to_nodes.clone(), Arc::clone(&undrained));
                async move {
                    match Reactor::start(Arc::clone(&counters), sockets_max, context.shutdown()) {
                        Ok(reactor) => {
                            let first = Arc::clone(&generations.borrow_and_update());
                            let index = context.index();
                            let identity = ShardIdentity { index, line, id_key };
                            let nodes = to_nodes.map(|(notices, tls)| {
                                NodeClient::new(&notices, Box::new(SystemNames::new()), tls)
                            });
                            let parts = ShardParts {
                                admission: context.admission().clone(),
                                office,
                                nodes,
                                recorder,
                                purse,
                                tracer,
                                tasks: context.tasks().clone(),
                            };
                            let shard = Shard::new(identity, parts, first, counters, reactor);
                            let shard = Rc::new(shard);
                            run_shard(context, shard, (generations, errands), (&undrained, end))
                                .await;
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
            funnels,
            _funnelling: funnelling,
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

    /// Puts other campaigns in force, and other accounts of seats: auctions that have begun end by
    /// those before. Returns the number of the generation that has them.
    ///
    /// # Errors
    /// It cannot be recorded: those before stay in force.
    pub fn set_campaigns(&self, campaigns: Campaigns) -> Result<u64, Unrecorded> {
        let house = campaigns.house.clone();
        let number = {
            let mut generations = self.generations.lock().expect("nothing panics while it builds");
            generations.set_campaigns(Arc::new(campaigns))?
        };
        // Who waits for a generation does not wait for this as well.
        if let Some(funnels) = &self.funnels {
            funnels.follow(house.campaigns().iter().map(|it| it.slot), number);
        }
        Ok(number)
    }

    /// How far a campaign's impressions came, over the last hour and the last day; it is in flight from
    /// and until these times, in milliseconds since 1970. `None` if nobody keeps accounts.
    pub fn funnel(&self, slot: Slot, flight_unix_ms: (u64, u64)) -> Option<[FunnelWindow; 2]> {
        Some(self.funnels.as_ref()?.windows(slot, flight_unix_ms))
    }

    /// Tries the criteria of a campaign, one at a time, on copies of requests that came within the last
    /// hour. `None` if it does not bid, or nobody keeps accounts. It takes milliseconds.
    pub fn probe(&self, slot: Slot) -> Option<ProbeCounts> {
        self.funnels.as_ref()?.probe(slot, &self.generation())
    }

    /// Whether prices in `currency` can be compared with others: if not, accounts in that currency win nothing.
    pub fn has_rate(&self, currency: Currency) -> bool {
        let generation = self.generation();
        let market = &generation.config.market;
        market.rates.ratio(currency, market.currency).is_some()
    }

    /// Why nothing can be won from accounts, for what is billed does not become durable. `None` if it does.
    pub fn unrecorded(&self) -> Option<String> {
        match self.recording.as_ref()?.lanes().durable.state() {
            State::Writing => None,
            State::Full => Some("the durable lane of the record is full".to_owned()),
            State::Failing { cause, .. } => {
                Some(format!("the durable lane of the record fails: {}", cause.text()))
            }
            State::Closed => Some("the record is closed".to_owned()),
        }
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
        let index = generation.dsp_ids().position(|known| known == dsp)?;
        Some(generation.dsps[index].guard)
    }

    /// Adds its metrics to the page that is scraped.
    pub fn expose(&self, exposition: &mut Exposition) {
        let (current, metrics) = (self.current.clone(), self.metrics.clone());
        let office = self.office.as_ref().map(|office| office.window.clone());
        let record = self.recording.as_ref().map(|recording| recording.lanes().clone());
        let beside = Beside { guards: self.guards.clone(), office, record };
        if let Some(funnels) = self.funnels.clone() {
            exposition.add(move |page| funnels.expose(page));
        }
        exposition.add(move |page| {
            let generation = Arc::clone(&current.borrow());
            expose(&generation, &metrics, &beside, page)
        });
        let connections = self.shards.metrics();
        exposition.add(move |page| connections.expose(page));
    }

    /// What operators are told after shards refused requests for overload. None if none did.
    pub fn overload(&self) -> Option<String> {
        let shards = self.shards.metrics().overloaded(OVERLOAD_TOLD);
        let told = || {
            let period_s = OVERLOAD_TOLD.as_secs();
            format!(
                "shards that refused requests within {period_s} s: {shards}; see vickrey_requests_refused_total"
            )
        };
        (shards > 0).then(told)
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
    /// What shards call other nodes by.
    to_nodes: (Arc<NoticesConfig>, Tls),
}

/// What the shards' purses are made of.
struct Accounts {
    bank: Bank,
    lines: Vec<Line>,
    peers: Peers,
    errands: Vec<Errands>,
}

impl Accounts {
    /// With what is sold from the first auction on, and who is told what is billed. Without budgets
    /// nobody keeps accounts, and nobody is told.
    fn of(budgets: Option<Budgets>) -> (Option<Self>, Campaigns, Box<dyn Settlements>) {
        let Some(Budgets { bank, lines, campaigns, settlements }) = budgets else {
            return (None, Campaigns::default(), Box::new(Unbudgeted));
        };
        let (peers, errands) = Peers::new(bank.key, &lines);
        let spent = Spent { books: settlements, peers: peers.clone() };
        (Some(Self { bank, lines, peers, errands }), campaigns, Box::new(spent))
    }

    /// The shards' purses, and where each hears of its errands.
    fn purses(
        self,
        (recording, has_office): (Option<&Recording>, bool),
        funnels: &Funnels,
    ) -> Result<Vec<Option<(Purse, Errands)>>, BudgetsError> {
        let recording = recording.filter(|_| has_office).ok_or(BudgetsError::Unbilled)?;
        let Self { bank, lines, peers, errands } = self;
        let open = |((line, errands), handovers): (_, &HandoverSlot)| {
            let durable = recording.lanes().durable.clone();
            let is_durable = Box::new(move || durable.state() == State::Writing);
            let purse = Purse::new(line, bank.clone(), peers.clone(), is_durable)?;
            Ok(Some((purse.counting_to(handovers.clone()), errands)))
        };
        lines.into_iter().zip(errands).zip(funnels.boxes()).map(open).collect()
    }
}

/// Opens the office, with what is owed since before by the log; `None` when notices are not ours to
/// fire. Nothing of it is durable before the log is started. `settlements` is told what is in the log and
/// not booked for good, before this returns.
fn open_office(
    config: &ExchangeConfig,
    log: Option<&mut Log>,
    mut settlements: Box<dyn Settlements>,
) -> Result<Option<OpenOffice>, ExchangeError> {
    let (Some(notices), Some(record), Some(log)) = (&config.notices, &config.record, log) else {
        return Ok(None);
    };
    let directory: &Path = &record.directory;
    let clock = Clock::start();
    let ring = (log, record.durable.ring_bytes);
    let (replay, journal) = replay(ring, directory, notices.policy, &mut *settlements)?;
    let own_key = own_key(directory).map_err(ExchangeError::Key)?;
    let calls = notices.calls.clone();
    let tls = Tls::trusting(notices.authorities.as_ref());
    let to_nodes = (Arc::new(notices.clone()), tls.clone());
    let client = move || {
        let resolver = SystemNames::new();
        Client::new(calls, Box::new(resolver), tls)
    };
    let delivery = replay.finish(clock.now());
    let answer_timeout = notices.policy.answer_timeout.mul_f64(0.9);
    let times = Times { clock, linger: LINGER, answer_timeout };
    let started = Office::start(delivery, journal, client, settlements, times);
    let (office, counter, window) = started.map_err(ExchangeError::Thread)?;
    Ok(Some(OpenOffice { office, counter, window, own_key, to_nodes }))
}

async fn run_shard(
    mut context: ShardContext,
    shard: Rc<Shard>,
    (generations, errands): (watch::Receiver<Arc<Generation>>, Option<Errands>),
    (undrained, end): (&watch::Sender<()>, watch::Receiver<()>),
) {
    tokio::task::spawn_local(Rc::clone(&shard).sweep());
    tokio::task::spawn_local(Rc::clone(&shard).spend());
    tokio::task::spawn_local(Rc::clone(&shard).book());
    if let Some(errands) = errands {
        tokio::task::spawn_local(Rc::clone(&shard).run_errands(errands));
    }
    tokio::task::spawn_local(Rc::clone(&shard).follow(generations));
    while let Some(accepted) = context.accept().await {
        let shard = Rc::clone(&shard);
        let shutdown = context.shutdown().clone();
        context.tasks().spawn_isolated(async move {
            let open = accepted.open;
            let activity = open.activity().clone();
            let peer = http::Peer { address: accepted.peer.ip(), activity };
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
    context.drained().await;
    // Until the last has drained, it settles and releases what others are told of, and is granted money.
    drop(end);
    tokio::select! {
        () = undrained.closed() => (),
        () = context.shutdown().ended() => (),
    }
    if let Some(purse) = shard.purse() {
        purse.close().await;
    }
}
