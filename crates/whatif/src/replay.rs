//! One strategy spends one budget on one stream: the strategy's own code, slot by slot.
//!
//! Money is kept as an exchange keeps it: a bid that does not fit into what is left is lowered to
//! that, a win's price is reserved, and settled when its notice comes. So nothing is overspent, and what was billed is summed apart to show it. Knows
//! nothing of figures.

use std::collections::VecDeque;

use pacer_core::strategy::{
    AuctionPricing, BidPace, CampaignFlight, DrawKey, ObservedTotals, SlotEnd, SpendTarget,
    StrategySettings, StrategyState, decide, step,
};
use units::{Cpm, Multiplier, Nanos};

use crate::stream::StreamAuction;

/// Draws of the replay are the same in every run: nothing here is to be kept from anyone.
const DRAWS: DrawKey = DrawKey::new(*b"vickrey simulate");

/// How a budget is spent.
#[derive(Clone, Copy, Debug)]
pub struct ReplayOptions<'a> {
    /// The strategy and its gains.
    pub settings: &'a StrategySettings,
    /// The curve that it follows; auctions outside its flight are passed by.
    pub target: &'a SpendTarget,
    /// What may be spent in all.
    pub budget: Nanos,
    /// What a win costs: the price to beat, or the bid.
    pub pricing: AuctionPricing,
    /// How long a slot is, in milliseconds; at least 1. Towards the end of the flight slots are
    /// shorter.
    pub slot_ms: u64,
    /// How long after an auction its notice comes, in milliseconds. Until then the strategy knows
    /// nothing of a win, and its price stays reserved.
    pub notice_delay_ms: u64,
}

/// What became of a budget.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReplayResult {
    /// Auctions within the flight.
    pub auctions: u64,
    /// Bids made.
    pub bids: u64,
    /// Bids that won.
    pub wins: u64,
    /// What wins cost, as who is owed it sums it up.
    pub billed_nanos: u128,
    /// What wins are worth.
    pub value_nanos: u128,
    /// When the first bid was lowered because it did not fit into what was left, or nothing was left for
    /// an auction; `None` if neither ever was.
    pub exhausted_ms: Option<u64>,
    /// At the end of every slot, the last of them at the end of the flight.
    pub samples: Vec<Sample>,
}

/// How things stood when a slot ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// When: milliseconds since 1970.
    pub time_ms: u64,
    /// What all wins so far cost, those included whose notice has not come.
    pub spent_nanos: u128,
    /// What should have been spent by then, by the strategy's own curve; in nanos.
    pub planned_nanos: f64,
    /// What values were multiplied by in the slot, in units of 2^-32; `None` if nothing was bid
    /// for.
    pub multiplier: Option<u64>,
}

/// Replays `auctions`, which are in order of time.
pub fn replay(auctions: &[StreamAuction], options: &ReplayOptions<'_>) -> ReplayResult {
    let CampaignFlight { start_ms, end_ms } = options.target.flight();
    let mut replay = StreamReplay::new(options, start_ms);
    for (number, auction) in (0u64..).zip(auctions) {
        if (start_ms..end_ms).contains(&auction.time_ms) {
            while replay.slot_end_ms <= auction.time_ms {
                replay.end_slot();
            }
            replay.auction(number, auction);
        }
    }
    while replay.slot_start_ms < end_ms {
        replay.end_slot();
    }
    replay.run
}

struct StreamReplay<'a> {
    options: &'a ReplayOptions<'a>,
    state: StrategyState,
    pace: BidPace,
    slot_start_ms: u64,
    slot_end_ms: u64,
    observed: ObservedTotals,
    account: ReplayBudget,
    run: ReplayResult,
}

impl<'a> StreamReplay<'a> {
    fn new(options: &'a ReplayOptions<'a>, start_ms: u64) -> Self {
        let state = StrategyState::start(options.settings);
        let mut replay = Self {
            options,
            state,
            pace: state.pace(options.settings),
            slot_start_ms: start_ms,
            slot_end_ms: start_ms,
            observed: ObservedTotals::default(),
            account: ReplayBudget::new(options.budget),
            run: ReplayResult::default(),
        };
        replay.begin_slot(start_ms);
        replay
    }

    /// The strategy's step, on what has been heard of until now.
    fn begin_slot(&mut self, now_ms: u64) {
        let ReplayOptions { settings, target, budget, slot_ms, .. } = *self.options;
        let next_ms = target
            .slot_end(now_ms, slot_ms)
            .clamp(now_ms + 1, target.flight().end_ms.max(now_ms + 1));
        self.account.hear(now_ms);
        self.observed.wins = self.account.wins;
        self.observed.spent = self.account.settled;
        let slot = SlotEnd { now_ms, next_ms, budget };
        self.state = step(settings, target, self.state, self.observed, slot);
        self.pace = self.state.pace(settings);
        (self.slot_start_ms, self.slot_end_ms) = (now_ms, next_ms);
    }

    fn end_slot(&mut self) {
        let now_ms = self.slot_end_ms;
        let is_bidding = self.pace.threshold() > 0;
        self.run.samples.push(Sample {
            time_ms: now_ms,
            spent_nanos: self.run.billed_nanos,
            planned_nanos: self.state.planned(self.options.target, now_ms),
            multiplier: is_bidding.then(|| self.pace.multiplier()),
        });
        self.begin_slot(now_ms);
    }

    fn auction(&mut self, number: u64, auction: &StreamAuction) {
        self.run.auctions += 1;
        self.observed.requests += 1;
        self.account.hear(auction.time_ms);
        if self.account.free() == 0 {
            // A strategy that knows it bids no more; what it would have bid does not matter.
            self.run.exhausted_ms.get_or_insert(auction.time_ms);
            return;
        }
        let draw = DRAWS.draw(&number.to_le_bytes(), 0);
        let Ok(wanted) = decide(self.pace, auction.value, draw) else { return };
        let bid = wanted.min(Cpm::affordable(Nanos::new(self.account.free()), Multiplier::ONE));
        if bid < wanted {
            self.run.exhausted_ms.get_or_insert(auction.time_ms);
        }
        self.run.bids += 1;
        self.observed.bids += 1;
        if bid < auction.market_price {
            // A loss is known at once: the reservation would end where it begins.
            return;
        }
        let price = match self.options.pricing {
            AuctionPricing::SecondPrice => auction.market_price,
            AuctionPricing::FirstPrice => bid,
        };
        self.run.wins += 1;
        self.run.billed_nanos += u128::from(price.micros());
        self.run.value_nanos += u128::from(auction.value.micros());
        let due_ms = auction.time_ms.saturating_add(self.options.notice_delay_ms);
        self.account.win(due_ms, price);
    }
}

/// A budget's books: what is free, reserved and settled are the budget, always.
struct ReplayBudget {
    budget: u64,
    reserved: u64,
    settled: u64,
    wins: u64,
    /// Wins whose notice is to come: when, and what is reserved. In order of time.
    notices: VecDeque<(u64, u64)>,
}

impl ReplayBudget {
    fn new(budget: Nanos) -> Self {
        Self { budget: budget.get(), reserved: 0, settled: 0, wins: 0, notices: VecDeque::new() }
    }

    fn free(&self) -> u64 {
        let used = self.reserved.checked_add(self.settled).expect("both are within the budget");
        self.budget.checked_sub(used).expect("nothing is reserved beyond the budget")
    }

    /// A price of 1000 impressions in micros is what one costs in nanos.
    fn win(&mut self, due_ms: u64, price: Cpm) {
        assert!(price.micros() <= self.free(), "a win costs at most what is left");
        self.reserved += price.micros();
        self.notices.push_back((due_ms, price.micros()));
    }

    /// Settles what is notified by `now_ms`.
    fn hear(&mut self, now_ms: u64) {
        while let Some(&(due_ms, price)) = self.notices.front() {
            if due_ms > now_ms {
                break;
            }
            self.notices.pop_front();
            self.reserved -= price;
            self.settled += price;
            self.wins += 1;
        }
    }
}

#[cfg(test)]
mod tests;
