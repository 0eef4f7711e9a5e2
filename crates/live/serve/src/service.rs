//! The live floor as a service.

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use eventlog::lane::FirehoseRing;
use record::{RECORD, Record};
use runtime::admin::{Api, ChangeAllowance, Readiness};
use runtime::config::Section;
use runtime::metrics::{Exposition, PerShard};
use runtime::service::{
    BoxError, LocalFuture, RunningService, Service, ServiceError, ServiceShard, Startup,
};
use runtime::shards::ShardContext;
use tokio::sync::mpsc::UnboundedReceiver;

use crate::access::AccessRules;
use crate::config::LiveConfig;
use crate::counters::LiveCounts;
use crate::exposition::{self, LiveApi};
use crate::feed::publisher::{PublisherThread, ShardInlet};
use crate::feed::replay::ReplayThread;
use crate::lots::outlet::ClientAnswer;
use crate::lots::thread::{LotsParts, LotsThread};
use crate::lots::{HOLDS, SOLD_LOTS, api};
use crate::shard::{LiveContext, LiveShard};

/// A running live floor.
pub struct Live {
    address: SocketAddr,
    context: Arc<LiveContext>,
    counts: PerShard<LiveCounts>,
    parts: Vec<Mutex<Option<LiveShardPart>>>,
    /// None once it is closed.
    threads: Mutex<Option<LiveThreads>>,
}

struct LiveThreads {
    publisher: PublisherThread,
    replay: ReplayThread,
    /// None without lots.
    lots: Option<LotsThread>,
}

/// What a shard takes over.
struct LiveShardPart {
    inlet: ShardInlet,
    /// None without lots.
    answers: Option<UnboundedReceiver<ClientAnswer>>,
    firehose: FirehoseRing,
}

impl Service for Live {
    const NAME: &'static str = "live";
    const NEEDS: &'static [&'static str] = &[RECORD.name()];
    const USES: &'static [&'static str] = &["ledger-holds", SOLD_LOTS.name()];

    type Config = LiveConfig;

    fn read(s: &mut Section<'_>) -> Option<LiveConfig> {
        let about = "The live floor: the feed of every auction over WebSocket and server-sent \
                     events, and publishing. See docs/live.md. Needs [record].";
        s.table("live", about, LiveConfig::read)
    }

    fn absent() -> Vec<Api> {
        vec![exposition::unconfigured(), api::unconfigured()]
    }

    fn addresses(config: &LiveConfig) -> Vec<SocketAddr> {
        vec![config.listen]
    }

    fn start(config: LiveConfig, startup: &mut Startup<'_>) -> Result<Arc<Self>, ServiceError> {
        let record = startup.ports.get(&RECORD).expect("the service needs this port");
        let started = PublisherThread::start(&record, config.flush, startup.shards);
        let (publisher, inlets) = started.map_err(ServiceError::unavailable)?;
        let replay = ReplayThread::start(&record).map_err(ServiceError::unavailable)?;
        let (lots, answers) = start_lots(&config, &record, startup)?.unzip();
        let mut answers = answers.map(Vec::into_iter);
        let parts = (0..).zip(inlets).map(|(shard, inlet)| {
            let firehose = record.rings.firehose_ring(shard, record.firehose_ring_bytes);
            let answers = answers.as_mut().and_then(Iterator::next);
            Mutex::new(Some(LiveShardPart { inlet, answers, firehose }))
        });
        let (parts, access) = (parts.collect(), AccessRules::new(&config));
        let context = Arc::new(LiveContext {
            access,
            node: record.node,
            publisher: publisher.handle.clone(),
            replay: replay.handle.clone(),
            lots: lots.as_ref().map(|lots: &LotsThread| lots.handle.clone()),
            config,
        });
        Ok(Arc::new(Self {
            address: startup.listening[0],
            context,
            counts: PerShard::new(startup.shards),
            parts,
            threads: Mutex::new(Some(LiveThreads { publisher, replay, lots })),
        }))
    }
}

type StartedLots = (LotsThread, Vec<UnboundedReceiver<ClientAnswer>>);

fn start_lots(
    config: &LiveConfig,
    record: &Record,
    startup: &mut Startup<'_>,
) -> Result<Option<StartedLots>, ServiceError> {
    let Some(lots) = &config.lots else { return Ok(None) };
    let holds = startup.ports.take(&HOLDS).ok_or_else(|| {
        ServiceError::configuration("[live.lots] needs [budgets], which holds the money of bids")
    })?;
    let sold = startup.ports.take(&SOLD_LOTS);
    let parts = LotsParts { record: record.clone(), holds, sold };
    let started = LotsThread::start(parts, lots.floor(), startup.shards);
    started.map(Some).map_err(ServiceError::unavailable)
}

/// What the feed has done since the start of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FeedFigures {
    /// Messages made, each counted once.
    pub messages: u64,
    /// Messages handed to sockets, counted by subscriber.
    pub delivered: u64,
    /// Subscriptions now.
    pub subscriptions: i64,
    /// How far broadcasting is behind the log.
    pub lag: Duration,
}

impl Live {
    /// The address for clients.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whether no thread of it has ended before its time.
    fn is_running(&self) -> bool {
        let threads = self.threads.lock().expect("nothing panics with it");
        threads.as_ref().is_some_and(|threads| {
            let lots = threads.lots.as_ref().is_none_or(LotsThread::is_running);
            lots && threads.publisher.is_running() && threads.replay.is_running()
        })
    }

    /// What the feed has done.
    pub fn figures(&self) -> FeedFigures {
        let shards = self.counts.iter();
        let progress = self.context.publisher.progress();
        FeedFigures {
            messages: progress.messages.load(Ordering::Relaxed),
            delivered: self.counts.iter().map(|shard| shard.delivered.value()).sum(),
            subscriptions: shards
                .map(|shard| shard.strict.value() + shard.conflating.value())
                .sum(),
            lag: progress.lag(),
        }
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
            let LiveShardPart { inlet, answers, firehose } = part.expect("a shard starts once");
            let counts = self.counts.shard(index);
            let live = LiveShard::new(index, Arc::clone(&self.context), counts, firehose);
            let live = Rc::new(live);
            let running = Rc::clone(&live).run(inlet, answers, shard.shutdown().clone());
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
        if let Some(lots) = self.context.lots.clone() {
            exposition.add(move |page| lots.counts.expose(page));
        }
    }

    fn add_readiness(self: Arc<Self>, readiness: &mut Readiness) {
        readiness.add("live", move || self.is_running());
    }

    fn admin_apis(self: Arc<Self>, changes: &ChangeAllowance) -> Vec<Api> {
        let lots = match &self.context.lots {
            Some(lots) => api::api(lots.clone(), changes),
            None => api::unconfigured(),
        };
        let live = exposition::api(LiveApi {
            listen: self.address,
            topics: self.context.config.topics.iter().cloned().collect(),
            counts: self.counts.clone(),
            progress: Arc::clone(self.context.publisher.progress()),
        });
        vec![live, lots]
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
