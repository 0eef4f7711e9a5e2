//! Passing days: spend stays counted to the nano, and nothing grows with their number.

use std::collections::BTreeMap;
use std::time::Duration;

use units::{Currency, Nanos, Tick};

use super::refusals::{DAY, SECOND, account, campaign, usd};
use crate::calendar::tests::steady;
use crate::calendar::{Period, QUARTER_MS};
use crate::ledger::settings::LedgerSettings;
use crate::ledger::step::{LedgerInput, LedgerOutbox, LedgerReply, LedgerTime, SettlementRecord};
use crate::ledger::{AccountTerms, BudgetLimits, CampaignBudget, CampaignTerms, Ledger, ZoneId};
use crate::messages::{CampaignIndex, Epoch, RefillRequest, SpendReport};
use crate::store::testing::{MemoryFaults, MemoryStore};
use crate::store::{
    CommitOutcome, Fold, Lease, LeaseKey, LeaseStore, QueryResult, SpentSum, StoreAnswer,
    StoreQuery, StoreWriter, SumKey,
};

const SLOTS: [CampaignIndex; 2] = [CampaignIndex(0), CampaignIndex(1)];
const WORST: MemoryFaults =
    MemoryFaults { late_polls_max: 3, refused_once_in: 6, unknown_once_in: 4 };
const HOUR: u64 = 4 * QUARTER_MS;

fn settings(epoch: Epoch) -> LedgerSettings {
    LedgerSettings {
        horizon: Duration::from_secs(60),
        late_window: Duration::from_secs(60),
        hours_kept: Duration::from_secs(3 * 60 * 60),
        ..LedgerSettings::new(1, epoch, 1)
    }
}

fn definitions() -> Vec<LedgerInput> {
    let limits = BudgetLimits { life: usd(100_000), day: usd(5_000), hour: None };
    let mut definitions = vec![
        LedgerInput::Calendar(ZoneId(0), steady(DAY - 2, 80, 23)),
        LedgerInput::Account(AccountTerms { limits, ..account() }),
    ];
    let campaign = |slot| CampaignTerms {
        slot,
        budget: CampaignBudget { limits, ..campaign().budget },
        ..campaign()
    };
    definitions.extend(SLOTS.map(|slot| LedgerInput::Campaign(campaign(slot))));
    definitions
}

type Rows = Vec<(LeaseKey, Lease)>;
type Sums = Vec<(SumKey, SpentSum)>;

/// A ledger over a store, one shard that spends a little in every hour, and a log.
struct Life {
    store: MemoryStore,
    writer: StoreWriter,
    ledger: Ledger,
    outbox: LedgerOutbox,
    tick: u64,
    unix_ms: u64,
    mail: Vec<LedgerInput>,
    log: Vec<SettlementRecord>,
    cells: BTreeMap<(CampaignIndex, Period), (u64, u64)>,
    folds: usize,
}

impl Life {
    fn new(seed: u64) -> Self {
        let mut store = MemoryStore::new(seed);
        let (writer, ledger) = Self::started(&mut store, SECOND, u64::from(DAY) * 24 * HOUR, &[]);
        let mut life = Self {
            store,
            writer,
            ledger,
            outbox: LedgerOutbox::default(),
            tick: SECOND,
            unix_ms: u64::from(DAY) * 24 * HOUR,
            mail: Vec::new(),
            log: Vec::new(),
            cells: BTreeMap::new(),
            folds: 0,
        };
        life.step(Vec::new());
        life
    }

    fn answer(store: &mut MemoryStore) -> StoreAnswer {
        (0..100).find_map(|_| store.poll()).expect("it answers")
    }

    fn read(store: &mut MemoryStore, query: &StoreQuery) -> QueryResult {
        loop {
            store.read(query.clone());
            loop {
                match Self::answer(store) {
                    StoreAnswer::Read(Ok(found)) => return found,
                    StoreAnswer::Read(Err(_)) => break,
                    _ => (),
                }
            }
        }
    }

    fn stored(store: &mut MemoryStore) -> (Rows, Sums) {
        let QueryResult::Leases(rows) = Self::read(store, &StoreQuery::Leases(None)) else {
            panic!("rows")
        };
        let QueryResult::Sums(sums) = Self::read(store, &StoreQuery::Sums(None)) else {
            panic!("sums")
        };
        (rows, sums)
    }

    fn started(
        store: &mut MemoryStore,
        tick: u64,
        unix_ms: u64,
        log: &[SettlementRecord],
    ) -> (StoreWriter, Ledger) {
        let begun = loop {
            store.begin(1, Epoch(1));
            if let StoreAnswer::Begun { begun: Ok(begun), .. } = Self::answer(store) {
                break begun;
            }
        };
        let (rows, sums) = Self::stored(store);
        let now = LedgerTime { tick: Tick::from_nanos(tick), unix_ms };
        let ledger = Ledger::new(settings(begun.epoch), now, rows, begun.applied_seq);
        let mut ledger = ledger.with_sums(sums);
        let told = log.iter().map(|it| LedgerInput::Settlement(*it));
        let inbox = definitions().into_iter().chain(told).chain([LedgerInput::Replayed]);
        let mut outbox = LedgerOutbox::default();
        ledger.step(now, inbox, &mut outbox);
        let mut notices = outbox.notices.iter();
        assert!(notices.all(|it| matches!(
            it,
            LedgerReply::Account(_, Ok(_)) | LedgerReply::Campaign(_, Ok(_))
        )));
        let writer = StoreWriter { node: 1, epoch: begun.epoch };
        if let Some(batch) = outbox.batch {
            store.submit(writer, batch);
        }
        (writer, ledger)
    }

    fn restart(&mut self) {
        self.store.crash();
        self.cells.clear();
        self.mail.clear();
        let (writer, ledger) = Self::started(&mut self.store, self.tick, self.unix_ms, &self.log);
        (self.writer, self.ledger) = (writer, ledger);
    }

    fn step(&mut self, inbox: Vec<LedgerInput>) {
        while let Some(answer) = self.store.poll() {
            if let StoreAnswer::Ended(outcome) = answer {
                self.mail.push(LedgerInput::Ended(outcome.number, outcome.ended));
            }
        }
        let now = LedgerTime { tick: Tick::from_nanos(self.tick), unix_ms: self.unix_ms };
        let inbox = self.mail.drain(..).chain(inbox);
        self.outbox.clear();
        self.ledger.step(now, inbox, &mut self.outbox);
        if let Some(batch) = self.outbox.batch.take() {
            self.folds += batch.folds.len();
            self.store.submit(self.writer, batch);
        }
        for (_, grant) in &self.outbox.grants {
            let cell = self.cells.entry((grant.slot, grant.period)).or_default();
            cell.0 = cell.0.max(grant.granted.get());
        }
    }

    fn pass(&mut self, seconds: u64) {
        for _ in 0..2 * seconds {
            self.tick += SECOND / 2;
            self.unix_ms += 500;
            self.step(Vec::new());
        }
    }

    fn hour(&mut self) {
        let want = |slot| {
            LedgerInput::Refill(
                0,
                RefillRequest { slot, amount: Nanos::new(20), refused: Nanos::new(20) },
            )
        };
        self.step(SLOTS.map(want).to_vec());
        self.pass(8);
        let now_ms = self.unix_ms;
        let is_now = |period: Period| {
            (period.start_unix_ms()..period.start_unix_ms() + HOUR).contains(&now_ms)
        };
        let mut inbox = Vec::new();
        for ((slot, period), (granted, spent)) in &mut self.cells {
            if is_now(*period) && *spent == 0 && 7 <= *granted {
                *spent = 7;
                let seq = self.log.len() as u64 + 1;
                let [settled, late, over] = [7, seq % 3, seq % 2].map(Nanos::new);
                let key =
                    LeaseKey { slot: *slot, period: *period, node: 1, epoch: self.writer.epoch };
                let currency = Currency::USD;
                self.log.push(SettlementRecord { seq, key, settled, late, over, currency });
                inbox.push(LedgerInput::Settlement(self.log[self.log.len() - 1]));
                let report = SpendReport {
                    slot: *slot,
                    period: *period,
                    returned: Nanos::ZERO,
                    settled,
                    late,
                    over,
                    reserved: Nanos::ZERO,
                    reserved_count: 1,
                    won_count: 1,
                };
                inbox.push(LedgerInput::Report(0, report));
            }
        }
        self.step(inbox);
        self.pass(2);
        let left_ms = HOUR - self.unix_ms % HOUR;
        self.leap(left_ms);
    }

    /// Jumps ahead; the shard returns the rest of ended hours.
    fn leap(&mut self, ms: u64) {
        (self.tick, self.unix_ms) = (self.tick + ms * 1_000_000, self.unix_ms + ms);
        let now_ms = self.unix_ms;
        let over =
            self.cells.extract_if(.., |(_, period), _| period.start_unix_ms() + HOUR <= now_ms);
        let back = over.map(|((slot, period), (granted, spent))| {
            let of_log = self.log.iter().rev().take(8);
            let win = of_log
                .filter(|_| spent > 0)
                .find(|it| (it.key.slot, it.key.period) == (slot, period));
            LedgerInput::Report(
                0,
                SpendReport {
                    slot,
                    period,
                    returned: Nanos::new(granted - spent),
                    settled: Nanos::new(spent),
                    late: win.map_or(Nanos::ZERO, |it| it.late),
                    over: win.map_or(Nanos::ZERO, |it| it.over),
                    reserved: Nanos::ZERO,
                    reserved_count: 1,
                    won_count: 1,
                },
            )
        });
        let back: Vec<_> = back.collect();
        self.step(back);
        self.pass(4);
    }

    fn spent_since(&self, slot: CampaignIndex, period: Period) -> u64 {
        let of_slot = self.log.iter().filter(|it| it.key.slot == slot && period <= it.key.period);
        of_slot.map(|it| it.settled.get() + it.late.get() + it.over.get()).sum()
    }

    /// Rows and sums of the store, and the number of records of hours in the ledger.
    fn sizes(&mut self) -> [usize; 3] {
        let (rows, sums) = Self::stored(&mut self.store);
        let campaigns = self.ledger.campaigns.iter().flatten();
        let kept = campaigns.map(|it| it.books.len() + it.tally.hours.len() + it.closed.len());
        let of_accounts = self.ledger.accounts.iter().map(|it| it.tally.hours.len());
        let kept = kept.chain(of_accounts).sum::<usize>() + self.ledger.folding.len();
        [rows.len(), sums.len(), kept]
    }

    /// Checks that a restart counts every limit's use like the running ledger.
    #[track_caller]
    fn check_start(&mut self) {
        let (rows, sums) = Self::stored(&mut self.store);
        let is_kept = |key: &LeaseKey| self.unix_ms < key.period.start_unix_ms() + 4 * HOUR;
        for win in self.log.iter().filter(|it| is_kept(&it.key)) {
            assert!(rows.iter().any(|(key, _)| *key == win.key), "{:?} has its row", win.key);
        }
        let now = LedgerTime { tick: Tick::from_nanos(self.tick), unix_ms: self.unix_ms };
        let epoch = Epoch(self.writer.epoch.0 + 1);
        let mut other = Ledger::new(settings(epoch), now, rows, u64::MAX).with_sums(sums);
        let inbox = definitions().into_iter().chain([LedgerInput::Replayed]);
        other.step(now, inbox, &mut LedgerOutbox::default());
        for slot in SLOTS {
            let (own, found) = (self.ledger.spend(slot).unwrap(), other.spend(slot).unwrap());
            assert_eq!((own.life, own.today, own.now), (found.life, found.today, found.now));
            let levels = |ledger: &Ledger| ledger.why(slot).levels.expect("an hour");
            let exposures =
                |ledger: &Ledger| levels(ledger).map(|level| (level.outstanding, level.late));
            assert_eq!(exposures(&self.ledger), exposures(&other), "{slot:?}");
        }
    }
}

fn lived(hours: u64) -> Life {
    let mut life = Life::new(1);
    for hour in 0..hours {
        life.hour();
        life.pass(4);
        life.check_start();
        let day = (life.unix_ms + 23 * QUARTER_MS) / (24 * HOUR);
        let midnight = Period(u32::try_from(day * 96 - 23).expect("soon"));
        for slot in SLOTS {
            let spend = life.ledger.spend(slot).unwrap();
            assert_eq!(spend.life.get(), life.spent_since(slot, Period(0)), "hour {hour}");
            assert_eq!(spend.today.get(), life.spent_since(slot, midnight), "hour {hour}");
        }
    }
    life
}

#[test]
fn no_fold_changes_what_is_in_use_of_any_limit() {
    let mut life = lived(5 * 24);
    assert!(life.folds > 2 * 4 * 24, "{} folds", life.folds);
    // A restart counts folded spend, although its hours are gone.
    life.leap(12 * HOUR);
    let before = life.ledger.spend(SLOTS[0]).unwrap();
    life.restart();
    let after = life.ledger.spend(SLOTS[0]).unwrap();
    assert_eq!((before.life, before.today), (after.life, after.today));
    assert!(after.hours.len() <= before.hours.len());
}

fn after_days(days: u64, restarts: u64) -> [usize; 3] {
    let mut life = Life::new(2);
    for hour in 0..days * 24 {
        life.hour();
        if restarts > 0 && hour % restarts == restarts - 1 {
            life.restart();
        }
    }
    assert_eq!(life.ledger.stats().strays, 0);
    life.sizes()
}

#[test]
fn neither_store_nor_ledger_grows_with_the_days() {
    let few = after_days(5, 0);
    assert_eq!(after_days(25, 0), few);
    // Five rows per campaign, today's sum and those of three days before, and one for all others.
    assert!(few[0] <= 2 * 6 && few[1] <= 2 * 5 && few[2] <= 120, "{few:?}");
    let few = after_days(5, 30);
    let many = after_days(25, 30);
    assert!((0..3).all(|at| many[at] <= few[at] + 4), "{few:?}, then {many:?}");
}

#[test]
fn whatever_becomes_of_batches_all_that_was_spent_counts_once() {
    let (mut folds, mut spent) = (0, 0);
    for seed in 0..12 {
        let mut life = Life::new(seed);
        life.store.set_faults(WORST);
        for hour in 0..40 {
            life.hour();
            if hour % 17 == 16 {
                life.restart();
            }
        }
        life.store.set_faults(MemoryFaults::default());
        for _ in 0..5 * 24 {
            life.leap(HOUR);
        }
        let (rows, sums) = Life::stored(&mut life.store);
        assert_eq!(rows, [], "seed {seed}");
        for slot in SLOTS {
            let of_slot: Vec<_> = sums.iter().filter(|(key, _)| key.slot == slot).collect();
            let [(SumKey { day: None, .. }, sum)] = of_slot[..] else {
                panic!("seed {seed}: {sums:?}")
            };
            let total = sum.settled.get() + sum.late.get() + sum.over.get();
            assert_eq!(total, life.spent_since(slot, Period(0)), "seed {seed}");
            assert_eq!(life.ledger.spend(slot).unwrap().life.get(), total, "seed {seed}");
            spent += total;
        }
        folds += life.folds;
    }
    assert!(folds > 500 && spent > 1_000, "{folds} folds of {spent}");
}

/// A ledger over an old row and a sum, stepped every two seconds with its last batch's outcome.
struct Script {
    ledger: Ledger,
    seconds: u64,
    last: u64,
}

impl Script {
    fn now(seconds: u64) -> LedgerTime {
        let unix_ms = (u64::from(DAY) * 96 + 50) * QUARTER_MS;
        LedgerTime { tick: Tick::from_nanos(seconds * SECOND), unix_ms }
    }

    fn new() -> Self {
        let key = LeaseKey { slot: CampaignIndex(0), period: LONG_AGO, node: 1, epoch: Epoch(1) };
        let lease = Lease { granted: Nanos::new(9), settled: Nanos::new(9), ..Lease::default() };
        let rows = vec![(key, lease), (LeaseKey { node: 2, ..key }, lease)];
        let sum = SumKey { slot: CampaignIndex(3), node: 1, day: None };
        let spent = SpentSum { late: Nanos::new(5), ..SpentSum::default() };
        let ledger = Ledger::new(settings(Epoch(2)), Self::now(1), rows, 0);
        Self { ledger: ledger.with_sums([(sum, spent)]), seconds: 1, last: 0 }
    }

    fn next(
        &mut self,
        ended: CommitOutcome,
        inbox: Vec<LedgerInput>,
    ) -> (Vec<CampaignIndex>, Vec<Fold>) {
        self.seconds += 2;
        let mut outbox = LedgerOutbox::default();
        let ended = LedgerInput::Ended(self.last, ended);
        let inbox = [ended].into_iter().chain(inbox);
        self.ledger.step(Self::now(self.seconds), inbox, &mut outbox);
        let Some(batch) = outbox.batch else { return (Vec::new(), Vec::new()) };
        self.last = batch.number;
        (batch.leases.iter().map(|(key, _)| key.slot).collect(), batch.folds)
    }
}

const LONG_AGO: Period = Period((DAY - 4) * 96);

fn third(limits: BudgetLimits) -> LedgerInput {
    LedgerInput::Campaign(CampaignTerms {
        slot: CampaignIndex(3),
        budget: CampaignBudget { limits, ..campaign().budget },
        ..campaign()
    })
}

fn want(slot: u32) -> LedgerInput {
    LedgerInput::Refill(
        0,
        RefillRequest { slot: CampaignIndex(slot), amount: Nanos::new(1), refused: Nanos::new(1) },
    )
}

#[test]
fn nothing_is_folded_before_the_log_is_replayed_nor_beside_leases_behind_a_batch_that_failed() {
    let key = LeaseKey { slot: CampaignIndex(0), period: LONG_AGO, node: 1, epoch: Epoch(1) };
    let lease = vec![Fold::Lease(key, 0)];
    let day = vec![Fold::Day(SumKey { slot: CampaignIndex(0), node: 1, day: Some(0) })];
    let mut script = Script::new();
    for _ in 0..2 {
        assert_eq!(
            script.next(CommitOutcome::Committed, definitions()),
            (vec![], vec![]),
            "not replayed"
        );
    }
    let folds = (vec![], lease.clone());
    assert_eq!(
        script.next(CommitOutcome::Committed, vec![LedgerInput::Replayed]),
        folds,
        "its own"
    );
    assert_eq!(
        script.next(CommitOutcome::Committed, vec![]),
        (vec![], day.clone()),
        "then their day"
    );
    assert_eq!(script.next(CommitOutcome::Committed, vec![]), (vec![], vec![]), "once");

    for failed in [CommitOutcome::Refused, CommitOutcome::Unknown] {
        let mut script = Script::new();
        script.next(CommitOutcome::Committed, definitions());
        assert_eq!(script.next(CommitOutcome::Committed, vec![LedgerInput::Replayed]), folds);
        assert_eq!(script.next(failed, vec![]), folds, "with nothing else to be said, again");
        let leased = script.next(failed, vec![third(BudgetLimits::default()), want(3)]);
        assert_eq!(
            leased,
            (vec![CampaignIndex(3)], vec![]),
            "what failed may have failed of the fold"
        );
        assert_eq!(script.next(CommitOutcome::Committed, vec![]).1, lease);
        assert_eq!(script.next(CommitOutcome::Committed, vec![]).1, day);
    }
}

#[test]
fn a_sum_without_its_campaign_holds_up_all_leases_and_keeps_its_number() {
    let mut script = Script::new();
    script.next(CommitOutcome::Committed, definitions());
    for _ in 0..4 {
        let (leased, _) =
            script.next(CommitOutcome::Committed, vec![LedgerInput::Replayed, want(0)]);
        assert_eq!(leased, [], "nobody knows of which account the sum is");
    }
    assert_eq!(script.ledger.next_slot(), CampaignIndex(4));
    let limits = BudgetLimits { life: usd(8), ..BudgetLimits::default() };
    let (leased, _) = script.next(CommitOutcome::Committed, vec![third(limits)]);
    assert_eq!(leased, [CampaignIndex(0)]);
    let level = script.ledger.why(CampaignIndex(3)).levels.expect("an hour")[0];
    assert_eq!((level.late, level.headroom()), (Nanos::new(5), Some(Nanos::new(3))));
    let account = script.ledger.why(CampaignIndex(0)).levels.expect("an hour")[1];
    assert_eq!(account.late, Nanos::new(5), "its account has spent it as well");
}
