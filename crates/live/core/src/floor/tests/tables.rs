//! Limits, waits and problems, one by one.

use super::world::*;
use crate::floor::*;
use crate::lots::*;
use crate::ports::*;

/// A floor with the lot `a`, open and durable.
fn opened() -> (LotFloor<u32>, World) {
    let (mut floor, mut world) = (LotFloor::new(SETTINGS, 1), World::new());
    floor.begin(1, &mut world);
    floor.command(1, 0, FloorCommand::Create(Box::new(terms("a"))), &mut world);
    world.settle(&mut floor, 1);
    (floor, world)
}

/// The answer to a ticket in short.
#[track_caller]
fn told(world: &World, ticket: u32) -> &'static str {
    let answer = world.answers.iter().find(|(of, _)| *of == ticket);
    match answer.map(|(_, answer)| answer) {
        None => "nothing",
        Some(Ok(FloorAnswer::Accepted(bid))) if bid.repeated => "repeated",
        Some(Ok(FloorAnswer::Accepted(_))) => "accepted",
        Some(Ok(FloorAnswer::Lot(_))) => "lot",
        Some(Ok(FloorAnswer::Lots { .. })) => "lots",
        Some(Err(refusal)) => refusal.label(),
    }
}

#[test]
fn a_bid_is_accepted_after_money_and_log() {
    let (mut floor, mut world) = opened();
    let logged = world.log.len();
    floor.command(2, 1, bid("a", "ann", 200, 1), &mut world);
    assert_eq!(world.log.len(), logged, "no money is on hold yet");
    world.ledger.step();
    let reply = world.ledger.outbox.pop_front().expect("it is held");
    floor.money(3, reply, &mut world);
    assert_eq!((world.log.len(), told(&world, 1)), (logged + 1, "nothing"));
    world.sync(&mut floor, logged + 1);
    assert_eq!(told(&world, 1), "accepted");
    floor.command(4, 2, bid("a", "ann", 200, 1), &mut world);
    assert_eq!(told(&world, 2), "repeated");
}

#[test]
fn a_bid_received_before_the_end_counts() {
    let (mut floor, mut world) = opened();
    floor.command(999, 1, bid("a", "ann", 200, 1), &mut world);
    floor.tick(1_010, &mut world);
    assert_eq!(
        floor.lots().next().map(Lot::status),
        Some(LotStatus::Open),
        "the bid is waited for"
    );
    world.settle(&mut floor, 1_020);
    assert_eq!(told(&world, 1), "accepted");
    let result = floor.lots().next().and_then(Lot::result);
    assert!(matches!(result, Some(LotResult::Sold(_))), "{result:?}");
    floor.command(1_021, 2, bid("a", "bob", 900, 1), &mut world);
    world.settle(&mut floor, 1_021);
    assert_eq!(told(&world, 2), "not_open");
}

#[test]
fn money_that_does_not_come_is_given_up_and_released() {
    let (mut floor, mut world) = opened();
    floor.command(2, 1, bid("a", "ann", 200, 1), &mut world);
    assert_eq!(floor.next_tick_ms(2), Some(52));
    floor.tick(51, &mut world);
    assert_eq!(told(&world, 1), "nothing");
    floor.tick(52, &mut world);
    assert_eq!(told(&world, 1), "unavailable");
    // The number is used again, by another attempt.
    floor.command(53, 2, bid("a", "bob", 300, 1), &mut world);
    world.settle(&mut floor, 53);
    assert_eq!(told(&world, 2), "accepted");
    let key = HoldKey { lot: id("a"), bid: 1 };
    assert_eq!(world.ledger.standing(), [(key, 300 * 7)].into());
}

#[test]
fn while_paused_nothing_changes_and_then_closes_are_made_up() {
    let (mut floor, mut world) = opened();
    floor.command(2, 1, bid("a", "ann", 200, 1), &mut world);
    world.settle(&mut floor, 2);
    world.is_paused = true;
    let logged = world.log.len();
    floor.command(3, 2, bid("a", "bob", 300, 1), &mut world);
    floor.command(3, 3, FloorCommand::Lot(id("a"), LotCommand::Close), &mut world);
    floor.command(3, 4, FloorCommand::Create(Box::new(terms("b"))), &mut world);
    floor.command(3, 5, FloorCommand::Show { lot: id("a"), bidder: None }, &mut world);
    floor.command(3, 6, FloorCommand::List { after: None }, &mut world);
    for (ticket, want) in [(2, "paused"), (3, "paused"), (4, "paused"), (5, "lot"), (6, "lots")] {
        assert_eq!(told(&world, ticket), want, "{ticket}");
    }
    floor.tick(2_000, &mut world);
    assert_eq!(world.log.len(), logged);
    world.is_paused = false;
    floor.tick(2_100, &mut world);
    assert_eq!(world.log.len(), logged + 1, "the close is made up");
}

#[test]
fn limits_hold_at_their_edges() {
    let (mut floor, mut world) = opened();
    for (ticket, lot) in (10..).zip(["b", "c", "d"]) {
        floor.command(2, ticket, FloorCommand::Create(Box::new(terms(lot))), &mut world);
    }
    world.settle(&mut floor, 2);
    assert_eq!([10, 11, 12].map(|ticket| told(&world, ticket)), ["lot", "lot", "too_many_lots"]);
    let other = LotTerms { impressions: 8, ..terms("b") };
    floor.command(2, 13, FloorCommand::Create(Box::new(other)), &mut world);
    floor.command(2, 14, FloorCommand::Create(Box::new(terms("b"))), &mut world);
    assert_eq!([13, 14].map(|ticket| told(&world, ticket)), ["lot_exists", "lot"]);
    let wrong = LotTerms { impressions: 0, ..terms("e") };
    floor.command(2, 15, FloorCommand::Show { lot: id("e"), bidder: None }, &mut world);
    assert_eq!(told(&world, 15), "unknown_lot");
    // One bid waits for money, four behind it.
    for ticket in 20..26 {
        floor.command(3, ticket, bid("a", "ann", 100 + u64::from(ticket), ticket), &mut world);
    }
    assert_eq!([24, 25].map(|ticket| told(&world, ticket)), ["nothing", "busy"]);
    world.settle(&mut floor, 3);
    assert_eq!([20, 24].map(|ticket| told(&world, ticket)), ["accepted", "accepted"]);
    let (mut small, mut empty) = (LotFloor::new(SETTINGS, 1), World::new());
    small.command(2, 1, FloorCommand::Create(Box::new(wrong)), &mut empty);
    assert_eq!(told(&empty, 1), "terms");
}

#[test]
fn a_lot_is_forgotten_when_it_is_over_paid_and_delivered() {
    let (mut floor, mut world) = opened();
    floor.command(2, 1, bid("a", "ann", 200, 1), &mut world);
    floor.command(2, 2, FloorCommand::Lot(id("a"), LotCommand::Close), &mut world);
    world.ledger.is_full = true;
    assert_eq!(floor.forget(10_000), Some(1), "it is not over");
    world.settle(&mut floor, 3);
    assert_eq!(world.offers, [id("a")]);
    floor.offered(SoldLotReply { lot: id("a"), offered: Err("no seat".to_owned()) });
    floor.command(3, 3, FloorCommand::Show { lot: id("a"), bidder: None }, &mut world);
    let page = world.answers.iter().find(|(ticket, _)| *ticket == 3);
    let Some((_, Ok(FloorAnswer::Lot(page)))) = page else { panic!("no page") };
    assert_eq!(page.offer, Some(OfferState::Failed { reason: "no seat".to_owned() }));
    // Its deal ends at 3000, and it is shown for 100 more.
    assert_eq!(floor.forget(3_099), Some(1));
    assert_eq!(floor.forget(3_100), None);
    assert_eq!(floor.lots().count(), 0);
    // Its id may be taken again, also while the log has the first one.
    floor.command(4, 4, FloorCommand::Create(Box::new(terms("a"))), &mut world);
    world.settle(&mut floor, 4);
    assert!(rebuilt(&world.log).lots().eq(floor.lots()));
}

#[test]
fn a_log_that_contradicts_itself_voids_the_lot_alone() {
    let (mut floor, mut world) = opened();
    floor.command(2, 0xb, FloorCommand::Create(Box::new(terms("b"))), &mut world);
    floor.command(2, 1, bid("a", "ann", 200, 1), &mut world);
    world.settle(&mut floor, 2);
    let check = |change: &dyn Fn(&mut Vec<LotRecord>), want: &str| {
        let mut log = world.log.clone();
        change(&mut log);
        let mut replayed = LotFloor::<u32>::new(SETTINGS, 2);
        let problems: Vec<_> = (1..)
            .zip(log)
            .filter_map(|(sequence, record)| replayed.replay(sequence, record).err())
            .collect();
        let problem = problems.first().map(ToString::to_string).unwrap_or_default();
        assert!(problem.contains(want), "{want}: {problem}");
        assert!(replayed.lots().all(|lot| lot.terms().id == id("b")), "{want}");
        assert_eq!(replayed.lots().count(), 1, "{want}");
    };
    let last = world.log.len() - 1;
    check(&|log| drop(log.remove(0)), "no record created");
    check(&|log| log.insert(1, log[0].clone()), "created before");
    check(&|log| log.push(log[last].clone()), "numbered in order");
    check(&|log| log[last].news = None, "and the log has nothing");
    check(
        &|log| {
            let news = log[last].news.take().expect("a bid is news");
            log[last].news = Some(news.replace("\"price\":\"0.0001\"", "\"price\":\"0.0002\""));
        },
        "the rules come to",
    );
    check(
        &|log| {
            if let LotRecordBody::Event { attempt, .. } = &mut log[last].body {
                *attempt = None;
            }
        },
        "which money",
    );
}
