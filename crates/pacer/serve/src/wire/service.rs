//! The pacer as a service: bidders ask it over TCP which campaigns may spend. `[pacer]` configures
//! it, `[budgets]` and `[record]` are beside it.

use std::any::type_name;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use eventlog::lane::{DurableRing, LaneEvent};
use pacer_core::shard::{EarlierWins, PacedShard, ShardLedger, ShardOptionsError};
use runtime::builder::Job;
use runtime::config::Section;
use runtime::metrics::{Exposition, PerShard};
use runtime::process::unix_ms;
use runtime::service::{
    BoxError, LocalFuture, RunningService, Service, ServiceError, ServiceShard, Startup,
};
use runtime::shards::ShardContext;
use tokio::sync::{mpsc, watch};
use tracing::info;

use super::campaigns::{CampaignTable, TableBuilder};
use super::classes::ReservationClasses;
use super::config::PacerConfig;
use super::counters::{self, PacerCounts};
use super::replay::{KeptRecords, SETTLEMENT_LOG, SettlementLog, SettlementReplayError, replay};
use super::settlements::ShardSettlements;
use super::shard::{PacerContext, PacerShard, ShardSeat};
use crate::ledger::rings::ShardRings;
use crate::registry::CampaignRules;
use crate::service::{BIDDER_LEDGER, LedgerPort};

/// How often the record is told what it must keep.
const KEEP_EVERY: Duration = Duration::from_secs(60);

/// A running pacer. `R` is the exchange's part of campaigns.
pub struct PacerService<R> {
    address: SocketAddr,
    context: Arc<PacerContext>,
    counts: PerShard<PacerCounts>,
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

    type Config = PacerConfig;

    fn read(s: &mut Section<'_>) -> Option<PacerConfig> {
        let about = "Answers bidders over TCP: which of their campaigns may spend on a bid request, and \
                     at what price. See docs/pacer-protocol.md. Needs [budgets] and [record].";
        s.table("pacer", about, PacerConfig::read)
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
}

impl<R: CampaignRules> PacerService<R> {
    fn open(
        config: PacerConfig,
        startup: &Startup<'_>,
        ledger: LedgerPort<R>,
        mut log: SettlementLog,
    ) -> Result<Self, PacerStartError> {
        let LedgerPort { shards, feeds, keys, origin, handle, first, published, .. } = ledger;
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
        let client_ids: Vec<_> = config.clients.iter().map(|it| Arc::clone(&it.id)).collect();
        let (peers, messages): (Vec<_>, Vec<_>) =
            shards.iter().map(|_| mpsc::unbounded_channel()).unzip();
        let accounts = config.clients.iter().map(|it| it.accounts.clone()).collect();
        let mut tables_of = TableBuilder::new(accounts);
        let (publish, tables) = watch::channel(Arc::new(tables_of.table(&first)));
        let published_on = Arc::clone(&published.on_published);
        let context = PacerContext {
            client_ids,
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
        let parts = shards.into_iter().zip(feeds).zip(earlier).zip(messages);
        for ((((rings, options), feed), earlier), messages) in parts {
            let (ring, log_events) = ring(&mut log);
            let shard = PacedShard::new(ShardLedger::new(&options)?);
            let settlements = ShardSettlements::new(ring, feed, earlier);
            let ShardRings { from_ledger, to_ledger, .. } = rings;
            seats.push(Mutex::new(Some(ShardSeat {
                shard,
                from_ledger,
                to_ledger,
                settlements,
                log_events,
                messages,
            })));
        }
        let keeping = keep_records(log, KeptRecords::new(from, horizon), &context, startup);
        let following = startup.builder.add("campaigns of bidders", move || {
            if let Some(catalogue) = published.catalogues.try_iter().last() {
                publish.send_replace(Arc::new(tables_of.table(&catalogue)));
            }
            None
        });
        published_on.get_or_init(|| following.handle());
        following.run_soon();
        let clients = context.client_ids.len();
        Ok(Self {
            address: startup.listening[0],
            context: Arc::new(context),
            counts: PerShard::with(seats.len(), || PacerCounts::new(clients)),
            tables,
            seats,
            jobs: Mutex::new(vec![keeping, following]),
            rules: std::marker::PhantomData,
        })
    }
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
        let clients = self.context.client_ids.len();
        let noun = if clients == 1 { "client" } else { "clients" };
        Some(format!("pacing bidders at {}, {clients} {noun}", self.address))
    }

    fn expose(self: Arc<Self>, exposition: &mut Exposition) {
        let (clients, counts) = (self.context.client_ids.clone(), self.counts.clone());
        exposition.add(move |page| counters::expose(&clients, &counts, page));
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
