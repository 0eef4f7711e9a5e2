//! Messages that wait for room: their order, and what replaces them.

use pacer_core::messages::{BudgetGrant, Epoch, SpendingGate};
use pacer_core::strategy::BidPace;
use units::{Nanos, Tick};

use super::*;

fn grant(slot: u32, period: u32, nanos: u64) -> ToShard {
    let (slot, period) = (CampaignIndex(slot), Period(period));
    let until = Tick::from_nanos(1);
    ToShard::Grant(BudgetGrant { slot, period, granted: Nanos::new(nanos), until })
}

fn gate(slot: u32, version: u64) -> ToShard {
    ToShard::Gate(SpendingGate {
        slot: CampaignIndex(slot),
        version,
        closed: None,
        is_recalled: false,
    })
}

fn taken(rings: &mut ShardRings) -> Vec<ToShard> {
    std::iter::from_fn(|| rings.from_ledger.pop().ok()).collect()
}

#[test]
fn what_finds_no_room_waits_in_order_and_the_latest_stands_for_those_before() {
    let origin = TokenOrigin { node: 1, epoch: Epoch(1), shard: 0 };
    let (mut own, mut rings) = LedgerRings::new(origin, HaltFlag::default(), 2);
    [gate(0, 1), grant(0, 7, 1)].into_iter().for_each(|message| own.send(message));
    let late = [grant(1, 7, 5), gate(1, 1), grant(1, 7, 9), gate(1, 4), grant(1, 8, 2)];
    late.into_iter().for_each(|message| own.send(message));
    own.send(ToShard::Pace(CampaignIndex(1), BidPace::NONE));
    own.send(ToShard::Pace(CampaignIndex(1), BidPace::FULL));
    assert_eq!(own.waiting(), 4);
    own.flush();
    assert_eq!(taken(&mut rings), [gate(0, 1), grant(0, 7, 1)], "the ring was full");
    own.flush();
    // A later message does not overtake waiting ones, even if there is room.
    assert_eq!(taken(&mut rings), [grant(1, 7, 9), gate(1, 4)]);
    own.send(grant(2, 7, 1));
    assert_eq!(taken(&mut rings), []);
    own.flush();
    assert_eq!(taken(&mut rings), [grant(1, 8, 2), ToShard::Pace(CampaignIndex(1), BidPace::FULL)]);
    own.flush();
    assert_eq!(taken(&mut rings), [grant(2, 7, 1)]);
    assert_eq!(own.waiting(), 0);
}

#[test]
fn the_room_for_those_that_waited_is_given_back() {
    let origin = TokenOrigin { node: 1, epoch: Epoch(1), shard: 0 };
    let (mut own, mut rings) = LedgerRings::new(origin, HaltFlag::default(), 2);
    let many = 4 * u32::try_from(RING_MESSAGES_MAX).unwrap();
    (0..many).for_each(|slot| own.send(gate(slot, 1)));
    while own.waiting() > 0 {
        drop(taken(&mut rings));
        own.flush();
    }
    let room = own.order.capacity().max(own.latest.capacity());
    assert!(room <= 2 * RING_MESSAGES_MAX, "room for {room} is kept");
}

#[test]
fn nothing_waits_for_a_shard_that_is_gone() {
    let origin = TokenOrigin { node: 1, epoch: Epoch(1), shard: 0 };
    let (mut own, mut rings) = LedgerRings::new(origin, HaltFlag::default(), 1);
    rings.to_ledger.push(FromShard::Seen(CampaignIndex(0), Default::default())).unwrap();
    drop(rings);
    assert!(!own.is_quiet(), "what it said last is still to be taken");
    own.from_shard.pop().unwrap();
    assert!(own.is_quiet());
    (0..9).for_each(|slot| own.send(gate(slot, 1)));
    own.flush();
    assert_eq!(own.waiting(), 0);
}
