//! The process that runs services, from configuration to exit: `vickrey serve`.

use std::any::Any;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tracing::info;

use super::descriptors::{TooFewDescriptors, fit};
use super::kind::{ServiceInstance, ServiceKind};
use super::ports::Ports;
use super::reload::{LiveConfiguration, ReloadTargets};
use super::services::Services;
use super::shards::{ServedService, serve_on_shards};
use super::shell_config::{ShellConfig, ShellFile};
use super::{DescriptorNeeds, Service, ServiceError, Startup};
use crate::admin::{Admin, Api, ChangeAllowance, ChangeLimits, Pages, Readiness, configuration};
use crate::builder::Builder;
use crate::config::Effective;
use crate::config::reload::{Hangup, Reload, WatchedFiles};
use crate::control::Control;
use crate::listen::{ListenError, listen};
use crate::metrics::Exposition;
use crate::shards::{Shards, ShardsMetrics, ShardsPanicked, ShardsStartError};
use crate::shutdown::Shutdown;
use crate::traces::{self, TraceExport, Tracer, TracingOptions};

/// How long readiness reports a refusal because of overload.
const OVERLOAD_SHOWN: Duration = Duration::from_secs(10);

/// Inputs of a shell's start besides its configuration.
pub struct ShellOptions<'o> {
    /// The whole configuration, with defaults.
    pub effective: Effective,
    /// The configuration file. None if there is no file, hence no reloads.
    pub file: Option<ShellFile<'o>>,
    /// The folder that relative paths start from.
    pub folder: &'o Path,
    /// Open listeners, matched by address, to use instead of opening new ones.
    pub listeners: Vec<TcpListener>,
    /// Shutdown of the process.
    pub shutdown: Shutdown,
    /// Thread for signals, admin requests and DNS.
    pub control: Control,
}

/// Why the process does not start, or failed.
#[derive(Debug, thiserror::Error)]
pub enum ShellError {
    /// The file has no section of a service that may run alone.
    #[error("the configuration switches no service on: add one of {0}")]
    NoService(String),
    /// The process may open too few files.
    #[error(transparent)]
    Descriptors(#[from] TooFewDescriptors),
    /// An address cannot be listened on.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The operating system refuses something.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// Shards do not start.
    #[error(transparent)]
    Shards(#[from] ShardsStartError),
    /// Shards panicked.
    #[error(transparent)]
    Panicked(#[from] ShardsPanicked),
    /// A service does not start, or failed.
    #[error(transparent)]
    Service(#[from] ServiceError),
}

/// Services that run in this process.
pub struct Shell {
    running: Vec<ServiceInstance>,
    shards: Shards,
    admin: Admin,
    admin_address: SocketAddr,
    exporting: Option<TraceExport>,
    reload: Option<Reload>,
    /// Dropped after everything that runs on them, the builder first.
    _threads: (Builder, Control),
}

impl Shell {
    /// Starts the configured services; returns once they run.
    ///
    /// # Errors
    /// Why the process must not start. Services already started are stopped.
    pub fn start(
        services: &Services,
        mut config: ShellConfig,
        options: ShellOptions<'_>,
    ) -> Result<Self, ShellError> {
        let ShellOptions { effective, file, folder, listeners, shutdown, control } = options;
        let kinds = services.in_start_order(&config.services)?;
        if !kinds.iter().any(|kind| kind.runs_alone) {
            return Err(ShellError::NoService(services.sections()));
        }
        let outbound = share_descriptors(&kinds, &mut config)?;
        let mut open = OpenListeners(listeners);
        // Bind all addresses before any service starts: one in use stops the start, not a service.
        let mut bound = Vec::with_capacity(kinds.len());
        for kind in &kinds {
            let section = &config.services[kind.name];
            let addresses = (kind.addresses)(section).into_iter();
            bound.push(addresses.map(|address| open.take(address)).collect::<Result<Vec<_>, _>>()?);
        }
        let operators = open.take(config.admin.listen)?;
        let admin_address = operators.local_addr()?;
        // Catch SIGHUP before slow work: by default it ends the process.
        let hangup = Hangup::catch(&control)?;
        let builder = Builder::start()?;
        let (tracer, exporting) = start_tracing(config.tracing.take(), &control);
        let mut ports = Ports::default();
        let mut running = Vec::with_capacity(kinds.len());
        let mut served = Vec::with_capacity(kinds.len());
        for ((kind, listeners), outbound_max) in kinds.iter().zip(bound).zip(outbound) {
            services.run_links(kind.name, &mut ports)?;
            let section = config.services.remove(kind.name).expect("it is configured");
            let listening = listeners.iter().map(TcpListener::local_addr);
            let listening = listening.collect::<Result<Vec<_>, _>>()?;
            let mut startup = Startup {
                shards: config.shards.shards,
                listening: &listening,
                outbound_max,
                folder,
                watch: config.watch,
                effective: Some(&effective),
                shutdown: &shutdown,
                tracer: &tracer,
                control: &control,
                builder: &builder,
                ports: &mut ports,
            };
            let instance = (kind.start)(section, &mut startup)?;
            running.push(instance.clone());
            served.push(ServedService { instance, listeners });
        }
        let shards = serve_on_shards(served, &config.shards, &shutdown)?;
        let live = file.map(|file| {
            let generation = running.iter().find_map(|of| of.service.generation()).unwrap_or(1);
            let by = ReloadTargets {
                services: running.clone(),
                fixed: services.fixed_tables(),
                tracer: tracer.clone(),
            };
            let sources = file.sources.clone();
            let watched = WatchedFiles { sources, interval: config.watch, retry_after: None };
            let live = LiveConfiguration::new(file, effective, generation, by);
            let reload = live.follow(&builder, hangup, watched, &shutdown);
            (live, reload)
        });
        let (live, reload) = live.unzip();
        let mut pages = pages(services, &running, live, config.admin.changes, &shutdown);
        tracer.expose(&mut pages.exposition);
        expose_shards(&mut pages, shards.metrics());
        let admin = Admin::start(&config.admin, operators, pages, &control)?;
        for line in running.iter().filter_map(|of| of.service.announcement()) {
            info!("{line}");
        }
        info!("metrics and health at http://{admin_address}/metrics, /health/live, /health/ready");
        let _threads = (builder, control);
        Ok(Self { running, shards, admin, admin_address, exporting, reload, _threads })
    }

    /// A running service. None if it does not run.
    pub fn service<S: Service>(&self) -> Option<Arc<S>> {
        let running = self.running.iter().map(|of| Arc::clone(&of.service));
        running.map(|it| Arc::downcast(it as Arc<dyn Any + Send + Sync>)).find_map(Result::ok)
    }

    /// Address of the admin listener.
    pub fn admin_address(&self) -> SocketAddr {
        self.admin_address
    }

    /// Waits for the shutdown and the drain, then closes all services, those with ports last.
    ///
    /// # Errors
    /// Why the process failed.
    pub fn join(self) -> Result<(), ShellError> {
        let Self { running, shards, admin, exporting, reload, _threads, .. } = self;
        let ended = shards.join();
        drop(reload);
        running.iter().for_each(|of| of.service.shards_ended());
        let (offering, others): (Vec<_>, Vec<_>) =
            running.into_iter().rev().partition(|of| !of.kind.offers.is_empty());
        let mut closed: Vec<_> = others.iter().map(|of| of.service.close()).collect();
        // The admin API shows the services that offer ports.
        admin.stop();
        closed.extend(offering.iter().map(|of| of.service.close()));
        if let Some(exporting) = exporting {
            exporting.stop();
        }
        ended?;
        closed.into_iter().collect::<Result<(), _>>()?;
        Ok(())
    }
}

/// The pages of the admin listener, without traces and shards.
fn pages(
    services: &Services,
    running: &[ServiceInstance],
    live: Option<LiveConfiguration>,
    limits: ChangeLimits,
    shutdown: &Shutdown,
) -> Pages {
    let (mut exposition, mut readiness) = (Exposition::default(), Readiness::default());
    exposition.add_process();
    if let Some(live) = &live {
        live.expose(&mut exposition);
    }
    // Reloads and changes of services both create generations, so they share one limit.
    let changes = ChangeAllowance::new(limits);
    let of_file = live.into_iter().map(|live| configuration(live).limited(&changes));
    let mut apis: Vec<Api> = of_file.collect();
    for ServiceInstance { service, .. } in running {
        Arc::clone(service).expose(&mut exposition);
        Arc::clone(service).add_readiness(&mut readiness);
        apis.extend(Arc::clone(service).admin_apis(&changes));
    }
    apis.extend(services.absent(running));
    Pages { exposition, readiness, shutdown: shutdown.clone(), apis }
}

fn expose_shards(pages: &mut Pages, metrics: ShardsMetrics) {
    let overloaded = metrics.clone();
    pages.exposition.add(move |page| metrics.expose(page));
    pages.readiness.remark("overload", move || {
        let shards = overloaded.overloaded(OVERLOAD_SHOWN);
        let period_s = OVERLOAD_SHOWN.as_secs();
        (shards > 0).then(|| {
            format!(
                "shards that refused requests within {period_s} s: {shards}; see vickrey_requests_refused_total"
            )
        })
    });
}

/// Lowers limits to the descriptors of the process. Returns outbound connections by service.
fn share_descriptors(
    kinds: &[ServiceKind],
    config: &mut ShellConfig,
) -> Result<Vec<usize>, TooFewDescriptors> {
    let shards = config.shards.shards;
    let needs = kinds.iter().map(|kind| (kind.descriptors)(&config.services[kind.name], shards));
    let needs: Vec<DescriptorNeeds> = needs.collect();
    let descriptors = crate::process::raise_descriptor_limit();
    fit(&mut config.shards, config.admin.connections_max, &needs, descriptors)
}

fn start_tracing(
    options: Option<TracingOptions>,
    control: &Control,
) -> (Tracer, Option<TraceExport>) {
    let Some(options) = options else { return (Tracer::off(), None) };
    let (tracer, exporting) = traces::start(options, control);
    (tracer, Some(exporting))
}

struct OpenListeners(Vec<TcpListener>);

impl OpenListeners {
    /// The open listener at `address`, or a new one.
    fn take(&mut self, address: SocketAddr) -> Result<TcpListener, ListenError> {
        let is_there = |listener: &TcpListener| listener.local_addr().is_ok_and(|it| it == address);
        match self.0.iter().position(is_there) {
            Some(at) => Ok(self.0.swap_remove(at)),
            None => listen(address),
        }
    }
}
