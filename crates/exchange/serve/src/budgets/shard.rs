//! A shard's end of the ledger: its budgets and reservations.
//!
//! Moves messages; `pacer_core::shard` decides about money.

mod commands;
mod counting;

use std::cell::{Cell, RefCell};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use exchange_core::Reservation;
use exchange_core::campaigns::{
    CampaignBidder, CampaignPrice, Catalogue, DirectAnswer, DirectCall, SearchScratch,
};
use pacer_core::calendar::QUARTER_MS;
use pacer_core::funnel::{FunnelStep, Shortfall};
use pacer_core::messages::{CampaignIndex, FromShard, ToShard};
use pacer_core::refusal::SpendRefusal;
use pacer_core::shard::token::{ReservationToken, TokenKey, TokenText, TtlClass};
use pacer_core::shard::{
    Denial, PacedShard, ShardCounts, ShardLedger, ShardOptions, ShardOptionsError, ShardTime,
};
use pacer_core::strategy::DrawKey;
use runtime::process::unix_ms;
use tracing::{error, warn};
use units::{Cpm, Multiplier, Nanos, Tick};

pub(crate) use commands::{PeerShards, ReservationCommand, ReservationCommands, SettlementRouter};
use counting::FunnelCounting;
pub(crate) use counting::HandoverSlot;

use crate::metrics::ExchangeMetrics;

/// Interval of the exchange with the ledger; a fraction of a slice's time.
pub(crate) const TURN: Duration = Duration::from_millis(10);

/// How long a closing shard waits for room in the ring.
const CLOSE_PATIENCE: Duration = Duration::from_secs(2);

/// Most spare buffers for answers of direct campaigns, and the largest.
const ANSWERS_MAX: usize = 64;
const ANSWER_BYTES_MAX: usize = 256 * 1024;

/// One shard's end of the ledger's rings.
#[derive(Debug)]
pub struct ShardLedgerPort {
    /// Grants, gates and paces.
    pub from_ledger: rtrb::Consumer<ToShard>,
    /// Reports, refill requests and receipts.
    pub to_ledger: rtrb::Producer<FromShard>,
    /// Options of the shard's core.
    pub options: ShardOptions,
}

/// Shared by all shards of a process.
#[derive(Clone)]
pub struct BudgetContext {
    /// Seals reservations.
    pub key: TokenKey,
    /// Draws which requests a paced campaign skips.
    pub draw: DrawKey,
    /// Start of the ledger's ticks.
    pub origin: Instant,
    /// Whether the ledger's books fail to add up, which stops all reservations. Called each time.
    pub is_halted: Arc<dyn Fn() -> bool + Send + Sync>,
    /// The ledger's wall clock in Unix milliseconds; a system clock that was set back is behind it.
    pub ledger_unix_ms: Arc<dyn Fn() -> u64 + Send + Sync>,
}

pub(crate) struct ShardBudget {
    budget_context: BudgetContext,
    /// One per class of time to live, ascending.
    ttls: Vec<Duration>,
    ledger_end: RefCell<LedgerEnd>,
    search: RefCell<CampaignSearch>,
    peers: PeerShards,
    is_durable: IsDurable,
    /// As of the last turn. While nothing becomes durable, nothing is reserved.
    was_durable: Cell<bool>,
}

type IsDurable = Box<dyn Fn() -> bool + Send>;

#[derive(Debug)]
struct LedgerEnd {
    shard: PacedShard,
    from_ledger: rtrb::Consumer<ToShard>,
    to_ledger: rtrb::Producer<FromShard>,
    states: CampaignStates,
    counting: FunnelCounting,
    auctions: u64,
    counts: ShardCounts,
    /// Whether a grant found no room; lasts until the next start, and is logged once.
    is_capacity_reported: bool,
}

#[derive(Debug, Default)]
struct CampaignSearch {
    room: SearchScratch,
    answers: Vec<DirectAnswer>,
}

/// By index.
#[derive(Debug, Default)]
struct CampaignStates(Vec<CampaignState>);

#[derive(Clone, Copy, Debug)]
struct CampaignState {
    /// Whether it ever matched an impression; seats of DSPs never do.
    is_direct: bool,
    /// Hint: last position of its row.
    row_hint: u32,
    /// Number of the last auction it bid in, and the cost of all its bids there.
    bidding: (u64, Nanos),
}

impl ShardBudget {
    /// Allocates all memory for reservations.
    ///
    /// # Errors
    /// An option is out of range.
    pub fn new(
        ledger_port: ShardLedgerPort,
        budget_context: BudgetContext,
        peers: PeerShards,
        is_durable: IsDurable,
        handovers: HandoverSlot,
    ) -> Result<Self, ShardOptionsError> {
        let ShardLedgerPort { from_ledger, to_ledger, options } = ledger_port;
        let shard = PacedShard::new(ShardLedger::new(&options)?);
        let ledger = LedgerEnd {
            shard,
            from_ledger,
            to_ledger,
            states: CampaignStates::default(),
            counting: FunnelCounting::new(handovers),
            auctions: 0,
            counts: ShardCounts::default(),
            is_capacity_reported: false,
        };
        let was_durable = Cell::new(true);
        let (ledger, search) = (RefCell::new(ledger), RefCell::default());
        Ok(Self {
            budget_context,
            ttls: options.ttls,
            ledger_end: ledger,
            search,
            peers,
            is_durable,
            was_durable,
        })
    }

    pub fn bid(&self, catalogue: &Catalogue, call: &DirectCall<'_>) -> DirectAnswer {
        let CampaignSearch { room, answers } = &mut *self.search.borrow_mut();
        let mut answer = answers.pop().unwrap_or_default();
        let DirectCall { auction, ask, .. } = call;
        let is_test = auction.request.is_test();
        let mut deciding = AuctionPacing::new(self, auction.id, is_test);
        catalogue.bid(call, &mut deciding, room, &mut answer);
        if !is_test {
            let ledger = &mut *self.ledger_end.borrow_mut();
            ledger.counting.buffer.offer(ask.imps.count_ones());
            answer.bids.iter().for_each(|bid| ledger.count(bid.slot, FunnelStep::Bid));
        }
        answer
    }

    pub fn count(&self, slot: CampaignIndex, step: FunnelStep) {
        self.ledger_end.borrow_mut().count(slot, step);
    }

    /// Copies a request's body if a sample is due, to try campaigns that match nothing.
    pub fn copy_request(&self, body: &[u8]) {
        self.ledger_end.borrow_mut().counting.copy(body);
    }

    /// Keeps the answer's buffer for reuse, unless it is too large.
    pub fn keep_answer(&self, answer: DirectAnswer) {
        let answers = &mut self.search.borrow_mut().answers;
        if answers.len() < ANSWERS_MAX && answer.body.capacity() <= ANSWER_BYTES_MAX {
            answers.push(answer);
        }
    }

    /// Reserves `amount` for a win that may be billed for `billable_s`. A win billed after the
    /// longest reservation is late.
    ///
    /// # Errors
    /// Why it may not be spent.
    pub fn reserve(
        &self,
        slot: CampaignIndex,
        amount: Nanos,
        billable_s: u32,
    ) -> Result<ReservationToken, SpendRefusal> {
        if (self.budget_context.is_halted)() || !self.was_durable.get() {
            return Err(SpendRefusal::LedgerUnavailable);
        }
        let ttl = self.ttl_class(billable_s);
        let reserved =
            self.ledger_end.borrow_mut().shard.ledger.reserve(slot, amount, ttl, self.now());
        reserved.map_err(Denial::refusal)
    }

    /// The shortest time to live that suffices, or else the longest.
    fn ttl_class(&self, billable_s: u32) -> TtlClass {
        let wanted = Duration::from_secs(billable_s.into());
        let class = self.ttls.partition_point(|ttl| *ttl < wanted).min(self.ttls.len() - 1);
        TtlClass(u8::try_from(class).expect("classes are few"))
    }

    pub fn seal(&self, token: &ReservationToken) -> TokenText {
        self.budget_context.key.seal(token)
    }

    pub fn release_token(&self, token: &ReservationToken) {
        self.execute(ReservationCommand::Release(*token));
    }

    /// Releases a reservation of any shard, whose bid lost upstream. A lost release expires.
    pub fn release(&self, reservation: &Reservation) {
        let Some(token) = self.peers.open(reservation) else { return };
        // Releases that no shard owns count here.
        if token.origin() == self.ledger_end.borrow().shard.ledger.origin()
            || !self.peers.release(token)
        {
            self.execute(ReservationCommand::Release(token));
        }
    }

    pub fn execute(&self, command: ReservationCommand) {
        let ledger = &mut *self.ledger_end.borrow_mut();
        let now = self.now().tick;
        match command {
            ReservationCommand::Settle(token) => {
                // The core counts a rejected claim; the ledger learns of it from the log.
                if let Ok(claim) = ledger.shard.ledger.claim(&token, now) {
                    ledger.shard.ledger.settle(claim, token.amount());
                    ledger.bill(token.slot(), token.amount());
                }
            }
            ReservationCommand::Release(token) => {
                let _rejected = ledger.shard.ledger.release(&token, now);
            }
        }
    }

    /// Takes the ledger's messages and sends reports. Call every [`TURN`].
    pub fn turn(&self, metrics: &ExchangeMetrics) {
        let now = self.now();
        self.was_durable.set((self.is_durable)());
        let ledger = &mut *self.ledger_end.borrow_mut();
        let LedgerEnd { shard, from_ledger, to_ledger, .. } = &mut *ledger;
        let room = to_ledger.slots();
        shard.turn(now.tick, received(from_ledger), room, |message| send(to_ledger, message));
        ledger.counting.turn(now.tick, &metrics.budget);
        let counts = *ledger.shard.counts();
        let strand = counts.untaken > ledger.counts.untaken;
        if strand && !std::mem::replace(&mut ledger.is_capacity_reported, true) {
            error!("rights strand at a shard without room: raise budgets.campaigns_max");
        }
        metrics.budget.add(&ledger.counts, &counts);
        ledger.counts = counts;
    }

    /// Ends reserving once auctions have ended: returns all unreserved money, and reports the rest.
    /// What finds no room in time stays frozen for its time to live, as after a crash.
    pub async fn close(&self) {
        let until = Instant::now() + CLOSE_PATIENCE;
        while !self.close_some() {
            if until <= Instant::now() {
                warn!(
                    "a shard could not tell the ledger what it gives back: that stays frozen for up to \
                     budgets.reservation_max"
                );
                return;
            }
            tokio::time::sleep(TURN).await;
        }
    }

    /// Sends the final reports and receipts that fit the ring; returns whether all were sent.
    fn close_some(&self) -> bool {
        let now = self.now().tick;
        let LedgerEnd { shard, from_ledger, to_ledger, .. } = &mut *self.ledger_end.borrow_mut();
        let room = to_ledger.slots();
        let is_sent =
            shard.close(now, received(from_ledger), room, |message| send(to_ledger, message));
        // A stopped ledger receives nothing.
        is_sent || to_ledger.is_abandoned()
    }

    fn now(&self) -> ShardTime {
        let unix_ms = unix_ms().max((self.budget_context.ledger_unix_ms)());
        let quarter = u32::try_from(unix_ms / QUARTER_MS).expect("quarters fit until 124,000");
        ShardTime { tick: Tick::ZERO.after(self.budget_context.origin.elapsed()), quarter }
    }
}

impl fmt::Debug for ShardBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShardBudget").field("open", &self.ledger_end).finish_non_exhaustive()
    }
}

impl CampaignStates {
    fn of(&mut self, slot: CampaignIndex) -> &mut CampaignState {
        let index = usize::try_from(slot.0).expect("an index has 32 bits");
        if self.0.len() <= index {
            let state =
                CampaignState { is_direct: false, row_hint: 0, bidding: (0, Nanos::new(0)) };
            self.0.resize(index + 1, state);
        }
        &mut self.0[index]
    }
}

impl LedgerEnd {
    fn count(&mut self, slot: CampaignIndex, step: FunnelStep) {
        self.counting.buffer.count(slot, &mut self.states.of(slot).row_hint, step);
    }

    /// Counts a campaign's billed win; seats of DSPs have no funnel.
    fn bill(&mut self, slot: CampaignIndex, price: Nanos) {
        let CampaignState { row_hint, is_direct, .. } = self.states.of(slot);
        if *is_direct {
            self.counting.buffer.bill(slot, row_hint, price);
        }
    }

    /// Counts a matched impression, with the reason if the campaign does not bid.
    fn matched(&mut self, slot: CampaignIndex, decided: Result<(), SpendRefusal>) {
        self.states.of(slot).is_direct = true;
        let step = match decided {
            Ok(()) => None,
            Err(refusal) => match FunnelStep::withheld(refusal) {
                None => return,
                step => step,
            },
        };
        self.count(slot, FunnelStep::Matched);
        step.into_iter().for_each(|step| self.count(slot, step));
    }
}

fn received(from_ledger: &mut rtrb::Consumer<ToShard>) -> impl Iterator<Item = ToShard> {
    std::iter::from_fn(|| from_ledger.pop().ok())
}

fn send(to_ledger: &mut rtrb::Producer<FromShard>, message: FromShard) {
    to_ledger.push(message).expect("there is room");
}

pub(crate) struct AuctionPacing<'p> {
    budget: &'p ShardBudget,
    /// The auction's id, which seeds draws.
    id: &'p str,
    /// Tests do not count for pacing.
    is_test: bool,
    number: u64,
    at: ShardTime,
}

impl<'p> AuctionPacing<'p> {
    pub fn new(budget: &'p ShardBudget, id: &'p str, is_test: bool) -> Self {
        let mut ledger = budget.ledger_end.borrow_mut();
        ledger.auctions += 1;
        Self { budget, id, is_test, number: ledger.auctions, at: budget.now() }
    }
}

impl CampaignBidder for AuctionPacing<'_> {
    fn decide(
        &mut self,
        slot: CampaignIndex,
        price: CampaignPrice,
        shown: Multiplier,
    ) -> Result<Cpm, SpendRefusal> {
        let Self { is_test, number, at, .. } = *self;
        let ledger = &mut *self.budget.ledger_end.borrow_mut();
        let state = *ledger.states.of(slot);
        let draw = || self.budget.budget_context.draw.draw(self.id.as_bytes(), slot.0.into());
        let paced = ledger.shard.bid(slot, price.amount(), draw);
        let decided = paced.map(|paced| match price {
            CampaignPrice::Value(_) => paced,
            CampaignPrice::Fixed(own) => own,
        });
        // A campaign that cannot pay for all its bids in an auction stops, so that it blocks no
        // other.
        let before = if state.bidding.0 == number { state.bidding.1 } else { Nanos::new(0) };
        let cost = |bid: Cpm| {
            let all = bid.cost(shown).and_then(|cost| cost.get().checked_add(before.get()));
            all.map(Nanos::new).ok_or(SpendRefusal::Unknown)
        };
        let decided = decided.and_then(|bid| {
            let all = cost(bid)?;
            let Err(shortage) = ledger.shard.ledger.may_reserve(slot, all, at) else {
                return Ok((bid, all));
            };
            // The last of a budget lowers the bid, unless its price is fixed.
            let left = shortage.left.get().saturating_sub(before.get());
            let last = Cpm::affordable(Nanos::new(left), shown).min(bid);
            let is_lowered = matches!(price, CampaignPrice::Value(_)) && last > Cpm::ZERO;
            if is_lowered { Ok((last, cost(last)?)) } else { Err(shortage.refusal) }
        });
        let state = ledger.states.of(slot);
        if let Ok((_, all)) = decided {
            state.bidding = (number, all);
        }
        if !is_test {
            let _pace = ledger.shard.count_request(slot);
            if decided.is_ok() {
                ledger.shard.count_bid(slot);
            }
            ledger.matched(slot, decided.map(drop));
        }
        decided.map(|(bid, _)| bid)
    }

    fn report_shortfall(&mut self, slot: CampaignIndex, shortfall: impl FnOnce() -> Shortfall) {
        if !self.is_test {
            let LedgerEnd { counting, states, .. } = &mut *self.budget.ledger_end.borrow_mut();
            counting.buffer.fall_short(slot, &mut states.of(slot).row_hint, shortfall);
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
