//! Any order of commands, delays, refusals, pauses and crashes.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::world::*;
use crate::floor::*;
use crate::lots::*;
use crate::ports::*;

const LOTS: [&str; 2] = ["a", "b"];
const BIDDERS: [&str; 3] = ["ann", "bob", "cat"];

#[derive(Clone, Debug)]
enum Step {
    Bid {
        lot: usize,
        bidder: usize,
        maximum: u64,
        key: u32,
    },
    Close(usize),
    Cancel(usize),
    Show(usize),
    /// So many messages reach the ledger.
    Ledger(usize),
    /// So many of its replies arrive.
    Replies(usize),
    /// So many records become durable.
    Sync(usize),
    Pause(bool),
    Full(bool),
    Wait(u64),
    /// So many records survive that are not durable.
    Crash(usize),
}

fn some_step() -> impl Strategy<Value = Step> {
    let bid = (0..2_usize, 0..3_usize, 90_u64..400, 0..40_u32)
        .prop_map(|(lot, bidder, maximum, key)| Step::Bid { lot, bidder, maximum, key });
    prop_oneof![
        30 => bid,
        1 => (0..2_usize).prop_map(Step::Close),
        1 => (0..2_usize).prop_map(Step::Cancel),
        2 => (0..2_usize).prop_map(Step::Show),
        20 => (1..4_usize).prop_map(Step::Ledger),
        20 => (1..4_usize).prop_map(Step::Replies),
        20 => (1..4_usize).prop_map(Step::Sync),
        2 => any::<bool>().prop_map(Step::Pause),
        2 => any::<bool>().prop_map(Step::Full),
        6 => (0..40_u64).prop_map(Step::Wait),
        2 => (0..4_usize).prop_map(Step::Crash),
    ]
}

struct Run {
    floor: LotFloor<u32>,
    world: World,
    now_ms: u64,
    epoch: u64,
    /// Tickets of this process.
    asked: Vec<u32>,
    ticket: u32,
}

impl Run {
    fn ask(&mut self, command: FloorCommand) {
        self.ticket += 1;
        self.asked.push(self.ticket);
        self.floor.command(self.now_ms, self.ticket, command, &mut self.world);
    }

    fn take(&mut self, step: &Step) {
        let Self { floor, world, now_ms, .. } = self;
        match *step {
            Step::Bid { lot, bidder, maximum, key } => {
                self.ask(bid(LOTS[lot], BIDDERS[bidder], maximum, key));
            }
            Step::Close(lot) => self.ask(FloorCommand::Lot(id(LOTS[lot]), LotCommand::Close)),
            Step::Cancel(lot) => {
                let reason = "no stock".to_owned();
                self.ask(FloorCommand::Lot(id(LOTS[lot]), LotCommand::Cancel { reason }));
            }
            Step::Show(lot) => self.ask(FloorCommand::Show { lot: id(LOTS[lot]), bidder: None }),
            Step::Ledger(count) => (0..count).for_each(|_| world.ledger.step()),
            Step::Replies(count) => {
                for _ in 0..count {
                    let Some(reply) = world.ledger.outbox.pop_front() else { break };
                    floor.money(*now_ms, reply, world);
                }
            }
            Step::Sync(count) => {
                let through = (world.durable + count).min(world.log.len());
                world.sync(floor, through);
            }
            Step::Pause(is_paused) => world.is_paused = is_paused,
            Step::Full(is_full) => world.ledger.is_full = is_full,
            Step::Wait(ms) => {
                *now_ms += ms;
                floor.tick(*now_ms, world);
            }
            Step::Crash(more) => self.crash(more),
        }
    }

    fn crash(&mut self, more: usize) {
        let Self { floor, world, epoch, now_ms, .. } = self;
        world.crash(world.durable + more);
        *epoch += 1;
        *floor = LotFloor::new(SETTINGS, *epoch);
        for (sequence, record) in (1..).zip(&world.log) {
            floor.replay(sequence, record.clone()).expect("the log rebuilds the lots");
        }
        (world.is_paused, world.ledger.is_full) = (false, false);
        floor.begin(*now_ms, world);
        self.asked.clear();
    }

    /// Once nothing is under way, log, ledger, lots and answers agree.
    fn check(&mut self) {
        let Self { floor, world, now_ms, asked, .. } = self;
        world.settle(floor, *now_ms);
        for ticket in asked {
            assert!(world.answers.iter().any(|(of, _)| of == ticket), "{ticket} has no answer");
        }
        assert!(rebuilt(&world.log).lots().eq(floor.lots()), "the log rebuilds the lots");
        let hold = |lot: &Lot, hold: LotHold<'_>| {
            (HoldKey { lot: lot.terms().id.clone(), bid: hold.number }, hold.amount.get())
        };
        let wanted: BTreeMap<_, _> =
            floor.lots().flat_map(|lot| lot.holds().map(|it| hold(lot, it))).collect();
        assert_eq!(world.ledger.standing(), wanted, "money is on hold for bids that stand");
        let cost = |lot: &Lot| match lot.result() {
            Some(LotResult::Sold(sale)) => {
                Some((lot.terms().id.clone(), lot.terms().cost(sale.price)?.get()))
            }
            _ => None,
        };
        let charges: BTreeMap<_, _> = floor.lots().filter_map(cost).collect();
        assert_eq!(world.ledger.charges, charges, "winners have paid once");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn bids_money_and_log_agree_whatever_happens(
        steps in prop::collection::vec(some_step(), 1..120),
        limit in prop_oneof![3 => Just(u64::MAX), 1 => Just(2_000_u64)],
    ) {
        let floor = LotFloor::new(SETTINGS, 1);
        let mut run =
            Run { floor, world: World::new(), now_ms: 1, epoch: 1, asked: Vec::new(), ticket: 0 };
        run.world.ledger.limit = limit;
        run.floor.begin(1, &mut run.world);
        LOTS.into_iter().for_each(|lot| run.ask(FloorCommand::Create(Box::new(terms(lot)))));
        run.world.settle(&mut run.floor, 1);
        for step in steps {
            run.take(&step);
        }
        run.check();
        run.crash(0);
        run.check();
        // The schedule closes what is still open.
        run.now_ms = run.now_ms.max(1000);
        run.check();
        prop_assert!(run.floor.lots().all(|lot| lot.result().is_some()));
    }
}
