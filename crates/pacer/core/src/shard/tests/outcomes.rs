//! Every refusal and every outcome, in tables; and the messages to the ledger.

use super::*;

/// A shard whose campaign 0 has 100 for the period at quarter 8, until 4000, and 50 for the next.
fn shard() -> ShardLedger {
    let mut shard = ShardLedger::new(&options()).expect("options are within range");
    shard.take(&grant(0, 8, 100, 4000)).expect("there is room");
    shard.take(&grant(0, 12, 50, 8000)).expect("there is room");
    shard
}

fn now(tick: u64) -> Tick {
    Tick::from_nanos(tick)
}

fn reserve(shard: &mut ShardLedger, amount: u64, tick: u64) -> ReservationToken {
    let token = shard.reserve(CampaignIndex(0), Nanos::new(amount), SHORT, moment(tick, 8));
    token.expect("there is money")
}

fn held(shard: &ShardLedger, period: u32) -> [u64; 7] {
    let holding = shard.holdings(CampaignIndex(0)).find(|holding| holding.period == Period(period));
    let it = holding.expect("it is held");
    [it.granted, it.free, it.reserved, it.settled, it.returned, it.late, it.over].map(Nanos::get)
}

#[test]
fn refusals_in_their_precedence() {
    let check =
        |gates: &[SpendingGate], ask: (u32, u64, u64, u32), want: Result<u32, SpendRefusal>| {
            let (slot, amount, tick, quarter) = ask;
            let mut shard = shard();
            for gate in gates {
                shard.take_gate(gate).expect("there is room");
            }
            let at = moment(tick, quarter);
            let got = shard.reserve(CampaignIndex(slot), Nanos::new(amount), SHORT, at);
            let got = got.map(|token| token.period().0).map_err(Denial::refusal);
            assert_eq!(got, want, "{gates:?} {ask:?}");
        };
    let closed = |refusal| [gate(0, 1, Some(refusal))];
    //             slot amount tick quarter
    check(&[], (0, 100, 3999, 8), Ok(8));
    check(&[], (0, 100, 3999, 11), Ok(8));
    check(&[], (0, 50, 3999, 12), Ok(12));
    check(&[], (0, 51, 3999, 12), Err(SpendRefusal::LedgerUnavailable));
    check(&[], (0, 101, 0, 8), Err(SpendRefusal::LedgerUnavailable));
    check(&[], (0, 1, 0, 7), Err(SpendRefusal::LedgerUnavailable));
    check(&[], (0, 0, 0, 7), Err(SpendRefusal::LedgerUnavailable));
    check(&[], (0, 1, 4000, 8), Err(SpendRefusal::LedgerUnavailable));
    check(&[], (0, 1, 8000, 99), Err(SpendRefusal::LedgerUnavailable));
    check(&[], (1, 1, 0, 8), Err(SpendRefusal::Unknown));
    check(&[], (u32::MAX, 1, 0, 8), Err(SpendRefusal::Unknown));
    check(&[gate(1, 1, None)], (1, 1, 0, 8), Err(SpendRefusal::LedgerUnavailable));
    check(&[recall(0, 1)], (0, 1, 0, 8), Err(SpendRefusal::LedgerUnavailable));
    check(&[recall(0, 1)], (0, 0, 0, 8), Ok(8));
    for refusal in SpendRefusal::ALL {
        let is_want_of_money = matches!(
            refusal,
            SpendRefusal::BudgetExhausted
                | SpendRefusal::DayExhausted
                | SpendRefusal::HourExhausted
                | SpendRefusal::LedgerUnavailable
        );
        let want = if is_want_of_money { Ok(8) } else { Err(refusal) };
        check(&closed(refusal), (0, 100, 0, 8), want);
        check(&closed(refusal), (0, 101, 0, 8), Err(refusal));
        check(&closed(refusal), (0, 1, 4000, 8), Err(refusal));
        check(&closed(refusal), (1, 1, 0, 8), Err(SpendRefusal::Unknown));
        // An older or repeated gate changes nothing.
        check(&[gate(0, 2, Some(refusal)), gate(0, 1, None)], (0, 101, 0, 8), Err(refusal));
        check(&[gate(0, 2, Some(refusal)), gate(0, 2, None)], (0, 101, 0, 8), Err(refusal));
        check(&[gate(0, 2, Some(refusal)), gate(0, 3, None)], (0, 100, 0, 8), Ok(8));
    }
}

#[test]
fn the_last_of_a_budget_is_told() {
    let check = |gates: &[SpendingGate], ask: (u32, u64, u64, u32), want: (SpendRefusal, u64)| {
        let (slot, amount, tick, quarter) = ask;
        let mut shard = shard();
        for gate in gates {
            shard.take_gate(gate).expect("there is room");
        }
        let shortage =
            shard.may_reserve(CampaignIndex(slot), Nanos::new(amount), moment(tick, quarter));
        let shortage = shortage.expect_err("it has not so much");
        assert_eq!((shortage.refusal, shortage.left.get()), want, "{gates:?} {ask:?}");
    };
    for refusal in SpendRefusal::ALL {
        let is_exhausted = matches!(
            refusal,
            SpendRefusal::BudgetExhausted
                | SpendRefusal::DayExhausted
                | SpendRefusal::HourExhausted
        );
        let closed = [gate(0, 1, Some(refusal))];
        check(&closed, (0, 101, 0, 8), (refusal, if is_exhausted { 100 } else { 0 }));
        check(&closed, (0, 101, 3999, 12), (refusal, if is_exhausted { 50 } else { 0 }));
        // Its period is over, or it is another's.
        check(&closed, (0, 101, 4000, 8), (refusal, 0));
        check(&closed, (1, 101, 0, 8), (SpendRefusal::Unknown, 0));
    }
    // A refill is on its way.
    check(&[], (0, 101, 0, 8), (SpendRefusal::LedgerUnavailable, 0));
    let recalled =
        SpendingGate { is_recalled: true, ..gate(0, 1, Some(SpendRefusal::BudgetExhausted)) };
    check(&[recalled], (0, 1, 0, 8), (SpendRefusal::BudgetExhausted, 0));
}

#[test]
fn what_has_no_room_is_refused_and_nothing_changes() {
    let mut full = ShardLedger::new(&ShardOptions { reservations_max: 32, ..options() }).unwrap();
    full.take(&grant(0, 8, 100, 4000)).unwrap();
    for _ in 0..32 {
        reserve(&mut full, 1, 0);
    }
    let before = held(&full, 8);
    let denied = full.reserve(CampaignIndex(0), Nanos::new(1), SHORT, moment(0, 8));
    assert_eq!(denied, Err(Denial::Full));
    // The lack of budget comes first.
    let denied = full.reserve(CampaignIndex(0), Nanos::new(101), SHORT, moment(0, 8));
    assert_eq!(denied, Err(Denial::Refused(SpendRefusal::LedgerUnavailable)));
    assert_eq!((held(&full, 8), full.counts().full), (before, 1));
    // Another class has its own room; this one again when the first are forgotten.
    full.reserve(CampaignIndex(0), Nanos::new(1), LONG, moment(0, 8)).unwrap();
    assert_eq!(
        full.reserve(CampaignIndex(0), Nanos::new(1), SHORT, moment(669, 8)),
        Err(Denial::Full)
    );
    full.reserve(CampaignIndex(0), Nanos::new(1), SHORT, moment(670, 8)).unwrap();

    let mut lines = ShardLedger::new(&ShardOptions { lines_max: 1, ..options() }).unwrap();
    lines.take(&grant(0, 8, 100, 4000)).unwrap();
    lines.take(&grant(1, 8, 100, 4000)).unwrap();
    reserve(&mut lines, 1, 0);
    let denied = lines.reserve(CampaignIndex(1), Nanos::new(1), SHORT, moment(0, 8));
    assert_eq!(denied, Err(Denial::Full));
    reserve(&mut lines, 1, 9);
    assert_eq!(
        lines.reserve(CampaignIndex(0), Nanos::new(1), SHORT, moment(10, 8)),
        Err(Denial::Full)
    );
    lines.reserve(CampaignIndex(1), Nanos::new(1), SHORT, moment(170, 8)).unwrap();
    assert!(!Denial::Full.to_string().is_empty());
    assert_eq!(Denial::Full.refusal(), SpendRefusal::LedgerUnavailable);
}

#[test]
fn messages_without_room_are_refused() {
    let mut shard = ShardLedger::new(&ShardOptions { books_max: 2, ..options() }).unwrap();
    assert_eq!(shard.take(&grant(4, 8, 1, 4000)), Err(GrantRejected::SlotsMax));
    assert_eq!(shard.take(&grant(u32::MAX, 8, 1, 4000)), Err(GrantRejected::SlotsMax));
    assert_eq!(shard.take_gate(&gate(4, 1, None)), Err(GrantRejected::SlotsMax));
    assert_eq!(shard.take(&grant(0, 8, 1, 4000)), Ok(()));
    assert_eq!(shard.take(&grant(3, 8, 1, 4000)), Ok(()));
    assert_eq!(shard.take(&grant(0, 12, 1, 4000)), Err(GrantRejected::BooksMax));
    assert_eq!(shard.take(&grant(0, 8, 2, 4000)), Ok(()));
    assert_eq!(held(&shard, 8)[0], 2);
    // Forgotten with its last reservation: 1700 and 500 after its end.
    shard.advance(now(4000));
    assert_eq!(shard.report().count(), 2);
    shard.advance(now(6199));
    assert_eq!(shard.take(&grant(0, 12, 1, 9000)), Err(GrantRejected::BooksMax));
    shard.advance(now(6200));
    assert_eq!(shard.holdings(CampaignIndex(0)).count(), 0);
    assert_eq!(shard.take(&grant(0, 8, 2, 4000)), Err(GrantRejected::Retired));
    assert_eq!(shard.take(&grant(0, 4, 2, 9000)), Err(GrantRejected::Retired));
    assert_eq!(shard.take(&grant(0, 12, 1, 9000)), Ok(()));
    assert_eq!(shard.take(&grant(0, 9, 1, 9000)), Ok(()));
    assert_eq!(shard.counts().untaken, 7);
}

#[test]
fn a_period_that_goes_on_is_kept_for_its_last_reservation() {
    let mut shard = ShardLedger::new(&options()).unwrap();
    shard.take(&grant(0, 8, 100, 4000)).unwrap();
    shard.advance(now(4000));
    shard.take(&grant(0, 8, 200, 6000)).unwrap();
    let token = shard.reserve(CampaignIndex(0), Nanos::new(40), LONG, moment(5999, 8)).unwrap();
    shard.advance(now(6000));
    shard.report().for_each(drop);
    for tick in (6200..8199).step_by(100) {
        shard.advance(now(tick));
        shard.report().for_each(drop);
    }
    let claim = shard.claim(&token, now(8198)).unwrap();
    assert!(claim.is_late());
    shard.settle(claim, Nanos::new(40));
    assert_eq!(held(&shard, 8), [200, 0, 0, 0, 200, 40, 0]);
    assert_eq!(shard.claim(&token, now(8199)).map(drop), Err(TokenRejection::TooOld));
    // The next look is a sixteenth of its horizon later.
    shard.report().for_each(drop);
    shard.advance(now(8200));
    shard.advance(now(8400));
    assert_eq!(shard.holdings(CampaignIndex(0)).count(), 0);
}

#[test]
fn options_out_of_range_are_refused() {
    let check = |options: ShardOptions, want: Option<ShardOptionsError>| {
        assert_eq!(ShardLedger::new(&options).err(), want);
        assert_eq!(options.bytes().err(), want);
    };
    let ns = Duration::from_nanos;
    check(options(), None);
    check(ShardOptions { ttls: vec![], ..options() }, Some(ShardOptionsError::Ttls(0)));
    check(ShardOptions { ttls: vec![ns(160); 17], ..options() }, Some(ShardOptionsError::Ttls(17)));
    check(ShardOptions { ttls: vec![ns(15)], ..options() }, Some(ShardOptionsError::Ttl(ns(15))));
    check(ShardOptions { ttls: vec![ns(16)], ..options() }, None);
    check(ShardOptions { ttls: vec![Duration::MAX], ..options() }, None);
    let late_window = |late_window, ttl| ShardOptionsError::LateWindow { late_window, ttl };
    let windows = |ttl, window| ShardOptions { ttls: vec![ttl], late_window: window, ..options() };
    check(windows(ns(16), ns(65_518)), Some(late_window(ns(65_518), ns(16))));
    check(windows(ns(16), ns(65_517)), None);
    check(windows(ns(160), ns(4094 * 160)), None);
    check(windows(ns(160), Duration::MAX), Some(late_window(Duration::MAX, ns(160))));
    let room = |name, value, most| Some(ShardOptionsError::Room { name, value, most });
    let most = u32::MAX - 1;
    check(ShardOptions { slots_max: 0, ..options() }, room("slots_max", 0, most));
    check(ShardOptions { slots_max: u32::MAX, ..options() }, room("slots_max", u32::MAX, most));
    check(ShardOptions { books_max: 0, ..options() }, room("books_max", 0, most));
    check(ShardOptions { books_max: u32::MAX, ..options() }, room("books_max", u32::MAX, most));
    let (none, over, most) = (0, (1 << 30) + 1, 1 << 30);
    let name = "reservations_max";
    check(ShardOptions { reservations_max: 0, ..options() }, room(name, 0, u32::MAX));
    for value in [none, over] {
        check(ShardOptions { lines_max: value, ..options() }, room("lines_max", value, most));
    }
    let text = late_window(ns(1), ns(2)).to_string();
    assert!(text.ends_with("at most 4094 times that"), "{text}");
}

/// A step with a token, and its result.
#[derive(Clone, Copy, Debug)]
enum Do {
    /// Time, and whether it is late or why it fails.
    Claim(u64, Result<bool, TokenRejection>),
    /// The price.
    Settle(u64),
    Unclaim,
    Release(u64, Result<u64, TokenRejection>),
    Advance(u64),
}

/// A token of 40, reserved at 0, expires at 170 and is forgotten at 670.
#[test]
#[expect(clippy::too_many_lines, reason = "a table of outcomes")]
fn outcomes_of_a_token() {
    use Do::{Advance, Claim, Release, Settle, Unclaim};
    use TokenRejection::{AlreadyReleased, AlreadyWon, Expired, Pending, TooOld};
    let check = |steps: &[Do], want: [u64; 7], rejected: &[TokenRejection]| {
        let mut shard = shard();
        let token = reserve(&mut shard, 40, 0);
        let mut claims = Vec::new();
        for step in steps {
            match *step {
                Claim(tick, want) => {
                    let claim = shard.claim(&token, now(tick));
                    let got = claim.as_ref().map(TokenClaim::is_late).map_err(|why| *why);
                    assert_eq!(got, want, "{steps:?}");
                    claims.extend(claim);
                }
                Settle(price) => {
                    let claim = claims.pop().expect("it is claimed");
                    shard.settle(claim, Nanos::new(price));
                }
                Unclaim => shard.unclaim(claims.pop().expect("it is claimed")),
                Release(tick, want) => {
                    let got = shard.release(&token, now(tick)).map(Nanos::get);
                    assert_eq!(got, want, "{steps:?}");
                }
                Advance(tick) => shard.advance(now(tick)),
            }
        }
        assert_eq!(held(&shard, 8), want, "{steps:?}");
        for rejection in TokenRejection::ALL {
            let count = rejected.iter().filter(|other| **other == rejection).count();
            let count = u64::try_from(count).expect("few");
            assert_eq!(shard.counts().rejected(rejection), count, "{steps:?} {rejection:?}");
        }
    };
    //                       granted free reserved settled returned late over
    check(&[], [100, 60, 40, 0, 0, 0, 0], &[]);
    check(&[Claim(169, Ok(false))], [100, 60, 40, 0, 0, 0, 0], &[]);
    check(&[Claim(169, Ok(false)), Settle(40)], [100, 60, 0, 40, 0, 0, 0], &[]);
    check(&[Claim(0, Ok(false)), Settle(25)], [100, 75, 0, 25, 0, 0, 0], &[]);
    check(&[Claim(0, Ok(false)), Settle(0)], [100, 100, 0, 0, 0, 0, 0], &[]);
    check(&[Claim(0, Ok(false)), Settle(70)], [100, 60, 0, 40, 0, 0, 30], &[]);
    check(&[Claim(0, Ok(false)), Settle(u64::MAX)], [100, 60, 0, 40, 0, 0, u64::MAX - 40], &[]);
    // Late: in full, in addition to the grant.
    check(&[Claim(170, Ok(true)), Settle(25)], [100, 100, 0, 0, 0, 25, 0], &[]);
    check(&[Claim(669, Ok(true)), Settle(70)], [100, 100, 0, 0, 0, 70, 0], &[]);
    check(&[Claim(170, Ok(true)), Settle(u64::MAX)], [100, 100, 0, 0, 0, u64::MAX, 0], &[]);
    check(&[Release(9, Ok(40)), Claim(9, Ok(true)), Settle(7)], [100, 100, 0, 0, 0, 7, 0], &[]);
    check(&[Claim(670, Err(TooOld))], [100, 100, 0, 0, 0, 0, 0], &[TooOld]);
    check(&[Release(670, Err(TooOld))], [100, 100, 0, 0, 0, 0, 0], &[TooOld]);
    check(&[Advance(170)], [100, 100, 0, 0, 0, 0, 0], &[]);
    check(&[Advance(169)], [100, 60, 40, 0, 0, 0, 0], &[]);
    check(&[Advance(170), Claim(0, Ok(true))], [100, 100, 0, 0, 0, 0, 0], &[]);
    let won = [Claim(0, Ok(false)), Settle(25), Claim(0, Err(AlreadyWon))];
    check(&won, [100, 75, 0, 25, 0, 0, 0], &[AlreadyWon]);
    let won = [Claim(0, Ok(false)), Settle(25), Claim(669, Err(AlreadyWon))];
    check(&won, [100, 75, 0, 25, 0, 0, 0], &[AlreadyWon]);
    let won = [Claim(0, Ok(false)), Settle(25), Release(0, Err(AlreadyWon))];
    check(&won, [100, 75, 0, 25, 0, 0, 0], &[AlreadyWon]);
    let late = [Claim(170, Ok(true)), Settle(25), Claim(170, Err(AlreadyWon))];
    check(&late, [100, 100, 0, 0, 0, 25, 0], &[AlreadyWon]);
    let lost = [Release(0, Ok(40)), Release(0, Err(AlreadyReleased))];
    check(&lost, [100, 100, 0, 0, 0, 0, 0], &[AlreadyReleased]);
    let lost = [Release(0, Ok(40)), Release(200, Err(AlreadyReleased))];
    check(&lost, [100, 100, 0, 0, 0, 0, 0], &[AlreadyReleased]);
    check(&[Release(170, Err(Expired))], [100, 100, 0, 0, 0, 0, 0], &[Expired]);
    // While claimed.
    let held_up = [Claim(0, Ok(false)), Claim(0, Err(Pending)), Release(0, Err(Pending))];
    check(&held_up, [100, 60, 40, 0, 0, 0, 0], &[Pending, Pending]);
    let held_up = [Claim(200, Ok(true)), Claim(200, Err(Pending))];
    check(&held_up, [100, 100, 0, 0, 0, 0, 0], &[Pending]);
    check(&[Claim(0, Ok(false)), Advance(670)], [100, 60, 40, 0, 0, 0, 0], &[]);
    check(&[Claim(0, Ok(false)), Advance(200), Settle(25)], [100, 75, 0, 25, 0, 0, 0], &[]);
    check(&[Claim(0, Ok(false)), Advance(9000), Settle(25)], [100, 0, 0, 25, 75, 0, 0], &[]);
    let given_up = [Claim(0, Ok(false)), Unclaim];
    check(&given_up, [100, 60, 40, 0, 0, 0, 0], &[]);
    let given_up = [Claim(0, Ok(false)), Unclaim, Advance(170)];
    check(&given_up, [100, 100, 0, 0, 0, 0, 0], &[]);
    let given_up = [Claim(0, Ok(false)), Unclaim, Claim(0, Ok(false)), Settle(40)];
    check(&given_up, [100, 60, 0, 40, 0, 0, 0], &[]);
    let given_up = [Claim(0, Ok(false)), Advance(170), Unclaim, Claim(170, Ok(true)), Settle(9)];
    check(&given_up, [100, 100, 0, 0, 0, 9, 0], &[]);
    let given_up = [Claim(0, Ok(false)), Advance(5000), Unclaim, Claim(5000, Err(TooOld))];
    check(&given_up, [100, 0, 0, 0, 100, 0, 0], &[TooOld]);
    let given_up = [Release(0, Ok(40)), Claim(0, Ok(true)), Unclaim];
    check(&given_up, [100, 100, 0, 0, 0, 0, 0], &[]);
    let given_up =
        [Release(0, Ok(40)), Claim(0, Ok(true)), Unclaim, Release(0, Err(AlreadyReleased))];
    check(&given_up, [100, 100, 0, 0, 0, 0, 0], &[AlreadyReleased]);
    let given_up = [Claim(200, Ok(true)), Unclaim, Release(200, Err(Expired))];
    check(&given_up, [100, 100, 0, 0, 0, 0, 0], &[Expired]);
    check(&[Advance(4000)], [100, 0, 0, 0, 100, 0, 0], &[]);
}

#[test]
fn what_comes_back_after_the_end_of_its_period_goes_back() {
    let mut shard = shard();
    let tokens = [10, 20, 30].map(|amount| reserve(&mut shard, amount, 3990));
    let claim = shard.claim(&tokens[0], now(3990)).unwrap();
    assert_eq!(held(&shard, 8), [100, 40, 60, 0, 0, 0, 0]);
    // The end of the period takes effect before the sweep.
    assert_eq!(shard.release(&tokens[1], now(4000)), Ok(Nanos::new(20)));
    assert_eq!(held(&shard, 8), [100, 40, 40, 0, 20, 0, 0]);
    shard.settle(claim, Nanos::new(4));
    assert_eq!(held(&shard, 8), [100, 40, 30, 4, 26, 0, 0]);
    shard.advance(now(4000));
    assert_eq!(held(&shard, 8), [100, 0, 30, 4, 66, 0, 0]);
    shard.advance(now(4160));
    assert_eq!(held(&shard, 8), [100, 0, 0, 4, 96, 0, 0]);
    // The ledger may extend it.
    shard.take(&grant(0, 8, 150, 5000)).unwrap();
    assert_eq!(held(&shard, 8), [150, 50, 0, 4, 96, 0, 0]);
    assert_eq!(held(&shard, 12), [50, 50, 0, 0, 0, 0, 0]);
}

#[test]
fn grants_say_all_and_order_changes_nothing() {
    let grants = [grant(0, 8, 40, 3000), grant(0, 8, 100, 4000), grant(0, 8, 100, 3500)];
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let mut shard = ShardLedger::new(&options()).unwrap();
        for at in order.into_iter().chain(order) {
            shard.take(&grants[at]).unwrap();
        }
        assert_eq!(held(&shard, 8), [100, 100, 0, 0, 0, 0, 0], "{order:?}");
        let early = shard.reserve(CampaignIndex(0), Nanos::new(1), SHORT, moment(3499, 8));
        assert!(early.is_ok(), "{order:?}");
        let after = shard.reserve(CampaignIndex(0), Nanos::new(1), SHORT, moment(3500, 8));
        assert!(after.is_err(), "{order:?}");
    }
}

#[test]
fn a_recall_sends_back_all_that_is_free_and_will_be() {
    let mut shard = shard();
    let tokens = [10, 20, 30].map(|amount| reserve(&mut shard, amount, 0));
    shard.take_gate(&recall(0, 1)).unwrap();
    assert_eq!(held(&shard, 8), [100, 0, 60, 0, 40, 0, 0]);
    assert_eq!(held(&shard, 12), [50, 0, 0, 0, 50, 0, 0]);
    shard.release(&tokens[0], now(0)).unwrap();
    let claim = shard.claim(&tokens[1], now(0)).unwrap();
    shard.settle(claim, Nanos::new(5));
    shard.advance(now(200));
    assert_eq!(held(&shard, 8), [100, 0, 0, 5, 95, 0, 0]);
    shard.take(&grant(0, 8, 130, 4000)).unwrap();
    assert_eq!(held(&shard, 8), [130, 0, 0, 5, 125, 0, 0]);
    assert_eq!(shard.want().count(), 0);
    shard.take_gate(&gate(0, 2, None)).unwrap();
    shard.take(&grant(0, 8, 140, 4000)).unwrap();
    assert_eq!(held(&shard, 8), [140, 10, 0, 5, 125, 0, 0]);
}

#[test]
fn reports_say_what_changed_since_the_last() {
    let mut shard = shard();
    assert_eq!(shard.report().count(), 0);
    let token = reserve(&mut shard, 40, 0);
    let report = |returned, settled, late, over, counts: [u64; 3]| SpendReport {
        slot: CampaignIndex(0),
        period: Period(8),
        returned: Nanos::new(returned),
        settled: Nanos::new(settled),
        late: Nanos::new(late),
        over: Nanos::new(over),
        reserved: Nanos::new(counts[0]),
        reserved_count: counts[1],
        won_count: counts[2],
    };
    let told = |shard: &mut ShardLedger| shard.report().collect::<Vec<_>>();
    assert_eq!(told(&mut shard), [report(0, 0, 0, 0, [40, 1, 0])]);
    assert_eq!(told(&mut shard), []);
    let claim = shard.claim(&token, now(0)).unwrap();
    shard.settle(claim, Nanos::new(41));
    let late = reserve(&mut shard, 10, 0);
    let claim = shard.claim(&late, now(170)).unwrap();
    shard.settle(claim, Nanos::new(9));
    assert_eq!(told(&mut shard), [report(0, 40, 9, 1, [50, 2, 2])]);
    // One by one, the longest unreported first.
    shard.advance(now(8000));
    assert_eq!(shard.report().next(), Some(report(60, 40, 9, 1, [50, 2, 2])));
    let last = told(&mut shard);
    assert_eq!((last.len(), last[0].period, last[0].returned), (1, Period(12), Nanos::new(50)));
    let counts = *shard.counts();
    assert_eq!((counts.reserved, counts.won, counts.won_late, counts.over), (2, 1, 1, 1));
}

#[test]
fn wants_are_told_below_half_a_slice_and_when_refused() {
    let mut shard = shard();
    let wants = |shard: &mut ShardLedger| {
        shard
            .want()
            .map(|want| (want.slot.0, want.amount.get(), want.refused.get()))
            .collect::<Vec<_>>()
    };
    let ask = |shard: &mut ShardLedger, slot, amount| {
        let _ = shard.reserve(CampaignIndex(slot), Nanos::new(amount), SHORT, moment(0, 8));
    };
    ask(&mut shard, 0, 50);
    assert_eq!(wants(&mut shard), []);
    ask(&mut shard, 0, 1);
    assert_eq!(wants(&mut shard), [(0, 51, 0)]);
    assert_eq!(wants(&mut shard), []);
    // At least the refused amount.
    ask(&mut shard, 0, 70);
    ask(&mut shard, 0, 60);
    assert_eq!(wants(&mut shard), [(0, 70, 70)]);
    ask(&mut shard, 0, 50);
    assert_eq!(wants(&mut shard), [(0, 51, 50)]);
    // Only the last slice counts.
    shard.take(&grant(0, 8, 104, 4000)).unwrap();
    ask(&mut shard, 0, 51);
    assert_eq!(wants(&mut shard), []);
    ask(&mut shard, 0, 1);
    assert_eq!(wants(&mut shard), [(0, 3, 0)]);
    // A grant arrived meanwhile.
    ask(&mut shard, 0, 5);
    shard.take(&grant(0, 8, 300, 4000)).unwrap();
    assert_eq!(wants(&mut shard), []);
    // Without a grant, from the refused amount; an unknown campaign requests nothing.
    ask(&mut shard, 1, 5);
    assert_eq!(wants(&mut shard), []);
    shard.take_gate(&gate(1, 1, None)).unwrap();
    ask(&mut shard, 1, 5);
    assert_eq!(wants(&mut shard), [(1, 5, 5)]);
    for (closed, want) in [
        (SpendRefusal::LedgerUnavailable, &[(1, 5, 5)][..]),
        (SpendRefusal::BudgetExhausted, &[]),
        (SpendRefusal::Paused, &[]),
    ] {
        shard.take_gate(&gate(1, 2 + closed as u64, Some(closed))).unwrap();
        ask(&mut shard, 1, 5);
        assert_eq!(wants(&mut shard), want, "{closed:?}");
        shard = self::shard();
    }
}

#[test]
fn tokens_of_others_are_told_apart() {
    let mut shard = shard();
    let own = reserve(&mut shard, 40, 0);
    let with = |node, epoch, shard| ReservationToken {
        origin: TokenOrigin { node, epoch: Epoch(epoch), shard },
        ..own
    };
    let far = TtlClass(2);
    for (token, want) in [
        (with(8, 3, 2), TokenRejection::OtherNode),
        (with(6, 2, 9), TokenRejection::OtherNode),
        (with(7, 2, 2), TokenRejection::DeadEpoch),
        (with(7, 2, 9), TokenRejection::DeadEpoch),
        (with(7, 4, 2), TokenRejection::FutureEpoch),
        (with(7, 3, 9), TokenRejection::OtherShard),
        // Sealed with our key and origin, but never made: the key's owner lost a start.
        (ReservationToken { ttl: far, ..own }, TokenRejection::NeverMade),
        (ReservationToken { ttl: LONG, ..own }, TokenRejection::NeverMade),
        (ReservationToken { bucket: 1, ..own }, TokenRejection::NeverMade),
        (ReservationToken { bucket: u32::MAX, ..own }, TokenRejection::NeverMade),
        (ReservationToken { sequence: 1, ..own }, TokenRejection::NeverMade),
        (ReservationToken { line: 1, ..own }, TokenRejection::NeverMade),
        (ReservationToken { slot: CampaignIndex(1), ..own }, TokenRejection::NeverMade),
        (ReservationToken { slot: CampaignIndex(u32::MAX), ..own }, TokenRejection::NeverMade),
        (ReservationToken { period: Period(12), ..own }, TokenRejection::NeverMade),
        (ReservationToken { period: Period(9), ..own }, TokenRejection::NeverMade),
        (ReservationToken { amount: Nanos::new(41), ..own }, TokenRejection::NeverMade),
    ] {
        let claimed = shard.claim(&token, now(0)).map(|claim| *claim.token());
        assert_eq!(claimed, Err(want), "{token:?}");
        assert_eq!(shard.release(&token, now(0)), Err(want), "{token:?}");
    }
    assert_eq!(held(&shard, 8), [100, 60, 40, 0, 0, 0, 0]);
    assert_eq!(shard.counts().rejected(TokenRejection::NeverMade), 22);
    assert_eq!(shard.origin(), ORIGIN);
    for (at, rejection) in TokenRejection::ALL.into_iter().enumerate() {
        assert_eq!(rejection as usize, at, "{rejection:?}");
        let same = TokenRejection::ALL.iter().filter(|other| other.label() == rejection.label());
        assert_eq!(same.count(), 1, "{rejection:?}");
    }
}

#[test]
#[should_panic(expected = "a claim ends at the shard that gave it")]
fn a_claim_does_not_end_at_another_shard() {
    let mut one = shard();
    let other = ShardOptions { origin: TokenOrigin { shard: 9, ..ORIGIN }, ..options() };
    let mut other = ShardLedger::new(&other).unwrap();
    let token = reserve(&mut one, 40, 0);
    let claim = one.claim(&token, now(0)).unwrap();
    other.settle(claim, Nanos::new(40));
}

#[test]
fn a_reservation_lasts_its_time_and_up_to_a_sixteenth_more() {
    for (made, expires) in [(0, 170), (9, 170), (10, 180), (19, 189)] {
        for (claimed, is_late) in [(expires - 1, false), (expires, true)] {
            let mut shard = shard();
            reserve(&mut shard, 1, 0);
            let token = reserve(&mut shard, 40, made);
            let claim = shard.claim(&token, now(claimed)).unwrap();
            assert_eq!(claim.is_late(), is_late, "{made} {claimed}");
        }
    }
}

#[test]
fn a_shard_that_closes_keeps_what_is_reserved_and_sends_back_the_rest() {
    let mut shard = shard();
    let (open, lost, won) =
        (reserve(&mut shard, 10, 0), reserve(&mut shard, 20, 0), reserve(&mut shard, 30, 0));
    let claim = shard.claim(&won, now(1)).expect("it is open");
    shard.settle(claim, Nanos::new(30));
    let receipts: Vec<_> =
        shard.close(now(2)).iter().map(|it| (it.period.0, it.granted.get())).collect();
    assert_eq!(receipts, [(8, 100), (12, 50)]);
    assert_eq!(held(&shard, 8), [100, 0, 30, 30, 40, 0, 0]);
    assert_eq!(held(&shard, 12), [50, 0, 0, 0, 50, 0, 0]);
    let told: Vec<_> = shard.report().map(|it| (it.period.0, it.returned.get())).collect();
    assert_eq!(told, [(8, 40), (12, 50)]);
    // Reserving and requests end; what becomes free is returned too.
    let denied = shard.reserve(CampaignIndex(0), Nanos::new(1), SHORT, moment(3, 8));
    assert_eq!(denied, Err(Denial::Refused(SpendRefusal::LedgerUnavailable)));
    assert_eq!(shard.want().count(), 0);
    shard.release(&lost, now(3)).expect("it is open");
    shard.take(&grant(0, 8, 105, 4000)).expect("there is room");
    assert_eq!(held(&shard, 8), [105, 0, 10, 30, 65, 0, 0]);
    let claim = shard.claim(&open, now(4)).expect("it is open");
    assert_eq!(shard.settle(claim, Nanos::new(4)).settled, Nanos::new(4));
    assert_eq!(held(&shard, 8), [105, 0, 0, 34, 71, 0, 0]);
}
