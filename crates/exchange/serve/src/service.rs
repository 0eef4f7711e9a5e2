//! The exchange as a service: configured, started on shards, observed, drained.

mod api;
mod exchange;
mod exposition;
mod readiness;
mod recorded;

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use record::RECORD;
use runtime::admin::{Api, ChangeAllowance, Readiness};
use runtime::config::{Effective, Section};
use runtime::metrics::Exposition;
use runtime::service::{
    BoxError, DescriptorNeeds, LocalFuture, RunningService, Service, ServiceError, ServiceReload,
    ServiceShard, Startup,
};
use runtime::shards::ShardContext;
use tracing::warn;

use crate::config::ExchangeConfig;
use crate::generation::ENRICHMENT_MEMORIES;
use crate::http::AUCTION_PATH;
use crate::service::exposition::{MetricsSources, expose};
use crate::shard::MARKUP_STORE;

use exchange::ExchangePorts;
pub use exchange::{BUDGETS, Budgets, BudgetsError, Exchange, ExchangeError, OnStart};

/// Port at which the binary takes sold lots for an exchange with budgets, in the seller's form.
pub const SOLD_LOTS: &str = "sold-lots";

/// Fewest outbound connections to start with; each shard needs at least one for each DSP.
const OUTBOUND_MIN: u64 = 16;

impl Service for Exchange {
    const NAME: &'static str = "exchange";
    const OFFERS: &'static [&'static str] = &[SOLD_LOTS];
    /// Budgets come from the ledger, the store of markup from the cache, data about requests from
    /// look-ups.
    const USES: &'static [&'static str] =
        &["ledger", RECORD.name(), "cache-values", "lookup-memories"];
    const FIXED_TABLES: &'static [&'static str] = &[];

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
        let notices = config.notices.as_ref().map_or(0, |notices| {
            let others = notices.nodes.keys().filter(|node| config.node != Some(**node));
            let nodes = others.count() as u64;
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
        let ports = ExchangePorts {
            record: startup.ports.get(&RECORD),
            budgets: startup.ports.take(&BUDGETS),
            markup_store: startup.ports.take(&MARKUP_STORE),
            memories: startup.ports.take(&ENRICHMENT_MEMORIES),
        };
        let config = match startup.effective {
            Some(effective) => ExchangeConfig { text: effective.to_toml(), ..config },
            None => config,
        };
        if config.market.dsps.is_empty() {
            let only =
                if ports.budgets.is_some() { "direct campaigns alone bid" } else { "nobody bids" };
            warn!("no [[dsp]] is configured: {only}");
        }
        Self::open(config, startup, ports).map_err(|error| match error {
            ExchangeError::Enrichment(error) => ServiceError::configuration(error),
            error => ServiceError::unavailable(error),
        })
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
}

impl RunningService for Exchange {
    fn start_shard<'s>(
        self: Arc<Self>,
        context: &'s ShardContext,
    ) -> LocalFuture<'s, Result<Option<Rc<dyn ServiceShard>>, BoxError>> {
        Box::pin(async move { Ok(Some(self.shard(context)? as Rc<dyn ServiceShard>)) })
    }

    fn announcement(&self) -> Option<String> {
        let (dsps, shards) = (self.generation().dsps.len(), self.metrics().iter().count());
        let counted =
            |count: usize, noun| format!("{count} {noun}{}", if count == 1 { "" } else { "s" });
        Some(format!(
            "taking bid requests at http://{}{AUCTION_PATH}, {}, {}",
            self.address,
            counted(dsps, "DSP"),
            counted(shards, "shard")
        ))
    }

    fn generation(&self) -> Option<u64> {
        Some(self.generation().number)
    }

    fn expose(self: Arc<Self>, exposition: &mut Exposition) {
        let (current, metrics) = (self.current.clone(), self.metrics().clone());
        let firehose = self.record.as_ref().map(|record| record.firehose.clone());
        let (guards, dispatcher) = (self.guards.clone(), self.notices.clone());
        let pacer = self.pacer.clone();
        let beside = MetricsSources { guards, dispatcher, pacer, firehose };
        if let Some(funnels) = self.funnels.clone() {
            exposition.add(move |page| funnels.expose(page));
        }
        exposition.add(move |page| {
            let generation = Arc::clone(&current.borrow());
            expose(&generation, &metrics, &beside, page)
        });
    }

    fn add_readiness(self: Arc<Self>, readiness: &mut Readiness) {
        readiness.add("names of DSPs", self.names_are_known());
    }

    fn admin_apis(self: Arc<Self>, _changes: &ChangeAllowance) -> Vec<Api> {
        let directory = self.record.as_ref().map(|record| Arc::clone(&record.directory));
        vec![api::api(&self), recorded::api(directory)]
    }

    fn close(&self) -> Result<(), ServiceError> {
        self.end();
        Ok(())
    }
}
