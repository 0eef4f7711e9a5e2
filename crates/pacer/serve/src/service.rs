//! Budgets as a service: the ledger, the registry, and the ports of those who spend. `[budgets]`
//! configures it.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use pacer_core::messages::CampaignIndex;
use pacer_core::shard::ShardOptions;
use runtime::admin::{Api, ChangeAllowance, Readiness, ReloadedFiles};
use runtime::builder::JobHandle;
use runtime::config::reload::Reload;
use runtime::config::{ConfigProblem, Section};
use runtime::metrics::Exposition;
use runtime::process::unix_ms;
use runtime::service::{Port, RunningService, Service, ServiceError, Startup};
use tracing::{error, info, warn};

use crate::api::{self, ExchangeSlot};
use crate::config::{BudgetsConfig, Spender};
use crate::keys::Keyring;
use crate::ledger::feed::SettlementFeed;
use crate::ledger::handle::LedgerHandle;
use crate::ledger::hold_port::LedgerHoldPort;
use crate::ledger::rings::ShardRings;
use crate::ledger::start::{LedgerStartError, LedgerThread, StartedLedger};
use crate::ledger::turn::LedgerFault;
use crate::registry::{
    self, CampaignRules, ChangeRefusal, CheckedFiles, FilesRead, LotBudget, PreparedRegistry,
    PublishedCatalogue, Registry, RegistryOptions,
};

/// How long a start waits for the first catalogue.
const CATALOGUE_TIMEOUT: Duration = Duration::from_secs(60);

/// Port through which the exchange spends budgets.
pub const LEDGER: &str = "ledger";
/// Port through which the pacer on the wire spends them.
pub const BIDDER_LEDGER: &str = "bidder-ledger";
/// Port through which lots hold money for bids.
pub const LEDGER_HOLDS: Port<LedgerHoldPort> = Port::new("ledger-holds");

/// Running budgets. `R` is the exchange's part of campaigns.
pub struct BudgetsService<R: CampaignRules> {
    handle: LedgerHandle,
    exchange: ExchangeSlot,
    /// None once it is closed.
    running: Mutex<Option<RunningBudgets<R>>>,
}

struct RunningBudgets<R: CampaignRules> {
    /// Dropped first: it calls the ledger.
    following: Reload,
    registry: Arc<Registry<R>>,
    thread: LedgerThread,
}

/// Access to budgets of those who spend them: the exchange, or the pacer on the wire.
pub struct LedgerPort<R> {
    /// For each shard: its rings, and the options of its ledger.
    pub shards: Vec<(ShardRings, ShardOptions)>,
    /// Takes what is billed, each from one writer of the log.
    pub feeds: Vec<SettlementFeed>,
    /// Seals and opens reservation tokens.
    pub keys: Keyring,
    /// Origin of ticks.
    pub origin: Instant,
    /// The ledger.
    pub handle: LedgerHandle,
    /// Catalogue at the start.
    pub first: PublishedCatalogue<R>,
    /// Later catalogues.
    pub published: PublishedCatalogues<R>,
    /// Most campaigns of a shard.
    pub campaigns_max: usize,
    /// Where the exchange puts its view for the API.
    pub exchange: ExchangeSlot,
    /// Defines the campaigns of sold lots.
    pub lots: LotCampaigns,
}

/// Defines campaigns that count what sold lots deliver: see [`Registry::ensure_lot`].
#[derive(Clone)]
pub struct LotCampaigns(Arc<EnsureLot>);

type EnsureLot = dyn Fn(&LotBudget) -> Result<CampaignIndex, ChangeRefusal> + Send + Sync;

impl LotCampaigns {
    /// Those that `ensure` defines.
    pub fn new(
        ensure: impl Fn(&LotBudget) -> Result<CampaignIndex, ChangeRefusal> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(ensure))
    }

    fn of<R: CampaignRules>(registry: &Arc<Registry<R>>) -> Self {
        let registry = Arc::downgrade(registry);
        Self::new(move |budget| match registry.upgrade() {
            Some(registry) => registry.ensure_lot(budget),
            None => Err(ChangeRefusal::Unavailable("the budgets have ended".to_owned())),
        })
    }

    /// Defines the lot's campaign durably, unless it is defined, and returns its number.
    ///
    /// # Errors
    /// See [`Registry::ensure_lot`].
    pub fn ensure(&self, budget: &LotBudget) -> Result<CampaignIndex, ChangeRefusal> {
        (self.0)(budget)
    }
}

/// Catalogues as they are published.
pub struct PublishedCatalogues<R> {
    /// Disconnects when budgets end.
    pub catalogues: Receiver<PublishedCatalogue<R>>,
    /// Job to run after each catalogue.
    pub on_published: Arc<OnceLock<JobHandle>>,
}

/// The sender of catalogues to one port.
struct CataloguePublisher<R> {
    catalogues: Sender<PublishedCatalogue<R>>,
    on_published: Arc<OnceLock<JobHandle>>,
}

impl<R> LedgerPort<R> {
    /// The exchange's port.
    pub const fn port() -> Port<Self> {
        Port::new(LEDGER)
    }

    /// The port of the pacer on the wire.
    pub const fn bidders() -> Port<Self> {
        Port::new(BIDDER_LEDGER)
    }
}

impl<R> PublishedCatalogues<R> {
    fn new() -> (CataloguePublisher<R>, Self) {
        let (send, catalogues) = channel();
        let on_published = Arc::<OnceLock<JobHandle>>::default();
        let publisher =
            CataloguePublisher { catalogues: send, on_published: Arc::clone(&on_published) };
        (publisher, Self { catalogues, on_published })
    }
}

impl<R> CataloguePublisher<R> {
    fn publish(&self, catalogue: PublishedCatalogue<R>) {
        // Nobody receives catalogues during shutdown.
        let _ended = self.catalogues.send(catalogue);
        if let Some(job) = self.on_published.get() {
            job.run_soon();
        }
    }
}

impl<R: CampaignRules> Service for BudgetsService<R> {
    const NAME: &'static str = "budgets";
    const OFFERS: &'static [&'static str] = &[LEDGER, BIDDER_LEDGER, LEDGER_HOLDS.name()];

    type Config = BudgetsConfig;

    fn read(s: &mut Section<'_>) -> Option<BudgetsConfig> {
        let about = "Accounts and campaigns, and their budgets: see `vickrey campaign`.";
        s.table("budgets", about, BudgetsConfig::read)
    }

    fn absent() -> Vec<Api> {
        vec![api::unconfigured::<R>()]
    }

    /// Opens the ledger, reads all accounts and campaigns, and defines them there.
    fn start(config: BudgetsConfig, startup: &mut Startup<'_>) -> Result<Arc<Self>, ServiceError> {
        let config = config.beside(startup.folder);
        warn_of_open_directory(&config.directory);
        if let Some(warning) = &config.late_wins_warning {
            warn!("{warning}");
        }
        let origin = Instant::now();
        let keys = config.keys().map_err(ServiceError::unavailable)?;
        let in_the_way = |error: LedgerStartError| {
            ServiceError::unavailable(format!("budgets.directory: {error}"))
        };
        let shards = u16::try_from(startup.shards).expect("runtime.shards is at most 1024");
        let start = config.start(shards, origin, startup.shutdown, startup.builder);
        let mut opened = start.open().map_err(in_the_way)?;
        // Before the ledger begins an epoch: a start that fails here uses nothing up.
        let options = registry_options(&config, startup.folder);
        let prepared =
            PreparedRegistry::read(&options, |kind| opened.definitions(kind)).map_err(refused)?;
        let started = opened.begin().map_err(in_the_way)?;
        let StartedLedger { rings, feeds, holds, handle, thread } = started;
        let (first_send, first) = channel();
        let (publishers, published): (Vec<_>, Vec<_>) =
            config.spenders.iter().map(|_| PublishedCatalogues::new()).unzip();
        let publish = move |catalogue: PublishedCatalogue<R>| {
            publishers.iter().for_each(|publisher| publisher.publish(catalogue.clone()));
            // Only the start receives it.
            let _started = first_send.send(catalogue);
        };
        let builder = startup.builder;
        let registry = Registry::start_prepared(prepared, handle.clone(), builder, publish);
        let registry = Arc::new(registry.map_err(refused)?);
        let first = first.recv_timeout(CATALOGUE_TIMEOUT).map_err(|error| {
            ServiceError::unavailable(format!("the registry publishes no catalogue: {error}"))
        })?;
        let (campaigns, accounts) = (first.campaigns.len(), first.accounts.len());
        info!(accounts, campaigns, "budgets are kept at {}", config.directory.display());
        let following = registry
            .follow_files(startup.watch, startup.control, builder, startup.shutdown)
            .map_err(ServiceError::unavailable)?;
        let exchange = ExchangeSlot::default();
        let (mut rings, mut feeds) = (rings.into_iter(), feeds.into_iter());
        for (spender, published) in config.spenders.iter().zip(published) {
            let with_options = |rings: ShardRings| {
                let options = config.shard_options(rings.origin, spender.lifetimes());
                (rings, options)
            };
            let port = LedgerPort {
                shards: rings.by_ref().take(startup.shards).map(with_options).collect(),
                feeds: feeds.by_ref().take(spender.writers(startup.shards)).collect(),
                keys: keys.clone(),
                origin,
                handle: handle.clone(),
                first: first.clone(),
                published,
                campaigns_max: usize::try_from(config.campaigns_max).unwrap_or(usize::MAX),
                exchange: exchange.clone(),
                lots: LotCampaigns::of(&registry),
            };
            startup.ports.offer(&port_of(spender), port);
        }
        startup.ports.offer(&LEDGER_HOLDS, holds);
        let running = Mutex::new(Some(RunningBudgets { following, registry, thread }));
        Ok(Arc::new(Self { handle, exchange, running }))
    }
}

impl<R: CampaignRules> RunningService for BudgetsService<R> {
    fn reload_files(&self) -> Option<ReloadedFiles> {
        Some(match self.registry()?.reload() {
            Ok(FilesRead { created, changed, removed }) => {
                ReloadedFiles::Taken { created, changed, removed }
            }
            Err(ChangeRefusal::Invalid(problems)) => ReloadedFiles::Refused(problems),
            Err(refused) => ReloadedFiles::Unavailable(refused.to_string()),
        })
    }

    fn expose(self: Arc<Self>, exposition: &mut Exposition) {
        self.handle.expose(exposition);
        if let Some(registry) = self.registry() {
            registry.expose(exposition);
        }
    }

    /// Ready once the ledger is. A failing store is reported, but does not prevent readiness.
    fn add_readiness(self: Arc<Self>, readiness: &mut Readiness) {
        let (ready, failing) = (self.handle.clone(), self.handle.clone());
        readiness.add("budgets", move || ready.is_ready());
        readiness.remark("budgets", move || {
            let cause = failing.status().failing?;
            Some(format!("the ledger's store {cause}, and nothing new is granted"))
        });
        let pacer = self;
        readiness.remark("campaigns", move || refused_files(&pacer.registry()?.refused_files()));
    }

    fn admin_apis(self: Arc<Self>, changes: &ChangeAllowance) -> Vec<Api> {
        let Some(registry) = self.registry() else { return Vec::new() };
        vec![api::api(registry, self.exchange.clone()).limited(changes)]
    }

    fn close(&self) -> Result<(), ServiceError> {
        let running = self.running().take();
        let Some(RunningBudgets { following, registry, thread }) = running else { return Ok(()) };
        drop(following);
        drop(registry);
        match thread.close() {
            Ok(()) => Ok(()),
            Err(LedgerFault::Store(cause)) => {
                error!(%cause, "the ledger's store was not closed cleanly: the next start takes longer");
                Ok(())
            }
            Err(fault @ LedgerFault::Fenced) => Err(ServiceError::unavailable(fault)),
            Err(fault @ LedgerFault::Broken) => Err(ServiceError::Defect(fault.into())),
        }
    }
}

impl<R: CampaignRules> BudgetsService<R> {
    /// The registry. None once the pacer is closed.
    pub fn registry(&self) -> Option<Arc<Registry<R>>> {
        Some(Arc::clone(&self.running().as_ref()?.registry))
    }

    fn running(&self) -> MutexGuard<'_, Option<RunningBudgets<R>>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Judges the files of accounts and campaigns as a start does, but without the stored definitions.
///
/// # Errors
/// Every problem, in the text that a start ends with.
pub fn check_files<R: CampaignRules>(
    config: &BudgetsConfig,
    folder: &Path,
) -> Result<CheckedFiles, ServiceError> {
    registry::check_files::<R>(&registry_options(config, folder), config.has_begun())
        .map_err(refused)
}

const fn port_of<R>(spender: &Spender) -> Port<LedgerPort<R>> {
    match spender {
        Spender::Exchange(_) => LedgerPort::port(),
        Spender::Pacer(_) => LedgerPort::bidders(),
    }
}

fn registry_options(config: &BudgetsConfig, folder: &Path) -> RegistryOptions {
    RegistryOptions {
        folder: folder.to_owned(),
        campaigns: config.campaigns.as_ref().map(|files| files.display().to_string()),
        clock: unix_ms,
        late_wins_warning: config.late_wins_warning.clone(),
    }
}

fn refused(error: registry::RegistryStartError) -> ServiceError {
    match error {
        registry::RegistryStartError::Invalid(_) => ServiceError::configuration(error),
        error => ServiceError::unavailable(error),
    }
}

/// New directories are private; an existing one may not be.
fn warn_of_open_directory(directory: &Path) {
    if let Some(mode) = runtime::process::open_to_others(directory) {
        warn!(
            "budgets.directory: other users have rights to {} (mode {mode:o}): chmod 700",
            directory.display()
        );
    }
}

fn refused_files(problems: &[ConfigProblem]) -> Option<String> {
    let files: BTreeSet<&str> = problems.iter().filter_map(|it| it.file.as_deref()).collect();
    let files = if files.is_empty() {
        "their files".to_owned()
    } else {
        files.into_iter().collect::<Vec<_>>().join(", ")
    };
    let count = problems.len();
    (count > 0).then(|| {
        let noun = if count == 1 { "problem" } else { "problems" };
        format!("{count} {noun} in {files}; what was defined before stays in force")
    })
}
