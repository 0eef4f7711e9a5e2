//! Runs services on shards: every shard has a part of each service, and all listeners feed them.

use std::net::TcpListener;
use std::path::Path;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::watch;
use tracing::{debug, error};

use super::connection::{ClientConnection, ConnectError};
use super::kind::ServiceInstance;
use super::ports::Ports;
use super::{BoxError, Service, ServiceError, ServiceShard, Startup};
use crate::builder::Builder;
use crate::control::Control;
use crate::metrics::Exposition;
use crate::shards::{ShardContext, Shards, ShardsOptions, ShardsStartError};
use crate::shutdown::Shutdown;
use crate::traces::Tracer;

pub(super) struct ServedService {
    pub(super) instance: ServiceInstance,
    /// In the order of [`Service::addresses`].
    pub(super) listeners: Vec<TcpListener>,
}

/// Starts shards that serve all of `served`; returns once they run. When the shutdown begins,
/// listeners close and connections drain. Once all shards have drained, or the drain is over, each
/// shard closes the services' parts in the reverse order of `served`. Fails if a thread cannot be
/// started, bound to its core, or given a runtime.
pub(super) fn serve_on_shards(
    served: Vec<ServedService>,
    options: &ShardsOptions,
    shutdown: &Shutdown,
) -> Result<Shards, ShardsStartError> {
    let mut listeners = Vec::new();
    let mut services = Vec::with_capacity(served.len());
    let mut routes = Vec::new();
    for (index, served) in served.into_iter().enumerate() {
        let count = served.listeners.len();
        routes.extend((0..count).map(|listener| ListenerRoute { service: index, listener }));
        listeners.extend(served.listeners);
        services.push(served.instance);
    }
    let (services, routes) = (Arc::new(services), Arc::new(routes));
    // Closed once every shard has dropped its end, drained or failed.
    let (undrained, end) = watch::channel(());
    let undrained = Arc::new(undrained);
    let ends = ShardEnds::new(&end, options.shards);
    drop(end);
    Shards::start(options, listeners, shutdown, move |context| {
        let (services, routes) = (Arc::clone(&services), Arc::clone(&routes));
        let (undrained, end) = (Arc::clone(&undrained), ends.take(context.index()));
        async move {
            match start_parts(&services, &context).await {
                Ok(parts) => run(context, &parts, &routes, &undrained, end).await,
                Err(error) => {
                    error!(%error, "a service cannot run on a shard; shutting down");
                    context.shutdown().begin();
                }
            }
        }
    })
}

/// One service on its own shards, without an admin listener: for short commands and tests.
#[derive(Debug)]
pub struct LoneService<S> {
    service: Arc<S>,
    shards: Shards,
    /// Dropped after everything that runs on them.
    _threads: (Builder, Control),
}

/// Inputs of a lone service's start besides its configuration.
pub struct LoneOptions {
    /// Shards and limits on their connections.
    pub shards: ShardsOptions,
    /// In the order of [`Service::addresses`].
    pub listeners: Vec<TcpListener>,
    /// Shutdown of the service.
    pub shutdown: Shutdown,
    /// Samples and collects traces.
    pub tracer: Tracer,
    /// Ports that other services would offer.
    pub ports: Ports,
}

impl<S: Service> LoneService<S> {
    /// Starts the service; returns once it runs.
    ///
    /// # Errors
    /// Why it does not start.
    pub fn start(config: S::Config, options: LoneOptions) -> Result<Self, ServiceError> {
        let LoneOptions { shards, listeners, shutdown, tracer, mut ports } = options;
        let listening =
            listeners.iter().map(TcpListener::local_addr).collect::<Result<Vec<_>, _>>();
        let control = Control::start().map_err(ServiceError::unavailable)?;
        let builder = Builder::start().map_err(ServiceError::unavailable)?;
        let service = S::start(
            config,
            &mut Startup {
                shards: shards.shards,
                listening: &listening.map_err(ServiceError::unavailable)?,
                outbound_max: shards.outbound_max,
                folder: Path::new(""),
                watch: Duration::ZERO,
                effective: None,
                shutdown: &shutdown,
                tracer: &tracer,
                control: &control,
                builder: &builder,
                ports: &mut ports,
            },
        )?;
        let served =
            ServedService { instance: ServiceInstance::of(Arc::clone(&service)), listeners };
        let shards = serve_on_shards(vec![served], &shards, &shutdown);
        let shards = shards.map_err(ServiceError::unavailable)?;
        Ok(Self { service, shards, _threads: (builder, control) })
    }

    /// The service.
    pub fn service(&self) -> &Arc<S> {
        &self.service
    }

    /// Adds the metrics of the service and of its connections.
    pub fn expose(&self, exposition: &mut Exposition) {
        Arc::clone(&self.service).expose(exposition);
        let shards = self.shards.metrics();
        exposition.add(move |page| shards.expose(page));
    }

    /// Waits for the shutdown and the drain, then closes the service.
    ///
    /// # Errors
    /// Why it failed.
    pub fn join(self) -> Result<(), ServiceError> {
        let ended = self.shards.join();
        self.service.shards_ended();
        self.service.close()?;
        ended.map_err(|panicked| ServiceError::Defect(panicked.into()))
    }
}

/// The service of a listener, and the listener's index within that service.
#[derive(Clone, Copy)]
struct ListenerRoute {
    service: usize,
    listener: usize,
}

/// What each shard owns until it has drained.
struct ShardEnds(Vec<Mutex<Option<watch::Receiver<()>>>>);

impl ShardEnds {
    fn new(end: &watch::Receiver<()>, shards: usize) -> Self {
        Self((0..shards.max(1)).map(|_| Mutex::new(Some(end.clone()))).collect())
    }

    fn take(&self, shard: usize) -> watch::Receiver<()> {
        let end = self.0[shard].lock().expect("nothing panics with it").take();
        end.expect("a shard starts once")
    }
}

/// By service, in order. None if a service has no part on shards.
type Parts = Vec<Option<Rc<dyn ServiceShard>>>;

async fn start_parts(
    services: &[ServiceInstance],
    context: &ShardContext,
) -> Result<Parts, BoxError> {
    let mut parts = Vec::with_capacity(services.len());
    for ServiceInstance { kind, service } in services {
        let part = Arc::clone(service).start_shard(context).await;
        parts.push(part.map_err(|error| format!("[{}] {error}", kind.name))?);
    }
    Ok(parts)
}

async fn run(
    mut context: ShardContext,
    parts: &Parts,
    routes: &[ListenerRoute],
    undrained: &watch::Sender<()>,
    end: watch::Receiver<()>,
) {
    while let Some(accepted) = context.accept().await {
        let ListenerRoute { service, listener } = routes[accepted.listener];
        let part = parts[service].as_ref().expect("what listens has a part on each shard");
        let (part, shutdown) = (Rc::clone(part), context.shutdown().clone());
        context.tasks().spawn_isolated(async move {
            let options = part.connection_options(listener);
            // A handshake needs much more memory than the connection after it.
            match Box::pin(ClientConnection::open(accepted, listener, options, shutdown)).await {
                Ok(connection) => part.serve(connection).await,
                Err(error) => {
                    debug!(%error, "a client has no connection");
                    if matches!(error, ConnectError::Handshake(_)) {
                        part.count_failed_handshake();
                    }
                }
            }
        });
    }
    context.drained().await;
    // Until the last shard has drained, services pass results to other shards.
    drop(end);
    tokio::select! {
        () = undrained.closed() => (),
        () = context.shutdown().ended() => (),
    }
    for part in parts.iter().rev().flatten() {
        Rc::clone(part).close().await;
    }
}
