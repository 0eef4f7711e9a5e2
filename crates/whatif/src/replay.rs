//! Replays one stream with one strategy and one budget: the strategy's own code, slot by slot.
//!
//! The books work as in an exchange: a bid above the free budget is lowered to it, the price of a
//! win is reserved, and settled at its notice. So nothing is overspent; billed amounts are summed
//! separately to show it. It must not know figures.

use std::collections::VecDeque;

use pacer_core::strategy::{
    AuctionPricing, BidPace, CampaignFlight, DrawKey, ObservedTotals, SlotEnd, SpendTarget,
    StrategySettings, StrategyState, decide, step,
};
use units::{Cpm, Multiplier, Nanos};

use crate::stream::StreamAuction;

/// The draw key of the replay: constant, because nothing here is secret.
const DRAWS: DrawKey = DrawKey::new(*b"vickrey simulate");

/// Inputs of a replay.
#[derive(Clone, Copy, Debug)]
pub struct ReplayOptions<'a> {
    /// The strategy and its gains.
    pub settings: &'a StrategySettings,
    /// The target curve; auctions outside its flight are skipped.
    pub target: &'a SpendTarget,
    /// The total budget.
    pub budget: Nanos,
    /// The price of a win: the price to beat, or the bid.
    pub pricing: AuctionPricing,
    /// Length of a slot in milliseconds, at least 1; shorter towards the end of the flight.
    pub slot_ms: u64,
    /// Delay of win notices in milliseconds; until then the price stays reserved, the win unknown.
    pub notice_delay_ms: u64,
}

/// The result of a replay.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReplayResult {
    /// Auctions within the flight.
    pub auctions: u64,
    /// Bids made.
    pub bids: u64,
    /// Bids that won.
    pub wins: u64,
    /// Cost of the wins, as the seller sums it.
    pub billed_nanos: u128,
    /// Value of the wins.
    pub value_nanos: u128,
    /// When lack of budget first lowered or prevented a bid. None if it never did.
    pub exhausted_ms: Option<u64>,
    /// At the end of every slot; the last one is the end of the flight.
    pub samples: Vec<Sample>,
}

/// The state at the end of a slot.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// Milliseconds since 1970.
    pub time_ms: u64,
    /// Cost of all wins so far, including those without notice.
    pub spent_nanos: u128,
    /// Planned spend by then, on the strategy's own curve; in nanos.
    pub planned_nanos: f64,
    /// The slot's multiplier of values, in units of 2^-32. None if there was no bid.
    pub multiplier: Option<u64>,
}

/// Replays `auctions`, which must be in order of time.
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

    /// Runs the strategy's step on the notices so far.
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
            // The strategy knows and would stop bidding; its bid does not matter.
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
            // A loss is known at once, so its reservation would end at once.
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

/// Invariant: free, reserved and settled add up to the budget.
struct ReplayBudget {
    budget: u64,
    reserved: u64,
    settled: u64,
    wins: u64,
    /// Due time and reserved price of wins without notice, in order of time.
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

    /// A price of 1000 impressions in micros equals nanos per impression.
    fn win(&mut self, due_ms: u64, price: Cpm) {
        assert!(price.micros() <= self.free(), "a win costs at most what is left");
        self.reserved += price.micros();
        self.notices.push_back((due_ms, price.micros()));
    }

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
