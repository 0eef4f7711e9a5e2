//! Bids near the end postpone it.

use super::*;

fn soft(window_ms: u64, extension_ms: u64, total_max_ms: u64) -> LotTerms {
    let LotRules::English(mut english) = terms().rules else { unreachable!("it is English") };
    english.soft_close = Some(SoftClose { window_ms, extension_ms, total_max_ms });
    LotTerms { rules: LotRules::English(english), ..terms() }
}

/// Checks bids at times, each by another bidder than the last, with the end after it.
#[track_caller]
fn check(terms: LotTerms, bids: &[(u64, u64)]) {
    let mut lot = opened(terms);
    for (index, (received_ms, ends_ms)) in (0..).zip(bids) {
        let (before, bidder) = (lot.ends_ms(), ["a", "b"][index % 2]);
        let bid = bid(bidder, 100 + 20 * u64::try_from(index).expect("few bids"));
        let change = step(&mut lot, *received_ms, LotCommand::Bid(bid));
        assert_eq!(lot.ends_ms(), *ends_ms, "after a bid at {received_ms}");
        assert_eq!(lot.state().extended_ms, ends_ms - 2000);
        let is_news = change.news.contains(&LotNews::Ends(*ends_ms));
        assert_eq!(is_news, before < *ends_ms, "{:?}", change.news);
    }
}

#[test]
fn bids_in_the_window_postpone_the_end() {
    check(terms(), &[(1999, 2000)]);
    check(soft(100, 100, 1000), &[(1899, 2000)]);
    check(soft(100, 101, 1000), &[(1900, 2001)]);
    check(soft(100, 100, 1000), &[(1900, 2000)]);
    check(soft(100, 100, 1000), &[(1999, 2099)]);
    check(soft(100, 100, 1000), &[(1950, 2050), (1949, 2050), (2049, 2149)]);
    // An extension shorter than the window changes nothing at first.
    check(soft(100, 20, 1000), &[(1950, 2000), (1985, 2005)]);
}

#[test]
fn extensions_end_at_their_total() {
    check(soft(100, 60, 100), &[(1990, 2050), (2040, 2100), (2099, 2100)]);
    check(soft(u64::MAX, u64::MAX, u64::MAX), &[(1000, u64::MAX)]);
}

#[test]
fn the_end_refuses_bids_before_its_close_is_logged() {
    let mut lot = opened(soft(100, 100, 1000));
    step(&mut lot, 1950, LotCommand::Bid(bid("a", 100)));
    let last = LotCommand::Bid(bid("b", 200));
    assert!(lot.decide(2049, last.clone()).is_ok());
    let refusal = LotRefusal::NotOpen { status: LotStatus::Closed };
    assert_eq!(lot.decide(2050, last.clone()), Err(refusal));
    assert_eq!((lot.status(), lot.due(2049)), (LotStatus::Open, None));
    let closed = lot.due(2050).expect("it is due");
    assert_eq!(closed, LotEvent { at_ms: 2050, kind: LotEventKind::Closed });
    lot.apply(closed);
    assert_eq!(lot.decide(2051, last), Err(refusal));
}

#[test]
fn raises_and_refusals_do_not_postpone_the_end() {
    let mut lot = opened(soft(100, 100, 1000));
    step(&mut lot, 1500, LotCommand::Bid(bid("a", 200)));
    let raise = step(&mut lot, 1999, LotCommand::Bid(bid("a", 300)));
    assert_eq!((lot.ends_ms(), raise.news), (2000, vec![LotNews::Bids(2)]));
    assert!(lot.decide(1999, LotCommand::Bid(bid("b", 100))).is_err());
    assert_eq!(lot.ends_ms(), 2000);
    // A bid that loses at once postpones it all the same.
    step(&mut lot, 1999, LotCommand::Bid(bid("b", 250)));
    assert_eq!(lot.ends_ms(), 2099);
}

#[test]
fn the_operator_moves_the_base_of_extensions() {
    let mut lot = opened(soft(100, 100, 150));
    step(&mut lot, 1999, LotCommand::Bid(bid("a", 100)));
    assert_eq!(lot.ends_ms(), 2099);
    let change = step(&mut lot, 1999, LotCommand::Extend { closes_ms: 2100 });
    assert_eq!(change.news, [LotNews::Ends(2100)]);
    step(&mut lot, 2099, LotCommand::Bid(bid("b", 120)));
    assert_eq!(lot.ends_ms(), 2199);
    step(&mut lot, 2198, LotCommand::Bid(bid("a", 140)));
    assert_eq!((lot.ends_ms(), lot.state().extended_ms), (2250, 250));
}
