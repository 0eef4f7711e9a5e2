//! Look-ups as a service.

use std::net::SocketAddr;
use std::path::Path;
use std::rc::Rc;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

use runtime::admin::{Api, ChangeAllowance, Readiness};
use runtime::config::{ConfigProblem, Section};
use runtime::metrics::Exposition;
use runtime::service::{
    BoxError, DescriptorNeeds, LocalFuture, RunningService, Service, ServiceError, ServiceShard,
    Startup,
};
use runtime::shards::ShardContext;
use tokio::sync::mpsc::unbounded_channel;

use crate::calls::disk::DiskAnswers;
use crate::config::LookupConfig;
use crate::exposition::{self, LookupApi};
use crate::http::LookupShard;
use crate::maps::{LoadedMaps, load_maps};
use crate::memory::{LOOKUP_MEMORIES, LookupMemories};
use crate::queries::table::QueryTable;
use crate::thread::{LookupShared, LookupThread};

/// Running look-ups.
pub struct Lookup {
    address: SocketAddr,
    config: Arc<LookupConfig>,
    shared: Arc<LookupShared>,
    thread: LookupThread,
}

impl Service for Lookup {
    const NAME: &'static str = "lookup";

    const OFFERS: &'static [&'static str] = &[LOOKUP_MEMORIES.name()];

    type Config = LookupConfig;

    fn read(s: &mut Section<'_>) -> Option<LookupConfig> {
        let about = "Look-ups: queries that many data providers answer. See docs/lookup.md.";
        s.table("lookup", about, LookupConfig::read)
    }

    fn absent() -> Vec<Api> {
        vec![exposition::unconfigured()]
    }

    fn addresses(config: &LookupConfig) -> Vec<SocketAddr> {
        vec![config.listen]
    }

    fn descriptors(config: &LookupConfig, _: usize) -> DescriptorNeeds {
        DescriptorNeeds {
            fixed: config.disk.as_ref().map_or(0, |disk| disk.limits().files_max()),
            fixed_keys: config.disk.as_ref().map_or("", |_| "`lookup.disk.size`"),
            // With idle ones.
            outbound: 2 * config.calls.connections as u64,
            outbound_min: 2,
            outbound_to: "providers",
            outbound_key: "lookup.connections",
        }
    }

    fn start(config: LookupConfig, startup: &mut Startup<'_>) -> Result<Arc<Self>, ServiceError> {
        let maps = check_maps(&config, startup.folder).map_err(ServiceError::configuration)?;
        let open = |disk| DiskAnswers::open(disk, startup.folder).map(Arc::new);
        let disk = config.disk.as_ref().map(open).transpose().map_err(|error| {
            ServiceError::unavailable(format!("lookup.disk.directory: {error}"))
        })?;
        let (queues, opened) = unbounded_channel();
        let maps = Arc::new(maps);
        let memories = LookupMemories::new(Arc::clone(&maps), config.memory_bytes, queues);
        startup.ports.offer(&LOOKUP_MEMORIES, memories.clone());
        let shared = Arc::new(LookupShared {
            vocabulary: maps.map.vocabulary(),
            maps,
            memories,
            table: QueryTable::new(config.queries),
            counts: Arc::default(),
            disk,
            shared: AtomicU64::default(),
            lanes: Mutex::default(),
        });
        let mut config = config;
        let connections = config.calls.connections.min((startup.outbound_max / 2).max(1));
        config.calls.connections = connections;
        let thread = LookupThread::start(Arc::clone(&shared), opened, &config);
        let thread = thread.map_err(ServiceError::unavailable)?;
        Ok(Arc::new(Self {
            address: startup.listening[0],
            config: Arc::new(config),
            shared,
            thread,
        }))
    }
}

impl Lookup {
    /// The memory of single values.
    pub fn memories(&self) -> &LookupMemories {
        &self.shared.memories
    }
}

/// Problems of the maps, for an operator.
#[derive(Debug, thiserror::Error)]
pub struct MapProblems(Vec<ConfigProblem>);

impl std::fmt::Display for MapProblems {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let count = self.0.len();
        let noun = if count == 1 { "problem" } else { "problems" };
        write!(f, "{count} {noun} in the maps")?;
        self.0.iter().try_for_each(|problem| write!(f, "\n  {problem}"))
    }
}

impl From<Vec<ConfigProblem>> for MapProblems {
    fn from(problems: Vec<ConfigProblem>) -> Self {
        Self(problems)
    }
}

/// Reads the maps of a configuration that is in this folder.
///
/// # Errors
/// All of their problems.
pub fn check_maps(config: &LookupConfig, folder: &Path) -> Result<LoadedMaps, MapProblems> {
    load_maps(folder, &config.maps).map_err(MapProblems)
}

impl RunningService for Lookup {
    fn start_shard<'s>(
        self: Arc<Self>,
        shard: &'s ShardContext,
    ) -> LocalFuture<'s, Result<Option<Rc<dyn ServiceShard>>, BoxError>> {
        Box::pin(async move {
            let tasks = self.thread.tasks().ok_or("the look-up thread has ended")?;
            let shard = LookupShard {
                config: Arc::clone(&self.config),
                shared: Arc::clone(&self.shared),
                tasks,
                shutdown: shard.shutdown().clone(),
            };
            Ok(Some(Rc::new(shard) as Rc<dyn ServiceShard>))
        })
    }

    fn announcement(&self) -> Option<String> {
        let map = &self.shared.maps.map;
        let (providers, calls) = (map.providers.len(), map.calls().count());
        let noun = if providers == 1 { "provider" } else { "providers" };
        let address = self.address;
        Some(format!("look-ups are at {address}, of {providers} {noun} with {calls} calls"))
    }

    fn expose(self: Arc<Self>, exposition: &mut Exposition) {
        exposition.add(move |page| exposition::expose(&self.shared, page));
    }

    fn add_readiness(self: Arc<Self>, readiness: &mut Readiness) {
        readiness.add("lookup", move || self.thread.is_running());
    }

    fn admin_apis(self: Arc<Self>, _: &ChangeAllowance) -> Vec<Api> {
        let shared = Arc::clone(&self.shared);
        vec![exposition::api(LookupApi { listen: self.address, shared })]
    }

    fn close(&self) -> Result<(), ServiceError> {
        self.thread.close();
        if let Some(disk) = &self.shared.disk {
            disk.tier().close();
        }
        Ok(())
    }
}
