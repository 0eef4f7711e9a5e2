//! Random steps of a shard and a model, which must agree.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use super::model::Model;
use super::*;

/// Nanoseconds in a quarter-hour of these tests.
const QUARTER: u64 = 400;
/// Quarters in a period.
const PERIOD: u32 = 2;

#[derive(Clone, Debug)]
enum Step {
    /// Grants `more` of the period `ahead` of now, which ends about `until` from now.
    Grant {
        slot: u32,
        ahead: i64,
        more: u64,
        until: i64,
    },
    /// Repeats an earlier grant.
    Again {
        at: usize,
    },
    Gate {
        slot: u32,
        version: u64,
        closed: Option<SpendRefusal>,
        is_recalled: bool,
    },
    Reserve {
        slot: u32,
        amount: u64,
        is_long: bool,
        times: u32,
    },
    Claim {
        at: usize,
    },
    Settle {
        at: usize,
        price: u64,
    },
    Unclaim {
        at: usize,
    },
    Release {
        at: usize,
    },
    Pass {
        by: i64,
    },
    Advance,
    Report {
        most: usize,
    },
    Want,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let slot = || 0..3_u32;
    let closed = prop_oneof![
        20 => Just(None),
        1 => Just(Some(SpendRefusal::Paused)),
        1 => Just(Some(SpendRefusal::DayExhausted)),
        1 => Just(Some(SpendRefusal::LedgerUnavailable)),
    ];
    let step = prop_oneof![
        7 => (slot(), prop_oneof![3 => Just(0_i64), 1 => -1..2_i64], 0..3000_u64, -100..100_i64)
            .prop_map(|(slot, ahead, more, until)| Step::Grant { slot, ahead, more, until }),
        4 => any::<usize>().prop_map(|at| Step::Again { at }),
        1 => (slot(), 0..40_u64, closed, prop::bool::weighted(0.1))
            .prop_map(|(slot, version, closed, is_recalled)| {
                Step::Gate { slot, version, closed, is_recalled }
            }),
        24 => (0..4_u32, 0..40_u64, any::<bool>(), 1..9_u32)
            .prop_map(|(slot, amount, is_long, times)| {
                Step::Reserve { slot, amount, is_long, times }
            }),
        8 => any::<usize>().prop_map(|at| Step::Claim { at }),
        7 => (any::<usize>(), 0..60_u64).prop_map(|(at, price)| Step::Settle { at, price }),
        2 => any::<usize>().prop_map(|at| Step::Unclaim { at }),
        4 => any::<usize>().prop_map(|at| Step::Release { at }),
        6 => prop_oneof![12 => 0..12_i64, 5 => 0..200_i64, 2 => -300..3000_i64]
            .prop_map(|by| Step::Pass { by }),
        4 => Just(Step::Advance),
        4 => prop_oneof![Just(8), 0..9_usize].prop_map(|most| Step::Report { most }),
        1 => Just(Step::Want),
    ];
    proptest::collection::vec(step, 1..300)
}

struct Pair {
    shard: ShardLedger,
    model: Model,
    now: u64,
    grants: Vec<BudgetGrant>,
    granted: BTreeMap<(u32, u32), u64>,
    tokens: Vec<ReservationToken>,
    claims: Vec<TokenClaim>,
    /// Merged as by the ledger.
    reports: BTreeMap<(u32, u32), SpendReport>,
}

impl Pair {
    fn new(options: &ShardOptions) -> Self {
        Self {
            shard: ShardLedger::new(options).expect("options are within range"),
            model: Model::new(options.clone()),
            now: 10 * QUARTER,
            grants: Vec::new(),
            granted: BTreeMap::new(),
            tokens: Vec::new(),
            claims: Vec::new(),
            reports: BTreeMap::new(),
        }
    }

    fn quarter(&self) -> u32 {
        u32::try_from(self.now / QUARTER).expect("few")
    }

    fn tick(&self) -> Tick {
        Tick::from_nanos(self.now)
    }

    /// Mostly one of the newest.
    fn token(&self, at: usize) -> Option<ReservationToken> {
        let count = self.tokens.len();
        let recent = if at.is_multiple_of(3) { count } else { count.min(12) };
        (count > 0).then(|| self.tokens[count - 1 - at / 3 % recent])
    }

    fn take(&mut self, grant: &BudgetGrant) -> Result<(), TestCaseError> {
        match self.shard.take(grant) {
            Ok(()) => self.model.take(grant),
            Err(GrantRejected::Retired) => {
                let is_over = self.model.may_be_retired(grant.slot.0, grant.period.0);
                prop_assert!(is_over, "retired too early: {grant:?}");
            }
            Err(untaken) => prop_assert!(false, "there is room: {untaken}"),
        }
        Ok(())
    }

    fn step(&mut self, step: &Step) -> Result<(), TestCaseError> {
        match *step {
            Step::Grant { slot, ahead, more, until } => {
                let period = i64::from(self.quarter() / PERIOD) + ahead;
                let period = u32::try_from(period.max(0)).expect("few") * PERIOD;
                let granted = self.granted.entry((slot, period)).or_default();
                *granted += more;
                let end = u64::from(period + PERIOD) * QUARTER;
                let grant = grant(slot, period, *granted, end.saturating_add_signed(until));
                self.grants.push(grant);
                self.take(&grant)
            }
            Step::Again { at } => match self.grants.len() {
                0 => Ok(()),
                count => {
                    let grant = self.grants[at % count];
                    self.take(&grant)
                }
            },
            Step::Gate { slot, version, closed, is_recalled } => {
                let gate = SpendingGate { slot: CampaignIndex(slot), version, closed, is_recalled };
                prop_assert_eq!(self.shard.take_gate(&gate), Ok(()));
                self.model.take_gate(&gate);
                Ok(())
            }
            Step::Reserve { slot, amount, is_long, times } => {
                let class = if is_long { LONG } else { SHORT };
                (0..times).try_for_each(|_| self.reserve(slot, amount, class))
            }
            Step::Claim { at } => self.claim(at),
            Step::Settle { at, price } => self.settle(at, price),
            Step::Unclaim { at } => {
                if !self.claims.is_empty() {
                    let claim = self.claims.swap_remove(at % self.claims.len());
                    self.model.unclaim(claim.token());
                    self.shard.unclaim(claim);
                }
                Ok(())
            }
            Step::Release { at } => {
                let Some(token) = self.token(at) else { return Ok(()) };
                let want = self.model.release(&token, self.now);
                prop_assert_eq!(self.shard.release(&token, self.tick()), want);
                Ok(())
            }
            Step::Pass { by } => {
                self.now = self.now.saturating_add_signed(by);
                Ok(())
            }
            Step::Advance => {
                self.shard.advance(self.tick());
                self.model.advance(self.now);
                Ok(())
            }
            Step::Report { most } => self.report(most),
            Step::Want => self.want(),
        }
    }

    fn reserve(&mut self, slot: u32, amount: u64, ttl: TtlClass) -> Result<(), TestCaseError> {
        let at = moment(self.now, self.quarter());
        let want = self.model.may_reserve(slot, amount, ttl, at);
        let got = self.shard.reserve(CampaignIndex(slot), Nanos::new(amount), ttl, at);
        prop_assert_eq!(got.map(|token| token.period()), want);
        if let Ok(token) = got {
            let (of, held, class) = (token.slot(), token.amount(), token.ttl());
            prop_assert_eq!((of, held, class), (CampaignIndex(slot), Nanos::new(amount), ttl));
            let is_new = self.tokens.iter().all(|other| other.number() != token.number());
            prop_assert!(is_new, "{token:?}");
            self.model.reserve(token);
            self.tokens.push(token);
        }
        Ok(())
    }

    fn claim(&mut self, at: usize) -> Result<(), TestCaseError> {
        let Some(token) = self.token(at) else { return Ok(()) };
        let want = self.model.claim(&token, self.now);
        let got = self.shard.claim(&token, self.tick());
        prop_assert_eq!(
            got.as_ref().map(TokenClaim::is_late).map_err(|rejection| *rejection),
            want
        );
        self.claims.extend(got);
        Ok(())
    }

    fn settle(&mut self, at: usize, price: u64) -> Result<(), TestCaseError> {
        if self.claims.is_empty() {
            return Ok(());
        }
        let claim = self.claims.swap_remove(at % self.claims.len());
        let (token, is_late) = (*claim.token(), claim.is_late());
        self.model.settle(&token, price);
        let got = self.shard.settle(claim, Nanos::new(price));
        let settled = if is_late { 0 } else { price.min(token.amount().get()) };
        let (over, late) = if is_late { (0, price) } else { (price - settled, 0) };
        let [settled, over, late] = [settled, over, late].map(Nanos::new);
        let (slot, period) = (token.slot(), token.period());
        prop_assert_eq!(got, SettledWin { slot, period, settled, over, late });
        Ok(())
    }

    fn report(&mut self, most: usize) -> Result<(), TestCaseError> {
        let most = if most == 8 { usize::MAX } else { most };
        let reports: Vec<SpendReport> = self.shard.report().take(most).collect();
        for report in &reports {
            let at = (report.slot.0, report.period.0);
            if let Some(known) = self.reports.insert(at, *report) {
                prop_assert!(known.returned <= report.returned, "{known:?} {report:?}");
                prop_assert!(known.settled <= report.settled, "{known:?} {report:?}");
                prop_assert!(known.won_count <= report.won_count, "{known:?} {report:?}");
            }
        }
        if most == usize::MAX {
            self.is_reported()?;
        }
        Ok(())
    }

    fn is_reported(&self) -> Result<(), TestCaseError> {
        for want in self.model.reports() {
            let none = SpendReport {
                returned: Nanos::ZERO,
                settled: Nanos::ZERO,
                late: Nanos::ZERO,
                over: Nanos::ZERO,
                reserved: Nanos::ZERO,
                reserved_count: 0,
                won_count: 0,
                ..want
            };
            let known = self.reports.get(&(want.slot.0, want.period.0));
            prop_assert_eq!(known.unwrap_or(&none), &want);
        }
        Ok(())
    }

    fn want(&mut self) -> Result<(), TestCaseError> {
        let wants: Vec<RefillRequest> = self.shard.want().collect();
        for want in &wants {
            prop_assert!(want.amount > Nanos::ZERO, "{want:?}");
            let count = wants.iter().filter(|other| other.slot == want.slot).count();
            prop_assert_eq!(count, 1);
        }
        prop_assert_eq!(self.shard.want().count(), 0);
        Ok(())
    }

    /// Whether both agree; what the shard has forgotten must be over.
    fn agree(&self) -> Result<(), TestCaseError> {
        for (slot, period) in self.granted.keys().copied() {
            let mut holdings = self.shard.holdings(CampaignIndex(slot));
            let got = holdings.find(|holding| holding.period == Period(period));
            let want = self.model.holding(slot, period);
            if got.is_some() || want.is_none() {
                prop_assert_eq!(got, want, "slot {} period {}", slot, period);
            } else {
                prop_assert!(self.model.may_be_retired(slot, period), "{slot} {period}");
            }
        }
        let pending = u64::try_from(self.claims.len()).expect("few");
        prop_assert_eq!(self.shard.counts().pending, pending);
        Ok(())
    }

    /// Gives up all claims, lets all time pass, and checks that all budget is settled or returned.
    fn end(&mut self) -> Result<(), TestCaseError> {
        while !self.claims.is_empty() {
            self.step(&Step::Unclaim { at: 0 })?;
        }
        for _ in 0..40 {
            self.now += 1000;
            self.step(&Step::Advance)?;
            self.step(&Step::Report { most: 8 })?;
        }
        self.agree()?;
        for ((slot, period), granted) in &self.granted {
            let none = self.shard.holdings(CampaignIndex(*slot)).count();
            prop_assert_eq!(none, 0, "slot {} is forgotten, granted {}", slot, granted);
            if let Some(report) = self.reports.get(&(*slot, *period)) {
                let known = self.model.holding(*slot, *period).map(|holding| holding.granted);
                let back = report.returned.checked_add(report.settled);
                prop_assert_eq!(back, known, "slot {} period {}", slot, period);
            }
        }
        Ok(())
    }
}

/// Ample or tight capacity.
fn rooms(is_narrow: bool) -> ShardOptions {
    let options = ShardOptions { books_max: 4096, ..options() };
    if is_narrow {
        ShardOptions { reservations_max: 32, lines_max: 4, ..options }
    } else {
        ShardOptions { reservations_max: 1024, lines_max: 256, ..options }
    }
}

fn run(steps: &[Step], is_narrow: bool) -> Result<ShardCounts, TestCaseError> {
    let mut pair = Pair::new(&rooms(is_narrow));
    for step in steps {
        pair.step(step)?;
        pair.agree()?;
    }
    pair.end()?;
    Ok(*pair.shard.counts())
}

proptest! {
    #[test]
    fn a_shard_does_what_the_model_does(steps in steps(), is_narrow: bool) {
        run(&steps, is_narrow)?;
    }
}

/// Runs deterministic random steps until a disagreement.
fn search(runs: u32, mut seen: impl FnMut(ShardCounts)) -> Result<(), String> {
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let inputs = (steps(), any::<bool>());
    for _ in 0..runs {
        let (steps, is_narrow) = inputs.new_tree(&mut runner).expect("steps can be made").current();
        let ran = catch_unwind(AssertUnwindSafe(|| run(&steps, is_narrow)));
        seen(ran.map_err(|_| "it panicked")?.map_err(|error| error.to_string())?);
    }
    Ok(())
}

/// There is no disagreement, and the steps cover everything.
#[test]
fn random_steps_lead_everywhere() {
    let mut all = Vec::new();
    assert_eq!(search(256, |counts| all.push(counts)), Ok(()));
    let least = |what: &str, count: fn(&ShardCounts) -> u64| {
        let count: u64 = all.iter().map(count).sum();
        assert!(count > 20, "{what}: {count}");
    };
    least("reserved", |counts| counts.reserved);
    least("won", |counts| counts.won);
    least("won late", |counts| counts.won_late);
    least("over", |counts| counts.over);
    least("released", |counts| counts.released);
    least("full", |counts| counts.full);
    least("untaken", |counts| counts.untaken);
    least("pending", |counts| counts.rejected(TokenRejection::Pending));
    least("too old", |counts| counts.rejected(TokenRejection::TooOld));
    least("already won", |counts| counts.rejected(TokenRejection::AlreadyWon));
    least("already released", |counts| counts.rejected(TokenRejection::AlreadyReleased));
    least("expired", |counts| counts.rejected(TokenRejection::Expired));
}
