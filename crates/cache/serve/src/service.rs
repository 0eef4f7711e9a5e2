//! The cache as a service.

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

use bravo::Handle;
use runtime::config::Section;
use runtime::metrics::{Exposition, PerShard};
use runtime::service::{
    BoxError, DescriptorNeeds, LocalFuture, RunningService, Service, ServiceError, ServiceShard,
    Startup,
};
use runtime::shards::ShardContext;

use crate::config::CacheConfig;
use crate::counters::CountsByRoute;
use crate::exposition;
use crate::shard::store::SharedStore;
use crate::shard::{CacheShard, CacheShardParts};

/// A running cache.
pub struct Cache {
    address: SocketAddr,
    store: Arc<SharedStore>,
    /// By shard.
    handles: Vec<Mutex<Option<Handle>>>,
    counts: CountsByRoute,
    /// Connections to origins of one shard.
    connections_max: usize,
}

impl Service for Cache {
    const NAME: &'static str = "cache";

    type Config = CacheConfig;

    fn read(s: &mut Section<'_>) -> Option<CacheConfig> {
        let about = "An HTTP cache in front of origins. See docs/cache.md.";
        s.table("cache", about, CacheConfig::read)
    }

    fn addresses(config: &CacheConfig) -> Vec<SocketAddr> {
        vec![config.listen]
    }

    fn descriptors(config: &CacheConfig, shards: usize) -> DescriptorNeeds {
        DescriptorNeeds {
            outbound: config.connections,
            outbound_min: shards as u64,
            outbound_to: "origins",
            outbound_key: "cache.connections",
            ..DescriptorNeeds::default()
        }
    }

    fn start(config: CacheConfig, startup: &mut Startup<'_>) -> Result<Arc<Self>, ServiceError> {
        let counts = config.routes.all().iter().map(|_| PerShard::new(startup.shards)).collect();
        let (store, handles) = SharedStore::new(config, startup.shards);
        Ok(Arc::new(Self {
            address: startup.listening[0],
            store,
            handles: handles.into_iter().map(|handle| Mutex::new(Some(handle))).collect(),
            counts,
            connections_max: startup.outbound_max / startup.shards.max(1),
        }))
    }
}

impl Cache {
    /// The address for clients.
    pub const fn address(&self) -> SocketAddr {
        self.address
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
                counts: self.counts.iter().map(|counts| counts.shard(index)).collect(),
                connections_max: self.connections_max,
            };
            Ok(Some(CacheShard::new(parts) as Rc<dyn ServiceShard>))
        })
    }

    fn announcement(&self) -> Option<String> {
        let routes: Vec<_> =
            self.store.config.routes.all().iter().map(|route| &*route.id).collect();
        Some(format!("the cache is at {}, with the routes {}", self.address, routes.join(", ")))
    }

    fn expose(self: Arc<Self>, exposition: &mut Exposition) {
        exposition.add(move |page| exposition::expose(&self.store, &self.counts, page));
    }
}
