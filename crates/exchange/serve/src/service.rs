//! The exchange as a service: configured, started on shards, observed, drained.

use std::net::TcpListener;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

use runtime::metrics::{Exposition, PerShard};
use runtime::shards::{ShardContext, Shards, ShardsOptions, StartError};
use runtime::shutdown::Shutdown;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tracing::{debug, error};

use crate::config::ExchangeConfig;
use crate::dns::Resolver;
use crate::fanout::Reactor;
use crate::generation::{Generation, Generations, Reloaded};
use crate::http;
use crate::metrics::{ExchangeMetrics, expose};
use crate::shard::Shard;

/// A running exchange.
#[derive(Debug)]
pub struct Exchange {
    shards: Shards,
    metrics: PerShard<ExchangeMetrics>,
    generations: Mutex<Generations>,
    current: watch::Receiver<Arc<Generation>>,
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
        let resolver = Resolver::start().map_err(ExchangeError::Resolver)?;
        let generations = Generations::new(config, options.shards, resolver);
        let current = generations.subscribe();
        let metrics = PerShard::new(options.shards);
        let body = {
            let (current, metrics) = (current.clone(), metrics.clone());
            move |context: ShardContext| {
                let counters = metrics.shard(context.index());
                let mut generations = current.clone();
                async move {
                    match Reactor::start(Arc::clone(&counters), context.shutdown()) {
                        Ok(reactor) => {
                            let first = Arc::clone(&generations.borrow_and_update());
                            let shard = Shard::new(context.index(), first, counters, reactor);
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
        Ok(Self { shards, metrics, generations: Mutex::new(generations), current })
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
    pub fn reload(&self, config: ExchangeConfig) -> Reloaded {
        self.generations.lock().expect("nothing panics while it builds").replace(config)
    }

    /// Adds its metrics to the page that is scraped.
    pub fn expose(&self, exposition: &mut Exposition) {
        let (current, metrics) = (self.current.clone(), self.metrics.clone());
        exposition.add(move |page| {
            let generation = Arc::clone(&current.borrow());
            expose(&generation, &metrics, page)
        });
        let connections = self.shards.metrics();
        exposition.add(move |page| connections.expose(page));
    }

    /// Waits for the shutdown and the drain.
    pub fn join(self) -> Result<(), runtime::shards::ShardsPanicked> {
        self.shards.join()
    }
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
