//! One shard of the exchange: its DSP connections, counters and current configuration.

mod closes;
mod markup_store;

use std::cell::{RefCell, RefMut};
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;

use exchange_core::guard::{STEP, ShardGuard};
use exchange_core::{AuctionIds, Reservation, Seat};
use runtime::metrics::Padded;
use runtime::process::unix_ms;
use runtime::shards::{Admission, Tasks};
use runtime::traces::Tracer;
use tokio::sync::watch;
use tokio::time::Instant;
use units::Tick;

use crate::budgets::billing::{BillingQueue, DirectBill, RETRY_INTERVAL};
use crate::budgets::remote::ShardPacer;
use crate::budgets::shard::{ReservationCommands, ShardBudget, TURN};
use crate::config::ExchangeConfig;
use crate::fanout::{DspPool, DspReactor};
use crate::generation::{DspInForce, Generation, SharedEnrichmentMemory};
use crate::guards::{GuardId, GuardPort, SharedGuard};
use crate::metrics::{DspMetrics, EnrichmentMetrics, ExchangeMetrics, SeatMetrics};
use crate::notices::{MarkupFetch, NodeClient, NoticeCommand, NoticeSender};
use crate::recording::Recorder;
use closes::PendingCloses;

pub use markup_store::{MARKUP_STORE, MarkupStore, SharedMarkupStore};

/// Most spare body buffers, and the largest.
const BODY_BUFFERS_MAX: usize = 64;
const BODY_BUFFER_BYTES_MAX: usize = 256 * 1024;

/// What a shard is made of.
#[derive(Debug)]
pub(crate) struct ShardParts {
    pub index: usize,
    pub guard_port: RefCell<GuardPort>,
    pub ids: RefCell<AuctionIds>,
    pub admission: Admission,
    pub dispatcher: Option<NoticeSender>,
    pub nodes: Option<NodeClient>,
    /// None: auctions are not recorded.
    pub recorder: Option<Recorder>,
    /// None without budgets.
    pub budget: Option<ShardBudget>,
    /// None without a remote pacer.
    pub pacer: Option<ShardPacer>,
    /// None without a cache.
    pub markup_store: Option<SharedMarkupStore>,
    pub tracer: Tracer,
    /// Work that outlives its request; a drain waits for it.
    pub tasks: Tasks,
}

#[derive(Debug)]
pub struct ExchangeShard {
    pub(crate) parts: ShardParts,
    pub(crate) metrics: Arc<Padded<ExchangeMetrics>>,
    reactor: Rc<DspReactor>,
    /// For auctions that begin now.
    snapshot: RefCell<Rc<ShardSnapshot>>,
    /// Sales not yet durably booked. None without a dispatcher.
    billing: Option<BillingQueue>,
    /// Pools of former generations with running calls.
    retired: RefCell<Vec<Rc<DspPool>>>,
    origin: Instant,
    pub(crate) closes: PendingCloses,
    body_buffers: RefCell<Vec<Vec<u8>>>,
    /// For values of requests.
    value: RefCell<String>,
}

/// A generation on one shard. Auctions keep theirs, so that shards share no counter.
#[derive(Debug)]
pub(crate) struct ShardSnapshot {
    pub(crate) generation: Arc<Generation>,
    /// In the market's order.
    pub(crate) dsps: Vec<ShardDsp>,
    /// By publisher id.
    pub(crate) callers: HashMap<Box<str>, SharedGuard>,
    /// None without direct campaigns.
    direct: Option<DirectMetrics>,
    /// In the market's order.
    pub(crate) enrichments: Vec<ShardEnrichment>,
}

#[derive(Debug)]
pub(crate) struct ShardEnrichment {
    pub(crate) memory: SharedEnrichmentMemory,
    pub(crate) metrics: Arc<Padded<EnrichmentMetrics>>,
}

#[derive(Debug)]
struct DirectMetrics {
    metrics: Arc<Padded<DspMetrics>>,
    seats: Vec<Arc<Padded<SeatMetrics>>>,
}

#[derive(Debug)]
pub(crate) struct ShardDsp {
    pub(crate) id: Arc<str>,
    pub(crate) pool: Rc<DspPool>,
    guard_id: GuardId,
    pub(crate) guard: SharedGuard,
    pub(crate) metrics: Arc<Padded<DspMetrics>>,
    pub(crate) seats: Vec<Arc<Padded<SeatMetrics>>>,
}

impl ShardSnapshot {
    pub(crate) fn config(&self) -> &ExchangeConfig {
        &self.generation.config
    }

    /// Position of direct campaigns among the market's DSPs. None without any.
    pub(crate) fn direct(&self) -> Option<usize> {
        self.direct.as_ref().map(|_| self.dsps.len())
    }

    pub(crate) fn dsp_metrics(&self, dsp: usize) -> &DspMetrics {
        let direct = || &self.direct.as_ref().expect("direct campaigns come last").metrics;
        self.dsps.get(dsp).map_or_else(direct, |dsp| &dsp.metrics)
    }

    pub(crate) fn seat_metrics(&self, seat: Seat) -> &SeatMetrics {
        let direct = || &self.direct.as_ref().expect("direct campaigns come last").seats;
        let seats = self.dsps.get(seat.dsp).map_or_else(direct, |dsp| &dsp.seats);
        &seats[seat.seat]
    }
}

impl ExchangeShard {
    /// Runs on the shard's own thread.
    pub(crate) fn new(
        parts: ShardParts,
        generation: Arc<Generation>,
        metrics: Arc<Padded<ExchangeMetrics>>,
        reactor: Rc<DspReactor>,
    ) -> Self {
        let snapshot = snapshot(parts.index, generation, None, &reactor);
        Self {
            snapshot: RefCell::new(Rc::new(snapshot)),
            billing: parts.dispatcher.clone().map(BillingQueue::new),
            parts,
            metrics,
            reactor,
            retired: RefCell::default(),
            origin: Instant::now(),
            closes: PendingCloses::default(),
            body_buffers: RefCell::default(),
            value: RefCell::default(),
        }
    }

    pub(crate) fn budget(&self) -> Option<&ShardBudget> {
        self.parts.budget.as_ref()
    }

    /// The snapshot for an auction that begins now.
    pub(crate) fn snapshot(&self) -> Rc<ShardSnapshot> {
        Rc::clone(&self.snapshot.borrow())
    }

    /// Adopts each new generation; ends with the exchange.
    pub async fn follow_generations(
        self: Rc<Self>,
        mut generations: watch::Receiver<Arc<Generation>>,
    ) {
        while generations.changed().await.is_ok() {
            let generation = Arc::clone(&generations.borrow_and_update());
            self.adopt(generation);
        }
    }

    /// New auctions use `generation`. DSPs with the same address and options keep their pool.
    fn adopt(&self, generation: Arc<Generation>) {
        let before = self.snapshot();
        let after = snapshot(self.parts.index, generation, Some(&before), &self.reactor);
        let kept: HashSet<_> = after.dsps.iter().map(|dsp| Rc::as_ptr(&dsp.pool)).collect();
        for dsp in &before.dsps {
            if !kept.contains(&Rc::as_ptr(&dsp.pool)) {
                dsp.pool.retire();
                self.retired.borrow_mut().push(Rc::clone(&dsp.pool));
            }
        }
        *self.snapshot.borrow_mut() = Rc::new(after);
    }

    /// Sweeps pools and renews call grants; never ends.
    pub async fn sweep(self: Rc<Self>) {
        let mut ticks = tokio::time::interval(STEP);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            let now = ticks.tick().await;
            let snapshot = self.snapshot();
            for dsp in &snapshot.dsps {
                dsp.pool.sweep(now);
            }
            let of_dsps = snapshot.dsps.iter().map(|dsp| (dsp.guard_id, &dsp.guard));
            let limited = &snapshot.generation.callers;
            let of_callers = limited.iter().map(|(id, it)| (it.guard, &snapshot.callers[id]));
            let guards = of_dsps.chain(of_callers);
            self.parts.guard_port.borrow_mut().turn(guards);
            self.retired.borrow_mut().retain(|pool| {
                pool.sweep(now);
                // Earlier auctions may still use it.
                Rc::strong_count(pool) > 1 || !pool.is_empty()
            });
        }
    }

    /// Exchanges messages with the ledger; never ends.
    pub async fn exchange_with_ledger(self: Rc<Self>) {
        let Some(budget) = self.budget() else { return };
        let mut ticks = tokio::time::interval(TURN);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            budget.turn(&self.metrics);
        }
    }

    /// Runs reservation commands of the dispatcher and of other shards; ends with the last sender.
    pub async fn run_commands(self: Rc<Self>, mut commands: ReservationCommands) {
        while let Some(command) = commands.next().await {
            if let Some(budget) = self.budget() {
                budget.execute(command);
            }
        }
    }

    /// Books a win billed without a beacon. Without a dispatcher, releases its reservation instead.
    pub(crate) fn bill(&self, billed: DirectBill) {
        if let Some(billing) = &self.billing {
            billing.add(billed, unix_ms(), &self.metrics.budget);
        } else if let Some(reservation) = &billed.reservation {
            self.release(reservation);
        }
    }

    /// Releases a reservation whose bid is not sold, or lost upstream. A lost release expires.
    pub(crate) fn release(&self, reservation: &Reservation) {
        if let Some(budget) = self.budget() {
            budget.release(reservation);
        } else if let Some(pacer) = &self.parts.pacer {
            pacer.release(reservation.token.to_bytes());
        }
    }

    /// Sends billed wins to the dispatcher until they are booked; never ends.
    pub async fn retry_bills(self: Rc<Self>) {
        let Some(billing) = &self.billing else { return };
        let mut ticks = tokio::time::interval(RETRY_INTERVAL);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            billing.turn(unix_ms(), &self.metrics.budget);
        }
    }

    /// Commands that find the dispatcher's queue full are dropped and counted.
    pub(crate) fn send_notices(&self, commands: Vec<NoticeCommand>) {
        for command in commands {
            self.send_command(command);
        }
    }

    /// Whether the command was taken.
    pub(crate) fn send_command(&self, command: NoticeCommand) -> bool {
        self.to_dispatcher(|dispatcher| dispatcher.send(command))
    }

    /// Whether the fetch was taken.
    pub(crate) fn fetch(&self, fetch: MarkupFetch) -> bool {
        self.to_dispatcher(|dispatcher| dispatcher.fetch(fetch))
    }

    fn to_dispatcher(&self, give: impl FnOnce(&NoticeSender) -> bool) -> bool {
        let taken = self.parts.dispatcher.as_ref().is_some_and(give);
        if !taken {
            self.metrics.notices_refused.increment();
        }
        taken
    }

    /// A buffer for a value of a request.
    pub(crate) fn value_buffer(&self) -> RefMut<'_, String> {
        self.value.borrow_mut()
    }

    pub(crate) fn body_buffer(&self) -> Vec<u8> {
        self.body_buffers.borrow_mut().pop().unwrap_or_default()
    }

    /// Keeps a body buffer for reuse, unless there are enough or it is too large.
    pub(crate) fn keep_body_buffer(&self, buffer: Vec<u8>) {
        let mut buffers = self.body_buffers.borrow_mut();
        if buffers.len() < BODY_BUFFERS_MAX && buffer.capacity() <= BODY_BUFFER_BYTES_MAX {
            buffers.push(buffer);
        }
    }

    /// An auction id of 128 bits, unique across shards, starts and machines.
    pub(crate) fn next_id(&self) -> String {
        self.parts.ids.borrow_mut().next_id()
    }

    pub(crate) fn tick(&self, at: Instant) -> Tick {
        let elapsed = at.saturating_duration_since(self.origin);
        Tick::ZERO.after(elapsed)
    }

    pub(crate) fn instant(&self, tick: Tick) -> Instant {
        self.origin + tick.since(Tick::ZERO)
    }
}

/// `generation` on this shard; reuses unchanged parts of `before`.
fn snapshot(
    shard: usize,
    generation: Arc<Generation>,
    before: Option<&ShardSnapshot>,
    reactor: &Rc<DspReactor>,
) -> ShardSnapshot {
    let limits = generation.config.pool;
    let callers = callers(shard, &generation, before);
    let before = before.map_or(&[][..], |before| &before.dsps);
    let before: HashMap<_, _> = before.iter().map(|dsp| (dsp.guard_id, dsp)).collect();
    let ids = generation.config.market.dsps.iter().map(|dsp| &*dsp.id);
    let dsp = |(dsp, id): (&DspInForce, &str)| {
        let metrics = dsp.metrics.shard(shard);
        let known = before.get(&dsp.guard);
        let unmoved = known.filter(|known| Arc::ptr_eq(known.pool.endpoint(), &dsp.endpoint));
        let pool = match unmoved {
            Some(known) => {
                known.pool.limit(limits);
                Rc::clone(&known.pool)
            }
            None => {
                let (endpoint, metrics) = (Arc::clone(&dsp.endpoint), Arc::clone(&metrics));
                Rc::new(DspPool::new(endpoint, limits, Rc::clone(reactor), metrics))
            }
        };
        let new = || Rc::new(RefCell::new(ShardGuard::new(&dsp.first_grants[shard])));
        ShardDsp {
            id: id.into(),
            pool,
            guard_id: dsp.guard,
            guard: known.map_or_else(new, |known| Rc::clone(&known.guard)),
            metrics,
            seats: dsp.seats.iter().map(|seat| seat.shard(shard)).collect(),
        }
    };
    let dsps = generation.dsps.iter().zip(ids).map(dsp).collect();
    let direct = generation.direct.as_ref().map(|direct| DirectMetrics {
        metrics: direct.metrics.shard(shard),
        seats: direct.seats.iter().map(|seat| seat.shard(shard)).collect(),
    });
    let open = generation.enrichments.iter();
    let enrichments = open.map(|open| ShardEnrichment {
        memory: open.memory.clone(),
        metrics: open.metrics.shard(shard),
    });
    let enrichments = enrichments.collect();
    ShardSnapshot { generation, dsps, callers, direct, enrichments }
}

/// Guards of publishers; reuses unchanged ones of `before`.
fn callers(
    shard: usize,
    generation: &Generation,
    before: Option<&ShardSnapshot>,
) -> HashMap<Box<str>, SharedGuard> {
    let known = |id: &str, guard: GuardId| {
        let before = before?;
        let same = before.generation.callers.get(id).is_some_and(|known| known.guard == guard);
        before.callers.get(id).filter(|_| same).map(Rc::clone)
    };
    let limited = generation.callers.iter().map(|(id, limited)| {
        let new = || Rc::new(RefCell::new(ShardGuard::new(&limited.first_grants[shard])));
        (id.clone(), known(id, limited.guard).unwrap_or_else(new))
    });
    limited.collect()
}

impl Drop for ExchangeShard {
    fn drop(&mut self) {
        for pool in self.snapshot().dsps.iter().map(|dsp| &dsp.pool) {
            pool.close();
        }
        for pool in &*self.retired.borrow() {
            pool.close();
        }
    }
}
