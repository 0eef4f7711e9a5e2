//! Simulates delivery over the real shared log, with failing disks, failing and hanging DSPs, and a
//! ledger that is saved now and then, life after life by seed. Checks invariants at every step, and
//! finds planted bugs.

mod books;
mod log;
mod world;

use crate::delivery::bug::plant;
use crate::notices::delivery::bug::DeliveryBug;
use world::World;

const SEEDS: u64 = 200;
/// Some bugs need a rare sequence of events.
const PLANTED_SEEDS: u64 = 1_000;

fn search(seeds: u64) -> Option<(u64, String)> {
    (0..seeds).find_map(|seed| World::run(seed).err().map(|problem| (seed, problem)))
}

#[test]
fn what_was_acknowledged_is_delivered_and_nothing_is_sent_too_soon_or_too_often() {
    assert_eq!(search(SEEDS), None);
}

#[test]
fn planted_bugs_are_found() {
    let bugs = [
        DeliveryBug::SendEarly,
        DeliveryBug::AcknowledgeEarly,
        DeliveryBug::ForgetDelivered,
        DeliveryBug::ForgetAtStart,
        DeliveryBug::ForgetOwed,
        DeliveryBug::SkipSettled,
        DeliveryBug::NeverRetry,
        DeliveryBug::UnpinOwed,
        DeliveryBug::ShareNothing,
        DeliveryBug::Unbounded,
        DeliveryBug::ForgetPending,
        DeliveryBug::WaitWhileFailing,
        DeliveryBug::CallAgainFirst,
        DeliveryBug::UnpinOnTheWay,
        DeliveryBug::CheckpointLate,
        DeliveryBug::MisplaceGroup,
        DeliveryBug::SettleMoved,
        DeliveryBug::SettleAwaited,
        DeliveryBug::SettleAgain,
        DeliveryBug::SettleBackward,
        DeliveryBug::SettleEarly,
        DeliveryBug::ReachEarly,
        DeliveryBug::KeepNeededAlone,
        DeliveryBug::ReadNeededAlone,
        DeliveryBug::SkipReplayed,
    ];
    for bug in bugs {
        plant(Some(bug));
        let found = search(PLANTED_SEEDS);
        plant(None);
        assert!(found.is_some(), "{bug:?} went unnoticed in {PLANTED_SEEDS} runs");
    }
}
