//! One shard of the exchange: its pools, its counters, and the auctions of its connections.

use std::cell::{Cell, RefCell};
use std::fmt::Write as _;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use exchange_core::{
    Answer, Ask, Auction, Judgement, Refusal, Sale, Schedule, clear, eligible, judge, outbound,
    response, sales,
};
use openrtb::codes::NoBidReason;
use openrtb::{BidRequest, Invalid, parse_request};
use runtime::metrics::Padded;
use tokio::time::Instant;
use units::Tick;

use crate::config::ExchangeConfig;
use crate::fanout::{Endpoint, Outcome, Outcomes, Pool, Question, Reactor, ask_all};
use crate::metrics::ExchangeMetrics;

/// Rooms for bodies that are kept, and the largest of them.
const ROOMS_MAX: usize = 64;
const ROOM_BYTES_MAX: usize = 256 * 1024;
/// How often spent connections are looked for.
const SWEEP_EVERY: Duration = Duration::from_millis(100);

/// What becomes of a request.
#[derive(Debug, PartialEq, Eq)]
pub enum Reply {
    /// 200 with this body.
    Bid(String),
    /// No sale; `id` is the JSON text of the caller's id.
    NoBid {
        /// The caller's id, as JSON.
        id: String,
        /// Why.
        reason: NoBidReason,
    },
    /// 400 with a body that says what is wrong.
    Invalid(Invalid),
}

/// One shard of the exchange.
#[derive(Debug)]
pub struct Shard {
    config: Arc<ExchangeConfig>,
    pub(crate) metrics: Arc<Padded<ExchangeMetrics>>,
    pools: Vec<Rc<Pool>>,
    /// First half of auction ids: no two shards, and no two starts, share it.
    id_prefix: u64,
    auctions: Cell<u64>,
    origin: Instant,
    /// Room for bodies, kept from one auction for the next.
    rooms: RefCell<Vec<Vec<u8>>>,
}

impl Shard {
    /// Made on the shard's own thread. `endpoints` are in the order of the market's DSPs.
    pub fn new(
        config: Arc<ExchangeConfig>,
        endpoints: &[Arc<Endpoint>],
        metrics: Arc<Padded<ExchangeMetrics>>,
        reactor: &Rc<Reactor>,
    ) -> Self {
        let pool = |(dsp, endpoint): (usize, &Arc<Endpoint>)| {
            let counted = (Arc::clone(&metrics), dsp);
            Rc::new(Pool::new(Arc::clone(endpoint), config.pool, Rc::clone(reactor), counted))
        };
        let pools = endpoints.iter().enumerate().map(pool).collect();
        let id_prefix = rand::random();
        Self {
            config,
            metrics,
            pools,
            id_prefix,
            auctions: Cell::new(0),
            origin: Instant::now(),
            rooms: RefCell::default(),
        }
    }

    /// What the shard is configured with.
    pub fn config(&self) -> &ExchangeConfig {
        &self.config
    }

    /// Closes spent connections again and again; never ends.
    pub async fn sweep(self: Rc<Self>) {
        let mut ticks = tokio::time::interval(SWEEP_EVERY);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            let now = ticks.tick().await;
            for pool in &self.pools {
                pool.sweep(now);
            }
        }
    }

    /// Holds one auction. `arrival` is when the request's head came.
    pub async fn auction(&self, body: &[u8], arrival: Instant) -> Reply {
        let reply = self.try_auction(body, arrival).await;
        match &reply {
            Reply::Bid(_) => self.metrics.filled.increment(),
            Reply::NoBid { reason, .. } => self.metrics.count_no_bid(*reason),
            Reply::Invalid(invalid) => {
                self.metrics.invalid[invalid.reason as usize].increment();
                self.metrics.count_no_bid(NoBidReason::InvalidRequest);
            }
        }
        reply
    }

    async fn try_auction(&self, body: &[u8], arrival: Instant) -> Reply {
        let text = match std::str::from_utf8(body) {
            Ok(text) => text,
            Err(error) => {
                let problem = format!("not UTF-8 at byte {}", error.valid_up_to());
                return Reply::Invalid(Invalid::at(openrtb::Reason::NotJson, "", problem));
            }
        };
        let request = match parse_request(text) {
            Ok(request) => request,
            Err(invalid) => return Reply::Invalid(invalid),
        };
        let parsed = Instant::now();
        self.metrics.parse.record(parsed - arrival);
        let id = self.next_id();
        let inbound = Inbound { id: &id, request: &request, body: text, arrival, parsed };
        match self.hold(&inbound).await {
            Ok(body) => Reply::Bid(body),
            Err(Refusal::Invalid(invalid)) => Reply::Invalid(invalid),
            Err(Refusal::NoBid(reason)) => {
                let id = request.id.as_ref().map_or("\"\"", |id| id.raw());
                Reply::NoBid { id: id.to_owned(), reason }
            }
        }
    }

    async fn hold(&self, inbound: &Inbound<'_>) -> Result<String, Refusal> {
        let Inbound { id, request, body, arrival, parsed } = *inbound;
        let market = &self.config.market;
        let tmax = request.tmax.as_ref().map(|tmax| **tmax);
        let schedule = Schedule::new(self.tick(arrival), tmax, &self.config.limits)
            .ok_or(Refusal::NoBid(NoBidReason::InsufficientAuctionTime))?;
        // A body that was slow to come has used the time up.
        if !schedule.suffices(self.tick(parsed)) {
            return Err(Refusal::NoBid(NoBidReason::InsufficientAuctionTime));
        }
        let auction = Auction::new(id, request, market)?;
        let asks = self.eligible(&auction);
        if asks.is_empty() {
            return Err(Refusal::NoBid(NoBidReason::NoEligibleDsp));
        }
        let outbound = outbound(&auction, body);
        let questions = self.questions(&auction, &schedule, &asks);
        self.metrics.impressions.add(auction.imps_len() as u64);
        self.metrics.ask.record(parsed.elapsed());
        let abandoned = Abandoned { metrics: Some(&self.metrics), asks: &asks };
        let asked = Instant::now();
        let room = self.rooms.borrow_mut().pop().unwrap_or_default();
        let outcomes = ask_all(&outbound, &questions, room).await;
        abandoned.disarm();
        let closed = Instant::now();
        self.metrics.collect.record(closed - asked);
        let answer = self.conclude(&auction, &asks, &outcomes);
        let done = Instant::now();
        self.metrics.clear.record(done - closed);
        self.metrics.total.record(done - arrival);
        let overshoot = self.tick(done).since(schedule.deadline);
        if overshoot > Duration::ZERO {
            self.metrics.overshoot.record(overshoot);
        }
        let answer = answer.ok_or_else(|| Refusal::NoBid(why_nothing(&outcomes.calls)));
        self.keep_room(outcomes.into_room());
        answer
    }

    /// Keeps room for as many auctions as are usually in flight, unless one was extravagant.
    fn keep_room(&self, room: Vec<u8>) {
        let mut rooms = self.rooms.borrow_mut();
        if rooms.len() < ROOMS_MAX && room.capacity() <= ROOM_BYTES_MAX {
            rooms.push(room);
        }
    }

    fn eligible(&self, auction: &Auction<'_>) -> Vec<Ask> {
        let dsps = 0..auction.market.dsps.len();
        let ask = |dsp| match eligible(auction, dsp) {
            Ok(ask) => Some(ask),
            Err(reason) => {
                self.metrics.dsps[dsp].not_asked[reason as usize].increment();
                None
            }
        };
        dsps.filter_map(ask).collect()
    }

    fn questions<'q>(
        &'q self,
        auction: &'q Auction<'_>,
        schedule: &Schedule,
        asks: &[Ask],
    ) -> Vec<Question<'q>> {
        let now = self.tick(Instant::now());
        let ext = auction.request.user.as_ref().and_then(|user| user.ext.as_ref());
        let own = ext.and_then(|ext| ext.buyeruids.as_ref());
        let prebid = ext.and_then(|ext| ext.prebid.as_ref()?.buyeruids.as_ref());
        let question = |ask: &Ask| {
            let dsp = &auction.market.dsps[ask.dsp];
            let mut uids = own.into_iter().chain(prebid);
            Question {
                pool: &self.pools[ask.dsp],
                imps: ask.imps,
                deals: ask.deals,
                tmax_ms: schedule.dsp_tmax_ms(now, dsp.timeout),
                buyeruid: uids.find_map(|uids| uids.raw_of(&dsp.id)),
                wait_until: self.instant(schedule.wait_until(now, dsp.timeout)),
            }
        };
        asks.iter().map(question).collect()
    }

    /// Judges, clears and writes the answer; `None` when nothing is sold.
    fn conclude(&self, auction: &Auction<'_>, asks: &[Ask], outcomes: &Outcomes) -> Option<String> {
        let mut answers = Vec::with_capacity(asks.len());
        for (call, (ask, outcome)) in asks.iter().zip(&outcomes.calls).enumerate() {
            self.metrics.dsps[ask.dsp].outcomes[*outcome as usize].increment();
            if *outcome == Outcome::Answered {
                answers.push(Answer { ask: *ask, body: outcomes.body(call) });
            }
        }
        let judgement = judge(auction, &answers);
        for (answer, fate) in answers.iter().zip(&judgement.responses) {
            self.metrics.dsps[answer.ask.dsp].responses[*fate as usize].increment();
        }
        let clearing = clear(
            &judgement.entries,
            &judgement.groups,
            auction.imps_len(),
            auction.increment,
            // No service keeps accounts: every seat may pay.
            |_| true,
        );
        let sales = sales(auction, &judgement, &clearing);
        for bid in &judgement.bids {
            let fate = match bid.verdict {
                Ok(entry) => clearing.fates[entry],
                Err(fate) => fate,
            };
            self.metrics.fates[fate as usize].increment();
        }
        self.book(auction, &judgement, &sales);
        if sales.is_empty() {
            return None;
        }
        Some(response(auction, &answers, &judgement, &sales))
    }

    /// Counts what was sold; a test sells nothing.
    fn book(&self, auction: &Auction<'_>, judgement: &Judgement<'_>, sales: &[Sale]) {
        if auction.request.is_test() {
            self.metrics.tests.increment();
            return;
        }
        self.metrics.sold.add(sales.len() as u64);
        for sale in sales {
            let seat = judgement.bids[sale.bid].seat.expect("a winner has a seat");
            let seat = &self.metrics.dsps[seat.dsp].seats[seat.seat];
            seat.wins.increment();
            seat.revenue_nanos.add(sale.revenue.get());
        }
    }

    /// Unique over shards, starts and machines, as far as 128 bits reach.
    fn next_id(&self) -> String {
        let count = self.auctions.replace(self.auctions.get().wrapping_add(1));
        let mut id = String::with_capacity(32);
        let _ = write!(id, "{:016x}{count:016x}", self.id_prefix);
        id
    }

    fn tick(&self, at: Instant) -> Tick {
        let elapsed = at.saturating_duration_since(self.origin);
        Tick::ZERO.after(elapsed)
    }

    fn instant(&self, tick: Tick) -> Instant {
        self.origin + tick.since(Tick::ZERO)
    }
}

impl Drop for Shard {
    fn drop(&mut self) {
        for pool in &self.pools {
            pool.close();
        }
    }
}

/// Without a sale: our fault when not one DSP could be asked, else nobody bid enough.
fn why_nothing(calls: &[Outcome]) -> NoBidReason {
    let never_asked = |outcome: &Outcome| {
        matches!(outcome, Outcome::Unreachable | Outcome::Unresolved | Outcome::Saturated)
    };
    if calls.iter().all(never_asked) { NoBidReason::TechnicalError } else { NoBidReason::Unknown }
}

/// A valid request, and when it came.
struct Inbound<'r> {
    id: &'r str,
    request: &'r BidRequest<'r>,
    body: &'r str,
    arrival: Instant,
    parsed: Instant,
}

/// Counts an auction and its calls as abandoned, unless it got its answers.
struct Abandoned<'m> {
    metrics: Option<&'m ExchangeMetrics>,
    asks: &'m [Ask],
}

impl Abandoned<'_> {
    fn disarm(mut self) {
        self.metrics = None;
    }
}

impl Drop for Abandoned<'_> {
    fn drop(&mut self) {
        let Some(metrics) = self.metrics else { return };
        metrics.abandoned.increment();
        for ask in self.asks {
            metrics.dsps[ask.dsp].outcomes[Outcome::Abandoned as usize].increment();
        }
    }
}
