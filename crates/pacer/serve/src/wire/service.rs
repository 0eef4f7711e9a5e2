//! The pacer as a service: bidders ask it over TCP which campaigns may spend. `[pacer]` configures
//! it, `[budgets]` and `[record]` are beside it.

mod api;
mod exposition;

use std::any::type_name;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use eventlog::lane::{DurableRing, LaneEvent};
use pacer_core::funnel::SharedFunnels;
use pacer_core::shard::{EarlierWins, PacedShard, ShardLedger, ShardOptionsError};
use runtime::admin::{Api, ChangeAllowance};
use runtime::builder::Job;
use runtime::config::{Effective, Section};
use runtime::metrics::{Exposition, PerShard};
use runtime::process::unix_ms;
use runtime::service::{
    BoxError, LocalFuture, RunningService, Service, ServiceError, ServiceReload, ServiceShard,
    Startup,
};
use runtime::shards::ShardContext;
use tokio::sync::{mpsc, watch};
use tracing::info;

use super::bidders::{BidderChanges, BidderList};
use super::campaigns::{CampaignTable, TableBuilder};
use super::classes::ReservationClasses;
use super::config::PacerConfig;
use super::counters::PacerCounts;
use super::replay::{KeptRecords, SETTLEMENT_LOG, SettlementLog, SettlementReplayError, replay};
use super::settlements::ShardSettlements;
use super::shard::{PacerContext, PacerShard, ShardSeat};
use api::PacerApi;

use crate::ledger::rings::ShardRings;
use crate::registry::{CampaignRules, PublishedCatalogue};
use crate::service::{BIDDER_LEDGER, LedgerPort, PublishedCatalogues};

/// How often the record is told what it must keep.
const KEEP_EVERY: Duration = Duration::from_secs(60);
/// How often the shards' funnels are taken.
const FUNNELS_EVERY: Duration = Duration::from_millis(500);

/// A running pacer. `R` is the exchange's part of campaigns.
pub struct PacerService<R> {
    address: SocketAddr,
    /// The configuration of the start.
    first: Option<Effective>,
    context: Arc<PacerContext>,
    counts: PerShard<PacerCounts>,
    publisher: Arc<TablePublisher>,
    funnels: SharedFunnels,
    tables: watch::Receiver<Arc<CampaignTable>>,
    seats: Vec<Mutex<Option<ShardSeat>>>,
    jobs: Mutex<Vec<Job>>,
    rules: std::marker::PhantomData<fn() -> R>,
}

/// Why the pacer cannot start.
#[derive(Debug, thiserror::Error)]
pub enum PacerStartError {
    /// An option is out of its range.
    #[error("budgets: {0}")]
    Options(#[from] ShardOptionsError),
    /// The log is not usable.
    #[error("record.directory: {0}")]
    Log(#[from] SettlementReplayError),
}

impl<R: CampaignRules> Service for PacerService<R> {
    const NAME: &'static str = "pacer";
    const NEEDS: &'static [&'static str] = &[BIDDER_LEDGER, "record"];

    /// A reload applies `pacer.client`; it reports the other keys itself.
    const FIXED_TABLES: &'static [&'static str] = &[];

    type Config = PacerConfig;

    fn read(s: &mut Section<'_>) -> Option<PacerConfig> {
        let about = "Answers bidders over TCP: which of their campaigns may spend on a bid request, and \
                     at what price. See docs/pacer-protocol.md. Needs [budgets] and [record].";
        s.table("pacer", about, PacerConfig::read)
    }

    fn absent() -> Vec<Api> {
        vec![api::unconfigured()]
    }

    fn addresses(config: &PacerConfig) -> Vec<SocketAddr> {
        vec![config.listen]
    }

    fn start(config: PacerConfig, startup: &mut Startup<'_>) -> Result<Arc<Self>, ServiceError> {
        let ledger = startup.ports.take(&LedgerPort::<R>::bidders());
        let ledger = ledger.expect("the service needs this port");
        let log = startup.ports.take(&SETTLEMENT_LOG);
        let log = log.expect("a link offers the log of the port that the service needs");
        let pacer = Self::open(config, startup, ledger, log);
        let pacer = Arc::new(pacer.map_err(ServiceError::unavailable)?);
        Ok(pacer)
    }

    /// Puts the clients in force.
    fn reload(
        &self,
        config: Option<PacerConfig>,
        effective: &Effective,
    ) -> Result<ServiceReload, BoxError> {
        let Some(PacerConfig { clients, .. }) = config else {
            let needs_restart = vec![Self::NAME.to_owned()];
            return Ok(ServiceReload { needs_restart, ..ServiceReload::default() });
        };
        let changes = self.publisher.publish(|tables| tables.with_clients(clients));
        let BidderChanges { added, removed } = changes.unwrap_or_default();
        let differences = self.first.iter().flat_map(|first| first.differences(effective));
        let fixed = differences
            .map(|it| it.key)
            .filter(|key| key.starts_with("pacer.") && !key.starts_with("pacer.client["));
        let needs_restart = fixed.collect();
        Ok(ServiceReload { added, removed, needs_restart, ..ServiceReload::default() })
    }
}

/// Publishes the tables of new catalogues and of new clients.
#[derive(Debug)]
struct TablePublisher {
    tables: Mutex<TableBuilder>,
    publish: watch::Sender<Arc<CampaignTable>>,
}

impl TablePublisher {
    fn new<R>(mut tables: TableBuilder, first: &PublishedCatalogue<R>) -> Self {
        let publish = watch::Sender::new(Arc::new(tables.table(first)));
        Self { tables: Mutex::new(tables), publish }
    }

    fn subscribe(&self) -> watch::Receiver<Arc<CampaignTable>> {
        self.publish.subscribe()
    }

    fn publish<T>(
        &self,
        change: impl FnOnce(&mut TableBuilder) -> Option<(CampaignTable, T)>,
    ) -> Option<T> {
        let mut tables = self.tables.lock().expect("nothing panics with it");
        let (table, of_change) = change(&mut tables)?;
        self.publish.send_replace(Arc::new(table));
        Some(of_change)
    }
}

impl<R: CampaignRules> PacerService<R> {
    fn open(
        config: PacerConfig,
        startup: &Startup<'_>,
        ledger: LedgerPort<R>,
        mut log: SettlementLog,
    ) -> Result<Self, PacerStartError> {
        let LedgerPort { shards, feeds, keys, origin, handle, first, published, exchange, .. } =
            ledger;
        let funnels = SharedFunnels::new(shards.len(), unix_ms());
        follow(&funnels, &first);
        exchange.set_bidders(funnels.clone());
        let shard = &shards[0];
        let (own, options) = (shard.0.origin, &shard.1);
        let classes = ReservationClasses::new(options.ttls.clone(), config.reservation);
        let (late_window, horizon) = (options.late_window, options.horizon());
        let mut earlier: Vec<_> =
            shards.iter().map(|(rings, _)| EarlierWins::new(rings.origin, horizon)).collect();
        let from = replay(&log, &feeds[0], &keys, &mut earlier)?;
        feeds.iter().for_each(|feed| {
            feed.reached(log.lane.sequence());
            feed.replayed();
        });
        let (peers, messages): (Vec<_>, Vec<_>) =
            shards.iter().map(|_| mpsc::unbounded_channel()).unzip();
        let bidders = BidderList::new(shards.len(), config.clients.clone());
        let publisher = TablePublisher::new(TableBuilder::new(bidders), &first);
        let (tables, publisher) = (publisher.subscribe(), Arc::new(publisher));
        let context = PacerContext {
            keys,
            origin,
            halted: handle.halted(),
            handle,
            node: own.node,
            epoch: own.epoch,
            first_shard: own.shard,
            classes,
            late_window,
            lane: log.lane.clone(),
            peers,
            config,
        };
        let mut seats = Vec::with_capacity(shards.len());
        let parts = shards.into_iter().zip(feeds).zip(earlier).zip(messages).zip(funnels.slots());
        for (((((rings, options), feed), earlier), messages), funnel) in parts {
            let (ring, log_events) = ring(&mut log);
            let shard = PacedShard::with_funnel(ShardLedger::new(&options)?);
            let settlements = ShardSettlements::new(ring, feed, earlier);
            let ShardRings { from_ledger, to_ledger, .. } = rings;
            seats.push(Mutex::new(Some(ShardSeat {
                shard,
                from_ledger,
                to_ledger,
                settlements,
                log_events,
                messages,
                funnel: funnel.clone(),
            })));
        }
        let keeping = keep_records(log, KeptRecords::new(from, horizon), &context, startup);
        let following =
            follow_catalogues(published, Arc::clone(&publisher), funnels.clone(), startup);
        Ok(Self {
            address: startup.listening[0],
            first: startup.effective.cloned(),
            context: Arc::new(context),
            counts: PerShard::new(seats.len()),
            publisher,
            tables,
            seats,
            jobs: Mutex::new(vec![keeping, following, take_counts(funnels.clone(), startup)]),
            funnels,
            rules: std::marker::PhantomData,
        })
    }
}

/// Sets the campaigns whose funnels are kept.
fn follow<R>(funnels: &SharedFunnels, catalogue: &PublishedCatalogue<R>) {
    let open = catalogue.campaigns.iter().filter(|campaign| campaign.is_open);
    funnels.follow(open.map(|campaign| campaign.slot), unix_ms(), || false);
}

/// Puts every catalogue in force.
fn follow_catalogues<R: CampaignRules>(
    published: PublishedCatalogues<R>,
    publisher: Arc<TablePublisher>,
    funnels: SharedFunnels,
    startup: &Startup<'_>,
) -> Job {
    let PublishedCatalogues { catalogues, on_published } = published;
    let job = startup.builder.add("campaigns of bidders", move || {
        if let Some(catalogue) = catalogues.try_iter().last() {
            follow(&funnels, &catalogue);
            publisher.publish(|tables| Some((tables.table(&catalogue), ())));
        }
        None
    });
    on_published.get_or_init(|| job.handle());
    job.run_soon();
    job
}

/// Takes the shards' funnels, again and again.
fn take_counts(funnels: SharedFunnels, startup: &Startup<'_>) -> Job {
    let job = startup.builder.add("funnels of bidders", move || {
        funnels.take(unix_ms(), std::thread::yield_now);
        Some(FUNNELS_EVERY)
    });
    job.run_soon();
    job
}

/// A shard's ring into the log, and its events.
fn ring(log: &mut SettlementLog) -> (DurableRing, mpsc::UnboundedReceiver<LaneEvent>) {
    let (send, events) = mpsc::unbounded_channel();
    let ring = (log.ring)(Box::new(move |event| {
        // At the end the shard is gone.
        let _unheard = send.send(event);
    }));
    (ring, events)
}

/// Tells the record what it must keep, now and then.
fn keep_records(
    log: SettlementLog,
    mut kept: KeptRecords,
    context: &PacerContext,
    startup: &Startup<'_>,
) -> Job {
    let SettlementLog { lane, keep_from, .. } = log;
    let handle = context.handle.clone();
    let job = startup.builder.add("settlements to keep", move || {
        let applied = handle.status().applied_seq;
        keep_from(kept.from(unix_ms(), lane.sequence(), applied));
        Some(KEEP_EVERY)
    });
    job.run_soon();
    job
}

impl<R: CampaignRules> RunningService for PacerService<R> {
    fn start_shard<'s>(
        self: Arc<Self>,
        shard: &'s ShardContext,
    ) -> LocalFuture<'s, Result<Option<Rc<dyn ServiceShard>>, BoxError>> {
        Box::pin(async move {
            let index = shard.index();
            let seat = self.seats[index].lock().expect("nothing panics with it").take();
            let seat = seat.expect("a shard starts once");
            let mut tables = self.tables.clone();
            let table = Arc::clone(&tables.borrow_and_update());
            let number = u16::try_from(index).expect("shards are counted by 16 bits");
            let counts = self.counts.shard(index);
            let (part, tasks) =
                PacerShard::new(number, Arc::clone(&self.context), counts, table, seat);
            let running = Rc::clone(&part).run(tasks, tables, shard.shutdown().clone());
            tokio::task::spawn_local(running);
            Ok(Some(part as Rc<dyn ServiceShard>))
        })
    }

    fn announcement(&self) -> Option<String> {
        let clients = self.context.config.clients.len();
        let noun = if clients == 1 { "client" } else { "clients" };
        Some(format!("pacing bidders at {}, {clients} {noun}", self.address))
    }

    fn expose(self: Arc<Self>, exposition: &mut Exposition) {
        let (tables, counts) = (self.tables.clone(), self.counts.clone());
        let funnels = self.funnels.clone();
        exposition.add(move |page| {
            let table = Arc::clone(&tables.borrow());
            exposition::expose(&table.bidders, &counts, &funnels, page)
        });
    }

    fn admin_apis(self: Arc<Self>, _changes: &ChangeAllowance) -> Vec<Api> {
        vec![api::api(PacerApi {
            listen: self.address,
            node: self.context.node,
            epoch: self.context.epoch.0.into(),
            counts: self.counts.clone(),
            tables: self.tables.clone(),
        })]
    }

    fn close(&self) -> Result<(), ServiceError> {
        // Parts of shards that never started.
        for seat in &self.seats {
            seat.lock().expect("nothing panics with it").take();
        }
        self.jobs.lock().expect("nothing panics with it").clear();
        info!("the pacer has ended");
        Ok(())
    }
}

impl<R> std::fmt::Debug for PacerService<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct(type_name::<Self>()).field("address", &self.address).finish_non_exhaustive()
    }
}
