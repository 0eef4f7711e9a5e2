//! Random bids against a naive owner of lots: whatever the store and the process do, what was
//! promised never exceeds the limit, and every charge is booked once.

use std::collections::BTreeMap;
use std::sync::Arc;

use faults::Chance;
use units::Nanos;

use super::{HoldBench, bid, charged};
use crate::calendar::{CalendarHour, Period};
use crate::ledger::tests::refusals::{SLOT, account, usd};
use crate::ledger::{
    AccountId, AccountTerms, BudgetLimits, HoldAnswer, HoldInput, HoldOutcome, HoldPlacement,
    LedgerInput, LimitSpan,
};
use crate::messages::RefillRequest;
use crate::store::testing::{MemoryFaults, MemoryStore};
use crate::store::{HoldName, HoldState};

const LIFE: u64 = 1_000;
const DAY: u64 = 700;
const HOUR: u64 = 500;
const LOTS: u32 = 4;

/// A bid, and the hour in which the ledger decided about it.
#[derive(Clone)]
struct ModelBid {
    placement: HoldPlacement,
    hour: CalendarHour,
}

/// A lot with at most one standing bid and one that waits for its hold.
#[derive(Default)]
struct ModelLot {
    standing: Option<ModelBid>,
    waiting: Option<ModelBid>,
    bids: u32,
}

/// The log of the lots: it outlives the process.
#[derive(Default)]
struct LotOwner {
    lots: BTreeMap<u32, ModelLot>,
    /// Logged ends that are not acknowledged.
    ends: Vec<(HoldPlacement, HoldState)>,
    charges: Vec<(CalendarHour, u64)>,
    attempts: u64,
    epoch: u64,
    held: u64,
    refused: u64,
    /// Granted to shards by earlier processes.
    granted: BTreeMap<Period, u64>,
    /// Days of the hours so far.
    days: BTreeMap<Period, u32>,
}

impl LotOwner {
    fn bid(&mut self, hour: CalendarHour, chance: &mut Chance) -> Option<HoldPlacement> {
        let number = u32::try_from(chance.below(u64::from(LOTS))).expect("few");
        let lot = self.lots.entry(number).or_default();
        if lot.waiting.is_some() {
            return None;
        }
        self.attempts += 1;
        let amount = 1 + chance.below(HOUR / 2);
        let mut placement = bid(lot.bids + 1, amount);
        placement.name.lot = Arc::from(format!("lot-{number}"));
        (placement.attempt.epoch, placement.attempt.counter) = (self.epoch, self.attempts);
        placement.replaces = lot.standing.as_ref().map(|standing| standing.placement.name.bid);
        lot.waiting = Some(ModelBid { placement: placement.clone(), hour });
        Some(placement)
    }

    fn lot_of(&mut self, name: &HoldName) -> &mut ModelLot {
        let mut lots = self.lots.iter_mut();
        let found = lots.find(|(number, _)| *name.lot == format!("lot-{number}"));
        found.expect("it is known").1
    }

    fn hear(&mut self, answer: &HoldAnswer, chance: &mut Chance) {
        let is_it = |it: &HoldPlacement| (&it.name, it.attempt) == (&answer.name, answer.attempt);
        if answer.outcome == HoldOutcome::Ended {
            return self.ends.retain(|(placement, _)| !is_it(placement));
        }
        let is_logged = answer.outcome == HoldOutcome::Held && !chance.once_in(5);
        let lot = self.lot_of(&answer.name);
        let Some(bid) = lot.waiting.take_if(|bid| is_it(&bid.placement)) else { return };
        match answer.outcome {
            HoldOutcome::Held if is_logged => {
                lot.bids = bid.placement.name.bid;
                let former = lot.standing.replace(bid);
                let released = |former: ModelBid| (former.placement, HoldState::Released);
                self.ends.extend(former.map(released));
                self.held += 1;
            }
            HoldOutcome::Held => self.ends.push((bid.placement, HoldState::Released)),
            _ => self.refused += 1,
        }
    }

    fn close(&mut self, chance: &mut Chance) {
        let number = u32::try_from(chance.below(u64::from(LOTS))).expect("few");
        let lot = self.lots.entry(number).or_default();
        if lot.waiting.is_some() {
            return;
        }
        let Some(ModelBid { placement, hour }) = lot.standing.take() else { return };
        let cost = chance.below(placement.amount.get() / 8 + 1);
        self.charges.push((hour, cost));
        self.ends.push((placement, charged(cost)));
    }

    /// What was promised in some hours: standing bids, charges, and what shards have.
    fn promised(&self, bench: &HoldBench, is_in: impl Fn(Period, u32) -> bool) -> u64 {
        let standing = self.lots.values().filter_map(|lot| lot.standing.as_ref());
        let standing = standing.map(|bid| (bid.hour, bid.placement.amount.get()));
        let decided = standing.chain(self.charges.iter().copied());
        let decided: u64 =
            decided.filter(|(hour, _)| is_in(hour.period, hour.day)).map(|(_, sum)| sum).sum();
        let granted = self.granted.iter().map(|(period, sum)| (*period, *sum));
        let granted = granted.chain(bench.granted_by_period());
        // An hour that has not begun counts in total only.
        let day = |period| self.days.get(&period).copied().unwrap_or(u32::MAX);
        let granted: u64 =
            granted.filter(|(period, _)| is_in(*period, day(*period))).map(|(_, sum)| sum).sum();
        decided + granted
    }

    fn check(&mut self, bench: &HoldBench, seed: u64) {
        let hour = bench.hour();
        self.days.insert(hour.period, hour.day);
        let life = self.promised(bench, |_, _| true);
        let day = self.promised(bench, |_, day| day == hour.day);
        let now = self.promised(bench, |period, _| period == hour.period);
        let is_within = life <= LIFE && day <= DAY && now <= HOUR;
        assert!(is_within, "seed {seed}: {life}, {day} and {now} are promised");
    }

    fn process_ends(&mut self, bench: &HoldBench) {
        for (period, sum) in bench.granted_by_period() {
            *self.granted.entry(period).or_default() += sum;
        }
    }

    fn charged(&self) -> u64 {
        self.charges.iter().map(|(_, cost)| cost).sum()
    }

    fn replay(&mut self, bench: &mut HoldBench) {
        self.epoch += 1;
        bench.step([LedgerInput::Replayed]);
        for lot in self.lots.values_mut() {
            lot.waiting = None;
            if let Some(standing) = &lot.standing {
                bench.tell(HoldInput::Standing(standing.placement.clone()));
            }
        }
        self.end(bench);
        bench.tell(HoldInput::Replayed);
    }

    fn end(&self, bench: &mut HoldBench) {
        for (HoldPlacement { name, attempt, .. }, end) in self.ends.clone() {
            bench.tell(HoldInput::End { name, attempt, end });
        }
    }
}

impl HoldBench {
    fn granted_by_period(&self) -> BTreeMap<Period, u64> {
        let mut periods = BTreeMap::new();
        for grant in &self.grants {
            let most = periods.entry(grant.period).or_insert(0);
            *most = grant.granted.get().max(*most);
        }
        periods
    }

    fn hour(&self) -> CalendarHour {
        self.ledger.why_account(AccountId(0)).hour.expect("the calendar goes on")
    }
}

fn run(seed: u64) -> LotOwner {
    let mut chance = Chance::new(seed);
    let mut owner = LotOwner::default();
    let limits = BudgetLimits { life: usd(LIFE), day: usd(DAY), hour: usd(HOUR) };
    let terms = AccountTerms { limits, ..account() };
    let mut bench = HoldBench::unready(terms, MemoryStore::new(seed));
    owner.replay(&mut bench);
    let faults = MemoryFaults { late_polls_max: 2, refused_once_in: 9, unknown_once_in: 9 };
    bench.store.set_faults(faults);
    for _ in 0..400 {
        match chance.below(20) {
            0..6 => {
                if let Some(placement) = owner.bid(bench.hour(), &mut chance) {
                    bench.tell(HoldInput::Place(placement));
                }
            }
            6..8 => owner.close(&mut chance),
            8 => owner.end(&mut bench),
            9 => {
                let amount = Nanos::new(1 + chance.below(20));
                let want = RefillRequest { slot: SLOT, amount, refused: amount };
                bench.step([LedgerInput::Refill(0, want)]);
            }
            10 if chance.once_in(4) => {
                owner.process_ends(&bench);
                bench = bench.restarted();
                owner.replay(&mut bench);
                bench.store.set_faults(faults);
            }
            11 => bench.now.unix_ms += chance.below(3 * 60 * 60 * 1000),
            12..15 => bench.pass(1),
            _ => bench.commit(),
        }
        for answer in std::mem::take(&mut bench.answers) {
            owner.hear(&answer, &mut chance);
        }
        owner.check(&bench, seed);
    }
    bench.store.set_faults(MemoryFaults::default());
    for _ in 0..3 {
        owner.end(&mut bench);
        bench.pass(3);
        for answer in std::mem::take(&mut bench.answers) {
            owner.hear(&answer, &mut chance);
        }
    }
    let standing = owner.lots.values().flat_map(|lot| lot.standing.iter().chain(&lot.waiting));
    let standing: u64 = standing.map(|bid| bid.placement.amount.get()).sum();
    assert_eq!(bench.held(), standing, "seed {seed}");
    owner.process_ends(&bench);
    let spent = |bench: &HoldBench| bench.spent(LimitSpan::Life);
    assert_eq!(spent(&bench), owner.charged(), "seed {seed}");
    assert_eq!(spent(&bench.restarted()), owner.charged(), "seed {seed}");
    owner
}

#[test]
fn what_is_promised_never_exceeds_the_limit_and_each_charge_counts_once() {
    let (mut held, mut refused, mut granted) = (0, 0, 0);
    for seed in 0..150 {
        let owner = run(seed);
        (held, refused, granted) = (
            held + owner.held,
            refused + owner.refused,
            granted + owner.granted.values().sum::<u64>(),
        );
    }
    assert!(held > 1_000 && refused > 1_000 && granted > 1_000, "{held}, {refused}, {granted}");
}
