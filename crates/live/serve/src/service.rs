//! The live floor as a service.

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

use eventlog::lane::FirehoseRing;
use record::RECORD;
use runtime::admin::{Api, ChangeAllowance};
use runtime::config::Section;
use runtime::metrics::{Exposition, PerShard};
use runtime::service::{
    BoxError, LocalFuture, RunningService, Service, ServiceError, ServiceShard, Startup,
};
use runtime::shards::ShardContext;

use crate::access::AccessRules;
use crate::config::LiveConfig;
use crate::counters::LiveCounts;
use crate::exposition::{self, LiveApi};
use crate::feed::publisher::{PublisherThread, ShardInlet};
use crate::feed::replay::ReplayThread;
use crate::shard::{LiveContext, LiveShard};

/// A running live floor.
pub struct Live {
    address: SocketAddr,
    context: Arc<LiveContext>,
    counts: PerShard<LiveCounts>,
    parts: Vec<Mutex<Option<LiveShardPart>>>,
    /// None once it is closed.
    threads: Mutex<Option<(PublisherThread, ReplayThread)>>,
}

/// What a shard takes over.
struct LiveShardPart {
    inlet: ShardInlet,
    firehose: FirehoseRing,
}

impl Service for Live {
    const NAME: &'static str = "live";
    const NEEDS: &'static [&'static str] = &[RECORD.name()];
    const USES: &'static [&'static str] = &["ledger-holds"];

    type Config = LiveConfig;

    fn read(s: &mut Section<'_>) -> Option<LiveConfig> {
        let about = "The live floor: the feed of every auction over WebSocket and server-sent \
                     events, and publishing. See docs/live.md. Needs [record].";
        s.table("live", about, LiveConfig::read)
    }

    fn absent() -> Vec<Api> {
        vec![exposition::unconfigured()]
    }

    fn addresses(config: &LiveConfig) -> Vec<SocketAddr> {
        vec![config.listen]
    }

    fn start(config: LiveConfig, startup: &mut Startup<'_>) -> Result<Arc<Self>, ServiceError> {
        let record = startup.ports.get(&RECORD).expect("the service needs this port");
        let started = PublisherThread::start(&record, config.flush, startup.shards);
        let (publisher, inlets) = started.map_err(ServiceError::unavailable)?;
        let replay = ReplayThread::start(&record).map_err(ServiceError::unavailable)?;
        let parts = (0..).zip(inlets).map(|(shard, inlet)| {
            let firehose = record.rings.firehose_ring(shard, record.firehose_ring_bytes);
            Mutex::new(Some(LiveShardPart { inlet, firehose }))
        });
        let (parts, access) = (parts.collect(), AccessRules::new(&config));
        let context = Arc::new(LiveContext {
            access,
            node: record.node,
            publisher: publisher.handle.clone(),
            replay: replay.handle.clone(),
            config,
        });
        Ok(Arc::new(Self {
            address: startup.listening[0],
            context,
            counts: PerShard::new(startup.shards),
            parts,
            threads: Mutex::new(Some((publisher, replay))),
        }))
    }
}

impl RunningService for Live {
    fn start_shard<'s>(
        self: Arc<Self>,
        shard: &'s ShardContext,
    ) -> LocalFuture<'s, Result<Option<Rc<dyn ServiceShard>>, BoxError>> {
        Box::pin(async move {
            let index = shard.index();
            let part = self.parts[index].lock().expect("nothing panics with it").take();
            let LiveShardPart { inlet, firehose } = part.expect("a shard starts once");
            let counts = self.counts.shard(index);
            let live = LiveShard::new(index, Arc::clone(&self.context), counts, firehose);
            let live = Rc::new(live);
            let running = Rc::clone(&live).run(inlet, shard.shutdown().clone());
            tokio::task::spawn_local(running);
            Ok(Some(live as Rc<dyn ServiceShard>))
        })
    }

    fn announcement(&self) -> Option<String> {
        Some(format!("the live floor is at {}", self.address))
    }

    fn expose(self: Arc<Self>, exposition: &mut Exposition) {
        let counts = self.counts.clone();
        let progress = Arc::clone(self.context.publisher.progress());
        exposition.add(move |page| exposition::expose(&counts, &progress, page));
    }

    fn admin_apis(self: Arc<Self>, _changes: &ChangeAllowance) -> Vec<Api> {
        vec![exposition::api(LiveApi {
            listen: self.address,
            topics: self.context.config.topics.iter().cloned().collect(),
            counts: self.counts.clone(),
            progress: Arc::clone(self.context.publisher.progress()),
        })]
    }

    fn close(&self) -> Result<(), ServiceError> {
        // Parts of shards that never started hold rings into the log.
        for part in &self.parts {
            part.lock().expect("nothing panics with it").take();
        }
        self.threads.lock().expect("nothing panics with it").take();
        Ok(())
    }
}
