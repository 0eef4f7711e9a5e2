//! The interface between a service and the shell that runs it. The shell starts the shards once for
//! all services and gives each one limited listeners, reloads, the admin API, metrics, readiness
//! and an orderly shutdown.
//!
//! A service implements [`Service`]; its part of a shard implements [`ServiceShard`]. This module
//! must not know which services exist: a binary lists them in [`Services`].

mod connection;
mod descriptors;
mod ports;
mod reload;
mod shards;
mod shell;
mod shell_config;

#[cfg(test)]
mod tests;

use std::any::Any;
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::path::Path;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use crate::admin::{Api, CampaignFiles, ChangeAllowance, Readiness};
use crate::builder::Builder;
use crate::config::{Effective, Section};
use crate::control::Control;
use crate::metrics::Exposition;
use crate::shards::ShardContext;
use crate::shutdown::Shutdown;
use crate::traces::Tracer;

pub use connection::{
    ClientConnection, ConnectError, ConnectionOptions, ConnectionStream, HttpRequest, HttpService,
};
pub use descriptors::{DescriptorNeeds, TooFewDescriptors};
pub use http_kit::server::{BoxError, HeadLimits, Upgraded};
pub use ports::{Port, Ports};
pub use shards::{LoneOptions, LoneService};
pub use shell::{Shell, ShellError, ShellOptions};
pub use shell_config::{ShellConfig, ShellFile};

/// A future that stays on one shard.
pub type LocalFuture<'f, T> = Pin<Box<dyn Future<Output = T> + 'f>>;

/// One service of the platform. Methods without `self` also apply to a service that does not run.
pub trait Service: Sized + Send + Sync + 'static {
    /// Its name, which is also the name of its section in the configuration.
    const NAME: &'static str;

    /// Ports that it offers to other services: those start after it and close before it.
    const OFFERS: &'static [&'static str] = &[];

    /// Ports that it uses if another service of the file offers them.
    const USES: &'static [&'static str] = &[];

    /// Ports that it cannot start without.
    const NEEDS: &'static [&'static str] = &[];

    /// Configuration tables that it reads only at startup.
    const FIXED_TABLES: &'static [&'static str] = &[];

    /// Its section, parsed.
    type Config: Send + 'static;

    /// Declares and reads its section. None if the file does not have it.
    fn read(s: &mut Section<'_>) -> Option<Self::Config>;

    /// Its addresses, by [`ClientConnection::listener`]; all are bound before any service starts.
    fn addresses(_config: &Self::Config) -> Vec<SocketAddr> {
        Vec::new()
    }

    /// File descriptors that it needs besides its client connections.
    fn descriptors(_config: &Self::Config, _shards: usize) -> DescriptorNeeds {
        DescriptorNeeds::default()
    }

    /// Its part of the admin API when the file does not have its section.
    fn absent() -> Vec<Api> {
        Vec::new()
    }

    /// Starts what exists once per process: stores, threads, ports. No shard runs yet.
    ///
    /// # Errors
    /// Why the process must not start.
    fn start(config: Self::Config, startup: &mut Startup<'_>) -> Result<Arc<Self>, ServiceError>;

    /// Starts its part of a shard, on the shard's thread. None if it runs nothing there.
    ///
    /// # Errors
    /// Why it cannot run on this shard. The process then ends.
    fn start_shard<'s>(
        self: Arc<Self>,
        _shard: &'s ShardContext,
    ) -> LocalFuture<'s, Result<Option<Rc<dyn ServiceShard>>, BoxError>> {
        Box::pin(async { Ok(None) })
    }

    /// One log line once all services run: its addresses and what it serves.
    fn announcement(&self) -> Option<String> {
        None
    }

    /// Applies another configuration. None if the file no longer has its section. A service that
    /// applies no changes lists its tables in [`Self::FIXED_TABLES`].
    ///
    /// # Errors
    /// Why nothing changed.
    fn reload(
        &self,
        _config: Option<Self::Config>,
        _effective: &Effective,
    ) -> Result<ServiceReload, BoxError> {
        Ok(ServiceReload::default())
    }

    /// Generation that records the startup configuration. None if it does not record it.
    fn generation(&self) -> Option<u64> {
        None
    }

    /// Rereads its own files when an operator asks for a reload. None if it has none.
    fn reload_files(&self) -> Option<CampaignFiles> {
        None
    }

    /// Adds its metrics.
    fn expose(self: &Arc<Self>, _exposition: &mut Exposition) {}

    /// Adds its checks to `/health/ready`.
    fn add_readiness(self: &Arc<Self>, _readiness: &mut Readiness) {}

    /// Its part of the admin API. Routes that cause work share the limit `changes` with reloads.
    fn admin_apis(self: &Arc<Self>, _changes: &ChangeAllowance) -> Vec<Api> {
        Vec::new()
    }

    /// Ends what exists once per process, after the last shard has ended.
    ///
    /// # Errors
    /// What is lost, or why the process failed.
    fn close(&self) -> Result<(), ServiceError> {
        Ok(())
    }
}

/// The part of a service that runs on one shard.
pub trait ServiceShard {
    /// How to handle new connections of a listener.
    fn connection_options(&self, listener: usize) -> ConnectionOptions;

    /// Serves a connection to its end. A panic ends only this connection.
    fn serve(self: Rc<Self>, connection: ClientConnection) -> LocalFuture<'static, ()>;

    /// Counts a failed handshake. The caller has logged it.
    fn count_failed_handshake(&self) {}

    /// Runs once the connections of all shards have ended or the drain is over.
    fn close(self: Rc<Self>) -> LocalFuture<'static, ()> {
        Box::pin(async {})
    }
}

/// Inputs of a service's start besides its configuration.
pub struct Startup<'s> {
    /// Number of shards.
    pub shards: usize,
    /// Bound addresses, in the order of [`Service::addresses`].
    pub listening: &'s [SocketAddr],
    /// Most outbound connections, over all shards.
    pub outbound_max: usize,
    /// The folder of the configuration file; relative paths start here.
    pub folder: &'s Path,
    /// Interval between checks of files for changes. Zero if they are not checked.
    pub watch: Duration,
    /// The whole configuration in force. None if the service runs without a file.
    pub effective: Option<&'s Effective>,
    /// Shutdown of the process.
    pub shutdown: &'s Shutdown,
    /// Samples and collects traces.
    pub tracer: &'s Tracer,
    /// Thread for work that does not block.
    pub control: &'s Control,
    /// Thread for low-priority work.
    pub builder: &'s Builder,
    /// Ports that other services offer.
    pub ports: &'s mut Ports,
}

/// How a service applied another configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceReload {
    /// Generation that records the configuration. None if the service does not record it.
    pub generation: Option<u64>,
    /// New items, for the log.
    pub added: Vec<String>,
    /// Removed items, for the log.
    pub removed: Vec<String>,
    /// Changed keys that take effect at the next start.
    pub needs_restart: Vec<String>,
}

/// Why a service does not start or failed. Each variant has its own exit code.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// The configuration, or something it names, is wrong.
    #[error(transparent)]
    Configuration(BoxError),
    /// Something outside of the process prevents it.
    #[error(transparent)]
    Unavailable(BoxError),
    /// A defect of the process itself.
    #[error(transparent)]
    Defect(BoxError),
}

impl ServiceError {
    /// See [`Self::Configuration`].
    pub fn configuration(error: impl Into<BoxError>) -> Self {
        Self::Configuration(error.into())
    }

    /// See [`Self::Unavailable`].
    pub fn unavailable(error: impl Into<BoxError>) -> Self {
        Self::Unavailable(error.into())
    }
}

/// The services of a binary. A service starts if the file has its section.
#[derive(Default)]
pub struct Services {
    kinds: Vec<Box<dyn ServiceKind>>,
    links: Vec<(&'static str, Link)>,
}

/// Adapts a port that one service offers to the type that another uses.
pub type Link = fn(&mut Ports) -> Result<(), ServiceError>;

impl Services {
    /// Adds a service. Sections are read and documented in this order.
    #[must_use]
    pub fn with<S: Service>(mut self) -> Self {
        self.kinds.push(Box::new(ServiceType::<S>(PhantomData)));
        self
    }

    /// Runs `link` right before `S` starts.
    #[must_use]
    pub fn link<S: Service>(mut self, link: Link) -> Self {
        self.links.push((S::NAME, link));
        self
    }

    pub(super) fn read(&self, s: &mut Section<'_>) -> ServiceConfigs {
        let read = |kind: &dyn ServiceKind| Some((kind.name(), kind.read(s)?));
        ServiceConfigs(self.kinds.iter().map(AsRef::as_ref).filter_map(read).collect())
    }

    /// The configured services, each after the services whose ports it uses. Fails if no configured
    /// service offers a port that another needs.
    fn in_start_order(
        &self,
        configs: &ServiceConfigs,
    ) -> Result<Vec<&dyn ServiceKind>, ServiceError> {
        let configured = self.kinds.iter().map(AsRef::as_ref);
        let mut waiting: Vec<_> = configured.filter(|kind| configs.has(kind.name())).collect();
        let offers = |kinds: &[&dyn ServiceKind], port: &str| {
            kinds.iter().any(|kind| kind.offers().contains(&port))
        };
        for kind in &waiting {
            if let Some(port) = kind.needs().iter().find(|port| !offers(&waiting, port)) {
                let (name, by) = (kind.name(), self.offering(port));
                let message = format!("[{name}] needs {port}: add {by}");
                return Err(ServiceError::configuration(message));
            }
        }
        let mut ordered = Vec::with_capacity(waiting.len());
        while !waiting.is_empty() {
            let is_free = |kind: &&dyn ServiceKind| {
                let used = kind.needs().iter().chain(kind.uses());
                let mut others = waiting.iter().filter(|other| other.name() != kind.name());
                !used.into_iter().any(|port| others.any(|other| other.offers().contains(port)))
            };
            let free = waiting.iter().position(is_free);
            ordered.push(
                waiting
                    .remove(free.expect("services of a binary do not use each other in a circle")),
            );
        }
        Ok(ordered)
    }

    fn sections(&self) -> String {
        let sections = self.kinds.iter().map(|kind| format!("[{}]", kind.name()));
        sections.collect::<Vec<_>>().join(", ")
    }

    fn fixed_tables(&self) -> Vec<&'static str> {
        self.kinds.iter().flat_map(|kind| kind.fixed_tables()).copied().collect()
    }

    fn absent(&self, running: &[Arc<dyn RunningService>]) -> Vec<Api> {
        let is_running = |name| running.iter().any(|service| service.name() == name);
        let absent = self.kinds.iter().filter(|kind| !is_running(kind.name()));
        absent.flat_map(|kind| kind.absent()).collect()
    }

    fn run_links(&self, service: &str, ports: &mut Ports) -> Result<(), ServiceError> {
        let mut links = self.links.iter().filter(|(name, _)| *name == service);
        links.try_for_each(|(_, link)| link(ports))
    }

    fn offering(&self, port: &str) -> String {
        let offering = self.kinds.iter().find(|kind| kind.offers().contains(&port));
        offering.map_or_else(
            || "a service that offers it".to_owned(),
            |kind| format!("[{}]", kind.name()),
        )
    }
}

#[derive(Default)]
pub(super) struct ServiceConfigs(Vec<(&'static str, Box<dyn Any + Send>)>);

impl ServiceConfigs {
    fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(known, _)| *known == name)
    }

    fn get(&self, name: &str) -> Option<&(dyn Any + Send)> {
        self.0.iter().find(|(known, _)| *known == name).map(|(_, config)| &**config)
    }

    fn get_mut(&mut self, name: &str) -> Option<&mut (dyn Any + Send)> {
        self.0.iter_mut().find(|(known, _)| *known == name).map(|(_, config)| &mut **config)
    }

    fn names(&self) -> impl Iterator<Item = &'static str> {
        self.0.iter().map(|(name, _)| *name)
    }

    fn take(&mut self, name: &str) -> Option<Box<dyn Any + Send>> {
        let at = self.0.iter().position(|(known, _)| *known == name)?;
        Some(self.0.swap_remove(at).1)
    }
}

trait ServiceKind: Send + Sync {
    fn name(&self) -> &'static str;
    fn offers(&self) -> &'static [&'static str];
    fn uses(&self) -> &'static [&'static str];
    fn needs(&self) -> &'static [&'static str];
    fn fixed_tables(&self) -> &'static [&'static str];
    fn read(&self, s: &mut Section<'_>) -> Option<Box<dyn Any + Send>>;
    fn addresses(&self, config: &(dyn Any + Send)) -> Vec<SocketAddr>;
    fn descriptors(&self, config: &(dyn Any + Send), shards: usize) -> DescriptorNeeds;
    fn absent(&self) -> Vec<Api>;
    fn start(
        &self,
        config: Box<dyn Any + Send>,
        startup: &mut Startup<'_>,
    ) -> Result<Arc<dyn RunningService>, ServiceError>;
}

struct ServiceType<S>(PhantomData<fn() -> S>);

fn config_of<S: Service>(config: &(dyn Any + Send)) -> &S::Config {
    config.downcast_ref().expect("the section was read by this kind")
}

impl<S: Service> ServiceKind for ServiceType<S> {
    fn name(&self) -> &'static str {
        S::NAME
    }

    fn offers(&self) -> &'static [&'static str] {
        S::OFFERS
    }

    fn uses(&self) -> &'static [&'static str] {
        S::USES
    }

    fn needs(&self) -> &'static [&'static str] {
        S::NEEDS
    }

    fn fixed_tables(&self) -> &'static [&'static str] {
        S::FIXED_TABLES
    }

    fn read(&self, s: &mut Section<'_>) -> Option<Box<dyn Any + Send>> {
        S::read(s).map(|config| Box::new(config) as _)
    }

    fn addresses(&self, config: &(dyn Any + Send)) -> Vec<SocketAddr> {
        S::addresses(config_of::<S>(config))
    }

    fn descriptors(&self, config: &(dyn Any + Send), shards: usize) -> DescriptorNeeds {
        S::descriptors(config_of::<S>(config), shards)
    }

    fn absent(&self) -> Vec<Api> {
        S::absent()
    }

    fn start(
        &self,
        config: Box<dyn Any + Send>,
        startup: &mut Startup<'_>,
    ) -> Result<Arc<dyn RunningService>, ServiceError> {
        let config = config.downcast().expect("the section was read by this kind");
        Ok(S::start(*config, startup)?)
    }
}

trait RunningService: Send + Sync {
    fn name(&self) -> &'static str;
    fn is_offering(&self) -> bool;
    fn start_shard<'s>(
        self: Arc<Self>,
        shard: &'s ShardContext,
    ) -> LocalFuture<'s, Result<Option<Rc<dyn ServiceShard>>, BoxError>>;
    fn announcement(&self) -> Option<String>;
    fn reload(
        &self,
        config: Option<Box<dyn Any + Send>>,
        effective: &Effective,
    ) -> Result<ServiceReload, BoxError>;
    fn generation(&self) -> Option<u64>;
    fn reload_files(&self) -> Option<CampaignFiles>;
    fn expose(self: Arc<Self>, exposition: &mut Exposition);
    fn add_readiness(self: Arc<Self>, readiness: &mut Readiness);
    fn admin_apis(self: Arc<Self>, changes: &ChangeAllowance) -> Vec<Api>;
    fn close(&self) -> Result<(), ServiceError>;
    fn as_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;
}

impl<S: Service> RunningService for S {
    fn name(&self) -> &'static str {
        S::NAME
    }

    fn is_offering(&self) -> bool {
        !S::OFFERS.is_empty()
    }

    fn start_shard<'s>(
        self: Arc<Self>,
        shard: &'s ShardContext,
    ) -> LocalFuture<'s, Result<Option<Rc<dyn ServiceShard>>, BoxError>> {
        S::start_shard(self, shard)
    }

    fn announcement(&self) -> Option<String> {
        S::announcement(self)
    }

    fn reload(
        &self,
        config: Option<Box<dyn Any + Send>>,
        effective: &Effective,
    ) -> Result<ServiceReload, BoxError> {
        let config = config.map(|it| *it.downcast().expect("the section was read by this kind"));
        S::reload(self, config, effective)
    }

    fn generation(&self) -> Option<u64> {
        S::generation(self)
    }

    fn reload_files(&self) -> Option<CampaignFiles> {
        S::reload_files(self)
    }

    fn expose(self: Arc<Self>, exposition: &mut Exposition) {
        S::expose(&self, exposition);
    }

    fn add_readiness(self: Arc<Self>, readiness: &mut Readiness) {
        S::add_readiness(&self, readiness);
    }

    fn admin_apis(self: Arc<Self>, changes: &ChangeAllowance) -> Vec<Api> {
        S::admin_apis(&self, changes)
    }

    fn close(&self) -> Result<(), ServiceError> {
        S::close(self)
    }

    fn as_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }
}
