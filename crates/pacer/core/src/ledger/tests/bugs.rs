//! Every planted mistake is found by the simulation, or by the ledger's own assertions.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::simulation::{Chances, ROUGH, simulate};
use crate::ledger::{LedgerBug, plant};

/// Runs that a mistake may get through before it must have shown.
const SEEDS: u64 = 12;

/// Days that pass, definitions that change all the time, crashes in a row, and everything at once.
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

/// In these runs nothing is folded, no win comes to a lease that was forgotten, no account holds back, no
/// process ends well, and few lives are shorter than a horizon: what is wrong with that is found by tests of their own, and by the simulation of all
/// parts.
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
