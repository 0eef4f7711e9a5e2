//! Random bids against a naive owner of lots: whatever the store and the process do, what was
//! promised never exceeds the limit, and every charge is booked once.

use std::collections::BTreeMap;
use std::sync::Arc;

use faults::Chance;
use units::Nanos;

use super::{HoldBench, bid, charged, life};
use crate::ledger::tests::refusals::SLOT;
use crate::ledger::{HoldAnswer, HoldInput, HoldOutcome, HoldPlacement, LedgerInput, LimitSpan};
use crate::messages::RefillRequest;
use crate::store::testing::{MemoryFaults, MemoryStore};
use crate::store::{HoldName, HoldState};

const LIMIT: u64 = 1_000;
const LOTS: u32 = 4;

/// A lot with at most one standing bid and one that waits for its hold.
#[derive(Default)]
struct Lot {
    standing: Option<HoldPlacement>,
    waiting: Option<HoldPlacement>,
    bids: u32,
}

/// The log of the lots: it outlives the process.
#[derive(Default)]
struct Owner {
    lots: BTreeMap<u32, Lot>,
    /// Logged ends that are not acknowledged.
    ends: Vec<(HoldPlacement, HoldState)>,
    charged: u64,
    attempts: u64,
    epoch: u64,
    held: u64,
    refused: u64,
    /// Granted to shards by earlier processes.
    granted: u64,
}

impl Owner {
    fn bid(&mut self, chance: &mut Chance) -> Option<HoldPlacement> {
        let number = u32::try_from(chance.below(u64::from(LOTS))).expect("few");
        let lot = self.lots.entry(number).or_default();
        if lot.waiting.is_some() {
            return None;
        }
        self.attempts += 1;
        let amount = 1 + chance.below(LIMIT / 2);
        let mut placement = bid(lot.bids + 1, amount);
        placement.name.lot = Arc::from(format!("lot-{number}"));
        (placement.attempt.epoch, placement.attempt.counter) = (self.epoch, self.attempts);
        placement.replaces = lot.standing.as_ref().map(|standing| standing.name.bid);
        lot.waiting = Some(placement.clone());
        Some(placement)
    }

    fn lot_of(&mut self, name: &HoldName) -> &mut Lot {
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
        let Some(placement) = lot.waiting.take_if(|waiting| is_it(waiting)) else { return };
        match answer.outcome {
            HoldOutcome::Held if is_logged => {
                lot.bids = placement.name.bid;
                let former = lot.standing.replace(placement);
                self.ends.extend(former.map(|former| (former, HoldState::Released)));
                self.held += 1;
            }
            HoldOutcome::Held => self.ends.push((placement, HoldState::Released)),
            _ => self.refused += 1,
        }
    }

    fn close(&mut self, chance: &mut Chance) {
        let number = u32::try_from(chance.below(u64::from(LOTS))).expect("few");
        let lot = self.lots.entry(number).or_default();
        if lot.waiting.is_some() {
            return;
        }
        let Some(standing) = lot.standing.take() else { return };
        let cost = chance.below(standing.amount.get() / 8 + 1);
        self.charged += cost;
        self.ends.push((standing, charged(cost)));
    }

    /// What was promised: standing bids, charges, and what shards have.
    fn promised(&self, bench: &HoldBench) -> u64 {
        let standing = self.lots.values().filter_map(|lot| lot.standing.as_ref());
        let standing: u64 = standing.map(|bid| bid.amount.get()).sum();
        standing + self.charged + self.granted + bench.granted_by_period()
    }

    fn replay(&mut self, bench: &mut HoldBench) {
        self.epoch += 1;
        bench.step([LedgerInput::Replayed]);
        for lot in self.lots.values_mut() {
            lot.waiting = None;
            if let Some(standing) = &lot.standing {
                bench.tell(HoldInput::Standing(standing.clone()));
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
    fn granted_by_period(&self) -> u64 {
        let mut periods = BTreeMap::new();
        for grant in &self.grants {
            let most = periods.entry(grant.period).or_insert(0);
            *most = grant.granted.get().max(*most);
        }
        periods.values().sum()
    }
}

fn run(seed: u64) -> Owner {
    let mut chance = Chance::new(seed);
    let mut owner = Owner::default();
    let mut bench = HoldBench::unready(life(LIMIT), MemoryStore::new(seed));
    owner.replay(&mut bench);
    let faults = MemoryFaults { late_polls_max: 2, refused_once_in: 9, unknown_once_in: 9 };
    bench.store.set_faults(faults);
    for _ in 0..400 {
        match chance.below(20) {
            0..6 => {
                if let Some(placement) = owner.bid(&mut chance) {
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
                owner.granted += bench.granted_by_period();
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
        let promised = owner.promised(&bench);
        assert!(promised <= LIMIT, "seed {seed}: {promised} of {LIMIT} are promised");
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
    let standing: u64 = standing.map(|bid| bid.amount.get()).sum();
    assert_eq!(bench.held(), standing, "seed {seed}");
    owner.granted += bench.granted_by_period();
    let spent = |bench: &HoldBench| bench.spent(LimitSpan::Life);
    assert_eq!(spent(&bench), owner.charged, "seed {seed}");
    assert_eq!(spent(&bench.restarted()), owner.charged, "seed {seed}");
    owner
}

#[test]
fn what_is_promised_never_exceeds_the_limit_and_each_charge_counts_once() {
    let (mut held, mut refused, mut granted) = (0, 0, 0);
    for seed in 0..150 {
        let owner = run(seed);
        (held, refused, granted) =
            (held + owner.held, refused + owner.refused, granted + owner.granted);
    }
    assert!(held > 1_000 && refused > 1_000 && granted > 1_000, "{held}, {refused}, {granted}");
}
