//! The exchange as a service: configured, started on shards, observed, drained.

use std::net::TcpListener;
use std::rc::Rc;
use std::sync::Arc;

use runtime::metrics::{Exposition, PerShard};
use runtime::shards::{ShardContext, Shards, ShardsOptions, StartError};
use runtime::shutdown::Shutdown;
use tokio::net::TcpStream;
use tracing::{debug, error};

use crate::config::ExchangeConfig;
use crate::dns::{self, Name, Resolver};
use crate::fanout::{Addresses, Endpoint, Reactor};
use crate::http;
use crate::metrics::{ExchangeMetrics, expose};
use crate::shard::Shard;

/// A running exchange.
#[derive(Debug)]
pub struct Exchange {
    shards: Shards,
    metrics: PerShard<ExchangeMetrics>,
    config: Arc<ExchangeConfig>,
    /// Names stay resolved as long as this lives.
    _resolver: Resolver,
}

/// Why the exchange could not be started.
#[derive(Debug, thiserror::Error)]
pub enum ExchangeError {
    /// Its threads could not.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The resolver's thread could not.
    #[error("cannot start the resolver: {0}")]
    Resolver(std::io::Error),
}

impl Exchange {
    /// Starts shards that serve callers on `listener`.
    pub fn start(
        config: ExchangeConfig,
        options: &ShardsOptions,
        listener: TcpListener,
        shutdown: &Shutdown,
    ) -> Result<Self, ExchangeError> {
        let config = Arc::new(config);
        let mut names = Vec::new();
        let mut endpoints = Vec::new();
        for (host, port, endpoint) in &config.endpoints {
            let addresses = Addresses::default();
            names.push(Name { host: host.clone(), port: *port, addresses: addresses.clone() });
            endpoints.push(Arc::new(Endpoint::new(endpoint, addresses)));
        }
        let resolver = dns::start(names, config.dns).map_err(ExchangeError::Resolver)?;
        let metrics = PerShard::with(options.shards, || ExchangeMetrics::new(&config.market));
        let body = {
            let (config, metrics) = (Arc::clone(&config), metrics.clone());
            let endpoints: Arc<[_]> = endpoints.into();
            move |context: ShardContext| {
                let counters = metrics.shard(context.index());
                let (config, endpoints) = (Arc::clone(&config), Arc::clone(&endpoints));
                async move {
                    match Reactor::start(Arc::clone(&counters), context.shutdown()) {
                        Ok(reactor) => {
                            let shard = Shard::new(config, &endpoints, counters, &reactor);
                            run_shard(context, Rc::new(shard)).await;
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
        Ok(Self { shards, metrics, config, _resolver: resolver })
    }

    /// What it counts, by shard.
    pub fn metrics(&self) -> &PerShard<ExchangeMetrics> {
        &self.metrics
    }

    /// What it was started with.
    pub fn config(&self) -> &ExchangeConfig {
        &self.config
    }

    /// Adds its metrics to the page that is scraped.
    pub fn expose(&self, exposition: &mut Exposition) {
        let (config, metrics) = (Arc::clone(&self.config), self.metrics.clone());
        exposition.add(move |page| expose(&config.market, &metrics, page));
        let connections = self.shards.metrics();
        exposition.add(move |page| connections.expose(page));
    }

    /// Waits for the shutdown and the drain.
    pub fn join(self) -> Result<(), runtime::shards::ShardsPanicked> {
        self.shards.join()
    }
}

async fn run_shard(mut context: ShardContext, shard: Rc<Shard>) {
    tokio::task::spawn_local(Rc::clone(&shard).sweep());
    while let Some(accepted) = context.accept().await {
        let shard = Rc::clone(&shard);
        let shutdown = context.shutdown().clone();
        context.tasks().spawn_isolated(async move {
            let _open = accepted.open;
            match TcpStream::from_std(accepted.stream) {
                Ok(stream) => {
                    let drain = async move {
                        shutdown.started().await;
                    };
                    http::serve(stream, shard, drain).await;
                }
                Err(error) => debug!(%error, "accepted socket is unusable"),
            }
        });
    }
}
