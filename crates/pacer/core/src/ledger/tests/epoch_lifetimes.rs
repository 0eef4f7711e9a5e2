//! Each dead epoch's budget is free at its own horizon, regardless of the number of restarts.

use std::collections::BTreeMap;

use units::Nanos;

use super::refusals::{Desk, SECOND, SLOT, account, campaign, usd};
use crate::calendar::Period;
use crate::ledger::settings::LedgerSettings;
use crate::ledger::step::LedgerInput;
use crate::ledger::{AccountTerms, BudgetLimits, CampaignBudget, CampaignTerms};
use crate::messages::Epoch;
use crate::store::{CommitOutcome, EpochLifetime, Lease, LeaseKey, StoreWriter};

const HORIZON_S: u64 = 900;

fn life(amount: u64) -> CampaignTerms {
    CampaignTerms {
        budget: CampaignBudget {
            limits: BudgetLimits { life: usd(amount), ..BudgetLimits::default() },
            ..campaign().budget
        },
        ..campaign()
    }
}

fn granted(epoch: u32, period: Period, amount: u64) -> (LeaseKey, Lease) {
    let key = LeaseKey { slot: SLOT, period, node: 1, epoch: Epoch(epoch) };
    (key, Lease { granted: Nanos::new(amount), ..Lease::default() })
}

fn lasted(epoch: u32, seconds: u64, horizon_s: u64) -> (StoreWriter, EpochLifetime) {
    let writer = StoreWriter { node: 1, epoch: Epoch(epoch) };
    (writer, EpochLifetime { lasted_ms: seconds * 1_000, horizon_ms: horizon_s * 1_000 })
}

/// Pairs of seconds and the amount still frozen.
#[track_caller]
fn check(lives: &[(StoreWriter, EpochLifetime)], want: &[(u64, u64)]) {
    let period = Desk::new(1).period();
    let leases = (1..).zip([1, 20, 300]).map(|(epoch, amount)| granted(epoch, period, amount));
    let mut desk =
        Desk::after(LedgerSettings::new(1, Epoch(4), 1), leases.collect(), lives.to_vec());
    desk.step(vec![
        LedgerInput::Account(account()),
        LedgerInput::Campaign(life(1_000)),
        LedgerInput::Replayed,
    ]);
    for (second, frozen) in want {
        let passed = (desk.tick - SECOND) / SECOND;
        desk.pass(second - passed);
        assert_eq!(desk.ledger.why(SLOT).frozen.get(), *frozen, "after {second} s");
    }
}

#[test]
fn what_each_epoch_left_is_free_at_its_own_horizon() {
    let known = [lasted(1, 100, HORIZON_S), lasted(2, 400, 1_000), lasted(3, 200, HORIZON_S)];
    // The first epoch's lifetime frees nothing; the second's reservations last longer.
    let each = [(1, 321), (299, 321), (301, 320), (799, 320), (801, 300), (899, 300), (901, 0)];
    check(&known, &each);
    // Without lifetimes, and with only the last one.
    check(&[], &[(899, 321), (901, 0)]);
    check(&known[2..], &[(699, 321), (701, 300), (899, 300), (901, 0)]);
    // Lifetimes as long as a horizon free all earlier epochs.
    let long = [lasted(1, 0, HORIZON_S), lasted(2, HORIZON_S, HORIZON_S), lasted(3, 0, HORIZON_S)];
    check(&long, &[(1, 320), (899, 320), (901, 0)]);
    // Another node's lifetimes are its own.
    let others = long.map(|(of, life)| (StoreWriter { node: 2, ..of }, life));
    check(&others, &[(899, 321), (901, 0)]);
}

#[test]
fn what_an_epoch_lasted_is_durable_as_long_as_anything_is_frozen() {
    let period = Desk::new(1).period();
    let leases = vec![granted(1, period, 50)];
    let lives = vec![lasted(1, 0, HORIZON_S)];
    let mut desk = Desk::after(LedgerSettings::new(1, Epoch(2), 1), leases, lives);
    desk.step(vec![
        LedgerInput::Account(account()),
        LedgerInput::Campaign(life(100)),
        LedgerInput::Replayed,
    ]);
    for second in 2..HORIZON_S {
        desk.pass(1);
        // Except for a lease period, and an eighth.
        let least = (second - 1) * 7 / 8;
        assert!(desk.life.lasted_ms + 1_000 >= least * 1_000, "{:?} at {second} s", desk.life);
        assert!(desk.lifetimes_from <= Epoch(1), "the first epoch is needed");
    }
    let said = desk.lives_said;
    assert!((20..80).contains(&said), "{said} batches for nothing else");
    // All is free: one batch records it, and no more follow.
    desk.pass(10);
    let saved = desk.saved.iter().map(|(_, lease)| lease.returned.get()).max();
    assert_eq!(saved, Some(50));
    let said = desk.lives_said;
    desk.pass(HORIZON_S);
    assert_eq!(desk.lives_said, said, "nothing is frozen, and nothing happens");
    // The next batch needs no lifetime before its own.
    desk.want(0, SLOT, 5);
    desk.pass(3);
    assert_eq!(desk.lifetimes_from, Epoch(2));
}

fn second() -> Desk {
    let leases = vec![granted(1, Desk::new(1).period(), 50)];
    let mut desk =
        Desk::after(LedgerSettings::new(1, Epoch(2), 1), leases, vec![lasted(1, 0, HORIZON_S)]);
    desk.step(vec![
        LedgerInput::Account(account()),
        LedgerInput::Campaign(life(100)),
        LedgerInput::Replayed,
    ]);
    desk
}

#[test]
fn a_clean_stop_says_all_that_its_epoch_lasted() {
    let mut desk = second();
    desk.pass(430);
    assert!(desk.life.lasted_ms < 425_000, "there is something to say: {:?}", desk.life);
    desk.step(vec![LedgerInput::Close]);
    assert!(!desk.ledger.is_saved(), "it is said, and not yet durable");
    desk.step(Vec::new());
    assert!(desk.ledger.is_saved());
    assert_eq!(desk.life.lasted_ms, 430_000);
}

#[test]
fn what_a_refused_batch_said_of_an_epoch_is_said_again_a_lease_period_later() {
    let mut desk = second();
    desk.pass(430);
    desk.ended = CommitOutcome::Refused;
    desk.pass(60);
    let said = desk.lives_said;
    desk.pass(10);
    assert_eq!(desk.lives_said - said, 10);
}

/// A crash loop of epochs of two seconds, in which a shard takes a hundred a second and never
/// reports. Returns the maximum frozen and the total granted.
fn looping(lives: u32, are_lives_kept: bool) -> (u64, u64) {
    let mut leases: BTreeMap<LeaseKey, Lease> = BTreeMap::new();
    let mut kept: BTreeMap<StoreWriter, EpochLifetime> = BTreeMap::new();
    let (mut frozen, mut all) = (0, 0);
    for epoch in 1..=lives {
        let settings = LedgerSettings {
            horizon: std::time::Duration::from_secs(30),
            ..LedgerSettings::new(1, Epoch(epoch), 1)
        };
        let known = kept.iter().filter(|_| are_lives_kept).map(|(of, life)| (*of, *life));
        let found = leases.iter().map(|(key, lease)| (*key, *lease)).collect();
        let mut desk = Desk::after(settings, found, known.collect());
        let limits = BudgetLimits { hour: usd(10_000), ..BudgetLimits::default() };
        desk.step(vec![
            LedgerInput::Account(AccountTerms { limits, ..account() }),
            LedgerInput::Campaign(campaign()),
            LedgerInput::Replayed,
        ]);
        for _ in 0..4 {
            desk.want(0, SLOT, 50);
            desk.tick += SECOND / 2;
            desk.unix_ms += 500;
            desk.step(Vec::new());
            for (key, lease) in &desk.saved {
                let known = leases.entry(*key).or_default();
                *known = known.latest(*lease);
            }
            let writer = StoreWriter { node: 1, epoch: Epoch(epoch) };
            let life = kept.entry(writer).or_default();
            *life = life.latest(desk.life);
            kept.retain(|of, _| desk.lifetimes_from <= of.epoch);
            frozen = frozen.max(desk.ledger.why(SLOT).frozen.get());
        }
        all += desk.granted(0, SLOT);
    }
    (frozen, all)
}

#[test]
fn a_loop_of_crashes_freezes_what_one_horizon_leased_and_no_more() {
    let (frozen, all) = looping(60, true);
    let (frozen_before, all_before) = looping(60, false);
    // Without lifetimes nothing is freed while no epoch lasts for a horizon.
    assert!(frozen_before > 9_000 && all_before < 10_000, "{frozen_before} of {all_before}");
    assert!(frozen < 5_000, "{frozen} of 10,000 are frozen");
    assert_eq!(all, 60 * 200, "all that was wanted is granted");
}
