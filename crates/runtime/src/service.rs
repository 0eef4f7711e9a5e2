//! The interface between a service and the shell that runs it. The shell starts the shards once for
//! all services and gives each one limited listeners, reloads, the admin API, metrics, readiness
//! and an orderly shutdown.
//!
//! A service implements [`Service`] and [`RunningService`]; its part of a shard implements
//! [`ServiceShard`]. This module must not know which services exist: a binary lists them in
//! [`Services`].

mod connection;
mod descriptors;
mod kind;
mod ports;
mod reload;
mod services;
mod shards;
mod shell;
mod shell_config;
mod timeouts;
mod tls;

#[cfg(test)]
mod tests;

use std::any::Any;
use std::net::SocketAddr;
use std::path::Path;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use crate::admin::{Api, ChangeAllowance, Readiness, ReloadedFiles};
use crate::builder::Builder;
use crate::config::{Effective, Section};
use crate::control::Control;
use crate::metrics::Exposition;
use crate::shards::ShardContext;
use crate::shutdown::Shutdown;
use crate::traces::Tracer;

pub use connection::{
    ArrivalClock, ClientConnection, ConnectError, ConnectionOptions, ConnectionStream, HttpRequest,
    HttpService,
};
pub use descriptors::{DescriptorNeeds, TooFewDescriptors};
pub use http_kit::head::HeadLimits;
pub use http_kit::server::{BoxError, Upgraded};
pub use ports::{Port, Ports};
pub use services::{Link, Services};
pub use shards::{LoneOptions, LoneService};
pub use shell::{Shell, ShellError, ShellOptions};
pub use shell_config::{ShellConfig, ShellFile};
pub use timeouts::ClientTimeouts;
pub use tls::{ClientCertificates, parse_identity, read_authorities, read_server};

/// A future that stays on one shard.
pub type LocalFuture<'f, T> = Pin<Box<dyn Future<Output = T> + 'f>>;

/// One service of the platform: its section, what it needs, and its start. Functions without `self`
/// also apply to a service that does not run.
pub trait Service: RunningService + Sized {
    /// Its name, which is also the name of its section in the configuration.
    const NAME: &'static str;

    /// Ports that it offers to other services: those start after it and close before it.
    const OFFERS: &'static [&'static str] = &[];

    /// Ports that it uses if another service of the file offers them.
    const USES: &'static [&'static str] = &[];

    /// Ports that it cannot start without.
    const NEEDS: &'static [&'static str] = &[];

    /// Whether a process may run nothing else. False for a service that only serves others.
    const RUNS_ALONE: bool = true;

    /// Configuration tables whose changes need a restart. Those that [`Self::reload`] applies must
    /// not be listed.
    const FIXED_TABLES: &'static [&'static str] = &[Self::NAME];

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

    /// Applies changes of the configuration, except for [`Self::FIXED_TABLES`]. None means that the
    /// file no longer has its section.
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
}

/// What the shell asks of a service that runs.
pub trait RunningService: Any + Send + Sync {
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

    /// Generation that records the startup configuration. None if it does not record it.
    fn generation(&self) -> Option<u64> {
        None
    }

    /// Rereads its own files when an operator asks for a reload. None if it has none.
    fn reload_files(&self) -> Option<ReloadedFiles> {
        None
    }

    /// Adds its metrics.
    fn expose(self: Arc<Self>, _exposition: &mut Exposition) {}

    /// Adds its checks to `/health/ready`.
    fn add_readiness(self: Arc<Self>, _readiness: &mut Readiness) {}

    /// Its part of the admin API. Routes that cause work share the limit `changes` with reloads.
    fn admin_apis(self: Arc<Self>, _changes: &ChangeAllowance) -> Vec<Api> {
        Vec::new()
    }

    /// Runs once the last shard has ended, before any service closes.
    fn shards_ended(&self) {}

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
