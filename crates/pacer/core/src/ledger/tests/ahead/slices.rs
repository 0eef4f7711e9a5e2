//! The size of grants to shards with rare bursts of bids.

use super::{NOON, Pacer, terms};
use crate::calendar::tests::steady;
use crate::ledger::BudgetLimits;
use crate::ledger::tests::refusals::{SLOT, usd};

const DAY: u32 = crate::ledger::tests::refusals::DAY;
const PRICE: u64 = super::PRICE.get();

fn pacer(hour: u64) -> Pacer {
    let limits = BudgetLimits { hour: usd(hour), ..BudgetLimits::default() };
    Pacer::before(NOON + 3_600_000, 3_000, steady(DAY - 2, 9, 0), terms(limits))
}

/// Three bids at once every ten seconds, alternating between the shards. Returns the refused ones.
fn refused_of_bursts(pacer: &mut Pacer, bursts: usize) -> usize {
    let mut refused = 0;
    for burst in 0..bursts {
        refused += (0..3).filter(|_| !pacer.bid(burst % 2)).count();
        pacer.pass(10_000, &[]);
    }
    refused
}

#[test]
fn bids_in_bursts_at_a_low_rate_find_money() {
    let mut pacer = pacer(1_000_000);
    let refused = refused_of_bursts(&mut pacer, 60);
    // Each shard's first burst, and those before its average is known.
    assert!(refused <= 12, "{refused} of 180 bids were refused");
    // No shard has more than a few reservations.
    let held = pacer.desk.ledger.why(SLOT).at_shards.get();
    assert!(held <= 2 * 16 * PRICE, "{held}");
}

/// A slice is a part of the remainder, and one shard gets the last.
#[test]
fn a_small_budget_is_spent_to_its_last_reservation() {
    for bids in [1, 2, 3, 5, 8, 13, 21, 34, 55] {
        let mut pacer = pacer(bids * PRICE);
        let won = (0..80).map(|burst| {
            let won = (0..3).filter(|_| pacer.bid(burst % 2)).count();
            pacer.pass(10_000, &[]);
            won
        });
        assert_eq!(won.sum::<usize>() as u64, bids, "of {bids}");
    }
}
