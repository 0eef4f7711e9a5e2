//! Hostile input: absurd prices and bids, disks full for hours, unlucky starts, wrong clocks.

use units::{Currency, Nanos, Tick};

use super::refusals::{DAY, Desk, SECOND, SLOT, account, campaign, usd};
use crate::calendar::tests::steady;
use crate::calendar::{Period, QUARTER_MS};
use crate::ledger::settings::LedgerSettings;
use crate::ledger::step::{LedgerInput, LedgerOutbox, LedgerTime, SettlementRecord};
use crate::ledger::{AccountTerms, BudgetLimits, CampaignBudget, CampaignTerms, Ledger, ZoneId};
use crate::messages::{CampaignIndex, Epoch, RefillRequest, SpendReport};
use crate::refusal::SpendRefusal;
use crate::store::{CommitOutcome, Lease, LeaseKey, SpentSum, SumKey, UnattributedWin};

const ABSURD: u64 = u64::MAX / 2 + 1;

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

fn settlement(seq: u64, key: LeaseKey, [settled, late, over]: [u64; 3]) -> LedgerInput {
    let [settled, late, over] = [settled, late, over].map(Nanos::new);
    LedgerInput::Settlement(SettlementRecord {
        seq,
        key,
        settled,
        late,
        over,
        currency: Currency::USD,
    })
}

#[test]
fn absurd_prices_stop_a_campaign_and_not_the_ledger() {
    for figures in [[0, u64::MAX, 0], [5, 0, u64::MAX], [0, ABSURD, ABSURD]] {
        for is_reported_first in [false, true] {
            let mut desk = Desk::defined(2, account(), life(1_000));
            desk.step(vec![LedgerInput::Campaign(CampaignTerms {
                slot: CampaignIndex(1),
                ..campaign()
            })]);
            for slot in [SLOT, CampaignIndex(1)] {
                desk.want(0, slot, 10);
                desk.want(1, slot, 10);
            }
            desk.pass(2);
            let key = LeaseKey { slot: SLOT, period: desk.period(), node: 1, epoch: Epoch(1) };
            let other = LeaseKey { slot: CampaignIndex(1), ..key };
            let [settled, late, over] = figures;
            if is_reported_first {
                desk.report(0, SLOT, [0, settled, late, over]);
                desk.report(1, SLOT, [0, settled, late, over]);
            }
            for (seq, key) in [(1, key), (2, key), (3, other), (4, other)] {
                desk.step(vec![settlement(seq, key, figures)]);
            }
            desk.report(0, SLOT, [0, settled, late, over]);
            desk.report(1, SLOT, [0, settled, late, over]);
            desk.pass(2);
            let why = desk.ledger.why(SLOT);
            assert_eq!(why.refusal, Some(SpendRefusal::BudgetExhausted));
            assert_eq!(why.levels.unwrap()[0].exposure(), Nanos::new(u64::MAX));
            assert_eq!(desk.ledger.spend(SLOT).unwrap().today, Nanos::new(u64::MAX));
            let told = desk.saved.iter().find(|(saved, _)| *saved == key);
            assert!(told.is_none_or(|(_, lease)| lease.is_balanced()));
            // The next start with the same messages.
            let leases = vec![(key, lease(20, 0, 0)), (other, lease(20, 0, 0))];
            let mut next = Desk::restarted(LedgerSettings::new(1, Epoch(2), 1), leases);
            next.step(vec![LedgerInput::Account(account()), LedgerInput::Campaign(life(1_000))]);
            for (seq, key) in [(1, key), (2, key), (3, other), (4, other)] {
                next.step(vec![settlement(seq, key, figures)]);
            }
            next.pass(2);
            assert_eq!(next.ledger.why(SLOT).refusal, Some(SpendRefusal::BudgetExhausted));
        }
    }
}

#[test]
fn what_was_absurd_before_a_start_is_absurd_behind_it() {
    let period = Desk::new(1).period();
    let absurd = Lease { late: Nanos::new(ABSURD), over: Nanos::new(ABSURD), ..lease(9, 4, 5) };
    let key = |hours: u32, epoch| {
        let period = Period(period.0 - 4 * hours);
        LeaseKey { slot: SLOT, period, node: 1, epoch: Epoch(epoch) }
    };
    let hours = [(0, 1), (0, 2), (2, 1), (24 * 40, 1)];
    let leases = hours.map(|(hours, epoch)| (key(hours, epoch), absurd)).to_vec();
    let mut desk = Desk::restarted(LedgerSettings::new(1, Epoch(3), 1), leases);
    desk.step(vec![LedgerInput::Account(account()), LedgerInput::Campaign(life(1_000))]);
    let spend = desk.ledger.spend(SLOT).unwrap();
    assert_eq!((spend.life, spend.today), (Nanos::new(u64::MAX), Nanos::new(u64::MAX)));
    let old = Lease { late: Nanos::new(7), over: Nanos::new(2), ..lease(9, 4, 5) };
    let mut desk =
        Desk::restarted(LedgerSettings::new(1, Epoch(3), 1), vec![(key(24 * 40, 1), old)]);
    desk.step(vec![LedgerInput::Account(account()), LedgerInput::Campaign(life(1_000))]);
    assert_eq!(desk.ledger.spend(SLOT).unwrap().life, Nanos::new(14));
}

#[test]
fn absurd_bids_stop_nobody() {
    for limits in [
        BudgetLimits::default(),
        BudgetLimits { life: usd(u64::MAX - 1), ..BudgetLimits::default() },
    ] {
        let definition =
            CampaignTerms { budget: CampaignBudget { limits, ..campaign().budget }, ..campaign() };
        let mut desk = Desk::defined(2, account(), definition);
        desk.step(vec![LedgerInput::Campaign(CampaignTerms {
            slot: CampaignIndex(1),
            ..definition
        })]);
        for round in 0..20 {
            for (shard, slot) in [(0, SLOT), (1, SLOT), (0, CampaignIndex(1))] {
                desk.want(shard, slot, if round % 2 == 0 { ABSURD } else { ABSURD / 4 });
                let granted = desk.granted(shard, slot);
                let is_recalled = desk.gate(shard, slot).is_some_and(|gate| gate.is_recalled);
                if is_recalled {
                    desk.report(shard, slot, [granted, 0, 0, 0]);
                }
            }
            desk.pass(3);
        }
    }
}

#[test]
fn nothing_is_leased_before_all_that_was_spent_is_known() {
    let period = Desk::new(1).period();
    let other = LeaseKey { slot: CampaignIndex(1), period, node: 1, epoch: Epoch(1) };
    let limits = BudgetLimits { life: usd(100), ..BudgetLimits::default() };
    let limited = AccountTerms { limits, ..account() };
    let settings = LedgerSettings::new(1, Epoch(2), 1);
    let mut desk = Desk::unready(settings, vec![(other, lease(80, 0, 30))]);
    desk.step(vec![LedgerInput::Account(limited), LedgerInput::Campaign(campaign())]);
    desk.want(0, SLOT, 100);
    desk.pass(3);
    assert_eq!(desk.granted(0, SLOT), 0);
    assert_eq!(desk.ledger.why(SLOT).refusal, Some(SpendRefusal::LedgerUnavailable));
    desk.step(vec![
        LedgerInput::Campaign(CampaignTerms { slot: CampaignIndex(1), ..campaign() }),
        settlement(1, other, [0, 5, 0]),
    ]);
    desk.pass(3);
    assert_eq!(desk.granted(0, SLOT), 0);
    desk.step(vec![LedgerInput::Replayed]);
    desk.pass(3);
    assert_eq!(desk.granted(0, SLOT), 15, "80 are held, 5 came late");
}

#[test]
fn a_disk_that_is_full_for_a_day_leaves_nothing_to_be_told() {
    let mut desk = Desk::defined(1, account(), life(1_000));
    desk.ended = CommitOutcome::Refused;
    for _ in 0..24 {
        desk.want(0, SLOT, 10);
        desk.pass(3);
        desk.tick += 3_600 * SECOND;
        desk.unix_ms += 3_600_000;
        desk.pass(1);
    }
    assert!(desk.saved.len() <= 2, "{:?}", desk.saved);
    let books = &desk.ledger.campaign(SLOT).unwrap().books;
    assert!(books.len() <= 2, "{books:?}");
    desk.ended = CommitOutcome::Committed;
    desk.pass(3);
    assert!(desk.granted(0, SLOT) >= 10);
}

#[test]
fn a_batch_has_room_and_the_next_says_the_rest() {
    let leases_max = 64;
    let settings = LedgerSettings { leases_max, ..LedgerSettings::new(1, Epoch(1), 1) };
    let mut desk = Desk::restarted(settings, Vec::new());
    desk.step(vec![LedgerInput::Account(account())]);
    let definition = |slot| CampaignTerms { slot: CampaignIndex(slot), ..campaign() };
    desk.step((0..200).map(|slot| LedgerInput::Campaign(definition(slot))).collect());
    let want = |slot| {
        LedgerInput::Refill(
            0,
            RefillRequest {
                slot: CampaignIndex(slot),
                amount: Nanos::new(10),
                refused: Nanos::new(10),
            },
        )
    };
    desk.step((0..200).map(want).collect());
    desk.step(vec![LedgerInput::Logged(7)]);
    for _ in 0..16 {
        desk.pass(1);
    }
    for slot in 0..200 {
        assert!(desk.granted(0, CampaignIndex(slot)) >= 10, "campaign {slot}");
    }
    // Settlements count as applied once batches contain them all.
    let period = desk.period();
    let key = |slot| LeaseKey { slot: CampaignIndex(slot), period, node: 1, epoch: Epoch(1) };
    desk.step((0..200u32).map(|at| settlement(8 + u64::from(at), key(at), [1, 0, 0])).collect());
    let count = |desk: &Desk| desk.saved.iter().filter(|it| it.1.settled > Nanos::ZERO).count();
    let mut settled = count(&desk);
    let mut applied = vec![(settled, desk.applied_seq)];
    for _ in 0..8 {
        desk.pass(1);
        settled += count(&desk);
        desk.saved.clear();
        applied.push((settled, desk.applied_seq));
    }
    assert!(applied.iter().all(|(settled, seq)| *settled >= 200 || *seq < 8), "{applied:?}");
    assert_eq!(applied.last(), Some(&(200, 207)), "{applied:?}");
    assert_eq!(desk.said_most, leases_max);
}

#[test]
fn a_campaign_with_more_than_a_batch_has_room_for_is_said_in_parts() {
    let period = Desk::new(1).period();
    let key = |epoch| LeaseKey { slot: SLOT, period, node: 1, epoch: Epoch(epoch) };
    let leases = (1..=10).map(|epoch| (key(epoch), lease(7, 0, 0))).collect();
    let settings = LedgerSettings { leases_max: 4, ..LedgerSettings::new(1, Epoch(11), 1) };
    let mut desk = Desk::restarted(settings, leases);
    desk.step(vec![LedgerInput::Account(account()), LedgerInput::Campaign(life(100))]);
    let mut returned = 0;
    for _ in 0..2 * 16 * 60 {
        desk.tick += SECOND / 2;
        desk.saved.clear();
        desk.step(Vec::new());
        assert!(desk.saved.len() <= 4);
        returned += desk.saved.iter().map(|(_, lease)| lease.returned.get()).sum::<u64>();
    }
    assert_eq!(returned, 70, "each is said once");
}

/// A reservation ends, its money returns, and then it is won: the log counts that win as timely.
#[test]
fn a_win_that_the_log_takes_for_one_in_time_is_spent_once() {
    for is_granted_again in [false, true] {
        for is_reported_first in [false, true] {
            let settings = LedgerSettings {
                is_lateness_recorded: false,
                ..LedgerSettings::new(1, Epoch(1), 1)
            };
            let mut desk = Desk::restarted(settings, Vec::new());
            desk.step(vec![LedgerInput::Account(account()), LedgerInput::Campaign(life(100))]);
            desk.want(0, SLOT, 10);
            desk.pass(2);
            let granted = desk.granted(0, SLOT);
            let key = LeaseKey { slot: SLOT, period: desk.period(), node: 1, epoch: Epoch(1) };
            desk.report(0, SLOT, [granted, 0, 0, 0]);
            if is_granted_again {
                desk.want(0, SLOT, granted);
                desk.pass(3);
                assert!(desk.granted(0, SLOT) >= 2 * granted);
            }
            let back = if is_granted_again { granted } else { desk.granted(0, SLOT) };
            if is_reported_first {
                desk.report(0, SLOT, [back, 0, 10, 0]);
            }
            desk.step(vec![settlement(1, key, [10, 0, 0])]);
            desk.report(0, SLOT, [back, 0, 10, 0]);
            assert_eq!(desk.ledger.spend(SLOT).unwrap().life, Nanos::new(10));
            // All else returns, and any further spend is in addition.
            let paused = CampaignTerms {
                version: 2,
                budget: CampaignBudget { is_paused: true, ..life(100).budget },
                ..life(100)
            };
            let then = desk.granted(0, SLOT);
            let again = if is_granted_again { 4 } else { 0 };
            desk.step(vec![LedgerInput::Campaign(paused), settlement(2, key, [again, 0, 0])]);
            desk.report(0, SLOT, [then - again, again, 10, 0]);
            desk.pass(3);
            assert_eq!(desk.ledger.spend(SLOT).unwrap().life, Nanos::new(10 + again));
            let (_, lease) = desk.saved.iter().rfind(|(saved, _)| *saved == key).unwrap();
            let figures = [lease.settled, lease.late].map(Nanos::get);
            assert_eq!(figures.iter().sum::<u64>(), 10 + again);
            assert_eq!(lease.returned.get() + lease.settled.get(), lease.granted.get());
            let level = desk.ledger.why(SLOT).levels.unwrap()[0];
            assert_eq!(level.exposure(), Nanos::new(10 + again), "nothing else is in use");
        }
    }
}

#[test]
fn a_win_of_a_forgotten_lease_counts_and_is_kept() {
    let mut desk = Desk::defined(1, account(), life(100));
    let period = Period(desk.period().0 - 12);
    let key = LeaseKey { slot: SLOT, period, node: 1, epoch: Epoch(1) };
    desk.ended = CommitOutcome::Refused;
    desk.step(vec![settlement(1, key, [30, 10, 0])]);
    assert_eq!(desk.ledger.spend(SLOT).unwrap().today, Nanos::new(40));
    desk.pass(3);
    assert!(desk.strays.is_empty(), "the store took nothing");
    desk.ended = CommitOutcome::Committed;
    for _ in 0..4 {
        desk.want(0, SLOT, 60);
        desk.pass(3);
    }
    assert_eq!(desk.granted(0, SLOT), 60);
    let spent = SpentSum { late: Nanos::new(40), ..SpentSum::default() };
    let sum = SumKey { slot: SLOT, node: 1, day: Some(DAY) };
    assert_eq!(desk.strays, [UnattributedWin { seq: 1, sum, spent }]);
    // A restart gets the sum, and no record.
    let mut next = Desk::restarted(LedgerSettings::new(1, Epoch(2), 1), Vec::new());
    next.ledger = next.ledger.with_sums([(sum, spent)]);
    next.step(vec![LedgerInput::Account(account()), LedgerInput::Campaign(life(100))]);
    assert_eq!(next.ledger.spend(SLOT).unwrap().today, Nanos::new(40));
    // For an unknown campaign or node it counts only in the statistics.
    for (seq, key) in
        [(2, LeaseKey { slot: CampaignIndex(9), ..key }), (3, LeaseKey { node: 2, ..key })]
    {
        desk.step(vec![settlement(seq, key, [5, 0, 0])]);
    }
    desk.pass(3);
    let stats = desk.ledger.stats();
    assert_eq!((stats.strays, stats.stray_nanos, desk.strays.len()), (2, 10, 1));
}

#[test]
fn a_refused_lease_is_not_what_a_late_win_was_paid_from() {
    let mut desk = Desk::defined(1, account(), life(1_000));
    desk.want(0, SLOT, 10);
    desk.pass(2);
    let granted = desk.granted(0, SLOT);
    let key = LeaseKey { slot: SLOT, period: desk.period(), node: 1, epoch: Epoch(1) };
    desk.report(0, SLOT, [granted, 0, granted, 0]);
    desk.ended = CommitOutcome::Refused;
    desk.want(0, SLOT, 200);
    desk.step(vec![settlement(1, key, [500, 0, 0])]);
    desk.pass(3);
    desk.ended = CommitOutcome::Committed;
    desk.pass(3);
    assert_eq!(desk.ledger.spend(SLOT).unwrap().life, Nanos::new(500));
}

/// A shard bids, is refused the last of a budget, and returns it on recall or with the hour.
struct Crumbs {
    desk: Desk,
    period: Period,
    recalls: usize,
}

impl Crumbs {
    fn new() -> Self {
        let desk = Desk::defined(2, account(), life(3));
        Self { period: desk.period(), desk, recalls: 0 }
    }

    fn report(&mut self, settled: u64) {
        let period = self.period;
        let of_period = self.desk.grants.iter().filter(|(_, grant)| grant.period == period);
        let granted = of_period.map(|(_, grant)| grant.granted.get()).max().unwrap_or(0);
        let [returned, settled, late, over] = [granted - settled, settled, 0, 0].map(Nanos::new);
        let (reserved_count, won_count) = (settled.get(), settled.get());
        let report = SpendReport {
            slot: SLOT,
            period,
            returned,
            settled,
            late,
            over,
            reserved: settled,
            reserved_count,
            won_count,
        };
        self.desk.step(vec![LedgerInput::Report(0, report)]);
    }

    fn pass(&mut self, seconds: u64) {
        for _ in 0..seconds {
            let gate = self.desk.gate(0, SLOT).expect("a gate");
            if gate.is_recalled || self.period != self.desk.period() {
                self.recalls += usize::from(gate.is_recalled);
                self.report(0);
                self.period = self.desk.period();
            } else if gate.closed.is_none() {
                self.desk.want(0, SLOT, 5);
            }
            self.desk.pass(1);
        }
    }
}

#[test]
fn crumbs_that_nobody_can_use_do_not_keep_the_store_busy() {
    let mut crumbs = Crumbs::new();
    crumbs.pass(1_700);
    assert!(crumbs.desk.batches <= 32, "{} batches in half an hour", crumbs.desk.batches);
    let recalls = crumbs.recalls;
    assert!(recalls >= 8, "others get them, now and then: {recalls}");
    crumbs.pass(160);
    assert!(crumbs.recalls - recalls >= 3, "{}", crumbs.recalls - recalls);
}

#[test]
fn who_reserves_again_is_soon_recalled_when_it_stops() {
    let mut crumbs = Crumbs::new();
    crumbs.pass(1_000);
    while crumbs.desk.gate(0, SLOT).unwrap().is_recalled {
        crumbs.pass(1);
    }
    crumbs.pass(3);
    crumbs.report(1);
    crumbs.desk.gates.clear();
    crumbs.desk.pass(4);
    assert_eq!(crumbs.desk.gate(0, SLOT), None, "it has its time");
    crumbs.desk.pass(4);
    assert!(crumbs.desk.gates.iter().any(|(_, gate)| gate.is_recalled), "not only after minutes");
}

#[test]
fn a_campaign_has_one_timer_by_each_clock() {
    let mut crumbs = Crumbs::new();
    crumbs.pass(2 * 3_600);
    let ledger = &crumbs.desk.ledger;
    let timers = (ledger.by_unix_ms.len(), ledger.by_tick.len());
    assert!(timers.0 <= 1 && timers.1 <= 1, "{timers:?}");
}

#[test]
fn a_clock_that_was_wrong_once_is_not_followed_for_ever() {
    let key = LeaseKey { slot: SLOT, period: Period(DAY * 96 * 2), node: 1, epoch: Epoch(1) };
    let mut desk =
        Desk::restarted(LedgerSettings::new(1, Epoch(2), 1), vec![(key, lease(30, 0, 20))]);
    desk.step(vec![LedgerInput::Account(account()), LedgerInput::Campaign(life(100))]);
    desk.want(0, SLOT, 200);
    desk.pass(3);
    assert_eq!(desk.granted(0, SLOT), 70, "what was spent then is spent");
}

#[test]
fn a_clock_that_goes_forward_makes_no_win_late_that_is_not() {
    let day = CampaignTerms {
        budget: CampaignBudget {
            limits: BudgetLimits { day: usd(1_000), ..BudgetLimits::default() },
            ..campaign().budget
        },
        ..campaign()
    };
    let mut desk = Desk::defined(1, account(), day);
    desk.want(0, SLOT, 10);
    desk.pass(3);
    let (period, granted) = (desk.period(), desk.granted(0, SLOT));
    let until = desk.grants[0].1.until.nanos();
    // For the shard the hour continues: it keeps the end that it received.
    desk.unix_ms += 4 * QUARTER_MS;
    desk.pass(1);
    desk.tick = until;
    let settings = LedgerSettings::new(1, Epoch(1), 1);
    let window = settings.horizon + settings.late_window;
    // Reserved last, expired, and won as late as the shard can distinguish.
    let then = SpendReport {
        slot: SLOT,
        period,
        returned: Nanos::new(granted),
        settled: Nanos::ZERO,
        late: Nanos::new(7),
        over: Nanos::ZERO,
        reserved: Nanos::ZERO,
        reserved_count: 1,
        won_count: 1,
    };
    let key = LeaseKey { slot: SLOT, period, node: 1, epoch: Epoch(1) };
    desk.step(vec![LedgerInput::Report(
        0,
        SpendReport { late: Nanos::ZERO, won_count: 0, ..then },
    )]);
    desk.pass(3);
    desk.tick = until + u64::try_from(window.as_nanos()).unwrap() - 2 * SECOND;
    desk.step(Vec::new());
    desk.step(vec![LedgerInput::Report(0, then), settlement(1, key, [0, 7, 0])]);
    assert_eq!((desk.ledger.stats().strays, desk.ledger.spend(SLOT).unwrap().today.get()), (0, 7));
}

#[test]
fn an_hour_of_which_the_calendar_says_nothing_counts_as_one_of_today() {
    // Two hours before; the calendar begins with the hour.
    let period = Period(Desk::new(1).period().0 - 8);
    let long_ago = Period(period.0 - 96 * 3);
    let key = LeaseKey { slot: SLOT, period, node: 1, epoch: Epoch(1) };
    let old = LeaseKey { period: long_ago, ..key };
    let unix_ms = (u64::from(DAY) * 96 + 50) * QUARTER_MS;
    let now = LedgerTime { tick: Tick::from_nanos(SECOND), unix_ms };
    let settings = LedgerSettings::new(1, Epoch(2), 1);
    let leases = [(key, lease(60, 0, 60)), (old, lease(20, 0, 20))];
    let mut ledger = Ledger::new(settings, now, leases, 0);
    let hours = steady(DAY - 1, 3, 0).from(unix_ms / (4 * QUARTER_MS) * (4 * QUARTER_MS)).to_vec();
    let calendar = crate::calendar::Calendar::new(hours).unwrap();
    let limits = BudgetLimits { day: usd(100), ..BudgetLimits::default() };
    let mut outbox = LedgerOutbox::default();
    ledger.step(
        now,
        vec![
            LedgerInput::Calendar(ZoneId(0), calendar),
            LedgerInput::Account(account()),
            LedgerInput::Campaign(CampaignTerms {
                budget: CampaignBudget { limits, ..campaign().budget },
                ..campaign()
            }),
            LedgerInput::Replayed,
        ],
        &mut outbox,
    );
    let levels = ledger.why(SLOT).levels.expect("an hour");
    assert_eq!(levels[2].headroom(), Some(Nanos::new(40)));
}
