//! The simulation, or the ledger's own assertions, detect every planted bug.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::simulation::{Chances, ROUGH, simulate};
use crate::ledger::{LedgerBug, plant};

/// Runs within which a bug must show.
const SEEDS: u64 = 12;

/// Passing days, frequent changes, repeated crashes, and everything at once.
const WEATHER: [Chances; 4] = [
    ROUGH,
    Chances { jump: 120, ..ROUGH },
    Chances { edit: 400, crash: 0, ..ROUGH },
    Chances { crash: 40, jump: 0, ..ROUGH },
];

fn is_found(bug: LedgerBug) -> bool {
    plant(Some(bug));
    let is_found = (0..SEEDS).any(|seed| {
        let run = |chances: &Chances| {
            catch_unwind(AssertUnwindSafe(|| drop(simulate(seed, *chances)))).is_err()
        };
        WEATHER.iter().any(run)
    });
    plant(None);
    is_found
}

/// These runs have no folds, wins of forgotten leases, account holdbacks, clean shutdowns, and few
/// epochs shorter than a horizon: other tests, and the simulation of all parts, cover these bugs.
const ELSEWHERE: [LedgerBug; 7] = [
    LedgerBug::FoldEarly,
    LedgerBug::ForgetSums,
    LedgerBug::ForgetStray,
    LedgerBug::IgnoreAccountHoldback,
    LedgerBug::KeepAtClose,
    LedgerBug::ReturnTaken,
    LedgerBug::CountLivesTwice,
];

#[test]
fn every_planted_mistake_is_found() {
    let planted = LedgerBug::ALL.into_iter().filter(|bug| !ELSEWHERE.contains(bug));
    let missed: Vec<_> = planted.filter(|bug| !is_found(*bug)).collect();
    assert!(missed.is_empty(), "not found: {missed:?}");
}

#[test]
fn without_a_mistake_nothing_is_found() {
    for chances in WEATHER {
        for seed in 0..3 {
            simulate(seed, chances);
        }
    }
}
