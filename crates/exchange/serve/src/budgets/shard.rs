//! What a shard may spend of accounts, and what it has reserved: the shard's end of the ledger.
//!
//! It makes no decision about money: those are `pacer_core::shard`'s. It moves messages, and knows
//! which shard a reservation is of.

mod commands;
mod counting;

use std::cell::{Cell, RefCell};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use exchange_core::campaigns::{
    self, CampaignBidder, CampaignPrice, Catalogue, DirectAnswer, SearchScratch,
};
use exchange_core::{Auction, BidderCall, Reservation};
use pacer_core::calendar::QUARTER_MS;
use pacer_core::funnel::{FunnelStep, Shortfall};
use pacer_core::messages::{CampaignIndex, FromShard, Receipt, RequestCounts, ToShard};
use pacer_core::refusal::SpendRefusal;
use pacer_core::shard::token::{ReservationToken, TokenKey, TokenText, TtlClass};
use pacer_core::shard::{
    Denial, ShardCounts, ShardLedger, ShardOptions, ShardOptionsError, ShardTime,
};
use pacer_core::strategy::{BidPace, DrawKey, decide};
use tracing::{error, warn};
use units::{Cpm, Multiplier, Nanos, Tick};

pub(crate) use commands::{PeerShards, ReservationCommand, ReservationCommands, SettlementRouter};
use counting::FunnelCounting;
pub(crate) use counting::HandoverSlot;

use crate::exchange::shard::ROOM_BYTES_MAX;
use crate::metrics::ExchangeMetrics;
use crate::notices::unix_ms;

/// How often messages are exchanged with the ledger: several times while a slice lasts.
pub(crate) const TURN: Duration = Duration::from_millis(10);

/// How long a shard that ends waits for room to tell the ledger so.
const CLOSE_PATIENCE: Duration = Duration::from_secs(2);

/// Answers of the house whose room is kept.
const ANSWERS_MAX: usize = 64;

/// One shard's end of the ledger's rings.
#[derive(Debug)]
pub struct ShardLedgerPort {
    /// Rights, gates and paces.
    pub from_ledger: rtrb::Consumer<ToShard>,
    /// What became of them.
    pub to_ledger: rtrb::Producer<FromShard>,
    /// What its shard is made with.
    pub options: ShardOptions,
}

/// What all shards of a process have in common.
#[derive(Clone)]
pub struct BudgetContext {
    /// What reservations are sealed with.
    pub key: TokenKey,
    /// By what chance requests are passed by.
    pub draw: DrawKey,
    /// When the ledger's ticks began.
    pub origin: Instant,
    /// Whether the books do not add up: nothing may be reserved any more. Asked each time.
    pub is_halted: Arc<dyn Fn() -> bool + Send + Sync>,
    /// The time on the wall that the ledger goes by, in milliseconds since 1970: a clock that was put back
    /// is behind it.
    pub ledger_unix_ms: Arc<dyn Fn() -> u64 + Send + Sync>,
}

/// A shard's money.
pub(crate) struct ShardBudget {
    budget_context: BudgetContext,
    /// By class of time to live, ascending.
    ttls: Vec<Duration>,
    open: RefCell<LedgerEnd>,
    search: RefCell<CampaignSearch>,
    /// Leads to all shards of the process.
    peers: PeerShards,
    /// Asks whether what is billed becomes durable.
    is_durable: IsDurable,
    /// As it was at the last turn: while nothing becomes durable, nothing is authorised.
    was_durable: Cell<bool>,
}

/// Tells whether what is billed becomes durable.
type IsDurable = Box<dyn Fn() -> bool + Send>;

#[derive(Debug)]
struct LedgerEnd {
    shard: ShardLedger,
    from_ledger: rtrb::Consumer<ToShard>,
    to_ledger: rtrb::Producer<FromShard>,
    states: Vec<CampaignState>,
    counting: FunnelCounting,
    /// Campaigns that came to requests since it was told last.
    came: Vec<CampaignIndex>,
    /// Auctions in which the house was asked.
    auctions: u64,
    /// As they were counted last.
    counts: ShardCounts,
    /// What it had taken, once it takes no more.
    receipts: Option<Vec<Receipt>>,
    /// Whether there was no room for rights: that stays so until the next start, and is told once.
    is_short: bool,
}

/// Room in which campaigns of the house are searched, and for what they answer.
#[derive(Debug, Default)]
struct CampaignSearch {
    room: SearchScratch,
    answers: Vec<DirectAnswer>,
}

/// How a campaign of the house bids here.
#[derive(Clone, Copy, Debug)]
struct CampaignState {
    pace: BidPace,
    seen: RequestCounts,
    /// Whether it stands among those that came.
    is_listed: bool,
    /// Whether it has ever come to an impression: seats of DSPs never do.
    is_house: bool,
    /// Where its row was found last.
    place: u32,
    /// In the last auction that let it bid, by number: what all its bids there would cost.
    bidding: (u64, Nanos),
}

impl ShardBudget {
    /// With all the memory that its reservations will ever take.
    ///
    /// # Errors
    /// An option out of its range.
    pub fn new(
        line: ShardLedgerPort,
        budget_context: BudgetContext,
        peers: PeerShards,
        is_durable: IsDurable,
    ) -> Result<Self, ShardOptionsError> {
        let ShardLedgerPort { from_ledger, to_ledger, options } = line;
        let shard = ShardLedger::new(&options)?;
        let open = LedgerEnd {
            shard,
            from_ledger,
            to_ledger,
            states: Vec::new(),
            counting: FunnelCounting::new(HandoverSlot::new()),
            came: Vec::new(),
            auctions: 0,
            counts: ShardCounts::default(),
            receipts: None,
            is_short: false,
        };
        let was_durable = Cell::new(true);
        let (open, search) = (RefCell::new(open), RefCell::default());
        Ok(Self {
            budget_context,
            ttls: options.ttls,
            open,
            search,
            peers,
            is_durable,
            was_durable,
        })
    }

    /// What is counted goes there.
    pub fn counting_to(self, handovers: HandoverSlot) -> Self {
        self.open.borrow_mut().counting = FunnelCounting::new(handovers);
        self
    }

    /// What campaigns of the house answer.
    pub fn bid(
        &self,
        catalogue: &Catalogue,
        asked: (&Auction<'_>, &BidderCall, &campaigns::BiddingLimits),
    ) -> DirectAnswer {
        let CampaignSearch { room, answers } = &mut *self.search.borrow_mut();
        let mut answer = answers.pop().unwrap_or_default();
        let (auction, ask, _) = asked;
        let is_test = auction.request.is_test();
        let mut deciding = AuctionPacing::new(self, (auction.id, is_test));
        catalogue.bid(asked, &mut deciding, room, &mut answer);
        if !is_test {
            let open = &mut *self.open.borrow_mut();
            open.counting.offer(ask.imps.count_ones());
            answer.bids.iter().for_each(|bid| open.count(bid.slot, FunnelStep::Bid));
        }
        answer
    }

    /// Counts what became of a bid.
    pub fn count(&self, slot: CampaignIndex, step: FunnelStep) {
        self.open.borrow_mut().count(slot, step);
    }

    /// Copies a request's body if it is time for one: campaigns that match nothing are tried on it.
    pub fn copy(&self, body: &[u8]) {
        self.open.borrow_mut().counting.copy(body);
    }

    /// Keeps the room of an answer for another, unless it was extravagant.
    pub fn keep(&self, answer: DirectAnswer) {
        let answers = &mut self.search.borrow_mut().answers;
        if answers.len() < ANSWERS_MAX && answer.body.capacity() <= ROOM_BYTES_MAX {
            answers.push(answer);
        }
    }

    /// Reserves `amount` for a win that may be billed for so long; longer than any reservation lasts,
    /// and it is billed late.
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
        let ttl = self.class_of(billable_s);
        let reserved = self.open.borrow_mut().shard.reserve(slot, amount, ttl, self.now());
        reserved.map_err(Denial::refusal)
    }

    /// The shortest time to live that is long enough, or else the longest.
    fn class_of(&self, billable_s: u32) -> TtlClass {
        let wanted = Duration::from_secs(billable_s.into());
        let class = self.ttls.partition_point(|ttl| *ttl < wanted).min(self.ttls.len() - 1);
        TtlClass(u8::try_from(class).expect("classes are few"))
    }

    /// A reservation as it rides in a beacon.
    pub fn seal(&self, token: &ReservationToken) -> TokenText {
        self.budget_context.key.seal(token)
    }

    /// What was reserved here is not needed.
    pub fn give_back(&self, token: &ReservationToken) {
        self.command(ReservationCommand::Release(*token));
    }

    /// What was reserved, here or at another shard, was lost elsewhere. Unless it is called the reservation
    /// expires.
    pub fn release(&self, reservation: &Reservation) {
        let Some(token) = self.peers.open(reservation) else { return };
        // What concerns nobody is counted here.
        if token.origin() == self.open.borrow().shard.origin() || !self.peers.release(token) {
            self.command(ReservationCommand::Release(token));
        }
    }

    /// Does what concerns this shard.
    pub fn command(&self, command: ReservationCommand) {
        let open = &mut *self.open.borrow_mut();
        let now = self.now().tick;
        match command {
            ReservationCommand::Settle(token) => {
                // A rejected one is counted there; the ledger knows it by the log.
                if let Ok(claim) = open.shard.claim(&token, now) {
                    open.shard.settle(claim, token.amount());
                    open.bill(token.slot(), token.amount());
                }
            }
            ReservationCommand::Release(token) => {
                let _rejected = open.shard.release(&token, now);
            }
        }
    }

    /// Takes what the ledger tells, and tells it what has become of its rights. To be called every
    /// [`TURN`].
    pub fn turn(&self, metrics: &ExchangeMetrics) {
        let now = self.now();
        self.was_durable.set((self.is_durable)());
        let open = &mut *self.open.borrow_mut();
        while open.receipts.is_none() {
            let Ok(message) = open.from_ledger.pop() else { break };
            open.take(message);
        }
        open.shard.advance(now.tick);
        open.tell();
        open.counting.turn(now.tick, &metrics.budget);
        let counts = *open.shard.counts();
        let strand = counts.untaken > open.counts.untaken;
        if strand && !std::mem::replace(&mut open.is_short, true) {
            error!("rights strand at a shard without room: raise budgets.campaigns_max");
        }
        metrics.budget.add(&open.counts, &counts);
        open.counts = counts;
    }

    /// Gives back all that no reservation holds, once the shard's auctions have ended, and tells the ledger
    /// what is left: nothing is reserved any more. Where there is no room for it in time, what was not told
    /// stays frozen for the reservations' time, as after a crash.
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
        let open = &mut *self.open.borrow_mut();
        if open.receipts.is_none() {
            // What comes later is not taken.
            while let Ok(message) = open.from_ledger.pop() {
                open.take(message);
            }
            open.receipts = Some(open.shard.close(now));
        }
        // A receipt says what was taken, and no report comes behind it.
        let is_told = open.tell() && open.tell_receipts();
        // A ledger that has ended hears nothing more.
        is_told || open.to_ledger.is_abandoned()
    }

    fn now(&self) -> ShardTime {
        let unix_ms = unix_ms().max((self.budget_context.ledger_unix_ms)());
        let quarter = u32::try_from(unix_ms / QUARTER_MS).expect("quarters fit until 124,000");
        ShardTime { tick: Tick::ZERO.after(self.budget_context.origin.elapsed()), quarter }
    }
}

impl fmt::Debug for ShardBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShardBudget").field("open", &self.open).finish_non_exhaustive()
    }
}

impl LedgerEnd {
    fn take(&mut self, message: ToShard) {
        match message {
            // What is not taken is counted, and strands.
            ToShard::Grant(grant) => drop(self.shard.take(&grant)),
            ToShard::Gate(gate) => drop(self.shard.take_gate(&gate)),
            ToShard::Pace(slot, pace) => self.state(slot).pace = pace,
        }
    }

    fn state(&mut self, slot: CampaignIndex) -> &mut CampaignState {
        let index = usize::try_from(slot.0).expect("an index has 32 bits");
        if self.states.len() <= index {
            let state = CampaignState {
                pace: BidPace::FULL,
                seen: RequestCounts::default(),
                is_listed: false,
                is_house: false,
                place: 0,
                bidding: (0, Nanos::new(0)),
            };
            self.states.resize(index + 1, state);
        }
        &mut self.states[index]
    }

    fn count(&mut self, slot: CampaignIndex, step: FunnelStep) {
        let mut place = self.state(slot).place;
        self.counting.count((slot, &mut place), step);
        self.state(slot).place = place;
    }

    fn fall_short(&mut self, slot: CampaignIndex, shortfall: impl FnOnce() -> Shortfall) {
        let mut place = self.state(slot).place;
        self.counting.fall_short((slot, &mut place), shortfall);
        self.state(slot).place = place;
    }

    /// Counts what a campaign was billed; a seat of a DSP has no funnel.
    fn bill(&mut self, slot: CampaignIndex, price: Nanos) {
        let CampaignState { mut place, is_house, .. } = *self.state(slot);
        if is_house {
            self.counting.bill((slot, &mut place), price);
            self.state(slot).place = place;
        }
    }

    /// Counts an impression that a campaign matched, and why it is not bid for, if so.
    fn matched(&mut self, slot: CampaignIndex, decided: Result<(), SpendRefusal>) {
        self.state(slot).is_house = true;
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

    /// As much as the ring has room for; the rest stays to be told. Whether all was told.
    fn tell(&mut self) -> bool {
        while self.to_ledger.slots() > 0 {
            let report = self.shard.report().next().map(FromShard::Report);
            let message = report.or_else(|| self.shard.want().next().map(FromShard::Want));
            let Some(message) = message.or_else(|| self.seen()) else { return true };
            self.to_ledger.push(message).expect("there is room");
        }
        false
    }

    /// The last that it tells; whether all of it is told.
    fn tell_receipts(&mut self) -> bool {
        let Some(receipts) = &mut self.receipts else { return false };
        while self.to_ledger.slots() > 0 {
            let receipt = receipts.pop().map(FromShard::Receipt);
            let is_last = receipt.is_none();
            let message = receipt.unwrap_or(FromShard::Closed);
            self.to_ledger.push(message).expect("there is room");
            if is_last {
                return true;
            }
        }
        false
    }

    fn seen(&mut self) -> Option<FromShard> {
        let slot = self.came.pop()?;
        let state = self.state(slot);
        state.is_listed = false;
        Some(FromShard::Seen(slot, state.seen))
    }
}

/// Decides for the house's campaigns in one auction.
pub(crate) struct AuctionPacing<'p> {
    budget: &'p ShardBudget,
    /// By which requests are told apart: the auction's id.
    id: &'p str,
    /// A test moves no pace.
    is_test: bool,
    /// The auction, among those of the shard.
    number: u64,
    at: ShardTime,
}

impl<'p> AuctionPacing<'p> {
    pub fn new(budget: &'p ShardBudget, (id, is_test): (&'p str, bool)) -> Self {
        let mut open = budget.open.borrow_mut();
        open.auctions += 1;
        Self { budget, id, is_test, number: open.auctions, at: budget.now() }
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
        let open = &mut *self.budget.open.borrow_mut();
        let state = *open.state(slot);
        // Most strategies look at all requests, and need no draw.
        let draw = if state.pace.threshold() == u64::MAX {
            0
        } else {
            self.budget.budget_context.draw.draw(self.id.as_bytes(), slot.0.into())
        };
        let paced = decide(state.pace, price.amount(), draw);
        let decided = paced.map(|paced| match price {
            CampaignPrice::Value(_) => paced,
            CampaignPrice::Fixed(own) => own,
        });
        // Who has no money for all that it bids in an auction bids no more, and stands in nobody's way.
        let before = if state.bidding.0 == number { state.bidding.1 } else { Nanos::new(0) };
        let cost = |bid: Cpm| {
            let all = bid.cost(shown).and_then(|cost| cost.get().checked_add(before.get()));
            all.map(Nanos::new).ok_or(SpendRefusal::Unknown)
        };
        let decided = decided.and_then(|bid| {
            let all = cost(bid)?;
            let Err(shortage) = open.shard.may_reserve(slot, all, at) else {
                return Ok((bid, all));
            };
            // The last of a budget is bid, unless the price is fixed.
            let left = shortage.left.get().saturating_sub(before.get());
            let last = Cpm::affordable(Nanos::new(left), shown).min(bid);
            let is_lowered = matches!(price, CampaignPrice::Value(_)) && last > Cpm::ZERO;
            if is_lowered { Ok((last, cost(last)?)) } else { Err(shortage.refusal) }
        });
        let state = open.state(slot);
        if let Ok((_, all)) = decided {
            state.bidding = (number, all);
        }
        if !is_test {
            state.seen.requests += 1;
            state.seen.bids += u64::from(decided.is_ok());
            if !std::mem::replace(&mut state.is_listed, true) {
                open.came.push(slot);
            }
            open.matched(slot, decided.map(drop));
        }
        decided.map(|(bid, _)| bid)
    }

    fn fall_short(&mut self, slot: CampaignIndex, shortfall: impl FnOnce() -> Shortfall) {
        if !self.is_test {
            self.budget.open.borrow_mut().fall_short(slot, shortfall);
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
