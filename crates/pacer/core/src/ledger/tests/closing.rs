//! A clean shutdown returns all that no reservation holds.

use units::{Currency, Nanos};

use super::refusals::{Desk, SECOND, SLOT, account, campaign, usd};
use crate::ledger::settings::LedgerSettings;
use crate::ledger::step::{LedgerInput, SettlementRecord};
use crate::ledger::{BudgetLimits, CampaignBudget, CampaignTerms};
use crate::messages::{Epoch, Receipt};
use crate::store::{CommitOutcome, Lease, LeaseKey};

fn life(amount: u64) -> CampaignTerms {
    CampaignTerms {
        budget: CampaignBudget {
            limits: BudgetLimits { life: usd(amount), ..BudgetLimits::default() },
            ..campaign().budget
        },
        ..campaign()
    }
}

fn lease(granted: u64, returned: u64, settled: u64) -> Lease {
    let [granted, returned, settled] = [granted, returned, settled].map(Nanos::new);
    Lease { granted, returned, settled, ..Lease::default() }
}

/// Closes the ledger after messages of two shards with part of 1,000; checks the lease's rest.
#[track_caller]
fn check(said: impl Fn(&Desk) -> Vec<LedgerInput>, want: impl Fn(u64) -> u64) {
    let mut desk = Desk::defined(2, account(), life(1_000));
    for shard in [0, 1] {
        desk.want(shard, SLOT, 100);
    }
    desk.pass(3);
    let all = desk.granted(0, SLOT) + desk.granted(1, SLOT);
    assert!(all >= 200 && desk.ledger.why(SLOT).ready > Nanos::ZERO, "{all}");
    let leased = {
        let levels = desk.ledger.why(SLOT).levels.expect("an hour");
        levels[0].outstanding.get()
    };
    let mut inbox = said(&desk);
    inbox.push(LedgerInput::Close);
    desk.step(inbox);
    assert!(!desk.ledger.is_saved(), "it is said, and not yet durable");
    // At once, regardless of the lease period.
    let left = desk.saved.iter().map(|(_, lease)| lease.granted.get() - lease.returned.get());
    assert_eq!(left.sum::<u64>(), want(leased), "{:?}", desk.saved);
    let (grants, number) = (desk.grants.len(), desk.batches);
    desk.want(0, SLOT, 500);
    desk.pass(5);
    assert_eq!((desk.grants.len(), desk.batches), (grants, number));
    assert!(desk.ledger.is_saved());
}

fn receipt(desk: &Desk, shard: u16, granted: u64) -> LedgerInput {
    let period = desk.period();
    LedgerInput::Receipt(shard, Receipt { slot: SLOT, period, granted: Nanos::new(granted) })
}

fn report(desk: &Desk, shard: u16, returned: u64) -> LedgerInput {
    LedgerInput::Report(shard, desk.reported(SLOT, [returned, 0, 0, 0]))
}

#[test]
fn what_no_reservation_holds_goes_back() {
    // Silent shards keep their grants.
    check(|_| Vec::new(), |_| 200);
    // One of them returns all but a reservation of 30.
    check(
        |desk| vec![report(desk, 0, 70), receipt(desk, 0, 100), LedgerInput::ShardClosed(0)],
        |_| 130,
    );
    // The last 40 were in transit.
    check(
        |desk| vec![report(desk, 0, 30), receipt(desk, 0, 60), LedgerInput::ShardClosed(0)],
        |_| 130,
    );
    // It never took anything.
    check(|_| vec![LedgerInput::ShardClosed(0)], |_| 100);
    // It has not ended: what it took since may be reserved.
    check(|desk| vec![report(desk, 0, 30), receipt(desk, 0, 60)], |_| 170);
    // Both have ended, with a reservation each.
    check(
        |desk| {
            let of = |shard| [report(desk, shard, 99), receipt(desk, shard, 100)];
            let closed = [0, 1].map(LedgerInput::ShardClosed);
            [0, 1].into_iter().flat_map(of).chain(closed).collect()
        },
        |_| 2,
    );
}

#[test]
fn a_reservation_over_a_clean_stop_settles_inside_its_lease() {
    let mut desk = Desk::defined(1, account(), life(1_000));
    desk.want(0, SLOT, 100);
    desk.pass(3);
    let said = vec![report(&desk, 0, 70), receipt(&desk, 0, 100), LedgerInput::ShardClosed(0)];
    desk.step(said.into_iter().chain([LedgerInput::Close]).collect());
    let kept = desk.saved.clone();
    // In the next epoch, all but the reservation is available at once.
    let mut desk = Desk::unready(LedgerSettings::new(1, Epoch(2), 1), kept.clone());
    desk.step(vec![
        LedgerInput::Account(account()),
        LedgerInput::Campaign(life(1_000)),
        LedgerInput::Replayed,
    ]);
    assert_eq!(desk.ledger.why(SLOT).frozen, Nanos::new(30));
    desk.want(0, SLOT, 2_000);
    desk.pass(3);
    assert_eq!(desk.granted(0, SLOT), 970, "no minute is lost");
    let [(key, of_before)] = kept[..] else { panic!("one lease: {kept:?}") };
    assert_eq!(of_before.granted.get() - of_before.returned.get(), 30);
    let (seq, settled) = (1, Nanos::new(30));
    let (late, over, currency) = (Nanos::ZERO, Nanos::ZERO, Currency::USD);
    let win = SettlementRecord { seq, key, settled, late, over, currency };
    desk.step(vec![LedgerInput::Settlement(win)]);
    desk.pass(3);
    let now = desk.saved.iter().find(|(of, _)| *of == key).expect("it is saved").1;
    assert_eq!(now, lease(of_before.granted.get(), of_before.returned.get(), 30), "not late");
    assert_eq!(desk.ledger.why(SLOT).frozen, Nanos::ZERO);
}

#[test]
fn what_a_failing_store_does_not_take_is_said_again() {
    for ended in [CommitOutcome::Refused, CommitOutcome::Unknown] {
        let mut desk = Desk::defined(1, account(), life(1_000));
        desk.want(0, SLOT, 100);
        desk.pass(3);
        desk.ended = ended;
        desk.step(vec![LedgerInput::ShardClosed(0), LedgerInput::Close]);
        let batches = desk.batches;
        for _ in 0..30 {
            desk.tick += SECOND / 10;
            desk.step(Vec::new());
            assert!(!desk.ledger.is_saved());
        }
        // Not again within a lease period.
        assert_eq!(desk.batches - batches, 3);
        desk.ended = CommitOutcome::Committed;
        desk.pass(2);
        assert!(desk.ledger.is_saved(), "{ended:?}");
        let left: u64 = desk.saved.iter().map(|(_, it)| it.granted.get() - it.returned.get()).sum();
        assert_eq!(left, 0, "{:?}", desk.saved);
    }
}

#[test]
fn what_the_log_has_settled_and_the_shard_not_is_spent_once() {
    let mut desk = Desk::defined(1, account(), life(1_000));
    desk.want(0, SLOT, 100);
    desk.pass(3);
    let key = LeaseKey { slot: SLOT, period: desk.period(), node: 1, epoch: Epoch(1) };
    let (seq, settled) = (1, Nanos::new(20));
    let (late, over, currency) = (Nanos::ZERO, Nanos::ZERO, Currency::USD);
    let win = LedgerInput::Settlement(SettlementRecord { seq, key, settled, late, over, currency });
    // The shard has reservations of 30, and does not know yet that 20 are won.
    let said = [win, report(&desk, 0, 70), receipt(&desk, 0, 100), LedgerInput::ShardClosed(0)];
    desk.step(said.into_iter().chain([LedgerInput::Close]).collect());
    let (_, lease) = desk.saved[0];
    assert_eq!(lease.settled, Nanos::new(20));
    assert_eq!(lease.granted.get() - lease.returned.get() - lease.settled.get(), 10);
}
