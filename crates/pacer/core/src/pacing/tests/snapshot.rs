//! A restored pacer continues as the previous one would have.

use std::sync::Arc;

use super::super::snapshot::tests::encoded;
use super::*;
use crate::strategy::Pid;

const MONTH: (u64, u64) = (START_MS, START_MS + 30 * DAY_MS);

fn kept(pacer: &CampaignPacer) -> Vec<PacingSnapshot> {
    let mut rows = Vec::new();
    assert_eq!(pacer.keep(CampaignIndex(0), u32::MAX, |kept| rows.push(kept.clone())), None);
    rows
}

fn rows(pacer: &CampaignPacer) -> Vec<Vec<u8>> {
    kept(pacer).iter().map(encoded).collect()
}

fn run_both(markets: [&mut Market; 2], until_ms: u64) {
    markets.into_iter().for_each(|market| market.run(until_ms));
}

impl Market {
    /// Restarts the process, on clocks of that name: its shards count from 0.
    fn restart(&mut self, zone: &str, definition: &CampaignTerms, pacing: &PacingPolicy) {
        let mut next = CampaignPacer::new(PacerOptions { shards: 1, slot_ms: SLOT_MS });
        next.take_zone(ZONE, zone, steady(DAY - 3, 43, 0), ZoneOffsets::utc());
        next.take_account(ACCOUNT, ZONE, 1);
        for kept in kept(&self.pacer) {
            next.restore(PacingSnapshot::decode(&encoded(&kept)).expect("it was written"));
        }
        next.define(definition, Some(&pacing.clone().into()), self.now_ms)
            .expect("it can be paced");
        self.pacer = next;
        self.seen_before = self.requests;
        self.pace = BidPace::FULL;
    }

    fn begun(pacing: &PacingPolicy) -> Self {
        let mut market = Self::new(START_MS);
        market.purses.set(0, |funds| {
            funds.day = limited(4_000_000, 0);
            funds.life = limited(1_000_000_000, 0);
        });
        market.define(1, MONTH, pacing);
        market
    }

    fn bits(&self) -> (BidPace, Option<[u64; 2]>) {
        let curve = self.pacer.curve(CampaignIndex(0), self.now_ms);
        (self.pace, curve.map(|curve| [curve.dual.to_bits(), curve.rate.to_bits()]))
    }
}

fn all_pacings() -> impl Iterator<Item = PacingPolicy> {
    let forecasts = [TrafficForecast::Uniform, TrafficForecast::Learned];
    StrategySettings::all().into_iter().flat_map(move |settings| {
        let of =
            move |forecast| PacingPolicy { settings, ahead: 0.3, forecast, is_fixed_price: false };
        forecasts.clone().map(of)
    })
}

#[test]
fn whoever_is_given_what_was_kept_goes_on_to_the_bit() {
    for pacing in all_pacings() {
        // Within the first slot of a flight, in the middle of a day, and over its end.
        for stops in [vec![7_300], vec![HOUR_MS + 4_000, 5 * HOUR_MS], vec![DAY_MS - 1_500]] {
            let (mut steady, mut stopped) = (Market::begun(&pacing), Market::begun(&pacing));
            for stop in &stops {
                run_both([&mut steady, &mut stopped], START_MS + stop);
                stopped.restart("UTC", &campaign(0, 1, MONTH), &pacing);
                assert!(rows(&stopped.pacer) == rows(&steady.pacer), "before it is looked at");
                for half_second in 1..600 {
                    let until_ms = START_MS + stop + half_second * 500;
                    run_both([&mut steady, &mut stopped], until_ms);
                    assert_eq!(stopped.bits(), steady.bits(), "{pacing:?} {stop} {half_second}");
                }
                assert!(rows(&stopped.pacer) == rows(&steady.pacer), "{pacing:?} {stop}");
            }
            assert_eq!(stopped.spent(), steady.spent());
        }
    }
}

#[test]
fn what_was_learned_of_a_day_makes_the_next_one_s_curve_over_a_restart() {
    let learned =
        PacingPolicy { forecast: TrafficForecast::Learned, ..pacing(StrategySettings::Asap) };
    let (mut steady, mut stopped) = (Market::begun(&learned), Market::begun(&learned));
    for at in [6 * HOUR_MS + 1_000, 20 * HOUR_MS] {
        run_both([&mut steady, &mut stopped], START_MS + at);
        stopped.restart("UTC", &campaign(0, 1, MONTH), &learned);
    }
    run_both([&mut steady, &mut stopped], START_MS + DAY_MS + HOUR_MS);
    assert!(rows(&stopped.pacer) == rows(&steady.pacer));
    let targets = |market: &Market| -> Vec<_> {
        let coming = market.curve().points.into_iter().filter(|point| point.spent.is_none());
        coming.map(|point| (point.at_unix_ms, point.target)).collect()
    };
    assert_eq!(targets(&stopped), targets(&steady));
}

/// Nobody counts during the downtime.
fn down(pacing: &PacingPolicy, after_ms: u64, down_ms: u64) -> (Market, Market) {
    let (mut before, mut market) = (Market::begun(pacing), Market::begun(pacing));
    run_both([&mut before, &mut market], START_MS + after_ms);
    market.now_ms += down_ms;
    market.restart("UTC", &campaign(0, 1, MONTH), pacing);
    market.run(market.now_ms + 500);
    (before, market)
}

#[test]
fn slots_that_were_missed_teach_nothing_and_are_made_good() {
    for settings in [StrategySettings::default(), StrategySettings::Pid(Pid::default())] {
        // Minutes, and longer than a slot that shows anything about an hour.
        for down_ms in [SLOT_MS, 5 * 60_000, 2 * HOUR_MS] {
            let (before, mut market) = down(&pacing(settings), 12 * HOUR_MS + 3_000, down_ms);
            assert_eq!(market.bits(), before.bits(), "{settings:?} {down_ms}");
            let resumed_ms = market.now_ms;
            market.run(resumed_ms + 4 * HOUR_MS);
            let part = (market.now_ms - START_MS) * 4_000_000 / DAY_MS;
            market.check(market.spent().day.spent, part);
        }
    }
}

#[test]
fn a_new_day_begins_with_the_dual_of_the_day_before_over_a_restart() {
    let pacing = pacing(StrategySettings::default());
    let mut before = Market::begun(&pacing);
    before.run(START_MS + 20 * HOUR_MS);
    let dual = before.curve().dual;
    before.purses.set(0, |funds| funds.day.spent = Nanos::ZERO);
    before.now_ms = START_MS + DAY_MS + 3 * HOUR_MS;
    before.restart("UTC", &campaign(0, 1, MONTH), &pacing);
    before.run(before.now_ms + 500);
    let curve = before.curve();
    assert_eq!(curve.flight.start_ms, START_MS + DAY_MS);
    // Except for its correction of the previous day's deviation.
    assert!((curve.dual - dual).abs() < 0.01, "{} {dual}", curve.dual);
}

#[test]
fn traffic_that_nobody_counted_teaches_nothing() {
    let learned =
        PacingPolicy { forecast: TrafficForecast::Learned, ..pacing(StrategySettings::Asap) };
    let (before, mut market) = down(&learned, HOUR_MS / 2, HOUR_MS / 4);
    let weeks = |market: &Market| kept(&market.pacer)[0].learner.clone().expect("it learns").week();
    assert_eq!(weeks(&market).weights(), weeks(&before).weights());
    // Two a second, as before: the hour is like its observed half.
    market.run(START_MS + 2 * HOUR_MS);
    let week = weeks(&market);
    let (first, second) = (week.weight(0), week.weight(1));
    assert!(first.abs_diff(second) * 100 <= second, "{first} {second}");
}

#[test]
fn by_other_terms_a_campaign_begins_anew_with_what_was_learned_of_its_traffic() {
    let learned =
        PacingPolicy { forecast: TrafficForecast::Learned, ..pacing(StrategySettings::default()) };
    let check = |zone: &str, definition: CampaignTerms, then: PacingPolicy, want: [bool; 2]| {
        let mut market = Market::begun(&learned);
        market.run(START_MS + 6 * HOUR_MS);
        let was = market.bits();
        market.restart(zone, &definition, &then);
        market.run(market.now_ms + 500);
        let mut learner = kept(&market.pacer).remove(0).learner.unwrap_or_default();
        learner.pause();
        let has_learned = *learner != Learner::default();
        let start = StrategyState::start(&then.settings).pace(&then.settings);
        assert_ne!(start, was.0, "it has moved");
        assert_eq!([market.pace != start, has_learned], want);
    };
    let same = campaign(0, 1, MONTH);
    let longer = campaign(0, 1, (START_MS, START_MS + 31 * DAY_MS));
    let mornings = (0..24).filter(|hour| *hour < 12).fold(Daypart::NEVER, Daypart::with);
    let other = StrategySettings::SlotDual(SlotDual { start: 0.2, ..SlotDual::default() });
    check("UTC", same, learned.clone(), [true, true]);
    // Version and budget are terms of the ledger, not of the strategy.
    check("UTC", campaign(0, 9, MONTH), learned.clone(), [true, true]);
    check("UTC", longer, learned.clone(), [false, true]);
    check(
        "UTC",
        CampaignTerms { budget: CampaignBudget { daypart: mornings, ..same.budget }, ..same },
        learned.clone(),
        [false, true],
    );
    check("UTC", same, PacingPolicy { ahead: 0.1, ..learned.clone() }, [false, true]);
    check("UTC", same, PacingPolicy { settings: other, ..learned.clone() }, [false, true]);
    check(
        "UTC",
        same,
        PacingPolicy { forecast: TrafficForecast::Uniform, ..learned.clone() },
        [false, false],
    );
    check("Asia/Kathmandu", same, learned.clone(), [false, false]);
}

#[test]
fn budgets_that_changed_meanwhile_are_followed_at_once() {
    for (down_ms, version, want) in [
        (0, 1, LimitSpan::Day),
        (0, 2, LimitSpan::Hour),
        (60_000, 1, LimitSpan::Day),
        (60_000, 2, LimitSpan::Hour),
    ] {
        let pacing = pacing(StrategySettings::default());
        let mut market = Market::begun(&pacing);
        market.run(START_MS + 6 * HOUR_MS + 1_000);
        let dual = market.curve().dual;
        market.purses.set(0, |funds| funds.hour = limited(1_000, 0));
        market.now_ms += down_ms;
        market.restart("UTC", &campaign(0, version, MONTH), &pacing);
        market.run(market.now_ms + 500);
        let curve = market.curve();
        assert_eq!(market.pacer.followed(CampaignIndex(0)), Some(want), "{down_ms} {version}");
        // The hour does not correct a deviation of the day.
        let off = if want == LimitSpan::Day { 0.0 } else { 0.01 };
        assert!((curve.dual - dual).abs() <= off, "{down_ms} {version}: {} {dual}", curve.dual);
    }
}

#[test]
fn a_campaign_that_follows_an_hour_is_measured_by_its_day_after_a_restart() {
    // Within a slot, and after several missed ones.
    for down_ms in [0, 5 * 60_000] {
        let pacing = pacing(StrategySettings::default());
        let mut market = Market::begun(&pacing);
        market.purses.set(0, |funds| funds.hour = limited(1_000, 0));
        market.run(START_MS + 10 * 60_000 + 1_000);
        let planned = |market: &Market| market.pacer.planned(CampaignIndex(0), market.now_ms);
        let (span, before) = planned(&market).expect("it follows one");
        assert_eq!(
            (market.pacer.followed(CampaignIndex(0)), span),
            (Some(LimitSpan::Hour), LimitSpan::Day)
        );
        market.now_ms += down_ms;
        market.restart("UTC", &campaign(0, 1, MONTH), &pacing);
        market.run(market.now_ms + 500);
        assert_eq!(market.pacer.followed(CampaignIndex(0)), Some(LimitSpan::Hour), "{down_ms}");
        let curve = market.curve();
        assert_eq!((curve.span, curve.limit), (LimitSpan::Day, Nanos::new(4_000_000)), "{down_ms}");
        let (span, after) = planned(&market).expect("it follows one");
        assert!(span == LimitSpan::Day && after >= before, "{down_ms}: {after} {before}");
    }
}

#[test]
fn a_state_of_a_time_to_come_is_not_gone_on_from() {
    let pacing = pacing(StrategySettings::default());
    let mut market = Market::begun(&pacing);
    market.run(START_MS + 6 * HOUR_MS);
    market.now_ms = START_MS + 2 * HOUR_MS + 1;
    market.restart("UTC", &campaign(0, 1, MONTH), &pacing);
    market.run(market.now_ms + 500);
    // It would stay as it is until then.
    let start = StrategyState::start(&pacing.settings).dual();
    assert_eq!(market.curve().dual.to_bits(), start.to_bits());
}

#[test]
fn all_are_kept_once_in_parts_and_those_without_a_strategy_not() {
    let purses = Purses::default();
    let mut first = pacer(1);
    let flight = (START_MS, START_MS + DAY_MS);
    let even = Arc::new(pacing(StrategySettings::Even));
    for slot in [0, 1, 5, 8, 9, 20] {
        let paced = (slot != 8).then_some(&even);
        first.define(&campaign(slot, 1, flight), paced, START_MS).unwrap();
    }
    first.turn(START_MS, &purses, 100, &mut Vec::new());
    let slots = |pacer: &CampaignPacer, most| {
        let (mut slots, mut from, mut parts) = (Vec::new(), Some(CampaignIndex(0)), 0);
        while let Some(at) = from {
            let before = slots.len();
            from = pacer.keep(at, most, |kept| slots.push(kept.slot().0));
            assert!(slots.len() <= before + usize::try_from(most).unwrap());
            parts += 1;
        }
        (slots, parts)
    };
    assert_eq!(slots(&first, 100), (vec![0, 1, 5, 9, 20], 1));
    assert_eq!(slots(&first, 3).0, [0, 1, 5, 9, 20]);
    assert_eq!(slots(&first, 3).1, 7);
    // The next process keeps snapshots until campaigns are defined, or the rest is dropped.
    let mut next = pacer(1);
    kept(&first).into_iter().for_each(|kept| next.restore(kept));
    assert_eq!(slots(&next, 2), (vec![0, 1, 5, 9, 20], 3));
    next.define(&campaign(1, 1, flight), Some(&even), START_MS).unwrap();
    next.define(&campaign(5, 2, flight), None, START_MS).unwrap();
    assert_eq!(slots(&next, 2).0, [0, 1, 5, 9, 20]);
    next.turn(START_MS, &purses, 100, &mut Vec::new());
    assert_eq!(slots(&next, 2).0, [0, 1, 9, 20]);
    next.forget_undefined();
    assert_eq!(slots(&next, 2).0, [1]);
}

/// A damaged but readable snapshot costs no more than a pace.
#[test]
fn whatever_can_be_read_can_be_gone_on_from() {
    let learned =
        PacingPolicy { forecast: TrafficForecast::Learned, ..pacing(StrategySettings::default()) };
    let mut market = Market::begun(&learned);
    market.run(START_MS + 6 * HOUR_MS + 1_000);
    let bytes = rows(&market.pacer).remove(0);
    let (mut chance, mut resumed) = (faults::Chance::new(1), 0);
    // After the digests of zone and terms, mostly before the hours of the week.
    for round in 0..3_000 {
        let mut bytes = bytes.clone();
        let below = if round % 8 == 0 { bytes.len() } else { 300 };
        for _ in 0..=chance.below(3) {
            let at = 21 + usize::try_from(chance.below(below as u64 - 21)).expect("it is short");
            bytes[at] ^= 1 << chance.below(8);
        }
        let Ok(kept) = PacingSnapshot::decode(&bytes) else { continue };
        resumed += 1;
        let mut next = pacer(1);
        next.restore(kept);
        next.define(&campaign(0, 1, MONTH), Some(&learned.clone().into()), market.now_ms).unwrap();
        for ahead_ms in [0, SLOT_MS / 2, SLOT_MS, 3 * SLOT_MS, HOUR_MS, DAY_MS, 3 * DAY_MS] {
            let now_ms = market.now_ms + ahead_ms;
            next.seen(0, CampaignIndex(0), seen(ahead_ms));
            next.report(0, &report(0, 1, ahead_ms));
            next.turn(now_ms, &market.purses, 10, &mut market.told);
            assert!(next.pace(CampaignIndex(0)).is_some(), "{round}");
            let curve = next.curve(CampaignIndex(0), now_ms);
            assert!(curve.is_none_or(|curve| curve.points.len() as u64 <= CURVE_POINTS + 1));
        }
    }
    assert!(resumed > 1_000, "{resumed} prove nothing");
}
