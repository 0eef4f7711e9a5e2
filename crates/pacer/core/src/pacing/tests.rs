//! Campaigns paced over simulated days: the followed flight, its timing, and changes.

use std::cell::RefCell;
use std::collections::BTreeMap;

use units::{Cpm, Currency, Nanos, Ppm, SplitMix64};

use super::plan::FlightPlan;
use super::sums::ObservedSums;
use super::*;
use crate::calendar::tests::steady;
use crate::calendar::{Period, QUARTER_MS};
use crate::ledger::{
    AccountId, AccountTerms, BudgetLimits, CampaignBudget, CampaignTerms, Daypart, Holdback,
    Ledger, LedgerInput, LedgerOutbox, LedgerTime, LimitSpan, Money, ZoneId,
};
use crate::messages::{CampaignIndex, Epoch, RefillRequest, RequestCounts, SpendReport};
use crate::refusal::SpendRefusal;
use crate::store::CommitOutcome;
use crate::strategy::{
    BidPace, CampaignFlight, Learner, ObservedTotals, SlotDual, SpendTarget, StrategySettings,
    StrategyState, Throttle, ZoneOffsets, decide,
};

mod snapshot;

const HOUR_MS: u64 = 60 * 60 * 1000;
const DAY_MS: u64 = 24 * HOUR_MS;
/// 2026-11-23, a Monday.
const DAY: u32 = 20_780;
const START_MS: u64 = DAY as u64 * DAY_MS;
const SLOT_MS: u64 = 10_000;
const ZONE: ZoneId = ZoneId(0);
const ACCOUNT: AccountId = AccountId(0);

/// Funds by campaign, as a test sets them.
#[derive(Default)]
struct Purses(RefCell<BTreeMap<CampaignIndex, Funds>>);

impl FundsSource for Purses {
    fn funds(&self, slot: CampaignIndex) -> Option<Funds> {
        self.0.borrow().get(&slot).copied()
    }
}

impl Purses {
    fn set(&self, slot: u32, change: impl FnOnce(&mut Funds)) {
        change(self.0.borrow_mut().entry(CampaignIndex(slot)).or_default());
    }
}

fn limited(nanos: u64, spent: u64) -> SpanFunds {
    SpanFunds { spent: Nanos::new(spent), own: Some(Nanos::new(nanos)), shared: None }
}

fn campaign(slot: u32, version: u64, (start, end): (u64, u64)) -> CampaignTerms {
    CampaignTerms {
        slot: CampaignIndex(slot),
        version,
        account: ACCOUNT,
        budget: CampaignBudget {
            limits: BudgetLimits::default(),
            start_unix_ms: start,
            end_unix_ms: end,
            daypart: Daypart::ALWAYS,
            late_holdback: Holdback::Share(Ppm::ZERO),
            is_paused: false,
        },
    }
}

fn pacing(settings: StrategySettings) -> PacingPolicy {
    PacingPolicy { settings, ahead: 0.0, forecast: TrafficForecast::Uniform, is_fixed_price: false }
}

fn pacer(shards: u16) -> CampaignPacer {
    let mut pacer = CampaignPacer::new(PacerOptions { shards, slot_ms: SLOT_MS });
    pacer.take_zone(ZONE, "UTC", steady(DAY - 3, 43, 0), ZoneOffsets::utc());
    pacer.take_account(ACCOUNT, ZONE, 1);
    pacer
}

fn seen(requests: u64) -> RequestCounts {
    RequestCounts { requests, bids: requests }
}

fn report(slot: u32, period: u32, won: u64) -> SpendReport {
    SpendReport {
        slot: CampaignIndex(slot),
        period: Period(period),
        returned: Nanos::ZERO,
        settled: Nanos::ZERO,
        late: Nanos::ZERO,
        over: Nanos::ZERO,
        reserved: Nanos::ZERO,
        reserved_count: won,
        won_count: won,
    }
}

/// Requests that a campaign of one shard wins whenever its bid exceeds the price.
struct Market {
    pacer: CampaignPacer,
    purses: Purses,
    told: Vec<(CampaignIndex, BidPace)>,
    pace: BidPace,
    now_ms: u64,
    requests: u64,
    /// Requests of earlier processes.
    seen_before: u64,
    chance: SplitMix64,
}

impl Market {
    fn new(now_ms: u64) -> Self {
        Self {
            pacer: pacer(1),
            purses: Purses::default(),
            told: Vec::new(),
            pace: BidPace::FULL,
            now_ms,
            requests: 0,
            seen_before: 0,
            chance: SplitMix64::new(1),
        }
    }

    fn define(&mut self, version: u64, flight: (u64, u64), pacing: &PacingPolicy) {
        let definition = campaign(0, version, flight);
        self.pacer
            .define(&definition, Some(&pacing.clone().into()), self.now_ms)
            .expect("it can be paced");
    }

    /// Two requests a second, each worth 1,000, with uniform prices from 0 to 999.
    fn run(&mut self, until_ms: u64) {
        while self.now_ms < until_ms {
            self.now_ms += 500;
            if self.now_ms.is_multiple_of(DAY_MS) {
                self.purses.set(0, |funds| funds.day.spent = Nanos::ZERO);
            }
            self.pacer.turn(self.now_ms, &self.purses, 10, &mut self.told);
            self.pace = self.told.drain(..).next_back().map_or(self.pace, |(_, pace)| pace);
            self.requests += 1;
            let price = self.chance.bits() % 1_000;
            let bid = decide(self.pace, Cpm::new(1_000).expect("a price"), self.chance.bits());
            let wins = bid.is_ok_and(|bid| price < bid.micros());
            self.purses.set(0, |funds| {
                for purse in [&mut funds.life, &mut funds.day] {
                    let left = purse.own.map_or(u64::MAX, |own| own.get() - purse.spent.get());
                    assert!(left >= price || !wins || left < 1_000, "the books refuse the rest");
                    let cost = if wins { price.min(left) } else { 0 };
                    purse.spent = Nanos::new(purse.spent.get() + cost);
                }
            });
            self.pacer.seen(0, CampaignIndex(0), seen(self.requests - self.seen_before));
        }
    }

    fn spent(&self) -> Funds {
        self.purses.funds(CampaignIndex(0)).expect("it has some")
    }

    #[track_caller]
    fn check(&self, spent: Nanos, want: u64) {
        let off = spent.get().abs_diff(want);
        assert!(off * 25 <= want, "{spent:?} is not within 4% of {want}");
    }

    fn curve(&self) -> PacingCurve {
        self.pacer.curve(CampaignIndex(0), self.now_ms).expect("it follows one")
    }
}

#[test]
fn a_day_follows_its_curve_and_the_next_begins_anew_with_what_was_learned() {
    for settings in [
        StrategySettings::default(),
        StrategySettings::Even,
        StrategySettings::Throttle(Throttle::default()),
    ] {
        let mut market = Market::new(START_MS);
        market.purses.set(0, |funds| {
            funds.day = limited(4_000_000, 0);
            funds.life = limited(1_000_000_000, 0);
        });
        market.define(1, (START_MS, START_MS + 30 * DAY_MS), &pacing(settings));
        for part in [6, 12, 18] {
            market.run(START_MS + part * HOUR_MS);
            market.check(market.spent().day.spent, 4_000_000 / 24 * part);
        }
        let curve = market.curve();
        assert_eq!((curve.span, curve.flight.end_ms), (LimitSpan::Day, START_MS + DAY_MS));
        let dual = curve.dual;
        market.run(START_MS + DAY_MS - 1_000);
        market.check(market.spent().day.spent, 4_000_000);
        market.run(START_MS + DAY_MS + 1_000);
        let next = market.curve();
        assert_eq!(next.flight.start_ms, START_MS + DAY_MS);
        assert!((next.dual - dual).abs() < 0.3, "{} {dual}", next.dual);
        market.run(START_MS + DAY_MS + 3 * HOUR_MS);
        market.check(market.spent().day.spent, 500_000);
    }
}

#[test]
fn the_tightest_limit_is_followed() {
    let check = |life: u64, day: u64, hour: Option<u64>, want: LimitSpan, drawn: LimitSpan| {
        let mut market = Market::new(START_MS);
        market.purses.set(0, |funds| {
            (funds.life, funds.day) = (limited(life, 0), limited(day, 0));
            funds.hour = SpanFunds { own: hour.map(Nanos::new), ..SpanFunds::default() };
        });
        market.define(1, (START_MS, START_MS + 10 * DAY_MS), &pacing(StrategySettings::Asap));
        market.run(START_MS + 30_000);
        let (span, _) =
            market.pacer.planned(CampaignIndex(0), market.now_ms).expect("it follows one");
        let found = (market.pacer.followed(CampaignIndex(0)), span, market.curve().span);
        assert_eq!(found, (Some(want), drawn, drawn), "{life} {day} {hour:?}");
    };
    check(10_000_000, 2_000_000, None, LimitSpan::Life, LimitSpan::Life);
    check(10_000_000, 900_000, None, LimitSpan::Day, LimitSpan::Day);
    check(10_000_000, 900_000, Some(100_000), LimitSpan::Day, LimitSpan::Day);
    check(10_000_000, 900_000, Some(30_000), LimitSpan::Hour, LimitSpan::Day);
    check(10_000_000, 2_000_000, Some(30_000), LimitSpan::Hour, LimitSpan::Life);
}

#[test]
fn whoever_has_no_limit_or_no_strategy_bids_at_value() {
    let mut pacer = pacer(1);
    let purses = Purses::default();
    purses.set(0, |_| ());
    purses.set(1, |funds| funds.life = limited(5, 0));
    let flight = (START_MS, START_MS + DAY_MS);
    let dual = pacing(StrategySettings::default());
    pacer.define(&campaign(0, 1, flight), Some(&dual.clone().into()), START_MS).unwrap();
    pacer.define(&campaign(1, 1, flight), None, START_MS).unwrap();
    let mut told = Vec::new();
    for at in 0..100 {
        pacer.turn(START_MS + at * 1_000, &purses, 10, &mut told);
    }
    assert_eq!(told, [(CampaignIndex(0), BidPace::FULL)]);
    // A removed strategy has no further effect.
    purses.set(0, |funds| funds.day = limited(0, 0));
    pacer.define(&campaign(0, 2, flight), Some(&dual.clone().into()), START_MS + 100_000).unwrap();
    (100..200).for_each(|at| pacer.turn(START_MS + at * 1_000, &purses, 10, &mut told));
    assert_eq!(told.last(), Some(&(CampaignIndex(0), BidPace::NONE)));
    assert_eq!(pacer.pace(CampaignIndex(0)), Some(BidPace::NONE));
    pacer.define(&campaign(0, 3, flight), None, START_MS + 200_000).unwrap();
    pacer.turn(START_MS + 201_000, &purses, 10, &mut told);
    assert_eq!(told.last(), Some(&(CampaignIndex(0), BidPace::FULL)));
    assert_eq!(pacer.pace(CampaignIndex(0)), None);
}

#[test]
fn before_its_flight_a_campaign_knows_how_it_begins_and_after_it_nothing_is_asked() {
    let mut market = Market::new(START_MS);
    market.purses.set(0, |funds| funds.life = limited(1_000_000, 0));
    let flight = (START_MS + HOUR_MS, START_MS + 2 * HOUR_MS);
    market.define(1, flight, &pacing(StrategySettings::default()));
    market.run(START_MS + 1_000);
    assert!(market.pace.multiplier() < BidPace::FULL.multiplier(), "it begins low");
    assert_eq!(market.pacer.looked(), 1);
    market.run(START_MS + HOUR_MS - 1_000);
    assert_eq!(market.pacer.looked(), 1, "nothing to be asked before it begins");
    market.purses.set(0, |funds| funds.life = limited(1_000_000, 0));
    market.run(START_MS + 2 * HOUR_MS + 30_000);
    market.check(market.spent().life.spent, 1_000_000);
    let looked = market.pacer.looked();
    market.run(START_MS + 3 * HOUR_MS);
    assert_eq!(market.pacer.looked(), looked);
}

#[test]
fn a_flight_that_begins_on_another_day_is_waited_for() {
    let mut market = Market::new(START_MS);
    market.purses.set(0, |funds| funds.day = limited(1_000_000, 0));
    let start_ms = START_MS + DAY_MS + HOUR_MS;
    market.define(1, (start_ms, start_ms + DAY_MS), &pacing(StrategySettings::default()));
    market.run(START_MS + 1_000);
    assert!(market.pace.multiplier() < BidPace::FULL.multiplier(), "it begins low");
    market.run(start_ms - 1_000);
    assert!(market.pace.multiplier() < BidPace::FULL.multiplier(), "on its first day, too");
    assert_eq!(market.pacer.looked(), 1, "nothing to be asked before it begins");
}

#[test]
fn changes_take_over_midway_and_nothing_is_made_good() {
    let flight = (START_MS, START_MS + 10 * DAY_MS);
    let mut market = Market::new(START_MS);
    market.purses.set(0, |funds| funds.day = limited(4_000_000, 0));
    market.define(1, flight, &pacing(StrategySettings::default()));
    market.run(START_MS + 8 * HOUR_MS);
    // Another strategy continues along the same curve.
    market.define(2, flight, &pacing(StrategySettings::Throttle(Throttle::default())));
    market.run(START_MS + 12 * HOUR_MS);
    assert_eq!(market.curve().strategy, "throttle");
    market.check(market.spent().day.spent, 2_000_000);
    market.define(1, flight, &pacing(StrategySettings::Even));
    market.run(START_MS + 12 * HOUR_MS + 60_000);
    assert_eq!(market.curve().strategy, "throttle");
    market.define(3, flight, &pacing(StrategySettings::default()));
    market.purses.set(0, |funds| funds.day.own = Some(Nanos::new(6_000_000)));
    market.run(START_MS + 18 * HOUR_MS);
    market.check(market.spent().day.spent, 4_000_000);
    market.run(START_MS + DAY_MS - 1_000);
    market.check(market.spent().day.spent, 6_000_000);
}

#[test]
fn a_restart_midway_spreads_what_is_left() {
    let mut market = Market::new(START_MS + 12 * HOUR_MS);
    // Far behind: the curve would have spent half.
    market.purses.set(0, |funds| funds.day = limited(4_000_000, 400_000));
    market.define(1, (START_MS, START_MS + 10 * DAY_MS), &pacing(StrategySettings::default()));
    market.run(START_MS + 15 * HOUR_MS);
    market.check(Nanos::new(market.spent().day.spent.get() - 400_000), 900_000);
    let curve = market.curve();
    assert!(curve.points.first().is_some_and(|it| it.at_unix_ms > START_MS + 12 * HOUR_MS));
    market.run(START_MS + DAY_MS - 1_000);
    market.check(market.spent().day.spent, 4_000_000);
}

/// Otherwise the curve would show the hour's allowance as the whole.
#[test]
fn with_an_hour_s_limit_used_up_the_curve_is_the_day_s() {
    let mut market = Market::new(START_MS);
    market.purses.set(0, |funds| {
        funds.day = limited(1_000_000, 0);
        funds.hour = SpanFunds { own: Some(Nanos::new(30_000)), ..SpanFunds::default() };
    });
    market.define(1, (START_MS, START_MS + 10 * DAY_MS), &pacing(StrategySettings::Asap));
    market.run(START_MS + 30_000);
    market.purses.set(0, |funds| {
        (funds.hour.spent, funds.day.spent) = (Nanos::new(30_000), Nanos::new(30_000));
    });
    market.run(START_MS + HOUR_MS / 2);
    assert_eq!(market.pacer.followed(CampaignIndex(0)), Some(LimitSpan::Hour));
    let curve = market.curve();
    assert_eq!((curve.span, curve.limit.get()), (LimitSpan::Day, 1_000_000));
    assert_eq!((curve.flight.start_ms, curve.flight.end_ms), (START_MS, START_MS + DAY_MS));
    let (past, coming): (Vec<CurvePoint>, Vec<CurvePoint>) =
        curve.points.iter().partition(|point| point.spent.is_some());
    assert!(past.iter().all(|point| point.at_unix_ms <= market.now_ms), "{past:?}");
    assert!(past.last().is_some_and(|it| it.spent >= Some(Nanos::new(30_000))), "{past:?}");
    // The plan for the rest begins at the present spend, and ends at the limit.
    let targets = coming.iter().map(|point| point.target);
    assert!(targets.clone().is_sorted() && coming.len() > 100, "{coming:?}");
    assert!(targets.clone().next() >= past.last().and_then(|it| it.spent), "{coming:?}");
    assert_eq!(targets.max(), Some(Nanos::new(1_000_000)));
}

#[test]
fn what_comes_twice_late_or_out_of_order_changes_nothing() {
    let run = |is_disturbed: bool| {
        let mut pacer = pacer(2);
        let purses = Purses::default();
        let mut told = Vec::new();
        purses.set(0, |funds| funds.day = limited(1_000_000, 0));
        let adaptive =
            pacing(StrategySettings::SlotDual(SlotDual { follow: 1.0, ..SlotDual::default() }));
        pacer
            .define(
                &campaign(0, 1, (START_MS, START_MS + DAY_MS)),
                Some(&adaptive.clone().into()),
                START_MS,
            )
            .unwrap();
        for at in 1..500_u64 {
            let period = 100 + u32::try_from(at / 50).unwrap();
            purses.set(0, |funds| funds.day.spent = Nanos::new(at * 58));
            for shard in 0..2 {
                pacer.seen(shard, CampaignIndex(0), seen(at * 5));
                pacer.report(shard, &report(0, period, at % 50));
            }
            if is_disturbed {
                pacer.seen(0, CampaignIndex(0), seen(at * 2));
                pacer.seen(9, CampaignIndex(0), seen(at * 1_000));
                pacer.seen(1, CampaignIndex(7), seen(at * 1_000));
                pacer.report(1, &report(0, period, at % 50));
                pacer.report(1, &report(0, period, 0));
                if at >= 50 {
                    // An ended and forgotten period does not count again.
                    pacer.report(0, &report(0, 100, 49));
                }
            }
            pacer.turn(START_MS + at * 5_000, &purses, 10, &mut told);
        }
        told
    };
    let told = run(false);
    assert!(told.len() > 100, "{} prove nothing", told.len());
    assert!(run(true) == told, "another pace was told");
}

#[test]
fn wins_are_counted_once_by_period_and_shard() {
    let mut sums = ObservedSums::default();
    for period in 1..=20_u32 {
        for shard in 0..2 {
            sums.report(shard, &report(0, period, 7), 2);
            sums.report(shard, &report(0, period, 3), 2);
        }
    }
    assert_eq!(sums.totals().wins, 20 * 14);
    sums.report(1, &report(0, 2, 9_000), 2);
    assert_eq!(sums.totals().wins, 20 * 14, "long over");
    sums.report(1, &report(0, 20, 8), 2);
    assert_eq!(sums.totals().wins, 20 * 14 + 1);
}

#[test]
fn work_is_bounded_and_spread_over_the_slot() {
    const COUNT: u32 = 5_000;
    let mut pacer = pacer(1);
    let purses = Purses::default();
    for slot in 0..COUNT {
        purses.set(slot, |funds| funds.day = limited(1_000_000, 0));
        let flight = (START_MS, START_MS + 10 * DAY_MS);
        pacer
            .define(
                &campaign(slot, 1, flight),
                Some(&pacing(StrategySettings::Asap).into()),
                START_MS,
            )
            .unwrap();
    }
    let mut told = Vec::new();
    // A turn is bounded, although all are due.
    pacer.turn(START_MS, &purses, 1_000, &mut told);
    assert_eq!(pacer.looked(), 1_000);
    for _ in 0..4 {
        pacer.turn(START_MS, &purses, 1_000, &mut told);
    }
    assert_eq!(pacer.looked(), u64::from(COUNT));
    for begin_ms in [START_MS, START_MS + DAY_MS] {
        // All change flights at midnight; the next slot is spread again.
        pacer.turn(begin_ms, &purses, usize::MAX, &mut told);
        let mut most = 0;
        for at in 1..=100 {
            let before = pacer.looked();
            pacer.turn(begin_ms + at * SLOT_MS / 100, &purses, usize::MAX, &mut told);
            most = most.max(pacer.looked() - before);
        }
        assert!((1..=u64::from(COUNT) / 50).contains(&most), "{most} in a hundredth of a slot");
    }
    // Every campaign once a slot, regardless of the number of turns.
    let before = pacer.looked();
    for at in 1..=1_000 {
        pacer.turn(
            START_MS + DAY_MS + SLOT_MS + at * SLOT_MS / 100,
            &purses,
            usize::MAX,
            &mut told,
        );
    }
    let looked = (pacer.looked() - before) / u64::from(COUNT);
    assert!((9..=10).contains(&looked), "{looked} slots of ten");
    assert_eq!(told.len(), usize::try_from(COUNT).unwrap(), "asap is told once");
}

#[test]
fn hours_that_are_closed_are_not_planned_for() {
    let mut market = Market::new(START_MS);
    market.purses.set(0, |funds| funds.day = limited(1_000_000, 0));
    let mut definition = campaign(0, 1, (START_MS, START_MS + 10 * DAY_MS));
    definition.budget.daypart = (6..12).fold(Daypart::NEVER, Daypart::with);
    let asap = pacing(StrategySettings::Asap);
    market.pacer.define(&definition, Some(&asap.clone().into()), START_MS).unwrap();
    market.run(START_MS + 60_000);
    let target = |market: &Market, hour: u64| {
        let points = market.curve().points;
        let at = points.iter().find(|point| point.at_unix_ms >= START_MS + hour * HOUR_MS);
        at.map_or(0, |point| point.target.get())
    };
    let planned = [6, 9, 12, 20].map(|hour| target(&market, hour));
    assert_eq!(planned, [0, 500_000, 1_000_000, 1_000_000]);
    // Closed on Tuesday: no flight, and no looks.
    market.run(START_MS + DAY_MS + HOUR_MS);
    assert_eq!(market.pacer.curve(CampaignIndex(0), market.now_ms), None);
    let looked = market.pacer.looked();
    market.run(START_MS + DAY_MS + 2 * HOUR_MS);
    assert_eq!(market.pacer.looked(), looked);
}

#[test]
fn what_was_learned_of_the_day_before_makes_the_curve_of_the_next() {
    let mut pacer = pacer(1);
    let purses = Purses::default();
    purses.set(0, |funds| funds.day = limited(1_000_000, 0));
    let learned =
        PacingPolicy { forecast: TrafficForecast::Learned, ..pacing(StrategySettings::Asap) };
    let flight = (START_MS, START_MS + 10 * DAY_MS);
    pacer.define(&campaign(0, 1, flight), Some(&learned.clone().into()), START_MS).unwrap();
    let (mut requests, mut told) = (0, Vec::new());
    let target = |pacer: &CampaignPacer, at_ms: u64| {
        let curve = pacer.curve(CampaignIndex(0), at_ms).expect("it follows one");
        let point =
            curve.points.iter().find(|it| it.at_unix_ms == curve.flight.start_ms + DAY_MS / 2);
        point.expect("noon is a point").target.get()
    };
    for second in 0..(DAY_MS + HOUR_MS) / 1_000 {
        // Nine of ten requests come in the morning.
        requests += if second % 86_400 < 43_200 { 9 } else { 1 };
        pacer.seen(0, CampaignIndex(0), seen(requests));
        pacer.turn(START_MS + second * 1_000, &purses, 10, &mut told);
        if second == 600 {
            assert_eq!(target(&pacer, START_MS + 600_000), 500_000, "nothing is known yet");
        }
    }
    let noon = target(&pacer, START_MS + DAY_MS + HOUR_MS);
    assert!((890_000..=910_000).contains(&noon), "{noon}");
}

#[test]
fn a_curve_is_bounded_and_goes_through_the_whole_flight() {
    let mut market = Market::new(START_MS);
    market.purses.set(0, |funds| funds.day = limited(4_000_000, 0));
    market.define(1, (START_MS, START_MS + 10 * DAY_MS), &pacing(StrategySettings::default()));
    market.run(START_MS + 12 * HOUR_MS);
    let curve = market.curve();
    let points = &curve.points;
    assert!(points.len() as u64 <= CURVE_POINTS + 1, "{}", points.len());
    assert!(points.is_sorted_by(|one, other| one.at_unix_ms < other.at_unix_ms));
    assert!(points.is_sorted_by_key(|point| point.target), "a plan does not go back");
    assert_eq!(points.last().map(|it| (it.at_unix_ms, it.spent)), Some((START_MS + DAY_MS, None)));
    assert_eq!(points.last().map(|it| it.target), Some(Nanos::new(4_000_000)));
    let past: Vec<_> = points.iter().filter_map(|it| it.spent).collect();
    assert_eq!(
        past.len() as u64,
        CURVE_POINTS / 2 + u64::from(past.len() as u64 > CURVE_POINTS / 2)
    );
    assert!(past.is_sorted() && *past.last().unwrap() <= market.spent().day.spent);
}

#[test]
fn each_way_in_which_pacing_is_refused() {
    let check = |change: fn(&mut PacingPolicy), want: &str| {
        let mut pacing = pacing(StrategySettings::default());
        change(&mut pacing);
        let mut pacer = pacer(1);
        let flight = (START_MS, START_MS + DAY_MS);
        let refused = pacer.define(&campaign(0, 1, flight), Some(&pacing.clone().into()), START_MS);
        assert_eq!(refused.map_err(|error| error.to_string()), Err(want.to_owned()));
        assert_eq!(pacer.counts(), (1, 0), "nothing is changed");
    };
    check(
        |it| {
            it.settings = StrategySettings::SlotDual(SlotDual { gain: 9.0, ..SlotDual::default() });
        },
        "gain = 9: choose 0.01 to 2",
    );
    check(|it| it.ahead = 1.5, "ahead = 1.5: choose 0 to 1");
    check(|it| it.ahead = f64::NAN, "ahead = NaN: choose 0 to 1");
    check(
        |it| it.is_fixed_price = true,
        "slot_dual changes prices, and the price is fixed: choose asap, even or throttle",
    );
    for settings in StrategySettings::all() {
        let pacing = PacingPolicy { is_fixed_price: true, ..pacing(settings) };
        let is_refused = !pacing.problems().is_empty();
        assert_eq!(is_refused, matches!(settings.name(), "pid" | "adaptive" | "slot_dual"));
    }
    let mut closed = campaign(0, 1, (START_MS, START_MS + DAY_MS));
    closed.budget.daypart = Daypart::NEVER;
    let refused = pacer(1).define(&closed, Some(&pacing(StrategySettings::Asap).into()), START_MS);
    assert_eq!(refused, Err(PacingError::NeverOpen));
}

#[test]
fn the_ledger_tells_what_may_be_spent() {
    let usd = Currency::parse("USD").expect("a currency");
    let money = |nanos| Some(Money { amount: Nanos::new(nanos), currency: usd });
    let settings = crate::ledger::LedgerSettings::new(1, Epoch(1), 1);
    let now = LedgerTime { tick: units::Tick::ZERO, unix_ms: START_MS + 5 * QUARTER_MS };
    let mut ledger = Ledger::new(settings, now, Vec::new(), 0);
    let account = AccountTerms {
        id: ACCOUNT,
        version: 1,
        currency: usd,
        zone: ZONE,
        limits: BudgetLimits { day: money(700), ..BudgetLimits::default() },
        late_holdback: Holdback::default(),
        is_paused: false,
    };
    let mut definition = campaign(0, 1, (START_MS, START_MS + DAY_MS));
    definition.budget.limits = BudgetLimits { life: money(1_000), day: None, hour: money(300) };
    definition.budget.late_holdback = Holdback::Share(Ppm::new(100_000).expect("a tenth"));
    assert_eq!(FundsSource::funds(&ledger, CampaignIndex(0)), None);
    let inbox = vec![
        LedgerInput::Calendar(ZONE, steady(DAY - 1, 10, 0)),
        LedgerInput::Account(account),
        LedgerInput::Campaign(definition),
        LedgerInput::Replayed,
    ];
    let mut outbox = LedgerOutbox::default();
    ledger.step(now, inbox, &mut outbox);
    let funds = ledger.funds(CampaignIndex(0)).expect("it is known");
    assert_eq!(funds.life.limit(), Some(Nanos::new(900)));
    assert_eq!((funds.day.own, funds.day.limit()), (None, Some(Nanos::new(700))));
    assert_eq!(funds.hour.limit(), Some(Nanos::new(270)));
    assert_eq!(ledger.why(CampaignIndex(0)).refusal, None::<SpendRefusal>);
    // It may also spend its leased part of the account's limits.
    let want =
        RefillRequest { slot: CampaignIndex(0), amount: Nanos::new(50), refused: Nanos::new(50) };
    ledger.step(now, [LedgerInput::Refill(0, want)], &mut outbox);
    let number = outbox.batch.take().expect("it is leased").number;
    ledger.step(now, [LedgerInput::Ended(number, CommitOutcome::Committed)], &mut outbox);
    let why = ledger.why(CampaignIndex(0));
    assert!(why.at_shards >= Nanos::new(50), "{why:?}");
    assert_eq!(ledger.funds(CampaignIndex(0)), Some(funds));
}

#[test]
fn what_others_leave_of_an_account_is_taken_anew_only_when_it_differs() {
    let flight = CampaignFlight { start_ms: START_MS, end_ms: START_MS + DAY_MS };
    let target = SpendTarget::uniform(flight).expect("a day");
    let mut plan = FlightPlan::new(LimitSpan::Day, flight, target, 100, ObservedTotals::default());
    let mut budget = |shared: u64, own: u64| {
        let nanos = |nanos| Some(Nanos::new(nanos));
        let day = SpanFunds { spent: Nanos::ZERO, own: nanos(own), shared: nanos(shared) };
        plan.budget(&Funds { day, ..Funds::default() }).get()
    };
    assert_eq!(budget(6_400, 9_000), 6_300);
    assert_eq!(budget(6_300, 9_000), 6_300);
    assert_eq!(budget(6_500, 9_000), 6_300);
    assert_eq!(budget(6_299, 9_000), 6_199);
    assert_eq!(budget(6_290, 5_000), 4_900);
    assert_eq!(budget(6_290, 4_999), 4_899);
}
