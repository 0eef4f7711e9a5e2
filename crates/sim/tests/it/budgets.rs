//! Budgets under faults, over many seeds.
//!
//! `SIM_SEEDS` sets the number of seeds.

use sim::budgets::{BudgetScenario, command, run};

/// Seeds if `SIM_SEEDS` is not set.
const SEEDS: u64 = 192;

fn seeds() -> u64 {
    std::env::var("SIM_SEEDS").ok().map_or(SEEDS, |seeds| seeds.parse().unwrap())
}

#[test]
fn never_beyond_a_limit_and_the_books_are_exact() {
    let (mut reserved, mut won) = (0, 0);
    for seed in 0..seeds() {
        let options = BudgetScenario::of(seed);
        let outcome = run(&options, false);
        if let Some(problem) = outcome.problem {
            panic!("seed {seed:#x}: {problem}\n{options:?}\n{}", command(seed));
        }
        reserved += outcome.reserved;
        won += outcome.won;
    }
    assert!(reserved > 1_000 * seeds() && won > reserved / 2, "{won} of {reserved} won");
}

#[test]
fn the_same_seed_is_the_same_run() {
    for seed in [1, 5, 0xffff_ffff_ffff_ffff] {
        let once = run(&BudgetScenario::of(seed), true);
        let again = run(&BudgetScenario::of(seed), true);
        assert_eq!(once, again, "seed {seed:#x}");
        let unread = run(&BudgetScenario::of(seed), false);
        assert_eq!((unread.hash, unread.lines.len()), (once.hash, 0));
    }
    let hashes: std::collections::BTreeSet<u64> =
        (0..8).map(|seed| run(&BudgetScenario::of(seed), false).hash).collect();
    assert_eq!(hashes.len(), 8, "other seeds are other runs");
}
