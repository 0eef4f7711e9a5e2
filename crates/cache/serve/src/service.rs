//! The cache as a service.

use std::net::SocketAddr;
use std::path::Path;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

use bravo::Handle;
use cache_core::store::hot::HotKeys;
use cache_core::store::purges::Purge;
use cache_disk::DiskTier;
use runtime::admin::{Api, ChangeAllowance};
use runtime::config::Section;
use runtime::metrics::{Counter, Exposition, PerShard};
use runtime::service::{
    BoxError, DescriptorNeeds, LocalFuture, RunningService, Service, ServiceError, ServiceShard,
    Startup,
};
use runtime::shards::ShardContext;

use crate::config::{CacheConfig, DiskConfig, TARGETS};
use crate::counters::{CountsByRoute, PutCounts, RouteCounts};
use crate::exposition::api::{self, CacheApi};
use crate::exposition::metrics;
use crate::shard::spooler::spool;
use crate::shard::store::{PurgeError, SharedStore};
use crate::shard::sweeper::sweep;
use crate::shard::values::{CACHE_VALUES, ValueStore};
use crate::shard::{CacheShard, CacheShardParts};

/// A running cache.
pub struct Cache {
    address: SocketAddr,
    store: Arc<SharedStore>,
    /// By shard.
    handles: Vec<Mutex<Option<Handle>>>,
    counts: CountsByRoute,
    put_counts: PerShard<PutCounts>,
    hot: PerShard<Mutex<HotKeys>>,
    /// Connections to origins of one shard.
    connections_max: usize,
}

impl Service for Cache {
    const NAME: &'static str = "cache";
    const OFFERS: &'static [&'static str] = &[CACHE_VALUES.name()];

    type Config = CacheConfig;

    fn read(s: &mut Section<'_>) -> Option<CacheConfig> {
        let about = "An HTTP cache in front of origins. See docs/cache.md.";
        s.table("cache", about, CacheConfig::read)
    }

    fn absent() -> Vec<Api> {
        vec![api::unconfigured()]
    }

    fn addresses(config: &CacheConfig) -> Vec<SocketAddr> {
        vec![config.listen]
    }

    fn descriptors(config: &CacheConfig, shards: usize) -> DescriptorNeeds {
        DescriptorNeeds {
            fixed: config.disk.as_ref().map_or(0, |disk| disk.limits.files_max()),
            fixed_keys: config.disk.as_ref().map_or("", |_| "`cache.disk.size`"),
            outbound: config.connections,
            outbound_min: shards as u64,
            outbound_to: "origins",
            outbound_key: "cache.connections",
        }
    }

    fn start(config: CacheConfig, startup: &mut Startup<'_>) -> Result<Arc<Self>, ServiceError> {
        let routes = config.routes.in_folder(startup.folder).map_err(ServiceError::unavailable)?;
        let config = CacheConfig { routes, ..config };
        let counts = config.routes.all().iter().map(|_| PerShard::new(startup.shards)).collect();
        let disk = config.disk.as_ref().map(|disk| open_disk(disk, startup.folder)).transpose()?;
        let (store, handles) = SharedStore::new(config, disk, startup.shards);
        if store.config.puts.is_some() {
            startup.ports.offer(&CACHE_VALUES, ValueStore(Arc::clone(&store)));
        }
        Ok(Arc::new(Self {
            address: startup.listening[0],
            store,
            handles: handles.into_iter().map(|handle| Mutex::new(Some(handle))).collect(),
            counts,
            put_counts: PerShard::new(startup.shards),
            hot: PerShard::new(startup.shards),
            connections_max: startup.outbound_max / startup.shards.max(1),
        }))
    }
}

fn open_disk(config: &DiskConfig, folder: &Path) -> Result<DiskTier, ServiceError> {
    DiskTier::open_folder(&config.directory_in(folder), config.limits, &TARGETS)
        .map_err(|error| ServiceError::unavailable(format!("cache.disk.directory: {error}")))
}

/// What a cache has done since the start of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheFigures {
    /// Requests that routes answered.
    pub requests: u64,
    /// Those answered from the store, fresh or stale.
    pub hits: u64,
    /// Requests to origins.
    pub fetches: u64,
    /// Resources in the store.
    pub entries: usize,
    /// Of the store.
    pub bytes: usize,
    /// Resources on the disk.
    pub on_disk: usize,
    /// Resources read from the disk for a request.
    pub loaded: u64,
}

impl Cache {
    /// The address for clients.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// What the cache has done.
    pub fn figures(&self) -> CacheFigures {
        let counts = || self.counts.iter().flat_map(PerShard::iter);
        let sum = |count: fn(&RouteCounts) -> &Counter| -> u64 {
            counts().map(|shard| count(shard).value()).sum()
        };
        let occupancy = self.store.occupancy();
        CacheFigures {
            requests: counts().flat_map(RouteCounts::answered).map(Counter::value).sum(),
            hits: sum(|counts| &counts.hits) + sum(|counts| &counts.stale),
            fetches: sum(|counts| &counts.fetches),
            entries: occupancy.entries,
            bytes: occupancy.bytes,
            on_disk: self.store.disk.as_ref().map_or(0, |disk| disk.figures().entries),
            loaded: sum(|counts| &counts.loaded),
        }
    }

    /// Purges. No request that comes afterwards, on any shard, is answered with what this concerns.
    /// Returns how many responses in memory that is; None if they are still to be visited.
    ///
    /// # Errors
    /// Too many purges are under way; or the purge counts, but is not on disk.
    pub fn purge(&self, purge: &Purge) -> Result<Option<usize>, PurgeError> {
        self.store.purge(purge)
    }
}

impl RunningService for Cache {
    fn start_shard<'s>(
        self: Arc<Self>,
        shard: &'s ShardContext,
    ) -> LocalFuture<'s, Result<Option<Rc<dyn ServiceShard>>, BoxError>> {
        Box::pin(async move {
            let index = shard.index();
            let handle = self.handles[index].lock().expect("nothing panics with it").take();
            let parts = CacheShardParts {
                store: Arc::clone(&self.store),
                handle: handle.expect("a shard starts once"),
                tasks: shard.tasks().clone(),
                admission: shard.admission().clone(),
                counts: self.counts.iter().map(|counts| counts.shard(index)).collect(),
                put_counts: self.put_counts.shard(index),
                hot: self.hot.shard(index),
                connections_max: self.connections_max,
            };
            let shard = CacheShard::new(parts);
            if index == 0 {
                tokio::task::spawn_local(sweep(Rc::clone(&shard)));
                tokio::task::spawn_local(spool(Rc::clone(&shard)));
            }
            Ok(Some(shard as Rc<dyn ServiceShard>))
        })
    }

    fn announcement(&self) -> Option<String> {
        let routes: Vec<_> =
            self.store.config.routes.all().iter().map(|route| &*route.id).collect();
        let on_disk = self.store.disk.as_ref().map_or(String::new(), |disk| {
            format!("; resources on disk: {}", disk.figures().entries)
        });
        let routes = routes.join(", ");
        Some(format!("the cache is at {}, with the routes {routes}{on_disk}", self.address))
    }

    fn close(&self) -> Result<(), ServiceError> {
        self.store.close_disk();
        Ok(())
    }

    fn expose(self: Arc<Self>, exposition: &mut Exposition) {
        exposition
            .add(move |page| metrics::expose(&self.store, &self.counts, &self.put_counts, page));
    }

    fn admin_apis(self: Arc<Self>, _: &ChangeAllowance) -> Vec<Api> {
        let cache = CacheApi {
            listen: self.address,
            store: Arc::clone(&self.store),
            counts: self.counts.clone(),
            put_counts: self.put_counts.clone(),
            hot: self.hot.clone(),
        };
        vec![api::api(cache)]
    }
}
