//! `vickrey serve`: reads the configuration, binds every port, starts, and takes over what the
//! configuration becomes.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::Builder;
use std::time::Duration;

use clap::Args;
use exchange_serve::{AUCTION_PATH, Exchange, ExchangeConfig, api};
use runtime::admin::{
    Admin, CampaignFiles, ChangeAllowance, Configuration, InForce, Pages, Readiness, ReloadError,
    ReloadSummary, configuration, document,
};
use runtime::config::load_tracked;
use runtime::listen::listen;
use runtime::metrics::Exposition;
use runtime::reload::Reload;
use runtime::shutdown::Shutdown;
use runtime::traces::{self, Exporting, Tracer, TracingOptions};
use tracing::{info, warn};

use crate::budgets::{Kept, Spent};
use crate::config::Config;
use crate::descriptors;
use crate::exit::{Exit, Failure};
use crate::live::{Live, StartedWith};
use crate::log::line::count;

/// What the admin listener answers, as OpenAPI has it.
pub(crate) const OPENAPI: &str = include_str!("../../../docs/openapi.json");

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
    let (loaded, sources) = load_tracked(&args.config, Config::read);
    let loaded = loaded.map_err(Failure::usage)?;
    let mut config = loaded.value;
    if let Some(shards) = args.shards {
        config.shards.shards = shards.into();
    }
    let Some(exchange) = config.exchange.take() else {
        let file = args.config.display();
        return Err(Failure::usage(format!(
            "{file} switches no service on; add [exchange], as `vickrey config default` has it"
        )));
    };
    let logging = runtime::logging::start(config.logging.clone())?;
    runtime::process::keep_files_private();
    warn_of_open_directories(&config, &exchange);
    descriptors::fit(&mut config, &exchange, runtime::process::raise_descriptor_limit())?;
    // Every port before any service: one that is in use stops the start, not a running exchange.
    let callers = listen(exchange.listen).map_err(Failure::unavailable)?;
    let operators = listen(config.admin.listen).map_err(Failure::unavailable)?;
    let (listening, admin_listening) = (callers.local_addr()?, operators.local_addr()?);
    let shutdown = Shutdown::new(config.drain);
    shutdown.on_signals()?;
    let reload = Reload::start(sources, config.watch, &shutdown)?;
    if exchange.market.dsps.is_empty() {
        let only = if config.budgets.is_some() {
            "campaigns of the house alone bid"
        } else {
            "nobody bids"
        };
        warn!("no [[dsp]] is configured: {only}");
    }
    let dsps = exchange.market.dsps.len();
    let (tracer, exporting) = start_tracing(config.tracing.take())?;
    let exchange = ExchangeConfig { text: loaded.effective.to_toml(), ..exchange };
    let folder = args.config.parent().unwrap_or(Path::new(""));
    let (kept, budgets) = Kept::open((&config, &exchange), folder, &shutdown)?.unzip();
    let beside = (tracer.clone(), budgets);
    let exchange = Exchange::start(exchange, &config.shards, callers, &shutdown, beside);
    let exchange = Arc::new(exchange.map_err(Failure::unavailable)?);
    let spent = kept.map(|kept| kept.follow(&exchange, &config, &shutdown)).transpose()?;
    let started = StartedWith {
        file: &args.config,
        effective: loaded.effective,
        digest: loaded.digest,
        generation: exchange.generation().number,
    };
    let live = Live::new(started, reload.bell(), (logging, tracer.clone()));
    let operated = Operated {
        exchange: &exchange,
        tracer: &tracer,
        live: Some(&live),
        budgets: spent.as_ref(),
    };
    let admin = operated.start(&config, operators, &shutdown)?;
    info!(
        "taking bid requests at http://{listening}{AUCTION_PATH}, {}, {}",
        count(dsps as u64, "DSP", "DSPs"),
        count(config.shards.shards as u64, "shard", "shards")
    );
    info!("metrics and health at http://{admin_listening}/metrics, /health/live, /health/ready");
    // Until the drain begins.
    std::thread::scope(|scope| {
        let (live, exchange) = (&live, &exchange);
        let following = move || live.follow(&reload, exchange);
        let thread = Builder::new().name("configuration".to_owned());
        thread.spawn_scoped(scope, following).map(drop)
    })?;
    let ended = sole(exchange).join();
    admin.stop();
    let closed = spent.map_or(Ok(()), Spent::close);
    let _ = exporting.map(Exporting::stop);
    ended?;
    closed?;
    info!("stopped");
    Ok(Exit::Done)
}

/// What is created is private; what was created before may not be.
fn warn_of_open_directories(config: &Config, exchange: &ExchangeConfig) {
    let record = exchange.record.as_ref().map(|of| ("record.directory", &of.directory));
    let budgets = config.budgets.as_ref().map(|of| ("budgets.directory", &of.directory));
    for (key, directory) in record.into_iter().chain(budgets) {
        if let Some(mode) = runtime::process::open_to_others(directory) {
            warn!(
                "{key}: other users have rights to {} (mode {mode:o}): chmod 700",
                directory.display()
            );
        }
    }
}

fn start_tracing(options: Option<TracingOptions>) -> std::io::Result<(Tracer, Option<Exporting>)> {
    let Some(options) = options else { return Ok((Tracer::off(), None)) };
    let (tracer, exporting) = traces::start(options)?;
    Ok((tracer, Some(exporting)))
}

/// What operators see and steer.
pub(crate) struct Operated<'o> {
    pub(crate) exchange: &'o Arc<Exchange>,
    pub(crate) tracer: &'o Tracer,
    /// `None` where the configuration is no file.
    pub(crate) live: Option<&'o Live>,
    /// `None` where nobody keeps accounts.
    pub(crate) budgets: Option<&'o Spent>,
}

impl Operated<'_> {
    /// Starts the admin listener.
    pub(crate) fn start(
        &self,
        config: &Config,
        listener: TcpListener,
        shutdown: &Shutdown,
    ) -> std::io::Result<Admin> {
        let mut exposition = Exposition::default();
        exposition.add_process();
        if let Some(live) = self.live {
            live.expose(&mut exposition);
        }
        self.exchange.expose(&mut exposition);
        self.tracer.expose(&mut exposition);
        let mut readiness = Readiness::default();
        readiness.add("names of DSPs", api::names_are_known(self.exchange));
        let exchange = Arc::downgrade(self.exchange);
        readiness.remark("overload", move || exchange.upgrade()?.overload());
        if let Some(budgets) = self.budgets {
            budgets.expose(&mut exposition);
            budgets.readiness(&mut readiness);
        }
        // Reloads and changes of campaigns both make generations, so they share one limit.
        let allowance = ChangeAllowance::new(config.admin.changes);
        let budgets = self.budgets.map(|budgets| budgets.api(self.exchange).limited(&allowance));
        let budgets = budgets.unwrap_or_else(crate::budgets::unconfigured);
        let reloader = self.budgets.map(|budgets| Box::new(budgets.reloader()) as _);
        let live = self.live.map(|live| {
            configuration(Reloading { live: live.clone(), campaigns: reloader }).limited(&allowance)
        });
        let pages = Pages {
            exposition,
            readiness,
            shutdown: shutdown.clone(),
            apis: live
                .into_iter()
                .chain([budgets, api::api(self.exchange), document(OPENAPI)])
                .collect(),
        };
        Admin::start(&config.admin, listener, pages)
    }
}

/// The configuration, and the files of accounts and campaigns, as an operator reloads them: both.
struct Reloading {
    live: Live,
    /// `None` where nobody keeps accounts.
    campaigns: Option<Box<dyn Fn() -> CampaignFiles + Send + Sync>>,
}

impl Configuration for Reloading {
    fn in_force(&self) -> InForce {
        self.live.in_force()
    }

    fn reload(&self) -> Result<ReloadSummary, ReloadError> {
        let summary = self.live.reload()?;
        Ok(ReloadSummary { campaigns: self.campaigns.as_ref().map(|reload| reload()), ..summary })
    }
}

/// The exchange, once those who look at it are done: each look is short.
pub(crate) fn sole(mut exchange: Arc<Exchange>) -> Exchange {
    loop {
        match Arc::try_unwrap(exchange) {
            Ok(sole) => return sole,
            Err(shared) => exchange = shared,
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}
