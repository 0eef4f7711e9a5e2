//! From the schedule to the result: events that are due, holds, and the log.

use units::Nanos;

use super::*;

const RELEASED: HoldFate = HoldFate::Released;

fn ended(number: u32, fate: HoldFate) -> EndedHold {
    EndedHold { number, fate }
}

#[test]
fn the_schedule_opens_and_closes() {
    let mut lot = Lot::new(terms());
    assert_eq!((lot.due_ms(), lot.due(999)), (Some(1000), None));
    let event = lot.due(1003).expect("it is due");
    assert_eq!(event, LotEvent { at_ms: 1003, kind: LotEventKind::Opened });
    assert_eq!(lot.apply(event).news, [LotNews::Status(LotStatus::Open)]);
    assert_eq!((lot.due_ms(), lot.due(1999)), (Some(2000), None));
    let event = lot.due(2000).expect("it is due");
    assert_eq!(lot.apply(event).news, [LotNews::Status(LotStatus::Closed)]);
    assert_eq!(lot.result(), Some(&LotResult::Unsold(UnsoldReason::NoBids)));
    assert_eq!((lot.due_ms(), lot.due(u64::MAX), lot.last_ms()), (None, None, 2000));
    // The clock has gone back behind an extension.
    let mut early = Lot::new(terms());
    step(&mut early, 1500, LotCommand::Extend { closes_ms: 3000 });
    assert_eq!(early.due(10), Some(LotEvent { at_ms: 1500, kind: LotEventKind::Opened }));
    // Nothing ran while it should have been open.
    let mut late = Lot::new(terms());
    let event = late.due(2000).expect("it is due");
    assert_eq!(event.kind, LotEventKind::Closed);
    late.apply(event);
    assert_eq!(late.status(), LotStatus::Closed);
}

#[test]
fn a_close_charges_the_price_and_releases_the_rest() {
    let check = |payment, reserve: Option<u64>, fate| {
        let reserve = reserve.map(cpm);
        let terms = LotTerms { payment, reserve, ..terms() };
        let mut lot = with_bids(terms, &[("b", 200), ("a", 300)]);
        let change = step(&mut lot, 1500, LotCommand::Close);
        assert_eq!(change.ended_holds, [ended(2, fate)]);
        assert_eq!(holds(&lot), []);
        lot.result().cloned().expect("it is closed")
    };
    let sale = |price| {
        let (winner, account) = ("a".to_owned(), "account of a".to_owned());
        let (price, maximum) = (cpm(price), cpm(300));
        LotResult::Sold(LotSale { number: 2, winner, account, price, maximum })
    };
    let charged = |cost| HoldFate::Charged { cost: Nanos::new(cost) };
    assert_eq!(check(LotPayment::AtClose, None, charged(210_000)), sale(210));
    assert_eq!(check(LotPayment::AtClose, Some(300), charged(300_000)), sale(300));
    assert_eq!(check(LotPayment::OnDelivery, None, RELEASED), sale(210));
    let unsold = LotResult::Unsold(UnsoldReason::ReserveNotMet);
    assert_eq!(check(LotPayment::AtClose, Some(301), RELEASED), unsold);
}

#[test]
fn a_bid_ends_holds_and_makes_news() {
    use LotNews::*;
    let mut lot = opened(LotTerms { reserve: Some(cpm(300)), ..terms() });
    let mut check = |bidder, maximum, released: &[u32], news: &[LotNews]| {
        let change = step(&mut lot, 1500, LotCommand::Bid(bid(bidder, maximum)));
        let released: Vec<_> = released.iter().map(|number| ended(*number, RELEASED)).collect();
        assert_eq!((&*change.ended_holds, &*change.news), (&*released, news));
    };
    let leader = |number| Leader(LotAlias(number));
    check("a", 200, &[], &[Bidders(1), Bids(1), Price(cpm(100)), leader(1)]);
    check("b", 150, &[2], &[Bidders(2), Bids(2), Price(cpm(160))]);
    check("a", 250, &[1], &[Bids(3)]);
    check("a", 300, &[3], &[Bids(4), Price(cpm(300)), ReserveMet]);
    check("b", 400, &[4], &[Bids(5), Price(cpm(310)), leader(2)]);
    assert_eq!(holds(&lot), [(5, "b", 400_000)]);
}

#[test]
fn a_foreign_log_is_not_applied() {
    let event = |at_ms, kind| LotEvent { at_ms, kind };
    let of_bid = |number, maximum| LotEventKind::Bid { number, bid: bid("b", maximum) };
    let open = with_bids(terms(), &[("a", 300)]);
    let mut closed = open.clone();
    step(&mut closed, 1500, LotCommand::Close);
    for (lot, event) in [
        (&open, event(1000, LotEventKind::Closed)),
        (&open, event(1500, LotEventKind::Opened)),
        (&open, event(1500, of_bid(3, 400))),
        (&open, event(1500, of_bid(2, 109))),
        (&open, event(2000, of_bid(2, 400))),
        (&open, event(1500, LotEventKind::Extended { closes_ms: 2000 })),
        (&open, event(2000, LotEventKind::Extended { closes_ms: 3000 })),
        (&open, event(2000, LotEventKind::Cancelled { reason: String::new() })),
        (&closed, event(1500, LotEventKind::Closed)),
        (&Lot::new(terms()), event(1500, LotEventKind::Closed)),
    ] {
        let mut lot = lot.clone();
        let applied = std::panic::catch_unwind(move || lot.apply(event.clone()));
        assert!(applied.is_err(), "{applied:?}");
    }
}
