//! Every refusal, its edges, and its precedence.

use super::*;
use LotRefusal::*;

/// Checks the decision about a bid: the number of the accepted bid, or the refusal.
#[track_caller]
fn check(lot: &Lot, now_ms: u64, bid: LotBid, want: Result<u32, LotRefusal>) {
    let said = format!("{bid:?} at {now_ms}");
    let got = lot.decide(now_ms, LotCommand::Bid(bid)).map(|decision| match decision {
        LotDecision::Event(LotEvent { kind: LotEventKind::Bid { number, .. }, .. }) => number,
        other => panic!("not an accepted bid: {other:?}"),
    });
    assert_eq!(got, want, "{said}");
}

#[track_caller]
fn check_repeat(lot: &Lot, now_ms: u64, bid: LotBid, number: u32) {
    let got = lot.decide(now_ms, LotCommand::Bid(bid));
    assert_eq!(got, Ok(LotDecision::Repeated { number }));
}

fn euros(bid: LotBid) -> LotBid {
    LotBid { currency: Currency::parse("EUR").expect("a code"), ..bid }
}

fn keyed(bid: LotBid, key: &str) -> LotBid {
    LotBid { key: key.to_owned(), ..bid }
}

/// Ann leads with 300 at a price of 210, and Bob has bid 200. A cost of up to 1000 fits.
fn lot(bids_max: u32) -> Lot {
    let invited = ["ann", "bob", "cat"].map(str::to_owned).to_vec();
    let impressions = u64::MAX / 1000;
    with_bids(LotTerms { impressions, invited, bids_max, ..terms() }, &[("ann", 300), ("bob", 200)])
}

#[test]
fn bids_are_refused_in_order_of_precedence() {
    let (open, full) = (lot(3), lot(2));
    let mut cancelled = open.clone();
    step(&mut cancelled, 1500, cancel());
    // Each bid breaks the rules that follow, as far as rules can be broken together.
    let worst = || euros(bid("dan", 1001));
    let scheduled = Lot::new(terms());
    check(&scheduled, 1500, worst(), Err(NotOpen { status: LotStatus::Scheduled }));
    check(&full, 2000, worst(), Err(NotOpen { status: LotStatus::Closed }));
    check(&cancelled, 1500, worst(), Err(NotOpen { status: LotStatus::Cancelled }));
    check(&full, 1999, worst(), Err(NotInvited));
    check(&full, 1500, bid("dan", 1001), Err(NotInvited));
    let wrong = euros(keyed(bid("ann", 1001), "300"));
    check(&full, 1500, wrong, Err(WrongCurrency { expected: Currency::USD }));
    check(&full, 1500, keyed(bid("ann", 1001), "300"), Err(KeyReused { number: 1 }));
    check(&full, 1500, bid("ann", 1001), Err(TooManyBids { limit: 2 }));
    check(&full, 1500, bid("cat", 99), Err(TooManyBids { limit: 2 }));
    check(&open, 1500, bid("ann", 1001), Err(TooHigh { maximum: cpm(1000) }));
    check(&open, 1500, bid("cat", 1001), Err(TooHigh { maximum: cpm(1000) }));
    check(&open, 1500, bid("ann", 99), Err(BelowStart { minimum: cpm(100) }));
    check(&open, 1500, bid("cat", 99), Err(BelowStart { minimum: cpm(100) }));
    check(&open, 1500, bid("cat", 219), Err(BelowIncrement { minimum: cpm(220) }));
    check(&open, 1500, bid("bob", 100), Err(BelowIncrement { minimum: cpm(220) }));
    check(&open, 1500, keyed(bid("ann", 300), "new"), Err(Retraction { maximum: cpm(300) }));
    check(&open, 1500, bid("ann", 100), Err(Retraction { maximum: cpm(300) }));
}

#[test]
fn bids_at_the_edges_are_accepted() {
    let open = lot(3);
    check(&open, 1999, bid("cat", 220), Ok(3));
    check(&open, 1500, bid("cat", 1000), Ok(3));
    check(&open, 1500, bid("ann", 301), Ok(3));
    check(&open, 1500, keyed(bid("bob", 220), "300"), Ok(3));
    // The clock has gone back.
    check(&open, 0, bid("cat", 220), Ok(3));
    check(&opened(terms()), 1000, bid("dan", 100), Ok(1));
    check(&opened(terms()), 1000, bid("dan", 99), Err(BelowStart { minimum: cpm(100) }));
}

#[test]
fn repeats_are_answered_before_any_refusal() {
    let full = lot(2);
    let mut closed = full.clone();
    step(&mut closed, 1500, LotCommand::Close);
    let mut cancelled = full.clone();
    step(&mut cancelled, 1500, cancel());
    for (lot, now_ms) in [(&full, 1500), (&full, 2000), (&closed, 1500), (&cancelled, 1500)] {
        check_repeat(lot, now_ms, bid("ann", 300), 1);
        check_repeat(lot, now_ms, bid("bob", 200), 2);
    }
    let other_body = bid("ann", 300);
    check(&full, 1500, euros(other_body), Err(WrongCurrency { expected: Currency::USD }));
    let other_body = keyed(bid("ann", 301), "300");
    check(&closed, 1500, other_body, Err(NotOpen { status: LotStatus::Closed }));
    // A refused bid does not use up its key.
    let mut open = lot(3);
    check(&open, 1500, keyed(bid("cat", 219), "1"), Err(BelowIncrement { minimum: cpm(220) }));
    step(&mut open, 1500, LotCommand::Bid(keyed(bid("cat", 220), "1")));
}

#[test]
fn sealed_bids_are_only_raised() {
    let open = with_bids(sealed_terms(), &[("ann", 300), ("bob", 200)]);
    check(&open, 1500, bid("cat", 99), Err(BelowStart { minimum: cpm(100) }));
    check(&open, 1500, bid("cat", 100), Ok(3));
    check(&open, 1500, keyed(bid("bob", 200), "new"), Err(Retraction { maximum: cpm(200) }));
    check(&open, 1500, bid("bob", 199), Err(Retraction { maximum: cpm(200) }));
    check(&open, 1500, bid("bob", 99), Err(BelowStart { minimum: cpm(100) }));
    check(&open, 1500, bid("bob", 201), Ok(3));
    check_repeat(&open, 1500, bid("bob", 200), 2);
}

/// Checks an operator's command.
#[track_caller]
fn check_command(lot: &Lot, now_ms: u64, command: LotCommand, want: Result<LotEvent, LotRefusal>) {
    assert_eq!(lot.decide(now_ms, command), want.map(LotDecision::Event));
}

#[test]
fn the_operator_commands_what_the_status_allows() {
    use LotEventKind::*;
    let (scheduled, open) = (Lot::new(terms()), opened(terms()));
    let (mut closed, mut cancelled) = (open.clone(), open.clone());
    step(&mut closed, 1500, LotCommand::Close);
    step(&mut cancelled, 1500, cancel());
    let event = |at_ms, kind| Ok(LotEvent { at_ms, kind });
    let not_open = |status| Err(NotOpen { status });
    let cancelled_event = || Cancelled { reason: "no stock".to_owned() };
    let extend = |closes_ms| LotCommand::Extend { closes_ms };
    let later = Extended { closes_ms: 2001 };

    check_command(&scheduled, 10, LotCommand::Open, event(10, Opened));
    check_command(&scheduled, 10, LotCommand::Close, not_open(LotStatus::Scheduled));
    check_command(&scheduled, 10, extend(2001), event(10, later.clone()));
    check_command(&scheduled, 10, cancel(), event(10, cancelled_event()));
    check_command(&open, 1500, LotCommand::Open, Err(AlreadyOpen));
    check_command(&open, 1500, LotCommand::Close, event(1500, Closed));
    check_command(&open, 1999, extend(2001), event(1999, later));
    check_command(&open, 1500, extend(2000), Err(NotLater { ends_ms: 2000 }));
    check_command(&open, 1999, cancel(), event(1999, cancelled_event()));
    // The clock has gone back.
    check_command(&open, 10, LotCommand::Close, event(1000, Closed));
    for command in [LotCommand::Open, LotCommand::Close, extend(9000), cancel()] {
        for (lot, now_ms) in [(&scheduled, 2000), (&open, 2000), (&closed, 0)] {
            check_command(lot, now_ms, command.clone(), not_open(LotStatus::Closed));
        }
        check_command(&cancelled, 0, command, not_open(LotStatus::Cancelled));
    }
}
