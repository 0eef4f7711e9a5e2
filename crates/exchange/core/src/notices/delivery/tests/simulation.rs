//! Delivery over the real log, which others write too, on a disk that fails and stops, before DSPs
//! that fail and hang, with books of settlements that are saved now and then: life after life by seed.
//! What must hold is checked at every step; bugs that are planted in delivery are found.

mod books;
mod log;
mod world;

use crate::delivery::bug::plant;
use crate::notices::delivery::bug::DeliveryBug;
use world::World;

const SEEDS: u64 = 200;
/// Some mistakes need a rare turn of events.
const PLANTED_SEEDS: u64 = 1_000;

/// The first seed that finds something wrong.
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
