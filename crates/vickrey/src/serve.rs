//! `vickrey serve`: reads the configuration, binds every port, then starts.

use std::path::PathBuf;

use clap::Args;
use exchange_serve::{AUCTION_PATH, Exchange};
use runtime::admin::{Admin, Pages, Readiness};
use runtime::listen::listen;
use runtime::metrics::Exposition;
use runtime::shutdown::Shutdown;
use tracing::{info, warn};

use crate::config::Config;
use crate::exit::{Exit, Failure};

#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// Configuration file; `vickrey config default` prints one to start from
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Shard threads, instead of what the file says
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    shards: Option<u16>,
}

pub(crate) fn run(args: &ServeArgs) -> anyhow::Result<Exit> {
    let mut config = runtime::config::load(&args.config, Config::read).map_err(Failure::usage)?;
    if let Some(shards) = args.shards {
        config.shards.shards = shards.into();
    }
    let Some(exchange) = config.exchange.take() else {
        let file = args.config.display();
        return Err(Failure::usage(format!(
            "{file} switches no service on; add [exchange], as `vickrey config default` has it"
        )));
    };
    runtime::logging::start(config.logging.clone())?;
    if let Err(error) = runtime::process::raise_descriptor_limit() {
        warn!(%error, "the limit of open files stays as it is");
    }
    // Every port before any service: one that is in use stops the start, not a running exchange.
    let callers = listen(exchange.listen).map_err(Failure::unavailable)?;
    let operators = listen(config.admin.listen).map_err(Failure::unavailable)?;
    let (listening, admin_listening) = (callers.local_addr()?, operators.local_addr()?);
    let shutdown = Shutdown::new(config.drain);
    shutdown.on_signals()?;
    if exchange.market.dsps.is_empty() {
        warn!("no [[dsp]] is configured: every request will be answered without a bid");
    }
    let dsps = exchange.market.dsps.len();
    let exchange = Exchange::start(exchange, &config.shards, callers, &shutdown)?;
    let mut exposition = Exposition::default();
    exchange.expose(&mut exposition);
    let pages = Pages { exposition, readiness: Readiness::default(), shutdown: shutdown.clone() };
    let admin = Admin::start(&config.admin, operators, pages)?;
    info!(
        "taking bid requests at http://{listening}{AUCTION_PATH}, {dsps} DSPs, {} shards",
        config.shards.shards
    );
    info!("metrics and health at http://{admin_listening}/metrics, /health/live, /health/ready");
    let ended = exchange.join();
    admin.stop();
    ended?;
    info!("stopped");
    Ok(Exit::Done)
}
