//! One shard of the exchange: its connections to DSPs, its counters, and the configuration that
//! its auctions begin with.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use runtime::metrics::Padded;
use tokio::sync::watch;
use tokio::time::Instant;
use units::Tick;

use crate::config::ExchangeConfig;
use crate::fanout::{Pool, Reactor};
use crate::generation::Generation;
use crate::metrics::{DspMetrics, ExchangeMetrics, SeatMetrics};

/// Rooms for bodies that are kept, and the largest of them.
const ROOMS_MAX: usize = 64;
const ROOM_BYTES_MAX: usize = 256 * 1024;
/// How often spent connections are looked for.
const SWEEP_EVERY: Duration = Duration::from_millis(100);

/// One shard of the exchange.
#[derive(Debug)]
pub struct Shard {
    index: usize,
    pub(crate) metrics: Arc<Padded<ExchangeMetrics>>,
    reactor: Rc<Reactor>,
    /// In force for auctions that begin now.
    snapshot: RefCell<Rc<Snapshot>>,
    /// Pools of former generations whose last calls are not over.
    retired: RefCell<Vec<Rc<Pool>>>,
    /// First half of auction ids: no two shards, and no two starts, share it.
    id_prefix: u64,
    auctions: Cell<u64>,
    origin: Instant,
    /// Room for bodies, kept from one auction for the next.
    rooms: RefCell<Vec<Vec<u8>>>,
}

/// A generation as one shard runs it. Auctions hold on to theirs, so that no count is shared
/// between shards.
#[derive(Debug)]
pub(crate) struct Snapshot {
    generation: Arc<Generation>,
    /// In the order of the market's DSPs.
    pub(crate) dsps: Vec<Lane>,
}

/// One DSP as one shard runs it.
#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) pool: Rc<Pool>,
    pub(crate) metrics: Arc<Padded<DspMetrics>>,
    pub(crate) seats: Vec<Arc<Padded<SeatMetrics>>>,
}

impl Snapshot {
    pub(crate) fn config(&self) -> &ExchangeConfig {
        &self.generation.config
    }
}

impl Shard {
    /// Made on the shard's own thread.
    pub fn new(
        index: usize,
        generation: Arc<Generation>,
        metrics: Arc<Padded<ExchangeMetrics>>,
        reactor: Rc<Reactor>,
    ) -> Self {
        let snapshot = snapshot(index, generation, HashMap::new(), &reactor);
        Self {
            index,
            metrics,
            reactor,
            snapshot: RefCell::new(Rc::new(snapshot)),
            retired: RefCell::default(),
            id_prefix: rand::random(),
            auctions: Cell::new(0),
            origin: Instant::now(),
            rooms: RefCell::default(),
        }
    }

    /// What an auction that begins now is held by.
    pub(crate) fn snapshot(&self) -> Rc<Snapshot> {
        Rc::clone(&self.snapshot.borrow())
    }

    /// Takes over each new generation; ends with the exchange.
    pub async fn follow(self: Rc<Self>, mut generations: watch::Receiver<Arc<Generation>>) {
        while generations.changed().await.is_ok() {
            let generation = Arc::clone(&generations.borrow_and_update());
            self.adopt(generation);
        }
    }

    /// New auctions are held by `generation`. A DSP that is reached as before keeps its pool.
    fn adopt(&self, generation: Arc<Generation>) {
        let before = self.snapshot();
        let by_endpoint = |lane: &Lane| (Arc::as_ptr(lane.pool.endpoint()), Rc::clone(&lane.pool));
        let pools = before.dsps.iter().map(by_endpoint).collect();
        let after = snapshot(self.index, generation, pools, &self.reactor);
        let kept: Vec<_> =
            after.dsps.iter().map(|lane| Arc::as_ptr(lane.pool.endpoint())).collect();
        let kept: std::collections::HashSet<_> = kept.into_iter().collect();
        for lane in &before.dsps {
            if !kept.contains(&Arc::as_ptr(lane.pool.endpoint())) {
                lane.pool.retire();
                self.retired.borrow_mut().push(Rc::clone(&lane.pool));
            }
        }
        *self.snapshot.borrow_mut() = Rc::new(after);
    }

    /// Closes spent connections again and again; never ends.
    pub async fn sweep(self: Rc<Self>) {
        let mut ticks = tokio::time::interval(SWEEP_EVERY);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            let now = ticks.tick().await;
            for lane in &self.snapshot().dsps {
                lane.pool.sweep(now);
            }
            self.retired.borrow_mut().retain(|pool| {
                pool.sweep(now);
                !pool.is_empty()
            });
        }
    }

    /// Room for bodies, empty.
    pub(crate) fn room(&self) -> Vec<u8> {
        self.rooms.borrow_mut().pop().unwrap_or_default()
    }

    /// Keeps room for as many auctions as are usually in flight, unless one was extravagant.
    pub(crate) fn keep_room(&self, room: Vec<u8>) {
        let mut rooms = self.rooms.borrow_mut();
        if rooms.len() < ROOMS_MAX && room.capacity() <= ROOM_BYTES_MAX {
            rooms.push(room);
        }
    }

    /// An auction's id, unique over shards, starts and machines, as far as 128 bits reach.
    pub(crate) fn next_id(&self) -> String {
        let count = self.auctions.replace(self.auctions.get().wrapping_add(1));
        let mut id = String::with_capacity(32);
        let _ = write!(id, "{:016x}{count:016x}", self.id_prefix);
        id
    }

    pub(crate) fn tick(&self, at: Instant) -> Tick {
        let elapsed = at.saturating_duration_since(self.origin);
        Tick::ZERO.after(elapsed)
    }

    pub(crate) fn instant(&self, tick: Tick) -> Instant {
        self.origin + tick.since(Tick::ZERO)
    }
}

/// `generation` as the shard runs it, with those of `pools` that lead where it leads.
fn snapshot(
    shard: usize,
    generation: Arc<Generation>,
    mut pools: HashMap<*const crate::fanout::Endpoint, Rc<Pool>>,
    reactor: &Rc<Reactor>,
) -> Snapshot {
    let limits = generation.config.pool;
    let lane = |dsp: &crate::generation::DspInForce| {
        let metrics = dsp.metrics.shard(shard);
        let pool = match pools.remove(&Arc::as_ptr(&dsp.endpoint)) {
            Some(pool) => {
                pool.limit(limits);
                pool
            }
            None => {
                let (endpoint, metrics) = (Arc::clone(&dsp.endpoint), Arc::clone(&metrics));
                Rc::new(Pool::new(endpoint, limits, Rc::clone(reactor), metrics))
            }
        };
        Lane { pool, metrics, seats: dsp.seats.iter().map(|seat| seat.shard(shard)).collect() }
    };
    let dsps = generation.dsps.iter().map(lane).collect();
    Snapshot { generation, dsps }
}

impl Drop for Shard {
    fn drop(&mut self) {
        for pool in self.snapshot().dsps.iter().map(|lane| &lane.pool) {
            pool.close();
        }
        for pool in &*self.retired.borrow() {
            pool.close();
        }
    }
}
