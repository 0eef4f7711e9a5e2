//! Budgets under faults, over many seeds, and the proof that the observer's assertions can fail.
//!
//! `SIM_SEEDS` sets the number of seeds.

use pacer_core::{ledger, shard};
use sim::budgets::{BudgetBug, BudgetScenario, command, run};

/// Seeds if `SIM_SEEDS` is not set.
const SEEDS: u64 = 48;

/// Seeds within which a planted bug must be caught. All of them pass without a bug.
const BUG_SEEDS: u64 = 192;

fn seeds() -> u64 {
    std::env::var("SIM_SEEDS").ok().map_or(SEEDS, |seeds| seeds.parse().unwrap())
}

#[test]
fn never_beyond_a_limit_and_the_books_are_exact() {
    let (mut reserved, mut won) = (0, 0);
    for seed in 0..seeds().max(BUG_SEEDS) {
        let options = BudgetScenario::of(seed);
        let outcome = run(&options, None, false);
        if let Some(problem) = outcome.problem {
            panic!("seed {seed:#x}: {problem}\n{options:?}\n{}", command(seed));
        }
        reserved += outcome.reserved;
        won += outcome.won;
    }
    assert!(reserved > 1_000 * seeds() && won > reserved / 2, "{won} of {reserved} won");
}

/// Some seed catches each bug.
#[track_caller]
fn check(mistakes: &[BudgetBug]) {
    let is_found = |bug: BudgetBug| {
        let problem = |seed| run(&BudgetScenario::of(seed), Some(bug), false).problem;
        (0..BUG_SEEDS).any(|seed| problem(seed).is_some())
    };
    let missed: Vec<_> = mistakes.iter().copied().filter(|bug| !is_found(*bug)).collect();
    assert!(missed.is_empty(), "not found: {missed:?}");
}

#[test]
fn every_mistake_of_a_shard_is_found() {
    use shard::bug::ShardBug as Of;
    // The shard's own tests catch the others. Ordered rings never deliver an outdated gate, a
    // repeated grant for a forgotten hour, or a grant for a future hour.
    check(
        &[
            Of::SettleTwice,
            Of::LoseRemainder,
            Of::WrongPeriod,
            Of::ReuseSequence,
            Of::ExpireTwice,
            Of::SettleLateAsOpen,
            Of::KeepAfterPeriod,
            Of::ReserveAfterPeriod,
            Of::AddGrant,
            Of::IgnoreRecall,
            Of::ExpireClaimed,
            Of::StrandUnclaimed,
            Of::SettleOver,
            Of::ForgetWins,
            Of::ReleaseWon,
            Of::TrustText,
            Of::CloseReserved,
        ]
        .map(BudgetBug::Shard),
    );
}

#[test]
fn every_mistake_of_the_ledger_is_found() {
    check(&ledger::LedgerBug::ALL.map(BudgetBug::Ledger));
}

#[test]
fn the_same_seed_is_the_same_run() {
    for seed in [1, 5, 0xffff_ffff_ffff_ffff] {
        let once = run(&BudgetScenario::of(seed), None, true);
        let again = run(&BudgetScenario::of(seed), None, true);
        assert_eq!(once, again, "seed {seed:#x}");
        let unread = run(&BudgetScenario::of(seed), None, false);
        assert_eq!((unread.hash, unread.lines.len()), (once.hash, 0));
    }
    let hashes: std::collections::BTreeSet<u64> =
        (0..8).map(|seed| run(&BudgetScenario::of(seed), None, false).hash).collect();
    assert_eq!(hashes.len(), 8, "other seeds are other runs");
}
